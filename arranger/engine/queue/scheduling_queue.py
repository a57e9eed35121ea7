"""The scheduling queue: what to try next, and what wakes the rest.

Upstream: ``pkg/scheduler/backend/queue``. Nothing polls: an unschedulable entity is woken by an
event that one of the plugins that rejected it asked for, and failing that by a timer after
``flush_after`` (5 minutes), so that a missing hint costs time but never a pod.

Back-off keeps pods that fail again and again from taking attempts away from others. So while there
is nothing else to try, entities in back-off that an event has woken are tried before it ends, the
most important first (``SchedulerPopFromBackoffQ``). Only every second back-off of an entity is
skipped, since two that wake each other would be tried without end, and none that comes from an
error. Back-offs end at whole seconds, so that of those that end within one the most important goes
first as well.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import GANG, QueuedEntity, QueuedPod, QueueState
from arranger.engine.queue.heap import MultiQueueHeap
from arranger.engine.queue.job_shares import JobShares
from arranger.engine.queue.queue_order import FairShareOrder
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.runtime.plugin_errors import PluginFailureError, error_text, plugin_errors
from arranger.framework.status import Status

#: A gang that is bound in part is tried so often without a back-off.
_URGENT_ATTEMPTS: Final = 4
#: Seconds within which back-offs end together; less where they are shorter.
_BACKOFF_WINDOW: Final = 1.0


@dataclass(frozen=True, slots=True)
class SchedulingQueueConfig:
    """Times in seconds.

    Attributes:
        initial_backoff, max_backoff: wait after the first failed attempt, doubling up to the max.
        flush_after: the longest an unschedulable entity waits without being tried.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    flush_after: float = 300.0


class Gate(Protocol):
    """Holds gang groups back that cannot be placed yet."""

    def missing_requirement(self, entity: QueuedEntity) -> Status | None:
        """What the entity's gang group still lacks to be tried; None if it may be."""


class SchedulingQueue:
    """Entities that are not placed, by what they are waiting for.

    Attributes:
        event_count: how many cluster events there have been, so that others see whether they
            missed any.
    """

    def __init__(
        self, config: SchedulingQueueConfig, gate: Gate, order: FairShareOrder, shares: JobShares
    ) -> None:
        self._share_of = shares.share_of
        self._config = config
        self._gate = gate
        self._entities: dict[str, QueuedEntity] = {}
        self._active = MultiQueueHeap(QueueState.ACTIVE, order)
        #: In back-off, woken by an event, and to be tried when nothing else is.
        self._backoff_poppable = MultiQueueHeap(QueueState.BACKOFF, order)
        #: (when, heap version, entity) of back-offs and of waits for an event that end then.
        self._timers: list[tuple[float, int, QueuedEntity]] = []
        #: Unschedulable entities that the same events can help, asked once for all of them.
        self._unschedulable: dict[tuple[frozenset[str], Hashable], dict[str, QueuedEntity]] = {}
        self._gated: dict[str, QueuedEntity] = {}
        self._last_version = 0
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
        self._enqueue(entity, now)

    def add_unschedulable(
        self, entity: QueuedEntity, rejected_by: frozenset[str], now: float
    ) -> None:
        """Queue an entity that no node would take, until something helps."""
        self._dequeue(entity)
        self._entities[entity.key] = entity
        entity.last_attempt = now
        entity.rejected_by = rejected_by
        self._wait_unschedulable(entity)

    def requeue_with_backoff(self, entity: QueuedEntity, now: float) -> None:
        """Queue an entity whose attempt broke off: again when its back-off ends."""
        entity.last_attempt = now
        self.add(entity, now)

    def activate(self, entity: QueuedEntity) -> None:
        """Try an entity next, even if its back-off has not ended."""
        self._dequeue(entity)
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
        for entity in list(self._entities.values()):
            if entity.state is not QueueState.WAITING_FOR_EXTENDERS:
                self._enqueue(entity, now)

    def remove(self, entity: QueuedEntity) -> None:
        """Take an entity out for good."""
        self._dequeue(entity)
        self._entities.pop(entity.key, None)

    def pop(self) -> QueuedEntity | None:
        """The next entity to try, taken out: the first of the quota queue whose turn it is.

        One in back-off only if no other is to be tried.
        """
        entity, backoff_skipped = self._active.pop(), False
        if entity is None:
            entity, backoff_skipped = self._backoff_poppable.pop(), True
        if entity is None:
            return None
        del self._entities[entity.key]
        entity.state, entity.heap_version = QueueState.NOT_QUEUED, 0
        entity.backoff_skipped = backoff_skipped
        return entity

    # --- waking ----------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """End the back-offs and the waits for events that have lasted long enough."""
        while self._timers and self._timers[0][0] <= now:
            _, version, entity = heapq.heappop(self._timers)
            if entity.heap_version != version:
                continue
            if entity.state is QueueState.BACKOFF or self._backoff_ends(entity) <= now:
                self.activate(entity)
            else:
                self._dequeue(entity)
                self._wait_until(entity, self._backoff_ends(entity), QueueState.BACKOFF)

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to do."""
        while self._timers and self._timers[0][2].heap_version != self._timers[0][1]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    @property
    def ready(self) -> bool:
        """Whether :meth:`pop` has something to give."""
        heaps = (self._active, self._backoff_poppable)
        return any(heap.first_queue() is not None for heap in heaps)

    def wake(self, event: ClusterEvent, now: float, *, skip_backoff: bool = True) -> None:
        """Something has happened in the cluster: wake the entities that it may help.

        Upstream: ``MoveAllToActiveOrBackoffQueue``. ``skip_backoff`` lets them be tried before
        their back-offs end, if there is nothing else to try.
        """
        self.event_count += 1
        for group in [g for g in self._unschedulable if self._any_hint_matches(g, event)]:
            for entity in list(self._unschedulable[group].values()):
                self._enqueue(entity, now, poppable=skip_backoff and not entity.backoff_skipped)
        gated = list(self._gated.values())
        for entity in [e for e in gated if _hint_matches(e, _pods_to_help(e), event)]:
            self._enqueue(entity, now)

    def update(
        self, entity: QueuedEntity, member: QueuedPod, pod: PodInfo, event: ClusterEvent, now: float
    ) -> None:
        """A pod of a queued entity was edited: its gates are asked again."""
        state = entity.state
        self._dequeue(entity)
        member.update(pod)
        entity.recheck_member(member)
        if state is QueueState.UNSCHEDULABLE and not _hint_matches(entity, [pod], event):
            # It waits no longer than before: frequent edits must not put the attempt off for ever.
            self._wait_unschedulable(entity)
        else:
            woken = state is QueueState.UNSCHEDULABLE
            self._enqueue(entity, now, poppable=woken and not entity.backoff_skipped)

    def check_consistent(self) -> None:
        """Check that every entity is in exactly one part and has a way out of it.

        Raises:
            AssertionError: one is not, or has not.
        """
        timers = {(version, id(entity)) for _, version, entity in self._timers}
        active = self._active.entity_ids()
        unschedulable = {
            key: e for group in self._unschedulable.values() for key, e in group.items()
        }
        for key, entity in self._entities.items():
            entry = (entity.heap_version, id(entity))
            assert entity.key == key, f"{entity} is filed under {key}"
            assert entity.members, f"{entity} is empty"
            assert entity.state is not QueueState.NOT_QUEUED, f"{entity} is in no part"
            if entity.state is QueueState.ACTIVE:
                assert id(entity) in active, f"{entity} is not in the heap"
            if entity.state not in (QueueState.ACTIVE, QueueState.GATED):
                assert entry in timers, f"{entity} has no future wake-up"
            rests = entity.state is QueueState.UNSCHEDULABLE
            assert rests == (key in unschedulable), f"{entity} resting"
            assert (entity.state is QueueState.GATED) == (key in self._gated), f"{entity} gated"
        assert all(self._unschedulable.values()), "an empty group of resting entities"
        assert unschedulable.keys() | self._gated.keys() <= self._entities.keys(), "a ghost"

    # --- inside ----------------------------------------------------------------------------

    def _enqueue(self, entity: QueuedEntity, now: float, *, poppable: bool = False) -> None:
        """Queue an entity by its gates and its back-off, which ``poppable`` allows to skip."""
        self._dequeue(entity)
        self._entities[entity.key] = entity
        refusals = self._requirements(entity)
        if refusals:
            self._hold_back(entity, refusals)
        elif (due := self._backoff_ends(entity)) > now:
            self._wait_until(entity, due, QueueState.BACKOFF)
            if poppable:
                self._backoff_poppable.push(self.sort_key(entity), entity)
        else:
            self._push_active(entity)

    def _hold_back(self, entity: QueuedEntity, refusals: Sequence[Status]) -> None:
        entity.state = QueueState.GATED
        entity.rejected_by = frozenset(refusal.plugin for refusal in refusals)
        entity.reason = refusals[0].message()
        self._gated[entity.key] = entity

    def _requirements(self, entity: QueuedEntity) -> list[Status]:
        """What holds the entity back: first what its gang lacks, then PreEnqueue plugins."""
        entity.plugin_error = ""
        refusals: list[Status] = []
        for member in entity.unchecked():
            try:
                refusal = self._run_pre_enqueue(member)
            except PluginFailureError as error:
                entity.plugin_error = str(error)
                return []
            if refusal is None:
                entity.mark_ready(member)
            else:
                refusals.append(refusal)
        if entity.group is None:
            return refusals
        lacking = self._gate.missing_requirement(entity)
        return [] if lacking is None else [lacking, *refusals]

    def _run_pre_enqueue(self, member: QueuedPod) -> Status | None:
        for plugin in member.profile.plugins_at("pre_enqueue"):
            with plugin_errors(plugin.name, "PreEnqueue"):
                answer = plugin.pre_enqueue(member.pod)
            if answer is not None and answer.rejected:
                return Status(answer.code, answer.reasons, plugin.name)
        return None

    def _any_hint_matches(
        self, group: tuple[frozenset[str], Hashable], event: ClusterEvent
    ) -> bool:
        entity = next(iter(self._unschedulable[group].values()))
        return _hint_matches(entity, _pods_to_help(entity), event)

    def _backoff_ends(self, entity: QueuedEntity) -> float:
        # Others must not take the nodes that a gang bound in part needs.
        if entity.attempts < (_URGENT_ATTEMPTS if entity.urgent else 1):
            return entity.last_attempt
        config = self._config
        # 2**62 is far beyond any maximum; a larger shift would only build a huge integer.
        grown = config.initial_backoff * 2.0 ** min(entity.attempts - 1, 62)
        window = min(_BACKOFF_WINDOW, config.initial_backoff)
        return (entity.last_attempt + min(grown, config.max_backoff)) // window * window

    def sort_key(self, entity: QueuedEntity) -> tuple[Any, ...]:
        """The entity's place in the order of the queue, smallest first.

        Gangs bound in part come first; what a QueueSort plugin raised on comes last, where
        it meets nobody it cannot be compared with.
        """
        plugin = entity.profile.queue_sort
        try:
            return (0 if entity.urgent else 1, plugin.sort_key(entity.sort_input(self._share_of)))
        except Exception as error:
            entity.plugin_error = error_text(plugin.name, "QueueSort", error)
            return (2,)

    def _push_active(self, entity: QueuedEntity) -> None:
        entity.state = QueueState.ACTIVE
        self._renew_version(entity)
        self._active.push(self.sort_key(entity), entity)

    def _wait_unschedulable(self, entity: QueuedEntity) -> None:
        due = entity.last_attempt + self._config.flush_after
        self._wait_until(entity, due, QueueState.UNSCHEDULABLE)
        self._unschedulable.setdefault(_hint_group(entity), {})[entity.key] = entity

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
        if entity.state is QueueState.UNSCHEDULABLE:
            group = self._unschedulable[_hint_group(entity)]
            del group[entity.key]
            if not group:
                del self._unschedulable[_hint_group(entity)]
        elif entity.state is QueueState.GATED:
            del self._gated[entity.key]
        entity.state = QueueState.NOT_QUEUED
        entity.heap_version = 0


def _hint_group(entity: QueuedEntity) -> tuple[frozenset[str], Hashable]:
    return entity.rejected_by, entity.wakeup_group


def _pods_to_help(entity: QueuedEntity) -> Sequence[PodInfo]:
    """The pods that an event would have to help."""
    return entity.blockers if entity.group and entity.blockers else [entity.representative.pod]


def _hint_matches(entity: QueuedEntity, pods: Sequence[PodInfo], event: ClusterEvent) -> bool:
    """Whether a plugin that rejected the entity asked for such an event."""
    if not entity.rejected_by:
        return True
    if ActionType.EVICTION_RULES in event.action_type and entity.rejected_by != {GANG}:
        return True
    if entity.group is not None and event.could_fit is not None:
        event = replace(event, could_fit=None)  # where one member fits, another may leave its node
    for name in entity.rejected_by:
        if name == GANG:
            continue  # its own members and PodGroups wake a gang, no event of the cluster
        plugin = entity.profile.by_name.get(name)
        if plugin is None or any(
            wake.matches(pod, event) for wake in plugin.queueing_hints for pod in pods
        ):
            return True
    return False
