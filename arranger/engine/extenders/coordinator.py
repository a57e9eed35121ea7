"""Asks extenders about pods, and parks the pods until they have answered.

The pods of an entity that extenders are interested in are evaluated first, as things are; one
question for each class then goes out with the feasible nodes. The entity stays in the queue in a
state of its own, where an edit, a deletion or a time-out finds it as everywhere else; an answer
that comes when it has left that state is dropped. Namespaces take turns with their questions.

What takes long is done in steps, others in between: making the questions about a gang of many
classes, and the attempt that follows, which has the answers until it is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from arranger.api.effects import (
    Effect,
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
from arranger.cluster.attempt_work import UnfinishedError
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.context.queue_state import QueueState
from arranger.engine.extenders.answers import ExtenderAnswers
from arranger.engine.extenders.calls import ClassToAskAbout, ExtenderCall
from arranger.engine.pod.attempt_limits import MAX_WORK, work_of_step
from arranger.engine.pod.schedule_result import Unschedulable
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.order.namespace_turns import NamespaceTurns
from arranger.engine.queue.scheduling_queue import SchedulingQueue

#: Seconds beyond the extenders' own time-outs after which an answer is not waited for any more.
TIMEOUT_MARGIN: Final = 30.0
#: Seconds after which an entity that waits for its turn is queued again; its turn comes before.
MAX_WAIT: Final = 300.0
#: Classes whose nodes are looked at in one run of the engine, and attempts that follow answers.
MAX_CLASSES_PER_RUN: Final = 16
MAX_ENDS_PER_RUN: Final = 8
#: Questions about one entity that are out at once.
MAX_PENDING: Final = 8
#: Questions of one namespace before it is the turn of others.
QUESTIONS_A_TURN: Final = 2
#: Steps of an attempt for which its entity counts as being asked about.
MAX_STEPS_HELD: Final = 64


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
    #: Those of them whose questions are yet to be made, some of them.
    _asking: deque[ExtenderCall] = field(default_factory=deque, init=False)
    #: Entity → the call whose answers its attempt goes on with.
    _going_on: dict[QueuedEntity, ExtenderCall] = field(default_factory=dict, init=False)
    #: Those that wait for a turn.
    _waiting: NamespaceTurns = field(
        default_factory=lambda: NamespaceTurns(QueueState.WAITING_FOR_EXTENDERS, QUESTIONS_A_TURN),
        init=False,
    )

    # --- asking ----------------------------------------------------------------------------

    def starts_for(self, entity: QueuedEntity, now: float) -> bool:
        """Whether extenders are to be asked about an entity first; if so, it is taken care of."""
        if not self._context.extenders or not self._interested(entity):
            return False
        if self._waiting.first() is not None or not self._has_slot:
            self._queue.park(entity, now + MAX_WAIT)
            self._queue.sort_key(entity)  # it has its place in the order now
            self._waiting.push(entity)
        else:
            self._start(entity, now)
        return True

    def answers_for(self, entity: QueuedEntity) -> ExtenderCall | None:
        """The call with whose answers its attempt goes on, once; None if it is to be asked about.

        Those of an entity that was edited meanwhile do not count any more.
        """
        call = self._going_on.pop(entity, None)
        if call is None or not entity.slices or entity.revision != call.revision:
            return None
        return call

    def keep_answers(self, call: ExtenderCall) -> None:
        """The attempt goes on in another step, with the same answers."""
        call.steps, call.revision = call.steps + 1, call.entity.revision
        self._going_on[call.entity] = call

    def start_preemption_call(
        self,
        entity: QueuedEntity,
        unschedulable: Unschedulable,
        before: ExtenderCall | None,
        now: float,
    ) -> None:
        """Let extenders choose among the candidates for preemption; the pod is parked meanwhile.

        They are shown the victims on each node; of their gangs others may leave other nodes with
        them. ``before``: the call in which nodes were asked about.
        """
        member = entity.representative
        pod = member.pod.pod
        extenders = tuple(e for e in self._context.extenders if e.chooses_victims(pod))
        node_of, keys = self._context.cluster.node_of, dict[str, ObjectKey]()
        proposed = dict[str, NodeVictims]()
        for option in unschedulable.options:
            there = [v for v in option.victims if node_of(v.uid) == option.node]
            uids = tuple(each.uid for each in there)
            proposed[option.node] = NodeVictims(uids, option.pdb_violations)
            keys.update((each.uid, pod_events.pod_key(each.pod)) for each in there)
        key = pod_events.pod_key(pod)
        question = QueryExtenderPreemption(key, extenders, proposed, keys)
        call = self._new_call(entity, extenders, now)
        call.unschedulable, call.proposed = unschedulable, proposed
        if before is not None:
            call.answers = before.answers
        self._send(call, member.equivalence_key, question)
        self._park(call)

    def _interested(self, entity: QueuedEntity) -> list[ClassToAskAbout]:
        """The classes of members that extenders are interested in."""
        classes: dict[Hashable, list[QueuedPod]] = {}
        for member in entity.ready():
            classes.setdefault(member.equivalence_key, []).append(member)
        judging = [e for e in self._context.extenders if e.filters_or_scores]
        found = (
            ClassToAskAbout(
                key, members, tuple(e for e in judging if e.is_interested(members[0].pod.pod))
            )
            for key, members in classes.items()
        )
        return [each for each in found if each.extenders]

    def _start(self, entity: QueuedEntity, now: float) -> None:
        classes = self._interested(entity)
        call = self._new_call(entity, tuple(e for each in classes for e in each.extenders), now)
        call.to_ask.extend(classes)
        self._calls[call] = None
        self._park(call)
        self._ask(call, 1)

    def _ask(self, call: ExtenderCall, most: int) -> int:
        """Make the questions about the next classes, ``most`` of them; returns how many it took.

        What takes more than one step's work goes on in the next.
        """
        taken = 0
        while call.to_ask and taken < most and len(call.pending) < MAX_PENDING:
            taken += 1
            asked = call.to_ask[0]
            if (nodes := self._nodes_for(call, asked.members)) is None:
                call.steps += 1
                taken = most
                break
            call.to_ask.popleft()
            key = pod_events.pod_key(asked.members[0].pod.pod)
            question = QueryExtenders(key, asked.extenders, nodes)
            if nodes:
                self._send(call, asked.kind, question)
            else:  # nobody is asked; rows are counted when the others are answered
                call.answers.add(asked.kind, question, ExtenderDecision(()))
        if call.is_answered:
            self._end(call)
        elif call.to_ask and len(call.pending) < MAX_PENDING:
            self._asking.append(call)
        return taken

    def _nodes_for(
        self, call: ExtenderCall, members: Sequence[QueuedPod]
    ) -> tuple[str, ...] | None:
        """The nodes to ask about; None if it takes more steps to know them."""
        work = self._context.cluster.work
        try:
            if members[0].signature is None:  # plugins alone keep what they have found out
                return self._cycle.nodes_for(members)
            with work.at_most(work_of_step(call.steps)):
                return self._cycle.nodes_for(members)
        except UnfinishedError:
            return None

    def _new_call(
        self, entity: QueuedEntity, extenders: tuple[Extender, ...], now: float
    ) -> ExtenderCall:
        # Filters are asked one after the other, and then all that prioritise at once.
        limit = TIMEOUT_MARGIN + 2 * sum(e.timeout for e in extenders)
        cluster = self._context.cluster
        answers = ExtenderAnswers(cluster.table, cluster.work)
        return ExtenderCall(entity, now + limit, self._queue.event_count, answers)

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
                call.answers.add(kind, effect, outcome)
            case ExtenderPreemptionDecision():
                call.victims = dict(outcome.victims)
            case Refused():
                call.refused = outcome
            case _:
                raise AssertionError(f"{outcome} is no answer to {effect}")
        if not call.is_current:
            call.to_ask.clear()
        if call.is_answered or call.refused is not None:  # the others would come to the same
            self._end(call)
        elif call.to_ask and call not in self._asking:
            self._asking.append(call)

    def advance(self, now: float) -> Iterator[ExtenderCall]:
        """End the calls that have lasted too long.

        Yields calls that have ended and still count, as many as are gone on with in one run; their
        entities are out of the queue.
        """
        for call in [each for each in self._calls if each.deadline <= now]:
            call.refused = Refused(0, "Timeout", "extenders did not answer in time")
            self._end(call)
        work = self._context.cluster.work
        before = work.spent
        for _ in range(MAX_ENDS_PER_RUN):
            while self._finished and not self._finished[0].is_current:
                self._finished.popleft()
            if not self._finished or work.spent - before >= MAX_WORK:
                break
            call = self._finished.popleft()
            self._queue.remove(call.entity)
            yield call

    def start_waiting(self, now: float) -> None:
        """Make more of the questions that are to be asked, and ask about those that wait.

        As many as may be asked about at once, and as are looked at in one run.
        """
        work, left = self._context.cluster.work, MAX_CLASSES_PER_RUN
        before = work.spent
        while left > 0 and work.spent - before < MAX_WORK:
            if self._asking:
                call = self._asking.popleft()
                if call not in self._calls:
                    continue
                if not call.is_current:
                    call.to_ask.clear()
                left -= self._ask(call, left)
            elif self._can_start:
                entity = self._waiting.pop()
                self._waiting.on_tried(entity, 1)
                self._queue.remove(entity)
                self._start(entity, now)
                left -= 1
            else:
                break

    @property
    def ready(self) -> bool:
        """Whether :meth:`advance` or :meth:`start_waiting` has something to do."""
        return bool(self._finished or self._asking) or self._can_start

    @property
    def _can_start(self) -> bool:
        return self._has_slot and self._waiting.first() is not None

    @property
    def _has_slot(self) -> bool:
        if len(self._calls) >= self._parallel:
            return False
        if self._going_on:
            going_on = {e: call for e, call in self._going_on.items() if call.may_go_on}
            self._going_on = going_on
        held = sum(call.steps <= MAX_STEPS_HELD for call in self._going_on.values())
        return len(self._calls) + held < self._parallel

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
        awaited |= {(entity.key, entity.heap_version) for entity in self._waiting.entities()}
        for entity in queue.entities():
            if entity.state is QueueState.WAITING_FOR_EXTENDERS:
                assert (entity.key, entity.heap_version) in awaited, f"{entity} waits for nobody"
        asking = {id(call) for call in self._asking}
        assert all(call.pending or id(call) in asking for call in self._calls), (
            "a call without a question"
        )

    # --- inside ----------------------------------------------------------------------------

    def _end(self, call: ExtenderCall) -> None:
        for question in call.pending:
            self._effects.cancel(question)
        call.pending.clear()
        call.to_ask.clear()
        del self._calls[call]
        self._finished.append(call)
