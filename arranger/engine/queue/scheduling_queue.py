"""The scheduling queue: what to try next, and what wakes the rest.

Upstream: ``pkg/scheduler/backend/queue``. Nothing polls: an unschedulable entity is woken by an
event that one of the plugins that rejected it asked for, and failing that by a timer after
``flush_after`` (5 minutes), so that a missing hint costs time but never a pod.

A back-off spares others the attempts of who fails again and again. So while there is nothing else
to try, those that an event has woken do not wait for its end, the most important first
(``SchedulerPopFromBackoffQ``); but only every second back-off of an entity is cut short, lest two
that wake each other never rest, and none that comes from an error. Back-offs end by whole seconds,
so that of those that end within one the most important goes first as well.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import GANG, Entity, Part
from arranger.engine.queue.heap import LaneHeap, Lanes
from arranger.engine.queued_pod import Member
from arranger.framework.cluster_event import ClusterEvent, EventKind
from arranger.framework.runtime.plugin_errors import PluginFailureError, failure, running
from arranger.framework.status import Status

#: A half-bound gang is tried so often without a pause.
_URGENT_TRIES: Final = 4
#: Seconds within which back-offs end together; less where they are shorter.
_WINDOW: Final = 1.0


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Times in seconds.

    Attributes:
        initial_backoff, max_backoff: wait after the first failed attempt, doubling up to the max.
        flush_after: the longest an unschedulable entity rests without being tried.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    flush_after: float = 300.0


def _no_share(entity: Entity) -> float:
    del entity
    return 0.0


class SchedulingQueue:
    """Entities that are not placed, by what they are waiting for."""

    def __init__(
        self,
        settings: QueueSettings,
        gang_gate: Callable[[Entity], Status | None],
        lanes: Lanes | None = None,
        share_of: Callable[[Entity], float] = _no_share,
    ) -> None:
        """``gang_gate`` says what an entity's gang still lacks to be tried.

        ``share_of`` says how much of the cluster an entity asks for.
        """
        self._share_of = share_of
        lanes = lanes or Lanes()
        self._settings = settings
        self._gang_gate = gang_gate
        self._entities: dict[str, Entity] = {}
        self._active = LaneHeap(Part.ACTIVE, lanes)
        #: In back-off, woken by an event, and to be tried when nothing else is.
        self._eager = LaneHeap(Part.BACKOFF, lanes)
        #: (when, ticket, entity) of back-offs that end and rests that have lasted too long.
        self._timers: list[tuple[float, int, Entity]] = []
        #: Unschedulable entities that the same events can help, asked once for all of them.
        self._resting: dict[tuple[frozenset[str], Hashable], dict[str, Entity]] = {}
        self._gated: dict[str, Entity] = {}
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._entities)

    def __contains__(self, key: object) -> bool:
        return key in self._entities

    def entities(self) -> Iterator[Entity]:
        """Everything in the queue."""
        return iter(self._entities.values())

    def count(self) -> dict[Part, int]:
        """How many are in each part."""
        counts: dict[Part, int] = {part: 0 for part in Part if part is not Part.OUT}
        for entity in self._entities.values():
            counts[entity.part] += 1
        return counts

    # --- in and out ------------------------------------------------------------------------

    def add(self, entity: Entity, now: float) -> None:
        """Queue an entity that is new, or whose gates may have changed."""
        self._enter(entity, now)

    def rest(self, entity: Entity, rejected_by: frozenset[str], now: float) -> None:
        """Put back an entity that no node would take, until something helps."""
        self._leave(entity)
        self._entities[entity.key] = entity
        entity.last_attempt = now
        entity.rejected_by = rejected_by
        self._rest(entity)

    def retry(self, entity: Entity, now: float) -> None:
        """Put back an entity whose attempt broke off: again when its back-off ends."""
        entity.last_attempt = now
        self.add(entity, now)

    def hurry(self, entity: Entity) -> None:
        """Try an entity next, its back-off notwithstanding."""
        self._leave(entity)
        self._activate(entity)

    def set_aside(self, entity: Entity, until: float) -> None:
        """Keep an entity that waits for an answer: nothing else wakes it, and nothing later."""
        self._leave(entity)
        self._entities[entity.key] = entity
        self._wait_until(entity, until, Part.CONSULTING)

    def remove(self, entity: Entity) -> None:
        """Take an entity out for good."""
        self._leave(entity)
        self._entities.pop(entity.key, None)

    def pop(self) -> Entity | None:
        """The next entity to try, taken out of the queue: the first of the lane that is first.

        Of those in back-off only where no other is to be tried.
        """
        entity = self._active.pop()
        cut_short = entity is None
        if entity is None:
            entity = self._eager.pop()
        if entity is None:
            return None
        del self._entities[entity.key]
        entity.part, entity.ticket, entity.cut_short = Part.OUT, 0, cut_short
        return entity

    # --- waking ----------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """End the back-offs and rests that are over."""
        while self._timers and self._timers[0][0] <= now:
            _, ticket, entity = heapq.heappop(self._timers)
            if entity.ticket != ticket:
                continue
            if entity.part is Part.BACKOFF or self._backoff_ends(entity) <= now:
                self._leave(entity)
                self._activate(entity)
            else:
                self._leave(entity)
                self._wait_until(entity, self._backoff_ends(entity), Part.BACKOFF)

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to do."""
        while self._timers and self._timers[0][2].ticket != self._timers[0][1]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    @property
    def ready(self) -> bool:
        """Whether :meth:`pop` has something to give."""
        return self._active.first() is not None or self._eager.first() is not None

    def happened(self, event: ClusterEvent, now: float, *, urgent: bool = True) -> None:
        """Wake the entities that ``event`` may help, cutting back-offs short if that is urgent."""
        for group in [g for g in self._resting if self._asks_for(g, event)]:
            for entity in list(self._resting[group].values()):
                self._enter(entity, now, eager=urgent and not entity.cut_short)
        for entity in [e for e in self._gated.values() if _wakes(e, _waiters(e), event)]:
            self.add(entity, now)

    def updated(
        self, entity: Entity, member: Member, pod: PodInfo, event: ClusterEvent, now: float
    ) -> None:
        """A pod of a queued entity was edited: judge it by its new self."""
        part = entity.part
        self._leave(entity)
        member.update(pod)
        entity.edited(member)
        if part is Part.UNSCHEDULABLE and not _wakes(entity, [pod], event):
            # Not a moment longer than before: whoever edits often must not put it off for ever.
            self._rest(entity)
        else:
            woken = part is Part.UNSCHEDULABLE
            self._enter(entity, now, eager=woken and not entity.cut_short)

    def check_consistent(self) -> None:
        """Check that every entity is in exactly one part and has a way out of it.

        Raises:
            AssertionError: one is not, or has not.
        """
        timers = {(ticket, id(entity)) for _, ticket, entity in self._timers}
        active = self._active.holds()
        resting = {key: e for group in self._resting.values() for key, e in group.items()}
        for key, entity in self._entities.items():
            ticket = (entity.ticket, id(entity))
            assert entity.key == key, f"{entity} is filed under {key}"
            assert entity.members, f"{entity} is empty"
            assert entity.part is not Part.OUT, f"{entity} is in no part"
            if entity.part is Part.ACTIVE:
                assert id(entity) in active, f"{entity} is not in the heap"
            if entity.part in (Part.BACKOFF, Part.UNSCHEDULABLE, Part.CONSULTING):
                assert ticket in timers, f"{entity} has no future wake-up"
            assert (entity.part is Part.UNSCHEDULABLE) == (key in resting), f"{entity} resting"
            assert (entity.part is Part.GATED) == (key in self._gated), f"{entity} gated"
        assert all(self._resting.values()), "an empty group of resting entities"
        assert resting.keys() | self._gated.keys() <= self._entities.keys(), "a ghost"

    # --- inside ----------------------------------------------------------------------------

    def _enter(self, entity: Entity, now: float, *, eager: bool = False) -> None:
        """``eager`` says that its back-off may be cut short."""
        self._leave(entity)
        self._entities[entity.key] = entity
        refusals = self._refused_entry(entity)
        if refusals:
            entity.part = Part.GATED
            entity.rejected_by = frozenset(refusal.plugin for refusal in refusals)
            entity.reason = refusals[0].message()
            self._gated[entity.key] = entity
        elif (due := self._backoff_ends(entity)) > now:
            self._wait_until(entity, due, Part.BACKOFF)
            if eager:
                self._eager.push(self.rank(entity), entity)
        else:
            self._activate(entity)

    def _refused_entry(self, entity: Entity) -> list[Status]:
        """Who holds the entity back: what its gang lacks comes first, then PreEnqueue plugins."""
        entity.broken = ""
        refusals: list[Status] = []
        for member in entity.unadmitted():
            try:
                refusal = self._refused(member)
            except PluginFailureError as error:
                entity.broken = str(error)
                return []
            if refusal is None:
                entity.admit(member)
            else:
                refusals.append(refusal)
        if entity.group is None:
            return refusals
        lacking = self._gang_gate(entity)
        return [] if lacking is None else [lacking, *refusals]

    def _refused(self, member: Member) -> Status | None:
        for plugin in member.profile.at("pre_enqueue"):
            with running(plugin, "PreEnqueue"):
                answer = plugin.pre_enqueue(member.pod)
            if answer is not None and answer.rejected:
                return Status(answer.code, answer.reasons, plugin.name)
        return None

    def _asks_for(self, group: tuple[frozenset[str], Hashable], event: ClusterEvent) -> bool:
        entity = next(iter(self._resting[group].values()))
        return _wakes(entity, _waiters(entity), event)

    def _backoff_ends(self, entity: Entity) -> float:
        # Others must not slip into the room that a half-bound gang needs.
        if entity.attempts < (_URGENT_TRIES if entity.urgent else 1):
            return entity.last_attempt
        settings = self._settings
        # 2**62 is far beyond any maximum; a larger shift would only build a huge integer.
        grown = settings.initial_backoff * 2.0 ** min(entity.attempts - 1, 62)
        window = min(_WINDOW, settings.initial_backoff)
        return (entity.last_attempt + min(grown, settings.max_backoff)) // window * window

    def rank(self, entity: Entity) -> tuple[Any, ...]:
        """The entity's place in the order of the queue, smallest first.

        What half-bound gangs need comes first; what a QueueSort plugin broke on comes last, where
        it meets nobody it cannot be compared with.
        """
        plugin = entity.profile.queue_sort
        try:
            return (0 if entity.urgent else 1, plugin.sort_key(entity.sorted_as(self._share_of)))
        except Exception as error:
            entity.broken = failure(plugin, "QueueSort", error)
            return (2,)

    def _activate(self, entity: Entity) -> None:
        entity.part = Part.ACTIVE
        self._stamp(entity)
        self._active.push(self.rank(entity), entity)

    def _rest(self, entity: Entity) -> None:
        due = entity.last_attempt + self._settings.flush_after
        self._wait_until(entity, due, Part.UNSCHEDULABLE)
        self._resting.setdefault(_group(entity), {})[entity.key] = entity

    def _wait_until(self, entity: Entity, due: float, part: Part) -> None:
        entity.part = part
        self._stamp(entity)
        heapq.heappush(self._timers, (due, entity.ticket, entity))

    def _stamp(self, entity: Entity) -> None:
        """Number the entity's newest entry; entries with older numbers are void."""
        self._tickets += 1
        entity.ticket = self._tickets

    def _leave(self, entity: Entity) -> None:
        """Take an entity out of its part, by voiding its ticket."""
        if entity.part is Part.UNSCHEDULABLE:
            group = self._resting[_group(entity)]
            del group[entity.key]
            if not group:
                del self._resting[_group(entity)]
        elif entity.part is Part.GATED:
            del self._gated[entity.key]
        entity.part = Part.OUT
        entity.ticket = 0


def _group(entity: Entity) -> tuple[frozenset[str], Hashable]:
    return entity.rejected_by, entity.kin


def _waiters(entity: Entity) -> Sequence[PodInfo]:
    """The pods that an event would have to help."""
    return entity.blockers if entity.group and entity.blockers else [entity.lead.pod]


def _wakes(entity: Entity, pods: Sequence[PodInfo], event: ClusterEvent) -> bool:
    """Whether a plugin that rejected the entity asked for such an event."""
    if not entity.rejected_by:
        return True
    if entity.group is not None and event.room is not None:
        event = replace(event, room=None)  # one member may make room for another elsewhere
    for name in entity.rejected_by:
        if name == GANG:
            continue  # its own members and PodGroups wake a gang, no event of the cluster
        plugin = entity.profile.by_name.get(name)
        if plugin is None or any(wake.fits(pod, event) for wake in plugin.wake_on for pod in pods):
            return True
    return False


__all__ = ["ClusterEvent", "EventKind", "QueueSettings", "SchedulingQueue"]
