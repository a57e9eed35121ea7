"""Asks extenders about pods, and keeps the pods aside until they have answered.

The pods of an entity that extenders have a say about are judged first, as things are; one
question for each class then goes out with the nodes that would do. The entity stays in a part of
the queue of its own, where an edit, a deletion or a time-out finds it as everywhere else; an
answer that comes when it has left that part is about a pod that is no more, and is dropped.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from arranger.api.effects import (
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
from arranger.cluster.pod_info import PodInfo
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.entity import QueuedEntity, QueueState
from arranger.engine.pod.extender_result import ExtenderResult, empty_extender_result
from arranger.engine.pod.schedule_result import Unschedulable
from arranger.engine.queued_pod import QueuedPod

#: Seconds beyond the extenders' own time-outs after which an answer is not waited for any more.
TIMEOUT_MARGIN: Final = 30.0
#: Seconds after which an entity that waits for its turn is taken up anew; a turn comes before.
MAX_WAIT: Final = 300.0
#: Turns given before others get theirs: each costs a judgement of all nodes.
MAX_STARTS_PER_RUN: Final = 64


@dataclass(slots=True, eq=False)
class ExtenderCall:
    """The questions about one entity that are out together, and their answers.

    Attributes:
        heap_version: the entity's, as long as it waits for this round.
        deadline: when it has waited long enough, in the engine's clock.
        event_count: how many events there had been when the questions were asked.
        results: kind of pod → the answer about it.
        unschedulable: for questions about victims, what will become of the pod without an answer.
        victims: the answer to these.
        refused: why a question was not answered.
    """

    entity: QueuedEntity
    deadline: float
    event_count: int
    heap_version: int = 0
    pending: dict[int, tuple[Hashable, ExtenderQuery]] = field(default_factory=dict)
    results: dict[Hashable, ExtenderResult] = field(default_factory=dict)
    answers: dict[Hashable, tuple[QueryExtenders, ExtenderDecision]] = field(default_factory=dict)
    unschedulable: Unschedulable | None = None
    victims: ExtenderPreemptionDecision | None = None
    refused: Refused | None = None

    @property
    def is_current(self) -> bool:
        """Whether the entity still waits for it."""
        return (
            self.entity.state is QueueState.WAITING_FOR_EXTENDERS
            and self.entity.heap_version == self.heap_version
        )


class ExtenderCoordinator:
    """The questions that are out, and who waits for them or for a turn to ask.

    Args:
        desk: the engine's state.
        parallel: entities asked about at once. With one, each is asked about when the last has
            its node, as kube-scheduler does; a stateful extender may need that.
    """

    def __init__(self, context: EngineContext, parallel: int = 1) -> None:
        self._context = context
        self._parallel = parallel
        self._calls: dict[int, ExtenderCall] = {}
        #: Identity of a question → its round.
        self._call_of: dict[int, ExtenderCall] = {}
        self._finished: deque[ExtenderCall] = deque()
        #: (place in the queue's order, ticket, entity) of those that wait for a turn.
        self._waiting: list[tuple[tuple[Any, ...], int, QueuedEntity]] = []

    # --- asking ----------------------------------------------------------------------------

    def starts_for(self, entity: QueuedEntity, now: float) -> bool:
        """Whether extenders are to be asked about an entity first; if so, it is taken care of."""
        if not self._context.extenders or not self._interested(entity):
            return False
        if self._waiting or len(self._calls) >= self._parallel:
            self._context.queue.park(entity, now + MAX_WAIT)
            heapq.heappush(
                self._waiting, (self._context.queue.sort_key(entity), entity.heap_version, entity)
            )
        else:
            self._start(entity, now)
        return True

    def start_preemption_call(
        self, entity: QueuedEntity, unschedulable: Unschedulable, now: float
    ) -> None:
        """Let extenders choose among the options of preemption; the pod is kept aside."""
        member = entity.representative
        extenders = self.interested_in_preemption(member.pod)
        pods = {pod.uid: pod for option in unschedulable.options for pod in option.victims}
        question = QueryExtenderPreemption(
            pod_events.pod_key(member.pod.pod),
            extenders,
            {
                option.node: NodeVictims(
                    tuple(pod.uid for pod in option.victims), option.pdb_violations
                )
                for option in unschedulable.options
            },
            {uid: pod_events.pod_key(pod.pod) for uid, pod in pods.items()},
        )
        call = self._new_call(entity, extenders, now)
        call.unschedulable = unschedulable
        self._send(call, member.equivalence_key, question)
        self._park(call)

    def interested_in_preemption(self, pod: PodInfo) -> tuple[Extender, ...]:
        """The extenders that have a say about whom a pod may have evicted."""
        return tuple(
            e for e in self._context.extenders if e.preempt_verb and e.is_interested(pod.pod)
        )

    def _interested(
        self, entity: QueuedEntity
    ) -> dict[Hashable, tuple[QueuedPod, tuple[Extender, ...]]]:
        """One member of each kind that extenders mind, and those that do."""
        found: dict[Hashable, tuple[QueuedPod, tuple[Extender, ...]]] = {}
        seen: set[Hashable] = set()
        for member in entity.ready():
            if member.equivalence_key in seen:
                continue
            seen.add(member.equivalence_key)
            pod = member.pod.pod
            interested = tuple(
                e for e in self._context.extenders if e.filters_or_scores and e.is_interested(pod)
            )
            if interested:
                found[member.equivalence_key] = member, interested
        return found

    def _start(self, entity: QueuedEntity, now: float) -> None:
        interested = self._interested(entity)
        asked = tuple(e for _, minding in interested.values() for e in minding)
        call = self._new_call(entity, asked, now)
        for kind, (member, minding) in interested.items():
            nodes = self._context.cycle.feasible_nodes(member)
            if nodes:
                self._send(
                    call, kind, QueryExtenders(pod_events.pod_key(member.pod.pod), minding, nodes)
                )
            else:
                call.results[kind] = empty_extender_result(self._context.cluster.table)
        self._park(call)
        if not call.pending:
            self._finished.append(call)

    def _new_call(
        self, entity: QueuedEntity, extenders: tuple[Extender, ...], now: float
    ) -> ExtenderCall:
        # Filters are asked one after the other, and then all that prioritise at once.
        limit = TIMEOUT_MARGIN + 2 * sum(e.timeout for e in extenders)
        return ExtenderCall(entity, now + limit, self._context.event_count)

    def _send(self, call: ExtenderCall, kind: Hashable, question: ExtenderQuery) -> None:
        call.pending[id(question)] = kind, question
        self._call_of[id(question)] = call
        self._calls[id(call)] = call
        self._context.outbox.append(question)

    def _park(self, call: ExtenderCall) -> None:
        self._context.queue.park(call.entity, call.deadline)
        call.heap_version = call.entity.heap_version

    # --- answers ---------------------------------------------------------------------------

    def awaits(self, effect: object) -> bool:
        """Whether an effect is a question that is out."""
        return id(effect) in self._call_of

    def on_outcome(self, effect: object, outcome: Outcome) -> None:
        """A question has been answered, or will not be."""
        call = self._call_of.pop(id(effect))
        kind, question = call.pending.pop(id(effect))
        match outcome:
            case ExtenderDecision() if isinstance(question, QueryExtenders):
                call.answers[kind] = question, outcome
            case ExtenderPreemptionDecision():
                call.victims = outcome
            case Refused():
                call.refused = outcome
            case _:
                raise AssertionError(f"{outcome} is no answer to {question}")
        if not call.pending:
            self._close(call)
            self._finished.append(call)

    def advance(self, now: float) -> Iterator[ExtenderCall]:
        """End the rounds that have lasted too long.

        Yields the rounds that have ended and still count; their entities are out of the queue.
        """
        for call in [r for r in self._calls.values() if r.deadline <= now]:
            call.refused = Refused(0, "Timeout", "extenders did not answer in time")
            self._close(call)
            self._finished.append(call)
        while self._finished:
            call = self._finished.popleft()
            if call.is_current:
                self._context.queue.remove(call.entity)
                table = self._context.cluster.table
                for kind, (question, advice) in call.answers.items():
                    call.results[kind] = ExtenderResult(table, question.nodes, advice)
                yield call

    def start_waiting(self, now: float) -> None:
        """Ask about those that are first in line, as many as there are turns."""
        for _ in range(MAX_STARTS_PER_RUN):
            if not self._can_start:
                break
            _, ticket, entity = heapq.heappop(self._waiting)
            if entity.state is QueueState.WAITING_FOR_EXTENDERS and entity.heap_version == ticket:
                self._context.queue.remove(entity)
                self._start(entity, now)

    @property
    def ready(self) -> bool:
        """Whether :meth:`next_state` or :meth:`give_turns` has something to do."""
        return bool(self._finished) or self._can_start

    @property
    def _can_start(self) -> bool:
        return bool(self._waiting) and len(self._calls) < self._parallel

    def next_timer(self) -> float | None:
        """When :meth:`next_state` will have something to break off."""
        return min((call.deadline for call in self._calls.values()), default=None)

    def check_consistent(self) -> None:
        """Check the questions against the queue.

        Raises:
            AssertionError: an entity is set aside, and nothing will bring it back.
        """
        queue = self._context.queue
        rounds = [*self._calls.values(), *self._finished]
        awaited = {(r.entity.key, r.heap_version) for r in rounds}
        awaited |= {(entity.key, ticket) for _, ticket, entity in self._waiting}
        for entity in queue.entities():
            if entity.state is QueueState.WAITING_FOR_EXTENDERS:
                assert (entity.key, entity.heap_version) in awaited, f"{entity} waits for nobody"
        assert set(map(id, self._call_of.values())) == set(self._calls), "questions without a round"

    # --- inside ----------------------------------------------------------------------------

    def _close(self, call: ExtenderCall) -> None:
        for number in call.pending:
            del self._call_of[number]
        call.pending.clear()
        del self._calls[id(call)]
