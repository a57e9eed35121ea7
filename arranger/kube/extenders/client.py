"""Puts the core's questions to extenders, and has them bind pods in our place.

Upstream: ``pkg/scheduler/extender.go``, ``findNodesThatPassExtenders``, ``prioritizeNodes`` and
``callExtenders``. Filters are asked one after the other, each about what the last has left, and
then all that prioritise at once. Extenders get whole objects: the pod is read from the API server
for each question, nodes are watched (only if an extender wants them), victims are read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Protocol

import structlog

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Bind,
    ExtenderDecision,
    ExtenderPreemptionDecision,
    ExtenderQuery,
    NodeVictims,
    ObjectKey,
    Outcome,
    QueryExtenderPreemption,
    QueryExtenders,
    Refused,
)
from arranger.api.extenders import Extender
from arranger.kube.client.backoff import Backoff
from arranger.kube.client.metrics import MetricsRecorder, NullMetricsRecorder
from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    Transport,
    TransportError,
)
from arranger.kube.extenders.wire import (
    SCORE_SCALE,
    ExtenderProtocolError,
    decode_binding_error,
    decode_filter_result,
    decode_host_priorities,
    decode_preemption_result,
    encode_binding_args,
    encode_extender_args,
    encode_preemption_args,
)
from arranger.kube.watch.decoder import decode_metadata
from arranger.kube.watch.raw_objects import RawObjectStore
from arranger.kube.writes.binding import bound_node
from arranger.kube.writes.call import ATTEMPT_TIMEOUT, OutcomeCallback

log = structlog.get_logger(__name__)

#: Calls to extenders, and reads for them, that are on their way at once.
MAX_PARALLEL_CALLS: Final = 16
#: Seconds for which a pod is watched that an extender may have bound without telling us.
AMBIGUITY_WINDOW: Final = 30.0


class ExtenderTransport(Protocol):
    """How calls reach extenders."""

    async def post(self, extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        """Call a verb; returns the HTTP status and the body.

        Raises:
            RefusedConnectionError: nothing was sent.
            TransportError: no answer came, and the extender may have acted.
        """
        ...

    async def close(self) -> None:
        """Give back every connection; idempotent."""
        ...


class _ExtenderCallError(Exception):
    """An extender failed, or something that it needs; ``refused`` tells the core."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


class ExtenderClient:
    """Asks extenders on behalf of the core.

    Args:
        port: where extenders are.
        transport: the API server, for the objects that they are told about.
        nodes: the nodes, whole; looked at only for extenders that are not nodeCacheCapable.
        may_write: whether pods may be bound now.
        rng: spreads the looks at a pod that may be bound.
        meter: gets ``extender_seconds`` {extender, verb} and ``extender_errors`` {extender, verb}.
    """

    def __init__(
        self,
        extender_transport: ExtenderTransport,
        transport: Transport,
        nodes: RawObjectStore,
        *,
        may_write: Callable[[], bool],
        rng: random.Random,
        metrics: MetricsRecorder | None = None,
    ) -> None:
        self._extender_transport = extender_transport
        self._transport = transport
        self._nodes = nodes
        self._may_write = may_write
        self._rng = rng
        self._metrics = metrics or NullMetricsRecorder()
        self._slots = asyncio.Semaphore(MAX_PARALLEL_CALLS)
        self._binding_tasks: set[asyncio.Task[None]] = set()
        self._query_tasks: set[asyncio.Task[None]] = set()

    @property
    def backlog(self) -> int:
        """Bindings that are not settled."""
        return len(self._binding_tasks)

    def submit(self, effect: ExtenderQuery | Bind, on_outcome: OutcomeCallback) -> None:
        """Carry a question or a Binding out; ``on_outcome`` is called from the event loop.

        Questions end with an advice or with Refused, Bindings as those of the Writer.
        """
        match effect:
            case QueryExtenders():
                self._start(self._query_tasks, self._run_query(self._query(effect), on_outcome))
            case QueryExtenderPreemption():
                self._start(
                    self._query_tasks, self._run_query(self._query_preemption(effect), on_outcome)
                )
            case Bind():
                self._start(self._binding_tasks, self._bind(effect, on_outcome))

    async def drain(self, seconds: float = 10.0) -> bool:
        """Wait until all Bindings are settled; whether they are."""
        if self._binding_tasks:
            await asyncio.wait(set(self._binding_tasks), timeout=seconds)
        return not self._binding_tasks

    async def close(self) -> None:
        """Stop at once; nobody hears what becomes of what is on its way. Idempotent."""
        tasks = self._query_tasks | self._binding_tasks
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._extender_transport.close()

    def _start(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="extender")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _run_query(
        self, query: Coroutine[Any, Any, Outcome], on_outcome: OutcomeCallback
    ) -> None:
        try:
            outcome = await query
        except _ExtenderCallError as error:
            outcome = error.refused
        on_outcome(outcome)

    # --- nodes -----------------------------------------------------------------------------

    async def _query(self, query: QueryExtenders) -> ExtenderDecision:
        pod = await self._read_pod(query.pod)
        names = list(query.nodes)
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        for extender in query.extenders:
            if not extender.filter_verb or not names:
                continue
            try:
                body = await self._call(
                    extender, extender.filter_verb, self._args(extender, pod, names)
                )
                result = self._decode(extender, decode_filter_result, body)
                if result.error:
                    raise _call_error(extender, result.error)
                remaining = result.node_names if extender.node_cache_capable else None
                names = _checked_subset(
                    extender, result.nodes if remaining is None else remaining, names
                )
            except _ExtenderCallError as error:
                if not extender.ignorable:
                    raise
                log.warning("extender.skipped", extender=extender.url, error=str(error))
                continue
            failed.update(result.failed)
            unresolvable.update(result.unresolvable)
        scoring = [e for e in query.extenders if e.prioritize_verb] if names else []
        scores: dict[str, int] = {}
        all_scores = await asyncio.gather(*(self._prioritize(e, pod, names) for e in scoring))
        for extender, each in zip(scoring, all_scores, strict=True):
            for node, score in each.items():
                scores[node] = scores.get(node, 0) + score * extender.weight * SCORE_SCALE
        return ExtenderDecision(tuple(names), scores, failed, unresolvable)

    async def _prioritize(
        self, extender: Extender, pod: bytes, names: list[str]
    ) -> Mapping[str, int]:
        """An extender's scores; none if it fails: the others decide then, as upstream."""
        try:
            args = self._args(extender, pod, names)
            body = await self._call(extender, extender.prioritize_verb, args)
            scores: dict[str, int] = self._decode(extender, decode_host_priorities, body)
        except _ExtenderCallError as error:
            log.warning("extender.gave_no_scores", extender=extender.url, error=str(error))
            return {}
        return scores

    def _args(self, extender: Extender, pod: bytes, names: list[str]) -> bytes:
        if extender.node_cache_capable:
            return encode_extender_args(pod, node_names=names)
        # A node that is gone by now is left out, and so it will not be chosen.
        return encode_extender_args(pod, nodes=[self._nodes[n] for n in names if n in self._nodes])

    # --- victims ---------------------------------------------------------------------------

    async def _query_preemption(self, query: QueryExtenderPreemption) -> ExtenderPreemptionDecision:
        pod = await self._read_pod(query.pod)
        remaining: Mapping[str, NodeVictims] = query.victims
        raw_pods: dict[str, bytes] = {}
        for extender in query.extenders:
            if not remaining:
                break
            try:
                if not extender.node_cache_capable:
                    await self._read_victims(query, remaining, raw_pods)
                    args = encode_preemption_args(pod, remaining, raw_pods)
                else:
                    args = encode_preemption_args(pod, remaining)
                body = await self._call(extender, extender.preempt_verb, args)
                remaining = _with_victims(
                    extender, self._decode(extender, decode_preemption_result, body)
                )
            except _ExtenderCallError as error:
                if not extender.ignorable:
                    raise
                log.warning("extender.skipped", extender=extender.url, error=str(error))
        return ExtenderPreemptionDecision(remaining)

    async def _read_victims(
        self,
        query: QueryExtenderPreemption,
        remaining: Mapping[str, NodeVictims],
        raw_pods: dict[str, bytes],
    ) -> None:
        missing = {uid for v in remaining.values() for uid in v.uids if uid not in raw_pods}
        unknown = missing - query.pods.keys()
        if unknown:
            text = f"an extender named pods that it was not told of: {', '.join(sorted(unknown))}"
            raise _ExtenderCallError(Refused(0, "Extender", text))

        async def read(uid: str) -> None:
            raw_pods[uid] = await self._read_pod(query.pods[uid])

        try:
            async with asyncio.TaskGroup() as group:
                for uid in sorted(missing):
                    group.create_task(read(uid))
        except ExceptionGroup as errors:
            failure = errors.exceptions[0]
            assert isinstance(failure, _ExtenderCallError), failure
            raise failure from None

    # --- bindings --------------------------------------------------------------------------

    async def _bind(self, bind: Bind, on_outcome: OutcomeCallback) -> None:
        extender = bind.extender
        assert extender is not None, "no extender binds this pod"
        if not self._may_write():
            on_outcome(Refused(0, "NotLeader"))
            return
        try:
            body = await self._post(extender, extender.bind_verb, encode_binding_args(bind))
            error = self._decode(extender, decode_binding_error, body)
        except TransportError as lost:
            if not isinstance(lost, RefusedConnectionError):
                await self._resolve_ambiguous(bind, str(lost), on_outcome)
                return
            refused = _call_error(extender, str(lost)).refused
        except _ExtenderCallError as failure:
            refused = failure.refused
        else:
            if not error:
                on_outcome(Applied())
                return
            refused = _call_error(extender, error).refused
        # It may have bound the pod all the same, and have failed at something else.
        on_outcome(await self._read_outcome(bind) or refused)

    async def _resolve_ambiguous(self, bind: Bind, why: str, on_outcome: OutcomeCallback) -> None:
        """No answer came: watch the pod until it is known, or too late to matter.

        An extender that binds even later is stopped by the API server if we have bound the pod
        by then, and is believed if we have not.
        """
        on_outcome(Ambiguous(why))
        loop = asyncio.get_running_loop()
        pauses, end = Backoff(self._rng, first=0.25, limit=5.0), loop.time() + AMBIGUITY_WINDOW
        while (outcome := await self._read_outcome(bind)) is None and loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(pauses.next_delay())
        assert bind.extender is not None
        on_outcome(
            outcome or _call_error(bind.extender, f"{why}; and the pod is not bound").refused
        )

    async def _read_outcome(self, bind: Bind) -> Outcome | None:
        """What the API server says of the pod; None while it is not bound, or not known."""
        try:
            raw = await self._read_pod(bind.pod)
        except _ExtenderCallError as error:
            return error.refused if error.refused.reason in ("NotFound", "Replaced") else None
        node = bound_node(raw)
        if node == bind.node:
            return Applied()
        return Refused(409, "AlreadyBound", f"the pod is bound to {node}") if node else None

    # --- inside ----------------------------------------------------------------------------

    async def _read_pod(self, pod: ObjectKey) -> bytes:
        """This incarnation of a pod, whole."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            async with self._slots:
                answer = await self._transport.send(Request("GET", path, timeout=ATTEMPT_TIMEOUT))
        except TransportError as error:
            text = f"reading pod {pod} for extenders: {error}"
            raise _ExtenderCallError(Refused(0, "Unreachable", text)) from error
        if answer.status == 404:
            raise _ExtenderCallError(Refused(404, "NotFound", f"pod {pod} is gone"))
        if answer.status != 200:
            text = f"reading pod {pod} for extenders: status {answer.status}"
            raise _ExtenderCallError(Refused(answer.status, "Unreadable", text))
        if (uid := decode_metadata(answer.body).uid) != pod.uid:
            raise _ExtenderCallError(Refused(409, "Replaced", f"pod {pod} is now {uid}"))
        return answer.body

    async def _call(self, extender: Extender, verb: str, body: bytes) -> bytes:
        """Call a verb that writes nothing: any failure is the same."""
        try:
            return await self._post(extender, verb, body)
        except TransportError as error:
            raise _call_error(extender, str(error)) from error

    async def _post(self, extender: Extender, verb: str, body: bytes) -> bytes:
        now = asyncio.get_running_loop().time
        labels = {"extender": extender.url, "verb": verb}
        async with self._slots:
            started = now()
            try:
                async with asyncio.timeout(extender.timeout):
                    status, answer = await self._extender_transport.post(extender, verb, body)
            except TimeoutError as error:
                self._metrics.increment("extender_errors", 1, **labels)
                raise TransportError(f"no answer within {extender.timeout:g}s") from error
            except TransportError:
                self._metrics.increment("extender_errors", 1, **labels)
                raise
            self._metrics.observe("extender_seconds", now() - started, **labels)
        if status != 200:
            self._metrics.increment("extender_errors", 1, **labels)
            raise _call_error(extender, f"{verb} answered with status {status}")
        return answer

    def _decode(self, extender: Extender, decode: Callable[[bytes], Any], body: bytes) -> Any:
        try:
            return decode(body)
        except ExtenderProtocolError as error:
            raise _call_error(extender, f"unreadable answer: {error}") from error


def _call_error(extender: Extender, why: str) -> _ExtenderCallError:
    return _ExtenderCallError(Refused(0, "Extender", f'running extender "{extender.url}": {why}'))


def _checked_subset(extender: Extender, said: Iterable[str] | None, asked: list[str]) -> list[str]:
    names, known = list(said or ()), set(asked)
    for name in names:
        if name not in known:
            raise _call_error(
                extender,
                f'claims a filtered node "{name}" which is not found in the input node list',
            )
    return names


def _with_victims(extender: Extender, said: dict[str, NodeVictims]) -> dict[str, NodeVictims]:
    empty = [node for node, v in said.items() if not v.uids]
    if empty and not extender.ignorable:
        raise _call_error(extender, f'expected at least one victim pod on node "{empty[0]}"')
    return {node: v for node, v in said.items() if v.uids}
