"""Whether a group could have room by its requests alone if some pods had left.

What it denies cannot be; what it allows has to be tried. It moves nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray, IntArray
from arranger.cluster.excess_amounts import LARGE
from arranger.cluster.pod_info import PodInfo, SumsKey
from arranger.engine.context.entity import QueuedPod
from arranger.engine.gang.placement.boards import count_alike, has_room_for_each
from arranger.engine.pod.reserve_and_permit import reserve_more
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.gangs.group import GangGroup

#: Classes of members up to which it is worth it.
_MAX_CLASSES: Final = 16


@dataclass(slots=True, eq=False)
class RoomByNumbers:
    """Compares what members request with what would be free.

    Args:
        members: those without a node.
        held: gang → bundle → members that have nodes.
    """

    _cluster: Cluster
    _cycle: SchedulingCycle
    _nominator: Nominator
    _row_mask: RowMask | None
    _group: GangGroup
    _members: Sequence[QueuedPod]
    _held: Mapping[str, Counter[str]]
    _one_of: dict[Hashable, QueuedPod] = field(init=False)
    _alike: Counter[tuple[Hashable, str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self._one_of = {member.equivalence_key: member for member in self._members}
        self._alike = count_alike(self._group, self._members)

    def may_fit_without(self, leaving: Iterable[PodInfo]) -> bool:
        """Whether there is hope if these have left."""
        if len(self._one_of) > _MAX_CLASSES or reserve_more(list(self._one_of.values())):
            return True
        table, size = self._cluster.table, self._cluster.table.size
        free = table.allocatable[:, :size] - table.requested[:, :size]
        if not self._add([*leaving, *self._nominator.visible_pods()], free):
            return True
        within = table.alive[:size] if self._row_mask is None else self._row_mask.rows
        room: dict[Hashable, int] = {}
        for key, member in self._one_of.items():
            with self._cluster.work.unlimited():
                evaluation = self._cycle.evaluate(member.profile, member.pod, member.signature)
            if evaluation.pre_filter_status is not None:
                return True
            room[key] = self._room_for(member, free, within & evaluation.fits_when_empty)
        return has_room_for_each(self._group, self._held, self._alike, room)

    def _room_for(self, member: QueuedPod, free: IntArray, rows: BoolArray) -> int:
        columns, amounts = member.pod.request_vector(self._cluster.table.resource_column)
        wanted = [(column, n) for column, n in zip(columns, amounts, strict=True) if n > 0]
        each = np.min([free[column][rows] // n for column, n in wanted], axis=0)
        room: int = np.maximum(each, 0).sum().item()
        return room

    def _add(self, pods: Iterable[PodInfo], free: IntArray) -> bool:
        """Add what these pods request to what is free; False where that is more than sums tell."""
        table, cluster = self._cluster.table, self._cluster
        alike: dict[SumsKey, list[int]] = {}
        for pod in pods:
            row = table.index.get(cluster.node_of(pod.uid) or "")
            if row is None:
                continue
            key = pod.sums_key(table.resource_column)
            if key is None:
                columns, amounts = pod.request_vector(table.resource_column)
                if max(amounts) >= LARGE:
                    return False
                key = tuple(columns), tuple(amounts), (0, 0)
            alike.setdefault(key, []).append(row)
        for (of, requested, _), rows in alike.items():
            counts = np.bincount(np.array(rows, dtype=np.int64), minlength=free.shape[1])
            for column, amount in zip(of, requested, strict=True):
                free[column] += amount * counts
        return True
