"""Has pods of others leave the nodes of Reservations that say so, when their windows open.

Who has asked for time to save its state is told so long before. Everything is worked out anew from
the objects, so nothing is lost with the process.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

from arranger.api import event_reasons
from arranger.api.annotations import CHECKPOINT_BEFORE_EVICTION, CONFIG_MIRROR
from arranger.api.effects import (
    Ambiguous,
    Applied,
    DeletePod,
    Effect,
    Eviction,
    Outcome,
    PatchPodStatus,
)
from arranger.api.settings.checkpoints import checkpoint_time
from arranger.api.settings.reservation_windows import Window
from arranger.api.types.core import Pod
from arranger.api.types.reservation import ReservationSpec
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.context.deadlines import DeadlineSet
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.eviction_listener import EvictionListener
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.context.spared_pods import SparedPods
from arranger.engine.evictions import texts
from arranger.engine.evictions.notices import KnownEnds
from arranger.engine.reservations.book import ReservationBook
from arranger.engine.reservations.entry import Entry
from arranger.engine.reservations.room_victims import RoomVictims

#: Seconds until a pod is told or deleted again where that was refused.
RETRY_AFTER: Final = 10.0
#: The reason of these evictions, for the log.
RESERVED: Final = "reservation"
#: Why a pod stays after a notice.
_NOT_RESERVED: Final = "no Reservation has it leave its node any more: it stays"
#: From this priority on pods are system-critical: these run for the node itself.
_SYSTEM_CRITICAL: Final = 2_000_000_000
#: Units of one step, each about a microsecond: to look at a pod, at a Reservation of its node, and
#: to tell it or to delete it.
_UNITS_IN_A_STEP: Final = 20_000
_LOOKING: Final = 10
_ASKING: Final = 2
_SENDING: Final = 50
#: Of each Reservation that evicts, or has a part of a node beside one that does, its name, its
#: spec and its rows; and the nodes of those that evict, with what they offer: who is in the way of
#: a part depends on all that.
_Said = tuple[tuple[tuple[str, ReservationSpec, bytes], ...], tuple[tuple[int, str, bytes], ...]]


@dataclass(slots=True, eq=False)
class ReservationEvictions:
    """Knows when pods must leave reserved nodes, tells them, and sends the deletes.

    Args:
        schedulers: whose pods are ours; others' are left alone.
        ends: says when pods end by their limits.
        spared: of whom it may not be known whether they are users.
        leaving: uids of pods that are being evicted, until they are gone.
        maximum: the most time that a pod is given, in seconds; 0: nobody is given any.
    """

    _context: EngineContext
    _schedulers: Collection[str]
    _book: ReservationBook
    _effects: PendingEffects
    _leaving: set[str]
    _listener: EvictionListener
    _maximum: float
    _ends: KnownEnds
    _spared: SparedPods
    _victims: RoomVictims = field(init=False)
    #: Pods by uid, with the time at which they are looked at, in seconds since 1970.
    _moments: DeadlineSet = field(default_factory=DeadlineSet, init=False)
    #: Pods to be looked at now.
    _unseen: deque[str] = field(default_factory=deque, init=False)
    #: Pods that are being deleted.
    _ending: set[str] = field(default_factory=set, init=False)
    #: Pods that have notice, from us or from an earlier run of ours.
    _told: set[str] = field(default_factory=set, init=False)
    #: The nodes that pods have to leave at some time.
    _nodes: frozenset[str] = field(default=frozenset(), init=False)
    #: In what state of the book that was looked at, and what it said.
    _seen: Hashable = field(default=None, init=False)
    _said: _Said = field(default=((), ()), init=False)
    #: Who the users are as of when all were looked at last, and when they may be looked at again,
    #: in the engine's clock.
    _users: Hashable = field(default=None, init=False)
    _users_due: float = field(default=0.0, init=False)
    #: Row → the Reservations that evict from it, of those whose pods have been looked at.
    _evicting_on: dict[int, Sequence[Entry]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._victims = RoomVictims(
            self._context.cluster,
            self._book.is_user,
            lambda pod: self._concerns(pod.pod),
            self._ends.end_of,
        )

    def observe(self, pod: PodInfo) -> None:
        """A pod is on a node, or was edited there."""
        self._book.room.observe(pod)
        said = pod.pod
        asks = CHECKPOINT_BEFORE_EVICTION in said.metadata.annotations
        if asks and texts.notice_of(said, event_reasons.NODE_RESERVED) is not None:
            self._told.add(pod.uid)
            self._unseen.append(pod.uid)
        elif said.spec.node_name in self._nodes:
            if texts.is_withdrawn(said):
                self._told.discard(pod.uid)  # by who had told it meanwhile to leave for a pod
            self._unseen.append(pod.uid)
            self._look_at_neighbours(said.spec.node_name)

    def forget(self, uid: str) -> None:
        """A pod has ended, or is gone."""
        self._moments.cancel(uid)
        self._ending.discard(uid)
        self._told.discard(uid)

    def advance(self, now: float) -> None:
        """Tell those whose time comes, and delete those for whom it has come."""
        self._follow_book()
        self._follow_users(now)
        if not self._unseen and not self._moments:
            return
        self._unseen.extend(self._moments.pop_due(self._context.unix_now))
        left = _UNITS_IN_A_STEP
        while self._unseen and left > 0:
            left -= self._look(self._unseen.popleft())

    def next_timer(self) -> float | None:
        """When something will be due, in the engine's clock."""
        clock, due = self._context.clock, self._moments.next_deadline()
        if self._unseen:
            return clock.now
        times = [] if due is None else [clock.from_unix_time(due, clock.now)]
        if self._nodes and self._users != self._book.users_version:
            times.append(max(self._users_due, clock.now))
        return min(times, default=None)

    def on_outcome(self, effect: Effect, outcome: Outcome, subject: PodInfo, now: float) -> None:
        """The outcome of a notice or of a delete; what is refused is tried again after a while."""
        uid = subject.uid
        if isinstance(effect, PatchPodStatus):
            if isinstance(outcome, Ambiguous | Applied) or uid not in self._told:
                return
            self._told.discard(uid)
        else:
            assert isinstance(effect, DeletePod), f"{effect} evicts no pod"
            # Who was set aside meanwhile is not ending for us, but leaving for all.
            if isinstance(outcome, Ambiguous | Applied) or uid not in self._leaving:
                return
            self._ending.discard(uid)
            self._leaving.discard(uid)
            self._listener.on_eviction_failed(uid)
        self._moments.schedule(uid, self._context.unix_now + RETRY_AFTER)

    # --- inside ------------------------------------------------------------------------------

    def _follow_book(self) -> None:
        """Reservations say otherwise, or nodes do: all pods that it may concern are looked at."""
        entries = self._book.evicting
        if self._book.state == self._seen:
            return
        self._seen, self._evicting_on = self._book.state, {}
        table = self._context.cluster.table
        rows = (
            reduce(or_, (entry.rows for entry in entries)).nonzero()[0].tolist() if entries else ()
        )
        counted = [*entries, *self._book.room.beside(entries)]
        said = (
            tuple((each.name, each.spec, each.rows.nonzero()[0].tobytes()) for each in counted),
            tuple((row, table.name(row), table.allocatable[:, row].tobytes()) for row in rows),
        )
        if said == self._said:
            return
        self._said, self._nodes = said, frozenset(name for _, name, _ in said[1])
        self._moments = DeadlineSet()
        self._look_at_all()

    def _follow_users(self, now: float) -> None:
        """Pods are in other queues, say, though they were not edited. Tenants' PodGroups have their
        part in that, so that all are looked at only so often."""
        users = self._book.users_version
        if users != self._users and (now >= self._users_due or not self._nodes):
            self._users, self._users_due = users, now + RETRY_AFTER
            self._look_at_all()

    def _look_at_all(self) -> None:
        table = self._context.cluster.table
        there = {uid for row in table.rows(self._nodes) for uid in table.pods[row]}
        self._unseen = deque(sorted(there | self._told))

    def _look_at_neighbours(self, node: str) -> None:
        """Where a part of a node is reserved, a pod there may have come to be in the way."""
        table = self._context.cluster.table
        row = table.index.get(node)
        if row is None or not any(each.part and each.rows[row] for each in self._book.evicting):
            return
        for uid in table.pods[row]:
            self._moments.schedule(uid, self._context.unix_now + RETRY_AFTER)

    def _look(self, uid: str) -> int:
        """See to it that a pod is told or deleted when that is due, and stays if nothing is.

        Returns how many units that takes.
        """
        pod, now = self._context.cluster.pod(uid), self._context.unix_now
        self._moments.cancel(uid)
        if pod is None or uid in self._ending or not self._concerns(pod.pod):
            return 1
        if uid in self._leaving or self._spared.spares(pod):
            self._moments.schedule(uid, now + RETRY_AFTER)  # evicted already, unless that fails
            return 1
        seconds = self._time_for(pod.pod)
        has_notice, moments, units = False, list[float](), _LOOKING
        for entry, window in self._windows_of(pod, now):
            units += _ASKING
            if self._book.is_user(entry, pod):
                moments += [window.start] if window.start > now else []
            elif not self._must_leave(entry, window, pod, now):
                moments.append(self._next_look(entry, window, pod, now))
            elif window.start <= now:
                self._evict(pod, entry, window)
                return units + _SENDING
            elif seconds and window.start - seconds <= now:
                has_notice = True
                moments.append(window.start)
                if uid not in self._told:
                    self._tell(pod, entry, window)
                    units += _SENDING
            else:
                moments.append(window.start - seconds)
        if moments:
            self._moments.schedule(uid, min(moments))
        if uid in self._told and not has_notice:
            self._told.discard(uid)
            self._context.outbox.extend(texts.withdrawn(pod.pod, _NOT_RESERVED))
        return units

    def _windows_of(self, pod: PodInfo, now: float) -> Iterator[tuple[Entry, Window]]:
        """The Reservations of a pod's node that evict, with the window that holds or comes next."""
        cluster = self._context.cluster
        row = cluster.table.index.get(cluster.node_of(pod.uid) or "")
        if row is None:
            return
        if (entries := self._evicting_on.get(row)) is None:
            entries = [entry for entry in self._book.evicting if entry.rows[row]]
            self._evicting_on[row] = entries
        for entry in entries:
            if (window := entry.windows.at(now)) is not None:
                yield entry, window

    def _concerns(self, pod: Pod) -> bool:
        """Whether a pod is one that we may ask to leave."""
        meta = pod.metadata
        return (
            pod.spec.scheduler_name in self._schedulers
            and not self._context.is_leaving(pod)
            and CONFIG_MIRROR not in meta.annotations
            and (pod.spec.priority or 0) < _SYSTEM_CRITICAL
            and not any(owner.kind == "DaemonSet" for owner in meta.owner_references)
        )

    def _must_leave(self, entry: Entry, window: Window, pod: PodInfo, now: float) -> bool:
        """Whether a pod of others is in the way when a window opens, or is now in it.

        Where a part of a node is reserved, those stay who take nothing of it. Who has to end by
        the start may be a moment late.
        """
        if not entry.part:
            return True
        row = self._context.cluster.table.index[self._node_of(pod)]
        late = now >= window.start + RETRY_AFTER
        entries = self._book.room.kept_with(entry, row, max(now, window.start))
        return pod.uid in self._victims.on_row(
            entries, row, -math.inf if late else window.start, self._is_left_out
        )

    def _next_look(self, entry: Entry, window: Window, pod: PodInfo, now: float) -> float:
        """When it is looked again whether a pod is in the way of a window that was not: others may
        have parts of the node from a later moment on."""
        if now < window.start:
            return window.start
        row = self._context.cluster.table.index[self._node_of(pod)]
        late = window.start + RETRY_AFTER
        edge = self._book.room.next_edge_beside(entry, row, now)
        return min(late if now < late else window.end, edge)

    def _is_left_out(self, pod: PodInfo) -> bool:
        """Whether a pod leaves already, or it is not known whether it has to."""
        leaving = pod.uid in self._leaving or self._context.is_leaving(pod.pod)
        return leaving or self._spared.spares(pod)

    def _time_for(self, pod: Pod) -> int:
        """How long before its eviction a pod is told, in whole seconds."""
        if CHECKPOINT_BEFORE_EVICTION not in pod.metadata.annotations:
            return 0
        if pod.status.start_time is None:
            return 0  # it has nothing to save
        return math.ceil(min(checkpoint_time(pod), self._maximum))

    def _tell(self, pod: PodInfo, entry: Entry, window: Window) -> None:
        said = texts.for_reservation(self._node_of(pod), entry.name, window.start)
        notice = texts.condition(pod.pod, said, event_reasons.NODE_RESERVED)
        self._told.add(pod.uid)
        self._effects.send(notice, self, pod)
        self._context.outbox.extend(texts.told(pod.pod, said, window.start))

    def _evict(self, pod: PodInfo, entry: Entry, window: Window) -> None:
        text = entry.reason(window, self._context.unix_now).removeprefix("node(s) ")
        condition = pod_events.reserved_condition(pod.pod, text)
        eviction = Eviction(self._node_of(pod), RESERVED)
        delete = self._context.deletion(pod.pod, condition, eviction)
        self._context.outbox.append(pod_events.node_reserved(pod.pod, text))
        self._ending.add(pod.uid)
        self._leaving.add(pod.uid)
        self._effects.send(delete, self, pod)
        self._listener.on_evicted(pod)

    def _node_of(self, pod: PodInfo) -> str:
        return self._context.cluster.node_of(pod.uid) or pod.pod.spec.node_name
