"""Posting a Binding so that its outcome is always known in the end.

The API server binds at most once: it refuses a pod that is assigned, terminating, gated or of
another uid, all with 409. So the same Binding may be posted again and again, and the first
definite answer decides (see ``BindingREST`` in kube-apiserver's ``registry/core/pod/storage``).
A pod read as unbound decides nothing: the lost write may still be on its way.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from arranger.api.effects import Applied, Bind, Outcome, Refused
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.kube.client.status import AnswerClass, classify, retry_after
from arranger.kube.client.transport import RefusedConnectionError, Response, TransportError
from arranger.kube.watch.decoder import PartialMetadata
from arranger.kube.writes.call import (
    ApiCall,
    CallContext,
    CallPriority,
    NotLeaderError,
    OutcomeCallback,
    Retry,
    pod_path,
    refused,
)


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: PartialMetadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


_encode = msgspec.json.Encoder().encode


class BindCall(ApiCall):
    """A :class:`~arranger.api.effects.Bind` until it is Applied or Refused.

    Refused reasons of our own: ``NotLeader``, ``Unreachable`` (no connection until the deadline),
    ``Replaced`` (the name now belongs to another pod), ``AlreadyBound`` (to another node). Else
    the server's reason.
    """

    call_type = "bind"
    priority = CallPriority.BINDING

    def __init__(self, bind: Bind, on_outcome: OutcomeCallback, rng: random.Random) -> None:
        super().__init__(on_outcome, rng)
        self._bind, self._pod_path = bind, pod_path(bind.pod)
        pod, target = bind.pod, {"apiVersion": "v1", "kind": "Node", "name": bind.node}
        meta: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        if bind.annotations:
            meta["annotations"] = dict(bind.annotations)
        self._body = _encode(
            {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        )

    async def execute(self, context: CallContext) -> Outcome | Retry:
        """Post the Binding once."""
        try:
            answer = await context.write("POST", self._pod_path + "/binding", self._body)
        except NotLeaderError:
            if not self.ambiguous:
                return Refused(0, "NotLeader")
            # Reading is no write, and the answer may be known by now.
            return await self._read_outcome(context, None)
        except RefusedConnectionError as error:
            return self.retry(context.now(), Refused(0, "Unreachable", str(error)))
        except TransportError as error:
            return self.mark_ambiguous(str(error))
        return await self._classify(answer, context)

    async def _classify(self, answer: Response, context: CallContext) -> Outcome | Retry:
        kind = classify(answer.status)
        if kind is AnswerClass.SUCCESS:
            return Applied()
        refusal = refused(answer)
        match kind:
            case AnswerClass.CONFLICT:
                return await self._read_outcome(context, refusal)
            case AnswerClass.SERVER_ERROR:
                return self.mark_ambiguous(f"{answer.status} {refusal.message}".rstrip())
            case AnswerClass.UNAUTHORIZED | AnswerClass.THROTTLED:
                return self.retry(context.now(), refusal, at_least=retry_after(answer))
            case AnswerClass.NOT_FOUND:
                return refusal
        # If our rights were taken away, say, that tells nothing about a write lost before.
        return self.retry(context.now(), refusal) if self.ambiguous else refusal

    async def _read_outcome(
        self, context: CallContext, conflict: Refused | None
    ) -> Outcome | Retry:
        """Read the pod: what did a 409 mean, or (``None``) has an earlier attempt bound it?"""
        try:
            answer = await context.read(self._pod_path)
        except TransportError as error:
            return self.mark_ambiguous(str(error))
        if answer.status == 404:
            gone = refused(answer)
            return Refused(404, gone.reason or "NotFound", gone.message)
        if answer.status != 200:
            return self.mark_ambiguous(f"reading the pod after a conflict: {answer.status}")
        try:
            pod = decode_object(answer.body, _Pod, cut=True)
        except ParseError as error:
            return self.mark_ambiguous(f"reading the pod after a conflict: {error}")
        if pod.metadata.uid != self._bind.pod.uid:
            return Refused(409, "Replaced", f"the pod is now {pod.metadata.uid}")
        if pod.spec.node_name == self._bind.node:
            return Applied()
        if pod.spec.node_name:
            return Refused(409, "AlreadyBound", f"the pod is bound to {pod.spec.node_name}")
        if conflict is None:
            return self.mark_ambiguous("NotLeader")
        return Refused(409, conflict.reason or "Conflict", conflict.message)


def bound_node(pod: bytes) -> str:
    """The node that a pod (JSON) is bound to; "" if it is not, or cannot be read."""
    try:
        return str(decode_object(pod, _Pod, cut=True).spec.node_name)
    except ParseError:
        return ""
