"""Posting a Binding so that its outcome is always known in the end.

The API server binds at most once: it refuses a pod that is assigned, terminating, gated or of
another uid, all with 409. So the same Binding may be posted again and again, and the first
definite answer decides (see ``BindingREST`` in kube-apiserver's ``registry/core/pod/storage``).
A pod read as unbound decides nothing: the lost write may still be on its way.
"""

from __future__ import annotations

import random

import msgspec

from arranger.api.effects import Applied, Bind, Outcome, Refused
from arranger.kube.client.status import Status, parse_status, retry_after
from arranger.kube.client.transport import RefusedConnectionError, Response, TransportError
from arranger.kube.writes.call import Again, Done, Job, NotLeaderError, Wire
from arranger.kube.writes.call_queue import Urgency


class _Meta(msgspec.Struct, omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}


class _Target(msgspec.Struct):
    name: str
    kind: str = "Node"
    apiVersion: str = "v1"  # noqa: N815 — the wire's name


class _Binding(msgspec.Struct):
    metadata: _Meta
    target: _Target
    kind: str = "Binding"
    apiVersion: str = "v1"  # noqa: N815


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_encode = msgspec.json.Encoder().encode
_pod = msgspec.json.Decoder(_Pod)


class BindJob(Job):
    """A :class:`~arranger.api.effects.Bind` until it is Applied or Refused.

    Refused reasons of our own: ``NotLeader``, ``Unreachable`` (no connection until the deadline),
    ``Replaced`` (the name now belongs to another pod), ``AlreadyBound`` (to another node). Else
    the server's reason.
    """

    kind = "bind"
    urgency = Urgency.BINDING

    def __init__(self, bind: Bind, done: Done, rng: random.Random) -> None:
        super().__init__(done, rng)
        self._uid = bind.pod.uid
        self._node = bind.node
        self._pod_path = f"/api/v1/namespaces/{bind.pod.namespace}/pods/{bind.pod.name}"
        self._body = _encode(
            _Binding(
                _Meta(bind.pod.name, bind.pod.namespace, bind.pod.uid, dict(bind.annotations)),
                _Target(bind.node),
            )
        )

    async def attempt(self, wire: Wire) -> Outcome | Again:
        """Post the Binding once."""
        try:
            answer = await wire.write("POST", self._pod_path + "/binding", self._body)
        except NotLeaderError:
            if not self.doubtful:
                return Refused(0, "NotLeader")
            # Reading is no write: somebody may have settled it meanwhile.
            return await self._look(wire, None)
        except RefusedConnectionError as error:
            return self.again(wire.now(), Refused(0, "Unreachable", str(error)))
        except TransportError as error:
            return self.doubt(str(error))
        return await self._judge(answer, wire)

    async def _judge(self, answer: Response, wire: Wire) -> Outcome | Again:
        if 200 <= answer.status < 300:
            return Applied()
        status = parse_status(answer.body, answer.status)
        if answer.status == 409:
            return await self._look(wire, status)
        refusal = Refused(answer.status, status.reason, status.message)
        if answer.status >= 500:
            return self.doubt(f"{answer.status} {status.message}".rstrip())
        if answer.status in (401, 429):
            return self.again(wire.now(), refusal, at_least=retry_after(answer))
        if answer.status == 404 or not self.doubtful:
            return refusal
        # Say our rights were taken away: that tells nothing about the write that was lost before.
        return self.again(wire.now(), refusal)

    async def _look(self, wire: Wire, conflict: Status | None) -> Outcome | Again:
        """Read the pod to learn what a 409 meant, or (``None``) whether doubt can be settled."""
        try:
            answer = await wire.read(self._pod_path)
        except TransportError as error:
            return self.doubt(str(error))
        if answer.status == 404:
            status = parse_status(answer.body, 404)
            return Refused(404, status.reason or "NotFound", status.message)
        if answer.status != 200:
            return self.doubt(f"reading the pod after a conflict: {answer.status}")
        try:
            pod = _pod.decode(answer.body)
        except msgspec.DecodeError as error:
            return self.doubt(f"reading the pod after a conflict: {error}")
        if pod.metadata.uid != self._uid:
            return Refused(409, "Replaced", f"the pod is now {pod.metadata.uid}")
        if pod.spec.node_name == self._node:
            return Applied()
        if pod.spec.node_name:
            return Refused(409, "AlreadyBound", f"the pod is bound to {pod.spec.node_name}")
        if conflict is None:
            return self.doubt("NotLeader")
        return Refused(409, conflict.reason or "Conflict", conflict.message)


def pod_node(pod: bytes) -> str:
    """The node that a pod (JSON) is bound to; "" if it is not, or cannot be read."""
    try:
        return _pod.decode(pod).spec.node_name
    except msgspec.DecodeError:
        return ""
