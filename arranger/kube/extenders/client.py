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
    Advice,
    Ambiguous,
    Applied,
    Bind,
    Consult,
    ConsultVictims,
    NodeVictims,
    Outcome,
    PodRef,
    Question,
    Refused,
    VictimAdvice,
)
from arranger.api.extenders import Extender
from arranger.kube.client.backoff import Backoff
from arranger.kube.client.metrics import Meter, SilentMeter
from arranger.kube.client.transport import RefusedConnectionError, Transport, TransportError
from arranger.kube.extenders.wire import (
    SCALE,
    BadAnswerError,
    binding_args,
    binding_error,
    extender_args,
    filtered,
    preemption_args,
    priorities,
    victims,
)
from arranger.kube.watch.decoder import decode_bare
from arranger.kube.watch.raw_objects import WholeObjects
from arranger.kube.writes.binding import pod_node
from arranger.kube.writes.call import ATTEMPT_TIMEOUT, Done

log = structlog.get_logger(__name__)

#: Calls to extenders, and reads for them, that are on their way at once.
PARALLEL: Final = 16
#: Seconds for which a pod is watched that an extender may have bound without telling us.
DOUBT: Final = 30.0


class ExtenderPort(Protocol):
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


class _FailedError(Exception):
    """An extender failed, or something that it needs; ``refused`` tells the core."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


class Consultant:
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
        port: ExtenderPort,
        transport: Transport,
        nodes: WholeObjects,
        *,
        may_write: Callable[[], bool],
        rng: random.Random,
        meter: Meter | None = None,
    ) -> None:
        self._port = port
        self._transport = transport
        self._nodes = nodes
        self._may_write = may_write
        self._rng = rng
        self._meter = meter or SilentMeter()
        self._slots = asyncio.Semaphore(PARALLEL)
        self._bindings: set[asyncio.Task[None]] = set()
        self._questions: set[asyncio.Task[None]] = set()

    @property
    def backlog(self) -> int:
        """Bindings that are not settled."""
        return len(self._bindings)

    def submit(self, effect: Question | Bind, done: Done) -> None:
        """Carry a question or a Binding out; ``done`` is called from the event loop.

        Questions end with an advice or with Refused, Bindings as those of the Writer.
        """
        match effect:
            case Consult():
                self._start(self._questions, self._answer(self._consult(effect), done))
            case ConsultVictims():
                self._start(self._questions, self._answer(self._consult_victims(effect), done))
            case Bind():
                self._start(self._bindings, self._bind(effect, done))

    async def drain(self, seconds: float = 10.0) -> bool:
        """Wait until all Bindings are settled; whether they are."""
        if self._bindings:
            await asyncio.wait(set(self._bindings), timeout=seconds)
        return not self._bindings

    async def close(self) -> None:
        """Stop at once; nobody hears what becomes of what is on its way. Idempotent."""
        tasks = self._questions | self._bindings
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._port.close()

    def _start(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="extender")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _answer(self, asking: Coroutine[Any, Any, Outcome], done: Done) -> None:
        try:
            outcome = await asking
        except _FailedError as error:
            outcome = error.refused
        done(outcome)

    # --- nodes -----------------------------------------------------------------------------

    async def _consult(self, question: Consult) -> Advice:
        pod = await self._read(question.pod)
        names = list(question.nodes)
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        for extender in question.extenders:
            if not extender.filter_verb or not names:
                continue
            try:
                body = await self._call(
                    extender, extender.filter_verb, self._args(extender, pod, names)
                )
                said = self._understood(extender, filtered, body)
                if said.error:
                    raise _failure(extender, said.error)
                left = said.node_names if extender.node_cache_capable else None
                names = _subset(extender, said.nodes if left is None else left, names)
            except _FailedError as error:
                if not extender.ignorable:
                    raise
                log.warning("extender.skipped", extender=extender.url, error=str(error))
                continue
            failed.update(said.failed)
            unresolvable.update(said.unresolvable)
        scoring = [e for e in question.extenders if e.prioritize_verb] if names else []
        scores: dict[str, int] = {}
        given = await asyncio.gather(*(self._prioritize(e, pod, names) for e in scoring))
        for extender, each in zip(scoring, given, strict=True):
            for node, score in each.items():
                scores[node] = scores.get(node, 0) + score * extender.weight * SCALE
        return Advice(tuple(names), scores, failed, unresolvable)

    async def _prioritize(
        self, extender: Extender, pod: bytes, names: list[str]
    ) -> Mapping[str, int]:
        """An extender's scores; none if it fails: the others decide then, as upstream."""
        try:
            args = self._args(extender, pod, names)
            body = await self._call(extender, extender.prioritize_verb, args)
            scores: dict[str, int] = self._understood(extender, priorities, body)
        except _FailedError as error:
            log.warning("extender.gave_no_scores", extender=extender.url, error=str(error))
            return {}
        return scores

    def _args(self, extender: Extender, pod: bytes, names: list[str]) -> bytes:
        if extender.node_cache_capable:
            return extender_args(pod, node_names=names)
        # A node that is gone by now is left out, and so it will not be chosen.
        return extender_args(pod, nodes=[self._nodes[n] for n in names if n in self._nodes])

    # --- victims ---------------------------------------------------------------------------

    async def _consult_victims(self, question: ConsultVictims) -> VictimAdvice:
        pod = await self._read(question.pod)
        left: Mapping[str, NodeVictims] = question.victims
        whole: dict[str, bytes] = {}
        for extender in question.extenders:
            if not left:
                break
            try:
                if not extender.node_cache_capable:
                    await self._read_victims(question, left, whole)
                    args = preemption_args(pod, left, whole)
                else:
                    args = preemption_args(pod, left)
                body = await self._call(extender, extender.preempt_verb, args)
                left = _chosen(extender, self._understood(extender, victims, body))
            except _FailedError as error:
                if not extender.ignorable:
                    raise
                log.warning("extender.skipped", extender=extender.url, error=str(error))
        return VictimAdvice(left)

    async def _read_victims(
        self,
        question: ConsultVictims,
        left: Mapping[str, NodeVictims],
        whole: dict[str, bytes],
    ) -> None:
        missing = {uid for v in left.values() for uid in v.uids if uid not in whole}
        unknown = missing - question.pods.keys()
        if unknown:
            text = f"an extender named pods that it was not told of: {', '.join(sorted(unknown))}"
            raise _FailedError(Refused(0, "Extender", text))

        async def read(uid: str) -> None:
            whole[uid] = await self._read(question.pods[uid])

        try:
            async with asyncio.TaskGroup() as group:
                for uid in sorted(missing):
                    group.create_task(read(uid))
        except ExceptionGroup as errors:
            failure = errors.exceptions[0]
            assert isinstance(failure, _FailedError), failure
            raise failure from None

    # --- bindings --------------------------------------------------------------------------

    async def _bind(self, bind: Bind, done: Done) -> None:
        extender = bind.by
        assert extender is not None, "no extender binds this pod"
        if not self._may_write():
            done(Refused(0, "NotLeader"))
            return
        try:
            body = await self._post(extender, extender.bind_verb, binding_args(bind))
            error = self._understood(extender, binding_error, body)
        except TransportError as lost:
            if not isinstance(lost, RefusedConnectionError):
                await self._settle_doubt(bind, str(lost), done)
                return
            refused = _failure(extender, str(lost)).refused
        except _FailedError as failure:
            refused = failure.refused
        else:
            if not error:
                done(Applied())
                return
            refused = _failure(extender, error).refused
        # It may have bound the pod all the same, and have failed at something else.
        done(await self._look(bind) or refused)

    async def _settle_doubt(self, bind: Bind, why: str, done: Done) -> None:
        """No answer came: watch the pod until it is known, or too late to matter.

        An extender that binds even later is stopped by the API server if we have bound the pod
        by then, and is believed if we have not.
        """
        done(Ambiguous(why))
        loop = asyncio.get_running_loop()
        pauses, end = Backoff(self._rng, first=0.25, limit=5.0), loop.time() + DOUBT
        while (outcome := await self._look(bind)) is None and loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(pauses.next())
        assert bind.by is not None
        done(outcome or _failure(bind.by, f"{why}; and the pod is not bound").refused)

    async def _look(self, bind: Bind) -> Outcome | None:
        """What the API server says of the pod; None while it is not bound, or not known."""
        try:
            raw = await self._read(bind.pod)
        except _FailedError as error:
            return error.refused if error.refused.reason in ("NotFound", "Replaced") else None
        node = pod_node(raw)
        if node == bind.node:
            return Applied()
        return Refused(409, "AlreadyBound", f"the pod is bound to {node}") if node else None

    # --- inside ----------------------------------------------------------------------------

    async def _read(self, pod: PodRef) -> bytes:
        """This incarnation of a pod, whole."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            async with self._slots:
                answer = await self._transport.request("GET", path, timeout=ATTEMPT_TIMEOUT)
        except TransportError as error:
            text = f"reading pod {pod} for extenders: {error}"
            raise _FailedError(Refused(0, "Unreachable", text)) from error
        if answer.status == 404:
            raise _FailedError(Refused(404, "NotFound", f"pod {pod} is gone"))
        if answer.status != 200:
            text = f"reading pod {pod} for extenders: status {answer.status}"
            raise _FailedError(Refused(answer.status, "Unreadable", text))
        if (uid := decode_bare(answer.body).uid) != pod.uid:
            raise _FailedError(Refused(409, "Replaced", f"pod {pod} is now {uid}"))
        return answer.body

    async def _call(self, extender: Extender, verb: str, body: bytes) -> bytes:
        """Call a verb that writes nothing: any failure is the same."""
        try:
            return await self._post(extender, verb, body)
        except TransportError as error:
            raise _failure(extender, str(error)) from error

    async def _post(self, extender: Extender, verb: str, body: bytes) -> bytes:
        now = asyncio.get_running_loop().time
        labels = {"extender": extender.url, "verb": verb}
        async with self._slots:
            started = now()
            try:
                async with asyncio.timeout(extender.timeout):
                    status, answer = await self._port.post(extender, verb, body)
            except TimeoutError as error:
                self._meter.count("extender_errors", 1, **labels)
                raise TransportError(f"no answer within {extender.timeout:g}s") from error
            except TransportError:
                self._meter.count("extender_errors", 1, **labels)
                raise
            self._meter.observe("extender_seconds", now() - started, **labels)
        if status != 200:
            self._meter.count("extender_errors", 1, **labels)
            raise _failure(extender, f"{verb} answered with status {status}")
        return answer

    def _understood(self, extender: Extender, read: Callable[[bytes], Any], body: bytes) -> Any:
        try:
            return read(body)
        except BadAnswerError as error:
            raise _failure(extender, f"unreadable answer: {error}") from error


def _failure(extender: Extender, why: str) -> _FailedError:
    return _FailedError(Refused(0, "Extender", f'running extender "{extender.url}": {why}'))


def _subset(extender: Extender, said: Iterable[str] | None, asked: list[str]) -> list[str]:
    names, known = list(said or ()), set(asked)
    for name in names:
        if name not in known:
            raise _failure(
                extender,
                f'claims a filtered node "{name}" which is not found in the input node list',
            )
    return names


def _chosen(extender: Extender, said: dict[str, NodeVictims]) -> dict[str, NodeVictims]:
    empty = [node for node, v in said.items() if not v.uids]
    if empty and not extender.ignorable:
        raise _failure(extender, f'expected at least one victim pod on node "{empty[0]}"')
    return {node: v for node, v in said.items() if v.uids}
