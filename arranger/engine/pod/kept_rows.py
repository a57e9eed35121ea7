"""The rows that are left to a pod by what no plugin knows: domains, Reservations and plans.

All of it changes with time or with other gangs, so nothing of it is remembered with what plugins
say of a class of pods. It is asked whenever a pod is placed, and again of pods that were taken off
their nodes between two steps of an attempt.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from arranger.api.annotations import RESERVATION
from arranger.cluster.nodes.node_table import NodeTable
from arranger.engine.context.entity import QueuedPod
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.pod.schedule_result import RowMask


class Domains(Protocol):
    """Knows which pods must stay in a part of the cluster."""

    def row_mask(self, member: QueuedPod) -> RowMask | None:
        """The rows that are left to a pod; None if all are."""


class ReservedNodes(Protocol):
    """Knows which nodes are kept for others now."""

    @property
    def keeps_any(self) -> bool:
        """Whether there are Reservations; without any, only pods that ask for one are refused."""

    def row_masks(self, member: QueuedPod, *, there: bool = False) -> Sequence[RowMask]:
        """What is left to a pod; ``there``: it is on its row already, and counted."""

    def kind_of(self, member: QueuedPod) -> Hashable:
        """The same is left to pods of one kind and one group."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """What is kept from pods, and may be another at each moment."""

    _table: NodeTable
    _domains: Domains
    _reserved: ReservedNodes
    _planned_room: PlannedRoom

    def row_masks(self, member: QueuedPod, *, there: bool = False) -> list[RowMask]:
        """What is left to a pod; ``there``: it is on its row already, and counted."""
        domain = self._domains.row_mask(member)
        masks = [] if domain is None else [domain]
        masks += self._reserved.row_masks(member, there=there)
        masks += self._planned_room.row_masks(member, there=there)
        return masks

    def kind_of(self, member: QueuedPod) -> Hashable:
        """The same is left to pods of one kind and one group."""
        kept = self._reserved.kind_of(member), self._planned_room.end_of(member)
        return member.equivalence_key, member.pod.priority, *kept

    def allow(self, members: Iterable[QueuedPod]) -> bool:
        """Whether pods of one group may be on their nodes now; those of one kind are asked about
        once."""
        if not (self._reserved.keeps_any or self._planned_room.plans):
            members = [
                m for m in members if m.in_domain or RESERVATION in m.pod.pod.metadata.annotations
            ]
        rows_of: dict[Hashable, list[int]] = {}
        one_of: dict[Hashable, QueuedPod] = {}
        for member in members:
            kind = self.kind_of(member)
            one_of.setdefault(kind, member)
            rows_of.setdefault(kind, []).append(self._table.index[member.node])
        return all(
            bool(mask.rows[rows_of[kind]].all())
            for kind, member in one_of.items()
            for mask in self.row_masks(member, there=True)
        )
