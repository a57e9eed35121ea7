"""Whether a group could have room by its requests alone if some pods had left.

What it denies cannot be; what it allows has to be tried. It moves nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray, IntArray
from arranger.engine.context.entity import QueuedPod
from arranger.engine.gang.placement.boards import (
    class_by_numbers,
    count_alike,
    has_room_for_each,
)
from arranger.engine.pod.reserve_and_permit import has_volumes, must_be_placed_again
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
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
    _row_mask: RowMask | None
    _group: GangGroup
    _members: Sequence[QueuedPod]
    _held: Mapping[str, Counter[str]]
    _one_of: dict[Hashable, QueuedPod] = field(init=False)
    _alike: Counter[tuple[Hashable, str, str]] = field(init=False)
    #: Class → the rows that could be open to it.
    _open: dict[Hashable, BoolArray | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._one_of = {class_by_numbers(member): member for member in self._members}
        self._alike = count_alike(self._group, self._members, class_by_numbers)

    @property
    def decides(self) -> bool:
        """Whether anything can be denied; if not, it need not be asked."""
        one_of = list(self._one_of.values())
        if len(one_of) > _MAX_CLASSES or any(map(has_volumes, one_of)):
            return False
        return not must_be_placed_again(one_of)

    def may_fit(self, free: IntArray) -> bool:
        """Whether there is hope if so much is free (resource × row)."""
        room: dict[Hashable, int] = {}
        for key, member in self._one_of.items():
            if (rows := self._rows_for(key, member)) is None:
                return True
            room[key] = self._room_for(member, free, rows)
        return has_room_for_each(self._group, self._held, self._alike, room)

    def _rows_for(self, key: Hashable, member: QueuedPod) -> BoolArray | None:
        """The rows that would be open to a class if no pods were there; None if it is not known.

        They are the same as long as no node changes, and then the plan is void. So one evaluation
        is enough; each counts pods anew that members look at, if some were away meanwhile.
        """
        if key not in self._open:
            table, size = self._cluster.table, self._cluster.table.size
            within = table.alive[:size] if self._row_mask is None else self._row_mask.rows
            known = True
            # Devices come and go while the plan goes on: who has claims may be anywhere.
            if key == member.equivalence_key:
                with self._cluster.work.unlimited():
                    evaluation = self._cycle.evaluate(member.profile, member.pod, member.signature)
                known = evaluation.pre_filter_status is None
                within = within & evaluation.fits_when_empty
            self._open[key] = within if known else None
        return self._open[key]

    def _room_for(self, member: QueuedPod, free: IntArray, rows: BoolArray) -> int:
        columns, amounts = member.pod.request_vector(self._cluster.table.resource_column)
        wanted = [(column, n) for column, n in zip(columns, amounts, strict=True) if n > 0]
        each = np.min([free[column][rows] // n for column, n in wanted], axis=0)
        room: int = np.maximum(each, 0).sum().item()
        return room
