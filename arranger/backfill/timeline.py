"""The room on every node over time: what is free now, and what each end of a pod adds.

Kept as NumPy columns with one slot a pod, which follow the node table's log of changed rows. All
times are in seconds since 1970.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt

from arranger.backfill.history import HistoryKey
from arranger.backfill.run_times import Basis, RunTime, RunTimes
from arranger.cluster.columns import IntArray, resized
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.nodes.row_change import RowChange
from arranger.cluster.pod_info import PodInfo

FloatArray = npt.NDArray[np.float64]

#: No more than this is counted on to become free of one pod: sums stay within 64 bits.
_MOST: Final = 2**53
#: A pod that is late is expected to take as long again as it is late, and a second at least.
_LEAST_DELAY: Final = 1.0
#: By so many seconds an end moves at least that was moved: a kubelet says when its pod started.
_OTHER_END: Final = 60.0
_FIRST_CAPACITY: Final = 256


class Timeline:
    """When the pods on the nodes end, and what that frees.

    Attributes:
        table: the nodes.
        run_times: says when pods end.
        freed: how often pods have gone, nodes have changed, or the limits of pods.
    """

    def __init__(self, table: NodeTable, run_times: RunTimes) -> None:
        self.table, self.run_times = table, run_times
        self.freed = 0
        self._version, self._limit_changes = -1, run_times.limit_changes()
        #: Row → uid → slot and the pod as it was when its end was worked out.
        self._slots: list[dict[str, tuple[int, PodInfo]]] = []
        self._free_slots: list[int] = []
        self._size = 0
        self._start: FloatArray = np.zeros(_FIRST_CAPACITY)
        self._end: FloatArray = np.full(_FIRST_CAPACITY, np.inf)
        self._basis: IntArray = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self._row: IntArray = np.full(_FIRST_CAPACITY, -1, dtype=np.int64)
        self._amounts: IntArray = np.zeros((len(table.requested), _FIRST_CAPACITY), dtype=np.int64)
        #: Pods that have not started as far as their status says → when they were first seen.
        self._seen: dict[str, float] = {}
        #: Kinds of pods without an estimate → rows where such pods are.
        self._unknown: dict[HistoryKey, set[int]] = {}
        #: Rows that are still to be followed, and those whose pods are to be looked at anew.
        self._pending: set[int] = set()
        self._anew: set[int] = set()
        #: Rows that :meth:`refresh_watched` follows, and those of them that are still to be.
        self._watched: frozenset[int] = frozenset()
        self._watched_pending: set[int] = set()

    def __len__(self) -> int:
        return self._size - len(self._free_slots)

    @property
    def is_current(self) -> bool:
        """Whether all changes that were noted are followed."""
        return not self._pending and not self._anew

    def watch(self, rows: Set[int], now: float) -> None:
        """From now on :meth:`refresh_watched` follows these rows; all are brought up to date."""
        self.refresh(now)
        self._watched, self._watched_pending = frozenset(rows), set()

    def refresh(self, now: float, most: float = math.inf) -> set[int]:
        """Follow what has changed, up to about so many pods; returns the rows."""
        self.note_changes()
        rows, pods = self._pending | self._anew, self.table.pods
        if most < math.inf:
            sums = accumulate((len(pods[row]) for row in rows), initial=0)
            rows = {row for row, before in zip(rows, sums, strict=False) if before < most}
        return self._follow_rows(rows, now)

    def refresh_watched(self, now: float) -> set[int]:
        """The same of the watched rows; others are left to a later call."""
        self.note_changes()
        rows = self._watched_pending
        if self._anew:
            rows = rows | self._anew & self._watched
        if not rows:
            return rows
        self._watched_pending = set()
        return self._follow_rows(rows, now)

    def note_changes(self) -> set[int]:
        """See which rows have changed, without following them; returns those since the last time.

        That is cheap, and enough to know whether room may have become free.
        """
        table = self.table
        rows, kinds = table.take_replaced().copy(), self.run_times.history.take_new_kinds()
        self.freed += sum(map(self._has_other_ends, rows))
        if table.version != self._version:
            changed = table.changed_since(self._version)
            self._version = table.version
            if changed is None:
                rows, self.freed = set(range(table.size)), self.freed + 1
            else:
                for kind, row in changed:
                    rows.add(row)
                    if kind is RowChange.NODE or (
                        kind is RowChange.PODS_GONE and self._has_lost_pods(row)
                    ):
                        self.freed += 1
        if len(self._slots) < table.size or len(self._amounts) < len(table.requested):
            self._make_room()
        if (changes := self.run_times.limit_changes()) != self._limit_changes:
            self._limit_changes, self.freed = changes, self.freed + 1
            self._anew = set(range(table.size))
        for each in kinds:
            self._anew |= self._unknown.pop(each, set())
        self._pending |= rows
        self._watched_pending |= rows & self._watched
        return rows

    def _has_lost_pods(self, row: int) -> bool:
        slots = self._slots[row] if row < len(self._slots) else {}
        return not slots.keys() <= self.table.pods[row].keys()

    def _has_other_ends(self, row: int) -> bool:
        """Whether pods there were edited so that they end at quite another time, by a limit."""
        slots = self._slots[row] if row < len(self._slots) else {}
        pods, limit_of = self.table.pods[row], self.run_times.limit_of
        for uid, (slot, known) in slots.items():
            pod = pods.get(uid)
            if pod is None or pod is known or limit_of(pod) is None is limit_of(known):
                continue
            end = self.run_times.of(pod, self._start[slot].item()).end
            if abs(end - self._end[slot].item()) > _OTHER_END:
                return True
        return False

    def _make_room(self) -> None:
        """There are more rows, or more resources."""
        table = self.table
        self._slots += [{} for _ in range(len(self._slots), table.size)]
        more = len(table.requested) - len(self._amounts)
        if more > 0:
            fresh = np.zeros((more, self._amounts.shape[1]), dtype=np.int64)
            self._amounts = np.concatenate([self._amounts, fresh])
            self._anew = set(range(table.size))

    def _follow_rows(self, rows: set[int], now: float) -> set[int]:
        for row in rows:
            self._follow(row, now, anew=row in self._anew)
        self._pending -= rows
        self._anew -= rows
        return rows

    # --- answers ---------------------------------------------------------------------------

    def ends(self, now: float) -> tuple[FloatArray, IntArray]:
        """Slot → when its pod is expected to have ended, and what tells of it (``Basis``)."""
        start, end = self._start[: self._size], self._end[: self._size]
        basis = self._basis[: self._size]
        late = end <= now
        if late.any():
            again = np.where(basis == Basis.ESTIMATE, now - start, now - end)
            end = np.where(late, now + np.maximum(again, _LEAST_DELAY), end)
            basis = np.where(late, Basis.ESTIMATE, basis)
        return end, basis

    def rows_of_slots(self) -> IntArray:
        """Slot → row; -1 for one without a pod."""
        return self._row[: self._size]

    def free_now(self) -> IntArray:
        """``[column, row]``: what is allocatable and not requested."""
        table = self.table
        free: IntArray = table.allocatable[:, : table.size] - table.requested[:, : table.size]
        return free

    def freed_by(self, slots: IntArray) -> tuple[IntArray, IntArray]:
        """(rows, ``[column, n]`` of what is free there) once the pods of these slots have ended."""
        return self._row[slots], self._amounts[:, slots]

    def free_at(self, at: float, now: float, rows: IntArray | None = None) -> IntArray:
        """``[column, row]``: what is free at a time if nothing else starts; of ``rows`` only."""
        end, _ = self.ends(now)
        if rows is None:
            free = self.free_now()
            ended = np.flatnonzero((end <= at) & (self.rows_of_slots() >= 0))
            add_ended(free, *self.freed_by(ended))
            return free
        table = self.table
        some: IntArray = table.allocatable[:, rows] - table.requested[:, rows]
        for n, row in enumerate(rows.tolist()):
            slots = [slot for slot, _ in self._slots[row].values()]
            gone = [slot for slot in slots if end[slot] <= at]
            if gone:
                some[:, n] += self._amounts[:, gone].sum(axis=1)
        return some

    def lapses(self, times: Sequence[float], now: float, rows: Iterable[int]) -> float:
        """When one of the pods on these rows that end by one of these times is first expected
        later, if none ends: it is late, and then as late again. Infinite if that never comes.
        """
        slots = [slot for row in rows for slot, _ in self._slots[row].values()]
        end, own = self.ends(now)[0][slots], self._end[slots]
        since = np.where(self._basis[slots] == Basis.ESTIMATE, self._start[slots], own)
        lapses = np.inf
        for at in times:
            until = np.maximum(own, np.minimum((at + since) / 2, at - _LEAST_DELAY))
            lapses = min(lapses, until[end <= at].min(initial=np.inf))
        return lapses

    def rows_lapsed(self, at: float, before: float, now: float) -> IntArray:
        """The rows with pods that were expected to end by ``at``, and are not any more."""
        was, now_expected = self.ends(before)[0], self.ends(now)[0]
        lapsed: IntArray = self.rows_of_slots()[(was <= at) & (now_expected > at)]
        return lapsed[lapsed >= 0]

    def pods_ending(self, rows: IntArray, until: float, now: float) -> list[tuple[float, PodInfo]]:
        """The pods on some rows that end by then, the last one first."""
        end, _ = self.ends(now)
        pods = [
            (end[slot].item(), pod)
            for row in rows.tolist()
            for slot, pod in self._slots[row].values()
            if end[slot] <= until
        ]
        return sorted(pods, key=lambda each: (-each[0], each[1].key))

    def check_consistent(self) -> None:
        """Compare the slots with the pods on the nodes, just after a refresh.

        Raises:
            AssertionError: they disagree.
        """
        taken = [slot for slots in self._slots for slot, _ in slots.values()]
        assert len(taken) == len(set(taken)) == len(self), "slots of the timeline"
        for row, slots in enumerate(self._slots):
            pods = self.table.pods[row]
            assert {uid: pod for uid, (_, pod) in slots.items()} == pods, f"timeline, row {row}"
            assert all(self._row[slot] == row for slot, _ in slots.values()), f"slots of row {row}"

    # --- inside ----------------------------------------------------------------------------

    def _follow(self, row: int, now: float, *, anew: bool) -> None:
        pods, slots = self.table.pods[row], self._slots[row]
        for uid in [u for u, (_, pod) in slots.items() if anew or pods.get(u) is not pod]:
            slot, _ = slots.pop(uid)
            if uid not in pods:
                self._seen.pop(uid, None)  # an attempt may have been taken back
            self._row[slot], self._end[slot] = -1, np.inf
            self._free_slots.append(slot)
        for uid, pod in pods.items():
            if uid not in slots:
                slots[uid] = self._fill(row, pod, now), pod

    def _fill(self, row: int, pod: PodInfo, now: float) -> int:
        time = self._time_of(pod, now)
        if time.kind is not None:
            self._unknown.setdefault(time.kind, set()).add(row)
            if len(self._unknown) > 2 * self._size + _FIRST_CAPACITY:
                self._unknown.clear()
        slot = self._free_slots.pop() if self._free_slots else self._grow()
        self._start[slot], self._end[slot] = time.start, time.end
        self._basis[slot], self._row[slot] = time.basis, row
        self._amounts[:, slot] = 0
        columns, amounts = pod.request_vector(self.table.resource_column)
        for column, amount in zip(columns, amounts, strict=True):
            self._amounts[column, slot] = min(amount, _MOST)
        return slot

    def _time_of(self, pod: PodInfo, now: float) -> RunTime:
        if pod.pod.status.start_time is not None:
            self._seen.pop(pod.uid, None)
            return self.run_times.of(pod, now)
        return self.run_times.of(pod, self._seen.setdefault(pod.uid, now))

    def _grow(self) -> int:
        slot = self._size
        self._size += 1
        if self._size > len(self._row):
            capacity = 2 * len(self._row)
            self._start, self._end = resized(self._start, capacity, 0), _wider(self._end, capacity)
            self._basis = resized(self._basis, capacity, 0)
            self._row = resized(self._row, capacity, -1)
            self._amounts = resized(self._amounts, capacity, 0)
        return slot


def add_ended(free: IntArray, rows: IntArray, amounts: IntArray) -> None:
    """Add to ``[column, row]`` what pods that have ended had: :meth:`Timeline.freed_by`."""
    for column in range(len(free)):
        np.add.at(free[column], rows, amounts[column])


def _wider(ends: FloatArray, capacity: int) -> FloatArray:
    wider = np.full(capacity, np.inf)
    wider[: len(ends)] = ends
    return wider
