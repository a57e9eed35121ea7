"""All Reservations: which nodes they keep a pod away from at a moment, and when that changes.

Nothing of this may be remembered with what plugins say of a class of pods: it changes with time,
and with how long each pod may run. So it is asked at every attempt, as rows that are left.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from itertools import islice
from operator import and_
from typing import Final, Protocol

import numpy as np

from arranger.api.annotations import RESERVATION
from arranger.api.parsing.errors import ParseError, shown
from arranger.api.settings.reservation_windows import Window
from arranger.api.types.reservation import Reservation, ReservationStatus
from arranger.backfill.planner import ClosedRows
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.context.rejecters import KEPT_NODES, KEPT_ROOM
from arranger.engine.evictions.notices import Gangs
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.reservations.entry import Entry, read_entry, shown_time
from arranger.engine.reservations.kept_room import KeptRoom, requests_of
from arranger.engine.reservations.reserved_rows import NodeCards, ReservedRows
from arranger.engine.reservations.status import StatusWriter, status_of
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code
from arranger.quota.ledger import QuotaLedger
from arranger.quota.queue_spec import QueueQuota

#: Reservations that are looked at, the oldest first; more cost every attempt, and say so.
MAX_RESERVATIONS: Final = 200
#: Windows of all Reservations together that are looked at for one planned start, the next first;
#: of each Reservation two at least.
MAX_PLANNED_WINDOWS: Final = 24
_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


class Queues(Protocol):
    """Knows which queue a pod is in, and what that is part of."""

    @property
    def facts_version(self) -> int:
        """Another number whenever pods may be in other queues, though they were not edited."""

    def queue_name(self, pod: PodInfo) -> str:
        """The queue of a pod: the default queue for one that names what it may not use."""

    def path_self_to_root(self, name: str) -> Iterator[QueueQuota]:
        """A queue and its ancestors; nothing if there is no such queue."""


class Limits(Protocol):
    """Knows how long pods may run."""

    def limit_of(self, pod: PodInfo) -> float | None:
        """How long a pod may run once it has started, in seconds; None if for ever."""


@dataclass(slots=True, eq=False)
class ReservationBook:
    """What Reservations say, from the objects and nothing else.

    Attributes:
        problems: name → why a Reservation reserves nothing.
        statuses: writes how they stand.
        room: what they keep on nodes of which they have a part.
    """

    _context: EngineContext
    _queue: SchedulingQueue
    _queues: Queues
    _limits: Limits
    _cards: NodeCards
    statuses: StatusWriter
    _gangs: Gangs
    _planned_room: PlannedRoom
    room: KeptRoom = field(init=False)
    problems: Mapping[str, str] = field(default_factory=dict, init=False)
    _entries: Mapping[str, Entry] = field(default_factory=dict, init=False)
    _evicting: Sequence[Entry] = field(default=(), init=False)
    #: In what state of objects and nodes the entries were made.
    _read_at: Hashable = field(default=None, init=False)
    #: All Reservations, the oldest first, and in which version.
    _stored: Sequence[Reservation] = field(default=(), init=False)
    _stored_version: int | None = field(default=None, init=False)
    #: In what state the statuses were looked at last.
    _told_at: Hashable = field(default=None, init=False)
    #: Name → the window that counted when it was looked at last.
    _seen: Mapping[str, tuple[float, float, bool]] = field(default_factory=dict, init=False)
    #: When pods are placed as if they started then; None for now.
    _as_of: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.room = KeptRoom(self._context.cluster, self.is_user, lambda: self.users_version)

    def row_masks(self, member: QueuedPod, *, there: bool = False) -> Sequence[RowMask]:
        """What Reservations leave to a pod that would start now; nothing if that is all.

        ``there``: it is on the row in question already, and counted.
        """
        now = self._context.unix_now if self._as_of is None else self._as_of
        masks = self._masks_at(member, now)
        if self.room:
            masks = [*masks, *self._room_masks(member, now, there=there)]
        return masks

    def kept_from(self, member: QueuedPod) -> Iterator[tuple[str, Window, float]]:
        """Each Reservation that keeps nodes from a pod which would start now.

        Its name, its window, and in how many seconds that opens: 0 if it holds.
        """
        self._refresh()
        now, lasts = self._context.unix_now, self._limits.limit_of(member.pod)
        for name, entry in self._entries.items():
            window = entry.window_for(now, lasts)
            if window is not None and not self.is_user(entry, member.pod):
                yield name, window, max(window.start - now, 0.0)

    @property
    def version(self) -> int:
        """Another number whenever Reservations have changed."""
        return self._context.cluster.objects.reservation_version

    @property
    def keeps_any(self) -> bool:
        """Whether any Reservation counts."""
        self._refresh()
        return bool(self._entries)

    @property
    def evicting(self) -> Sequence[Entry]:
        """The Reservations whose nodes others have to leave when their windows open."""
        self._refresh()
        return self._evicting

    @property
    def state(self) -> Hashable:
        """Another value whenever Reservations or nodes have changed."""
        self._refresh()
        return self._read_at

    @property
    def users_version(self) -> Hashable:
        """Another value whenever others may be users, though no pod was edited: queues, PodGroups
        or namespaces were."""
        return self._context.cluster.objects.version, self._queues.facts_version

    def kind_of(self, member: QueuedPod) -> Hashable:
        """The same is kept from members of one group that are of one kind."""
        self._refresh()
        pod, wanted = member.pod, _asked_for(member)
        if not self._entries:
            return wanted
        return wanted, self._limits.limit_of(pod), self._queues.queue_name(pod), pod.namespace

    def closed_rows(self, member: QueuedPod) -> ClosedRows | None:
        """The rows that a pod may not use, and when; None if there never are any.

        Beyond the next windows it is not told when rows open or close.
        """
        self._refresh()
        wanted = _asked_for(member)
        if not self._entries and not wanted:
            return None
        lasts = self._limits.limit_of(member.pod)
        most = max(2, MAX_PLANNED_WINDOWS // max(1, len(self._entries)))
        found: list[tuple[Window, float, bool]] = []
        concerned = set[str]()
        for name, entry in self._entries.items():
            its_own = self.is_user(entry, member.pod)
            if its_own and name != wanted:
                continue
            if not its_own:
                concerned.add(name)
            reaches = entry.windows.drain_before if lasts is None else lasts
            windows = entry.windows.following(self._context.unix_now)
            found += ((w, reaches, its_own) for w in islice(windows, most))
        if not found and not wanted:
            return None
        opens = [window.start if own else window.end for window, _, own in found]
        closes = [window.end if own else window.start - reach for window, reach, own in found]
        closes = sorted(closes)[: 2 * MAX_PLANNED_WINDOWS]  # each costs a look at all nodes

        def closed_at(at: float) -> BoolArray | None:
            masks = [mask.rows for mask in self._masks_at(member, at)]
            return ~reduce(and_, masks) if masks else None

        parts = [(n, e) for n, e in self._entries.items() if e.part and n in concerned]

        def kept_at(at: float) -> IntArray | None:
            holding = [entry for _, entry in parts if entry.window_for(at, lasts) is not None]
            return self.room.in_all(holding)

        return ClosedRows(closed_at, opens, closes, kept_at if parts else None)

    @contextmanager
    def starting_at(self, at: float) -> Iterator[None]:
        """Meanwhile pods are placed as they would be at a time, in seconds since 1970."""
        before, self._as_of = self._as_of, at
        try:
            yield
        finally:
            self._as_of = before

    def _masks_at(self, member: QueuedPod, now: float) -> Sequence[RowMask]:
        self._refresh()
        wanted = _asked_for(member)
        if not self._entries and not wanted:
            return ()
        lasts = self._limits.limit_of(member.pod)
        masks = [self._only_in(wanted, member, now)] if wanted else []
        for entry in self._entries.values():
            window = None if entry.part else entry.window_for(now, lasts)
            if window is not None and not self.is_user(entry, member.pod):
                masks.append(_mask(~entry.rows, entry.reason(window, now)))
        return masks

    def _room_masks(self, member: QueuedPod, now: float, *, there: bool) -> Iterator[RowMask]:
        """The same of parts of nodes."""
        lasts = self._limits.limit_of(member.pod)
        concerned = [
            ((entry, window), entry)
            for entry in self._entries.values()
            if entry.part
            and (window := entry.window_for(now, lasts)) is not None
            and not self.is_user(entry, member.pod)
        ]
        if not concerned:
            return
        requests = requests_of(member.pod, self._context.cluster)
        if there:
            requests = dict.fromkeys(requests, 0)
        claims = self._planned_room.claims_before(
            member, math.inf if lasts is None else now + lasts
        )
        for (entry, window), closed in self.room.closed_to(requests, concerned, claims):
            yield _mask(~closed, entry.reason(window, now), KEPT_ROOM)

    def advance(self, now: float) -> None:
        """Wake those for whom a window opens or ends."""
        self._refresh()
        if not self._stored and not self._seen:
            return
        unix_now = self._context.unix_now
        windows = {name: entry.windows.at(unix_now) for name, entry in self._entries.items()}
        seen = {
            name: (*window, unix_now >= window.start)
            for name, window in windows.items()
            if window is not None
        }
        due, changed = self.statuses.next_timer(), seen != self._seen
        if changed or self._told_at != self._read_at or (due is not None and due <= now):
            self._told_at = self._read_at
            wanted: dict[str, ReservationStatus] = {}
            for name in (each.metadata.name for each in self._stored):
                entry, problem = self._entries.get(name), self.problems.get(name, "")
                wanted[name] = status_of(entry, windows.get(name), problem, unix_now)
            self.statuses.write(self._stored, wanted, now)
        if changed:
            self._seen = seen
            self._queue.wake(ClusterEvent(ActionType.OTHER, resource=KEPT_NODES), now)

    def next_timer(self) -> float | None:
        """When the next window opens or ends, or a status is due, in the engine's clock."""
        clock, due = self._context.clock, self.statuses.next_timer()
        times = [end if holds else start for start, end, holds in self._seen.values()]
        edges = [clock.from_unix_time(min(times), clock.now)] if times else []
        return min(edges if due is None else [*edges, due], default=None)

    def next_edge(self) -> float | None:
        """When a window opens or ends that does not come again and again."""
        again = {
            each.metadata.name
            for each in self._stored
            if each.spec.window is not None and each.spec.window.recurrence is not None
        }
        clock = self._context.clock
        once = [edges for name, edges in self._seen.items() if name not in again]
        times = [end if holds else start for start, end, holds in once]
        return clock.from_unix_time(min(times), clock.now) if times else None

    def _refresh(self) -> None:
        cluster = self._context.cluster
        objects, table = cluster.objects, cluster.table
        state = objects.reservation_version, table.nodes_version, table.size
        if state == self._read_at:
            return
        self._read(state)
        self._read_at = state  # not if it raises: nobody is to get nodes by what was before

    def _read(self, state: tuple[int, int, int]) -> None:
        cluster = self._context.cluster
        objects, table = cluster.objects, cluster.table
        reserved = ReservedRows(table, self._cards)
        if self._stored_version == state[0]:  # nodes are others, and all else is as it was
            read = [entry.at_nodes(reserved) for entry in self._entries.values()]
            self._set_entries({entry.name: entry for entry in read})
            return
        entries, problems = dict[str, Entry](), dict[str, str]()
        stored = sorted(objects.in_namespace(Reservation, ""), key=_age_of)
        for each in stored:
            name = each.metadata.name
            try:
                if len(entries) >= MAX_RESERVATIONS:
                    raise ParseError(f"there are {MAX_RESERVATIONS} older ones already")
                entries[name] = read_entry(name, each.spec, reserved)
            except ParseError as error:
                problems[name] = str(error)
                if self.problems.get(name) != problems[name]:
                    told = pod_events.invalid_reservation(each, problems[name])
                    self._context.outbox.append(told)
        self.problems, self._stored = problems, stored
        self._set_entries(entries)
        self._stored_version = state[0]

    def _set_entries(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._evicting = [entry for entry in entries.values() if entry.spec.evict]
        self.room.use(entries.values())

    def is_user(self, entry: Entry, pod: PodInfo) -> bool:
        """Whether a pod may use the nodes of a Reservation."""
        users = entry.spec.users
        if users.queues and self._is_in(users.queues, self._queues.queue_name(pod)):
            return True
        if users.gangs and (gang := self._gangs.gang_of(pod.uid)) and gang.name in users.gangs:
            return True
        if users.namespace_selector is None:
            return False
        labels = self._context.cluster.objects.namespace_labels(pod.namespace)
        return entry.namespaces.matches(labels)

    def _is_in(self, queues: Collection[str], queue: str) -> bool:
        """Whether a queue is one of some, or part of one."""
        path = self._queues.path_self_to_root(queue)
        return queue in queues or any(each.name in queues for each in path)

    def _only_in(self, wanted: str, member: QueuedPod, now: float) -> RowMask:
        """The nodes of the Reservation that a pod asks for, in its window."""
        entry = self._entries.get(wanted)
        nowhere: BoolArray = np.zeros(self._context.cluster.table.size, dtype=np.bool_)
        if entry is None:
            invalid = wanted in self.problems
            why = "is invalid" if invalid else "does not exist"
            return _mask(nowhere, f"Reservation {shown(wanted)}, which the pod asks for, {why}")
        if not self.is_user(entry, member.pod):
            return _mask(nowhere, f"the pod may not use Reservation {wanted}, which it asks for")
        window = entry.windows.at(now)
        if window is None:
            return _mask(nowhere, f"Reservation {wanted}, which the pod asks for, has ended")
        if now < window.start:
            begins = shown_time(window.start)
            return _mask(nowhere, f"Reservation {wanted} of the pod begins at {begins}")
        return _mask(entry.rows, f"node(s) not of Reservation {wanted}, which the pod asks for")


def make_book(
    context: EngineContext,
    queue: SchedulingQueue,
    ledger: QuotaLedger,
    limits: Limits,
    effects: PendingEffects,
    gangs: Gangs,
    planned_room: PlannedRoom,
) -> ReservationBook:
    """The book of an engine."""
    statuses = StatusWriter(effects, context)
    cards = ledger.card_column
    return ReservationBook(context, queue, ledger, limits, cards, statuses, gangs, planned_room)


def _asked_for(member: QueuedPod) -> str:
    return member.pod.pod.metadata.annotations.get(RESERVATION, "")


def _age_of(each: Reservation) -> tuple[datetime, str]:
    return each.metadata.creation_timestamp or _NO_TIME, each.metadata.name


def _mask(rows: BoolArray, reason: str, rejecter: str = KEPT_NODES) -> RowMask:
    return RowMask(rows, PluginRejection(rejecter, Rejection((reason,), Code.UNRESOLVABLE)))
