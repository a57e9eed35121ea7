"""Queries extenders on behalf of the engine, and has them bind pods.

kube-scheduler: ``pkg/scheduler/extender.go``, ``findNodesThatPassExtenders``, ``prioritizeNodes``
and ``callExtenders``. Filters are called one after the other, each with the nodes that the last
has left, and then all that prioritize at once. Extenders get whole objects: the pod is read from
the API server for each query, nodes are watched (only if an extender wants them), victims are read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

import structlog

from arranger.api.effects import (
    Bind,
    ExtenderDecision,
    ExtenderPreemptionDecision,
    ExtenderQuery,
    NodeVictims,
    Outcome,
    QueryExtenderPreemption,
    QueryExtenders,
    Refused,
)
from arranger.api.extenders import Extender
from arranger.kube.client.metrics import NULL_METRICS, MetricsRecorder
from arranger.kube.client.transport import RequestTransport
from arranger.kube.extenders.binder import ExtenderBinder
from arranger.kube.extenders.caller import (
    MAX_PARALLEL_CALLS,
    ExtenderCaller,
    ExtenderCallError,
    ExtenderTransport,
    call_error,
)
from arranger.kube.extenders.wire import (
    SCORE_SCALE,
    decode_bounded,
    decode_filter_result,
    decode_host_priorities,
    decode_preemption_result,
    encode_extender_args,
    encode_preemption_args,
)
from arranger.kube.in_flight import InFlight, beyond_counted
from arranger.kube.watch.raw_objects import RawObjectStore
from arranger.kube.writes.binding import bound_node
from arranger.kube.writes.call import OutcomeCallback

log = structlog.get_logger(__name__)


class ExtenderClient:
    """Carries queries and Bindings to extenders.

    Args:
        extender_transport: where extenders are.
        transport: the API server, for the objects that they are told about.
        nodes: all nodes as JSON; used only for extenders that are not nodeCacheCapable.
        may_write: whether pods may be bound now.
        rng: spreads the reads of a pod that may be bound.
        metrics: see :class:`~arranger.kube.extenders.caller.ExtenderCaller`.
    """

    def __init__(
        self,
        extender_transport: ExtenderTransport,
        transport: RequestTransport,
        nodes: RawObjectStore,
        *,
        may_write: Callable[[], bool],
        rng: random.Random,
        metrics: MetricsRecorder = NULL_METRICS,
    ) -> None:
        self._caller = ExtenderCaller(extender_transport, transport, metrics)
        self._binder = ExtenderBinder(self._caller, may_write, rng)
        self._nodes = nodes
        self._binding_tasks: set[asyncio.Task[None]] = set()
        self._query_tasks: set[asyncio.Task[None]] = set()
        self._bindings = InFlight()

    @property
    def pressure(self) -> int:
        """Bindings whose outcome is not known; of a namespace that has slow ones a few count."""
        bindings = self._bindings
        bindings.note_slow(asyncio.get_running_loop().time())
        if not bindings.slow_namespaces:
            return len(bindings)
        return len(bindings) - beyond_counted(map(bindings.of, bindings.slow_namespaces))

    def next_slow(self) -> float | None:
        """When the next Binding will count as slow, if it is not answered before."""
        return self._bindings.next_slow()

    def submit(self, effect: ExtenderQuery | Bind, on_outcome: OutcomeCallback) -> None:
        """Carry a query or a Binding out; ``on_outcome`` is called from the event loop.

        Queries end with a decision or with Refused, Bindings as those of the dispatcher.
        """
        match effect:
            case Bind():
                now = asyncio.get_running_loop().time()
                number = self._bindings.begin(effect.pod.namespace, now)
                task = self._start(self._binding_tasks, self._binder.bind(effect, on_outcome))
                task.add_done_callback(lambda _: self._bindings.end(number))
            case QueryExtenders() | QueryExtenderPreemption():
                self._start(self._query_tasks, self._run_query(effect, on_outcome))

    async def drain(self, seconds: float = 10.0) -> bool:
        """Wait until the outcome of all Bindings is known; whether it is."""
        if self._binding_tasks:
            await asyncio.wait(set(self._binding_tasks), timeout=seconds)
        return not self._binding_tasks

    async def close(self) -> None:
        """Stop at once, without an outcome for what is on its way; idempotent."""
        tasks = self._query_tasks | self._binding_tasks
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._caller.close()

    def _start(
        self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="extender")
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    async def _run_query(self, query: ExtenderQuery, on_outcome: OutcomeCallback) -> None:
        try:
            pod = await self._caller.read_pod(query.pod, query.pod.namespace)
            if node := bound_node(pod):  # a watch may be late
                outcome: Outcome = Refused(409, "AlreadyBound", f"the pod is bound to {node}")
            elif isinstance(query, QueryExtenders):
                outcome = await self._query(query, pod)
            else:
                outcome = await self._query_preemption(query, pod)
        except ExtenderCallError as error:
            outcome = error.refused
        on_outcome(outcome)

    async def _query(self, query: QueryExtenders, pod: bytes) -> ExtenderDecision:
        names, namespace = list(query.nodes), query.pod.namespace
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        for extender in query.extenders:
            if not extender.filter_verb or not names:
                continue
            try:
                args = self._args(extender, pod, names)
                result = await self._caller.query(
                    extender, extender.filter_verb, args, decode_filter_result, namespace
                )
                if result.error:
                    raise call_error(extender, result.error)
                left = result.node_names if extender.node_cache_capable else None
                names = _checked_subset(extender, result.nodes if left is None else left, names)
            except ExtenderCallError as error:
                if not extender.ignorable:
                    raise
                log.warning("extender.skipped", extender=extender.url, error=str(error))
                continue
            failed.update(result.failed)
            unresolvable.update(result.unresolvable)
        scoring = [e for e in query.extenders if e.prioritize_verb] if names else []
        scores, left_over = dict[str, int](), set(names)
        all_scores = await asyncio.gather(
            *(self._prioritize(e, pod, names, namespace) for e in scoring)
        )
        for extender, each in zip(scoring, all_scores, strict=True):
            for node in left_over.intersection(each):
                score = each[node]
                scores[node] = scores.get(node, 0) + score * extender.weight * SCORE_SCALE
        return ExtenderDecision(tuple(names), scores, failed, unresolvable)

    async def _prioritize(
        self, extender: Extender, pod: bytes, names: list[str], namespace: str
    ) -> Mapping[str, int]:
        """An extender's scores; none if it fails: the others decide then, as upstream."""
        try:
            args = self._args(extender, pod, names)
            decode = partial(decode_bounded, decode=decode_host_priorities, asked=len(names))
            scores: dict[str, int] = await self._caller.query(
                extender, extender.prioritize_verb, args, decode, namespace
            )
        except ExtenderCallError as error:
            log.warning("extender.gave_no_scores", extender=extender.url, error=str(error))
            return {}
        return scores

    def _args(self, extender: Extender, pod: bytes, names: list[str]) -> bytes:
        if extender.node_cache_capable:
            return encode_extender_args(pod, node_names=names)
        # A node that is gone by now is left out, and so it will not be chosen.
        return encode_extender_args(pod, nodes=[self._nodes[n] for n in names if n in self._nodes])

    async def _query_preemption(
        self, query: QueryExtenderPreemption, pod: bytes
    ) -> ExtenderPreemptionDecision:
        remaining: Mapping[str, NodeVictims] = query.victims
        raw_pods: dict[str, bytes] = {}
        for extender in query.extenders:
            pods = None
            if not extender.node_cache_capable:
                pods = raw_pods
                remaining = await self._read_victims(query, remaining, raw_pods)
            if not remaining:
                break
            shown = sum(1 + len(victims.uids) for victims in remaining.values())
            try:
                result = await self._caller.query(
                    extender,
                    extender.preempt_verb,
                    encode_preemption_args(pod, remaining, pods),
                    partial(decode_bounded, decode=decode_preemption_result, asked=shown),
                    query.pod.namespace,
                )
                remaining = _with_victims(extender, result, remaining)
            except ExtenderCallError as error:
                if not extender.ignorable:
                    raise
                log.warning("extender.skipped", extender=extender.url, error=str(error))
        return ExtenderPreemptionDecision(remaining)

    async def _read_victims(
        self,
        query: QueryExtenderPreemption,
        remaining: Mapping[str, NodeVictims],
        raw_pods: dict[str, bytes],
    ) -> Mapping[str, NodeVictims]:
        """Read the victims that are not in ``raw_pods`` yet; returns the nodes of which all are.

        A node is left out of whose victims one is gone, or was named by an extender that was not
        told of it: only pods that we know can be shown.

        Raises:
            ExtenderCallError: one cannot be read; no extender is to blame for that.
        """
        known = query.pods.keys()
        told = {n: v for n, v in remaining.items() if all(uid in known for uid in v.uids)}
        missing = sorted({uid for v in told.values() for uid in v.uids} - raw_pods.keys())

        async def read(uid: str) -> None:
            try:
                raw_pods[uid] = await self._caller.read_pod(query.pods[uid], query.pod.namespace)
            except ExtenderCallError as error:
                if error.refused.reason not in ("NotFound", "Replaced"):
                    raise

        try:
            for first in range(0, len(missing), MAX_PARALLEL_CALLS):
                async with asyncio.TaskGroup() as group:
                    for uid in missing[first : first + MAX_PARALLEL_CALLS]:
                        group.create_task(read(uid))
        except ExceptionGroup as errors:
            failure = errors.exceptions[0]
            assert isinstance(failure, ExtenderCallError), failure
            raise failure from None
        return {n: v for n, v in told.items() if all(uid in raw_pods for uid in v.uids)}


def _checked_subset(
    extender: Extender, answered: Iterable[str] | None, queried: list[str]
) -> list[str]:
    names, known = list(answered or ()), set(queried)
    for name in names:
        if name not in known:
            why = f'claims a filtered node "{name}" which is not found in the input node list'
            raise call_error(extender, why)
    return names


def _with_victims(
    extender: Extender, victims: dict[str, NodeVictims], asked: Mapping[str, NodeVictims]
) -> dict[str, NodeVictims]:
    """The nodes with victims; those that it was not asked about count for nothing."""
    empty = [node for node, v in victims.items() if not v.uids]
    if empty and not extender.ignorable:
        raise call_error(extender, f'expected at least one victim pod on node "{empty[0]}"')
    return {node: v for node, v in victims.items() if v.uids and node in asked}
