"""The scheduling queue: what to try next, and what wakes the rest.

Upstream: ``pkg/scheduler/backend/queue``. Nothing polls: an unschedulable entity is woken by an
event that one of the plugins that rejected it asked for, and failing that by a timer after
``flush_after`` (5 minutes), so that a missing hint costs time but never a pod.

An entity that is woken takes its place in the order at once, so that no lower one gets the room
that has woken it. Such attempts do not repeat themselves: one that finds no node changes nothing,
and so wakes nobody. An attempt that breaks off (an error, a refused write), or that changes the
cluster and comes to nothing, might: after it, and only after it, comes a back-off, which no event
cuts short. Back-offs end at whole seconds, so that of those that end within one the most important
goes first. See ``docs/design/queue-order.md``.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.queue_state import REFUSED, QueueState
from arranger.engine.queue.active_entities import ActiveEntities
from arranger.engine.queue.attempt_start import AttemptStart
from arranger.engine.queue.backoff import SchedulingQueueConfig, retry_times
from arranger.engine.queue.collaborators import Gate, Nominations
from arranger.engine.queue.hints import HelpQuestions, Room
from arranger.engine.queue.in_flight_events import InFlightEvents
from arranger.engine.queue.invariants import check_parts
from arranger.engine.queue.open_questions import OpenQuestions, Piece
from arranger.engine.queue.order.job_shares import JobShares
from arranger.engine.queue.order.queue_order import FairShareOrder
from arranger.engine.queue.order.ranking import set_rank
from arranger.engine.queue.requirements import GatedEntities, Requirements
from arranger.engine.queue.unschedulable_entities import UnschedulableEntities
from arranger.framework.cluster_event import ClusterEvent
from arranger.framework.status import Status


class SchedulingQueue:
    """Entities that are not placed, by what they are waiting for."""

    def __init__(
        self,
        config: SchedulingQueueConfig,
        gate: Gate,
        order: FairShareOrder,
        shares: JobShares,
        nominations: Nominations,
    ) -> None:
        self._share_of = shares.share_of
        self._config, self._requirements = config, Requirements(gate)
        self._nominations = nominations
        self._entities: dict[str, QueuedEntity] = {}
        self._active = ActiveEntities(order)
        #: (when, heap version, entity) of back-offs and of waits for an event that end then.
        self._timers: list[tuple[float, int, QueuedEntity]] = []
        self._unschedulable = UnschedulableEntities()
        #: (heap version, entity) of those that leave room to another for a moment.
        self._yielding: list[tuple[int, QueuedEntity]] = []
        self._gated = GatedEntities()
        self._ask_of = HelpQuestions()
        #: Nobody is tried before these are answered: any of them may help one that goes first.
        self._open_questions = OpenQuestions(
            self._unschedulable, self._gated, config.questions_at_once, config.asked_with_event
        )
        self._in_flight = InFlightEvents()
        self._last_version, self._now = 0, -math.inf
        #: How many cluster events there have been, for others who may have missed some.
        self.event_count = 0

    def __len__(self) -> int:
        return len(self._entities)

    def __contains__(self, key: object) -> bool:
        return key in self._entities

    def entities(self) -> Iterator[QueuedEntity]:
        """Everything in the queue."""
        return iter(self._entities.values())

    def count(self) -> dict[QueueState, int]:
        """How many are in each part."""
        counts = Counter(entity.state for entity in self._entities.values())
        return {part: counts[part] for part in QueueState if part is not QueueState.NOT_QUEUED}

    # --- in and out ------------------------------------------------------------------------

    def add(self, entity: QueuedEntity, now: float) -> None:
        """Queue an entity that is new, or whose gates may have changed."""
        self._now = now
        self._enqueue(entity)

    def add_unschedulable(
        self, entity: QueuedEntity, rejected_by: frozenset[str], now: float
    ) -> None:
        """Queue an entity that no node would take, until something helps."""
        self._now = now
        self._dequeue(entity)
        self._entities[entity.key] = entity
        entity.last_attempt = now
        entity.rejected_by = rejected_by
        self._wait_unschedulable(entity)

    def requeue_with_backoff(self, entity: QueuedEntity, now: float) -> None:
        """Queue an entity whose attempt broke off: again when its back-off ends."""
        entity.last_attempt = now
        entity.broken_attempts = max(entity.broken_attempts, 1)
        self.add(entity, now)

    def activate(self, entity: QueuedEntity) -> None:
        """Try an entity next, even if its back-off has not ended."""
        woken_from, entity.woken_from = entity.woken_from, None
        self._dequeue(entity)
        entity.woken_from = woken_from
        self._push_active(entity)

    def park(self, entity: QueuedEntity, until: float) -> None:
        """Keep an entity that waits for an answer: nothing else wakes it, and nothing later."""
        self._dequeue(entity)
        self._entities[entity.key] = entity
        self._wait_until(entity, until, QueueState.WAITING_FOR_EXTENDERS)

    def gate(self, entity: QueuedEntity, refusal: Status) -> None:
        """Keep an entity that must not be tried, until an event may help the refusing plugin."""
        self._dequeue(entity)
        self._entities[entity.key] = entity
        self._hold_back(entity, [refusal])

    def requeue_all(self, now: float) -> None:
        """Pods are of other quota queues now, and other gates hold: queue all of them again."""
        self._now = now
        for entity in list(self._entities.values()):
            if entity.state is not QueueState.WAITING_FOR_EXTENDERS:
                self._enqueue(entity)

    def remove(self, entity: QueuedEntity) -> None:
        """Take an entity out for good."""
        self._dequeue(entity)
        self._in_flight.end(entity)
        self._entities.pop(entity.key, None)

    def pop(self) -> QueuedEntity | None:
        """The next entity to try, taken out: the first of the quota queue whose turn it is.

        The caller says when it has been tried: :meth:`on_tried`.
        """
        if self._open_questions:
            for piece in self._open_questions.pieces():
                self._answer(piece)
            if self._open_questions:
                return None  # others are to have their turn in between
        if self._yielding and self.ready:
            self._end_yielding()
        if (entity := self._active.pop()) is None:
            return None
        del self._entities[entity.key]
        entity.state, entity.heap_version = QueueState.NOT_QUEUED, 0
        entity.broken_attempts += 1  # until it is known that the attempt has changed nothing
        return entity

    def begin_attempt(self, entity: QueuedEntity) -> AttemptStart:
        """What :meth:`on_tried` is to know of the time before an attempt."""
        woken_from, entity.woken_from = entity.woken_from, None
        return AttemptStart(self.event_count, self._is_nominated(entity), woken_from)

    def go_on(self, entity: QueuedEntity, start: AttemptStart) -> None:
        """An attempt is to go on in another step."""
        self._entities[entity.key], entity.woken_from = entity, start.woken_from
        entity.has_made_events |= self.event_count != start.events
        if entity.group is not None:  # a lone pod's last step looks at everything
            self._in_flight.begin(entity.key, start.events)
        entity.broken_attempts -= 1
        self._push_active(entity)

    def on_tried(self, entity: QueuedEntity, start: AttemptStart, now: float) -> None:
        """An attempt is over.

        One that has found no node and changed nothing is no reason for a back-off, and none to try
        others of its group. After any other the next of its group is tried. One that makes room for
        itself may be tried again as soon as there is some, and one that gives its room up did not
        change anything else. What may have helped it meanwhile has it tried again.
        """
        self._now = now
        self._pass_the_turn(entity, start)
        if entity.state is QueueState.UNSCHEDULABLE and self._in_flight.missed_help(entity):
            self.requeue_with_backoff(entity, now)
        self._in_flight.end(entity)

    def _pass_the_turn(self, entity: QueuedEntity, start: AttemptStart) -> None:
        if entity.state is QueueState.NOT_QUEUED and start.woken_from is None:
            return  # it has found its place, and nobody waits for that
        nominated = self._is_nominated(entity)
        unchanged = self.event_count == start.events and not entity.has_made_events
        in_vain = entity.state in REFUSED and unchanged
        woken_by_itself = entity.state is QueueState.BACKOFF and entity.woken_from is not None
        if in_vain:
            entity.broken_attempts = 0
            entity.losses = entity.losses if nominated else 0
        elif (nominated or start.nominated) and (entity.state in REFUSED or woken_by_itself):
            entity.broken_attempts = 0
            if woken_by_itself:
                self.activate(entity)
        if (key := start.woken_from) is None or entity.group is not None:
            return
        if nominated or not in_vain or self._unschedulable.speaks_for_itself(entity, key):
            self._wake_first(key)
        elif entity.state is QueueState.UNSCHEDULABLE and not self._open_questions:
            self._unschedulable.share_verdict(key, entity, self._nominations)

    def _is_nominated(self, entity: QueuedEntity) -> bool:
        known = self._nominations
        return len(known) > 0 and any(uid in known for uid in entity.members)

    # --- waking ----------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """End the back-offs and the waits for events that have lasted long enough."""
        self._now = now
        while self._timers and self._timers[0][0] <= now:
            _, version, entity = heapq.heappop(self._timers)
            if entity.heap_version != version:
                continue
            if entity.state is QueueState.BACKOFF or self._config.backoff_ends(entity) <= now:
                self.activate(entity)
            else:
                self._dequeue(entity)
                self._wait_until(entity, self._config.backoff_ends(entity), QueueState.BACKOFF)

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to do."""
        while self._timers and self._timers[0][2].heap_version != self._timers[0][1]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    @property
    def ready(self) -> bool:
        """Whether :meth:`pop` has something to give, or to do before."""
        return bool(self._open_questions) or self._active.ready

    def wake(
        self, event: ClusterEvent, now: float, *, yields: bool = False, room: Room | None = None
    ) -> None:
        """Something has happened in the cluster: wake the entities that it may help.

        Upstream: ``MoveAllToActiveOrBackoffQueue``. With ``yields`` those that were tried not long
        ago leave the room for a moment, while nobody else is to be tried: another is about to come.
        Events that free ``room`` may be asked about together.

        Where many wait they are asked by :meth:`pop`, before anybody else is tried.
        """
        self.event_count += 1
        self._now = now
        if not (self._unschedulable or self._gated or self._in_flight):
            return
        self._in_flight.note(question := self._ask_of(event, room), self.event_count)
        if (piece := self._open_questions.ask(question, yields=yields)) is not None:
            self._answer(piece)

    def _answer(self, piece: Piece) -> None:
        """Ask some of those to whom an event matters, and wake those whom it may help."""
        question, all_ = piece.asked.question, piece.asked.helps_all
        helped = [k for k in piece.groups if all_ or self._unschedulable.is_helped(k, question)]
        if helped:
            for member in list(self._nominations.nominated_pods()):
                entity = member.entity
                rests = entity is not None and entity.state is QueueState.UNSCHEDULABLE
                if entity is not None and rests and entity.wakeup_group in helped:
                    entity.broken_attempts = 0  # it may be trying just now, and making its room
                    self._enqueue(entity)
        for key in helped:
            self._wake_first(key, yields=piece.asked.yields)
        for entity in self._gated.still(piece.gated):
            if all_ or question.may_help(entity):
                self._enqueue(entity)

    def update(
        self, entity: QueuedEntity, member: QueuedPod, pod: PodInfo, event: ClusterEvent, now: float
    ) -> None:
        """A pod of a queued entity was edited: its gates are asked again.

        It may leave its wake-up group by that, whose first is to be tried for all of them.
        """
        self._now = now
        rests = entity.state is QueueState.UNSCHEDULABLE
        rests = rests and not self._unschedulable.awaits_first(entity)
        self._dequeue(entity)
        member.update(pod)
        entity.recheck_member(member)
        if not rests or self._open_questions or self._ask_of(event).may_help(entity, [pod]):
            self._enqueue(entity)
        elif refusals := self._requirements.unmet(entity):
            self._hold_back(entity, refusals)
        else:
            # It waits no longer than before: frequent edits must not put the attempt off for ever.
            set_rank(entity, self._share_of)
            self._wait_unschedulable(entity)

    def check_consistent(self) -> None:
        """Check that every entity is in exactly one part and has a way out of it.

        Raises:
            AssertionError: one is not, or has not.
        """
        timers = {(version, id(entity)) for _, version, entity in self._timers}
        waiting = {entity.key: entity for entity in self._unschedulable.entities()}
        check_parts(
            self._entities, self._active.entity_ids(), timers, waiting, self._gated.by_key()
        )
        self._unschedulable.check_consistent()
        self._gated.check_consistent()

    # --- inside ----------------------------------------------------------------------------

    def _enqueue(self, entity: QueuedEntity, *, yields: bool = False) -> None:
        """Queue an entity by its gates and its back-off."""
        self._dequeue(entity)
        self._entities[entity.key] = entity
        if refusals := self._requirements.unmet(entity):
            self._hold_back(entity, refusals)
        elif (due := self._config.backoff_ends(entity, yields=yields)) > self._now:
            self._wait_until(entity, due, QueueState.BACKOFF)
        else:
            self._push_active(entity)

    def _wake_first(self, key: Hashable, *, yields: bool = False) -> None:
        """Wake the first of a wake-up group; what has a nomination stands for itself."""
        while (entity := self._unschedulable.first(key, self._nominations)) is not None:
            self._enqueue(entity, yields=yields)
            entity.woken_from = key
            if entity.state is QueueState.BACKOFF and yields and not entity.broken_attempts:
                self._yielding.append((entity.heap_version, entity))
                return
            if entity.state is QueueState.ACTIVE:
                return

    def _end_yielding(self) -> None:
        """Others are to be tried, who might take the room: all go in order."""
        yielding, self._yielding = self._yielding, []
        for version, entity in yielding:
            if entity.heap_version == version:
                self.activate(entity)

    def _pass_on(self, entity: QueuedEntity) -> None:
        """An entity is not tried any more for those that it was woken with: the next one is."""
        key, entity.woken_from = entity.woken_from, None
        if key is not None:
            self._wake_first(key)

    def _hold_back(self, entity: QueuedEntity, refusals: Sequence[Status]) -> None:
        self._in_flight.end(entity)
        entity.state = QueueState.GATED
        entity.rejected_by = frozenset(refusal.plugin for refusal in refusals)
        entity.reason = refusals[0].message()
        self._gated.add(entity)

    def sort_key(self, entity: QueuedEntity) -> tuple[Any, ...]:
        """The entity's place in the order of its quota queue, smallest first."""
        set_rank(entity, self._share_of)
        return entity.rank

    def _push_active(self, entity: QueuedEntity) -> None:
        entity.state = QueueState.ACTIVE
        self._renew_version(entity)
        set_rank(entity, self._share_of)
        self._active.push(entity)

    def _wait_unschedulable(self, entity: QueuedEntity) -> None:
        due = entity.last_attempt + self._config.flush_after
        for retry_at in retry_times(entity):
            if entity.last_attempt < retry_at < due:
                due = retry_at
        self._wait_until(entity, due, QueueState.UNSCHEDULABLE)
        self._unschedulable.add(entity)

    def _wait_until(self, entity: QueuedEntity, due: float, state: QueueState) -> None:
        entity.state = state
        self._renew_version(entity)
        heapq.heappush(self._timers, (due, entity.heap_version, entity))

    def _renew_version(self, entity: QueuedEntity) -> None:
        """Number the entity's newest entry; entries with older numbers are void."""
        self._last_version += 1
        entity.heap_version = self._last_version

    def _dequeue(self, entity: QueuedEntity) -> None:
        """Take an entity out of its state; its entries in heaps become void."""
        state, entity.state, entity.heap_version = entity.state, QueueState.NOT_QUEUED, 0
        if state is QueueState.UNSCHEDULABLE:
            self._unschedulable.remove(entity)
        elif state is QueueState.GATED:
            self._gated.remove(entity)
        elif state in (QueueState.ACTIVE, QueueState.BACKOFF):
            self._pass_on(entity)
