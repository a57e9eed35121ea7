"""Asks extenders about pods, and parks the pods until they have answered.

The pods of an entity that extenders are interested in are evaluated first, as things are; one
question for each class then goes out with the feasible nodes. The entity stays in the queue in a
state of its own, where an edit, a deletion or a time-out finds it as everywhere else; an answer
that comes when it has left that state is dropped.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from arranger.api.effects import (
    Effect,
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
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.context.queue_state import QueueState
from arranger.engine.pod.extender_result import ExtenderResult
from arranger.engine.pod.schedule_result import Unschedulable
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.scheduling_queue import SchedulingQueue

#: Seconds beyond the extenders' own time-outs after which an answer is not waited for any more.
TIMEOUT_MARGIN: Final = 30.0
#: Seconds after which an entity that waits for its turn is queued again; its turn comes before.
MAX_WAIT: Final = 300.0
#: Entities taken up in one run of the engine: each costs an evaluation of all nodes.
MAX_STARTS_PER_RUN: Final = 64


@dataclass(slots=True, eq=False)
class ExtenderCall:
    """The questions about one entity that are out together, and their answers.

    Attributes:
        heap_version: the entity's, as long as it waits for this call.
        deadline: when it has waited long enough, in the engine's clock.
        event_count: how many events there had been when the questions were asked.
        pending: the questions without an answer yet.
        results: equivalence key → the answer about such pods.
        unschedulable: for questions about victims, what will become of the pod without an answer.
        victims: the answer to these.
        refused: why a question was not answered.
    """

    entity: QueuedEntity
    deadline: float
    event_count: int
    heap_version: int = 0
    pending: list[ExtenderQuery] = field(default_factory=list)
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


@dataclass(slots=True, eq=False)
class ExtenderCoordinator:
    """The questions that are out, and who waits for them or for a turn to ask.

    Args:
        effects: sends the questions, and brings the answers back to :meth:`on_outcome`.
        parallel: entities asked about at once. With one, each is asked about when the last has
            its node, as kube-scheduler does; a stateful extender may need that.
    """

    _context: EngineContext
    _queue: SchedulingQueue
    _cycle: SchedulingCycle
    _effects: PendingEffects
    _parallel: int = 1
    #: The calls that are out, in the order in which they began.
    _calls: dict[ExtenderCall, None] = field(default_factory=dict, init=False)
    _finished: deque[ExtenderCall] = field(default_factory=deque, init=False)
    #: (sort key, heap version, entity) of those that wait for a turn.
    _waiting: list[tuple[tuple[Any, ...], int, QueuedEntity]] = field(
        default_factory=list, init=False
    )

    # --- asking ----------------------------------------------------------------------------

    def starts_for(self, entity: QueuedEntity, now: float) -> bool:
        """Whether extenders are to be asked about an entity first; if so, it is taken care of."""
        if not self._context.extenders or not self._interested(entity):
            return False
        if self._waiting or len(self._calls) >= self._parallel:
            self._queue.park(entity, now + MAX_WAIT)
            place = (self._queue.sort_key(entity), entity.heap_version, entity)
            heapq.heappush(self._waiting, place)
        else:
            self._start(entity, now)
        return True

    def start_preemption_call(
        self, entity: QueuedEntity, unschedulable: Unschedulable, now: float
    ) -> None:
        """Let extenders choose among the candidates for preemption; the pod is parked meanwhile."""
        member = entity.representative
        pod = member.pod.pod
        extenders = tuple(e for e in self._context.extenders if e.chooses_victims(pod))
        victims = {each.uid: each for option in unschedulable.options for each in option.victims}
        proposed = {
            option.node: NodeVictims(tuple(v.uid for v in option.victims), option.pdb_violations)
            for option in unschedulable.options
        }
        keys = {uid: pod_events.pod_key(each.pod) for uid, each in victims.items()}
        key = pod_events.pod_key(pod)
        question = QueryExtenderPreemption(key, extenders, proposed, keys)
        call = self._new_call(entity, extenders, now)
        call.unschedulable = unschedulable
        self._send(call, member.equivalence_key, question)
        self._park(call)

    def _interested(
        self, entity: QueuedEntity
    ) -> dict[Hashable, tuple[list[QueuedPod], tuple[Extender, ...]]]:
        """The members of each class that extenders are interested in, and these extenders."""
        classes: dict[Hashable, list[QueuedPod]] = {}
        for member in entity.ready():
            classes.setdefault(member.equivalence_key, []).append(member)
        judging = [e for e in self._context.extenders if e.filters_or_scores]
        found = (
            (key, members, tuple(e for e in judging if e.is_interested(members[0].pod.pod)))
            for key, members in classes.items()
        )
        return {key: (members, interested) for key, members, interested in found if interested}

    def _start(self, entity: QueuedEntity, now: float) -> None:
        interested = self._interested(entity)
        asked = tuple(e for _, extenders in interested.values() for e in extenders)
        call = self._new_call(entity, asked, now)
        for kind, (members, extenders) in interested.items():
            key = pod_events.pod_key(members[0].pod.pod)
            nodes = self._cycle.nodes_for(members)
            question = QueryExtenders(key, extenders, nodes)
            if nodes:
                self._send(call, kind, question)
            else:  # nobody is asked; rows are counted when the others are answered
                call.answers[kind] = question, ExtenderDecision(())
        self._park(call)
        if not call.pending:
            self._finished.append(call)

    def _new_call(
        self, entity: QueuedEntity, extenders: tuple[Extender, ...], now: float
    ) -> ExtenderCall:
        # Filters are asked one after the other, and then all that prioritise at once.
        limit = TIMEOUT_MARGIN + 2 * sum(e.timeout for e in extenders)
        return ExtenderCall(entity, now + limit, self._queue.event_count)

    def _send(self, call: ExtenderCall, kind: Hashable, question: ExtenderQuery) -> None:
        call.pending.append(question)
        self._calls[call] = None
        self._effects.send(question, self, (call, kind))

    def _park(self, call: ExtenderCall) -> None:
        self._queue.park(call.entity, call.deadline)
        call.heap_version = call.entity.heap_version

    # --- answers ---------------------------------------------------------------------------

    def on_outcome(
        self, effect: Effect, outcome: Outcome, subject: tuple[ExtenderCall, Hashable], now: float
    ) -> None:
        """A question of a call, about pods of an equivalence key, is answered, or will not be."""
        del now
        call, kind = subject
        call.pending = [each for each in call.pending if each is not effect]
        match outcome:
            case ExtenderDecision() if isinstance(effect, QueryExtenders):
                call.answers[kind] = effect, outcome
            case ExtenderPreemptionDecision():
                call.victims = outcome
            case Refused():
                call.refused = outcome
            case _:
                raise AssertionError(f"{outcome} is no answer to {effect}")
        if not call.pending:
            self._close(call)
            self._finished.append(call)

    def advance(self, now: float) -> Iterator[ExtenderCall]:
        """End the calls that have lasted too long.

        Yields the calls that have ended and still count; their entities are out of the queue.
        """
        for call in [each for each in self._calls if each.deadline <= now]:
            call.refused = Refused(0, "Timeout", "extenders did not answer in time")
            self._close(call)
            self._finished.append(call)
        while self._finished:
            call = self._finished.popleft()
            if call.is_current:
                self._queue.remove(call.entity)
                table = self._context.cluster.table
                for kind, (question, decision) in call.answers.items():
                    call.results[kind] = ExtenderResult(table, question.nodes, decision)
                yield call

    def start_waiting(self, now: float) -> None:
        """Ask about the first of those that wait, as many as may be asked about at once."""
        for _ in range(MAX_STARTS_PER_RUN):
            if not self._can_start:
                break
            _, version, entity = heapq.heappop(self._waiting)
            if entity.state is QueueState.WAITING_FOR_EXTENDERS and entity.heap_version == version:
                self._queue.remove(entity)
                self._start(entity, now)

    @property
    def ready(self) -> bool:
        """Whether :meth:`advance` or :meth:`start_waiting` has something to do."""
        return bool(self._finished) or self._can_start

    @property
    def _can_start(self) -> bool:
        return bool(self._waiting) and len(self._calls) < self._parallel

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to break off."""
        return min((call.deadline for call in self._calls), default=None)

    def check_consistent(self) -> None:
        """Check the questions against the queue.

        Raises:
            AssertionError: an entity is parked, and nothing will bring it back.
        """
        queue = self._queue
        calls = [*self._calls, *self._finished]
        awaited = {(call.entity.key, call.heap_version) for call in calls}
        awaited |= {(entity.key, version) for _, version, entity in self._waiting}
        for entity in queue.entities():
            if entity.state is QueueState.WAITING_FOR_EXTENDERS:
                assert (entity.key, entity.heap_version) in awaited, f"{entity} waits for nobody"
        assert all(call.pending for call in self._calls), "a call without a question"

    # --- inside ----------------------------------------------------------------------------

    def _close(self, call: ExtenderCall) -> None:
        for question in call.pending:
            self._effects.cancel(question)
        call.pending.clear()
        del self._calls[call]
