"""Holds again at the start what incomplete gang groups held when the scheduler before us ended.

Members that are nominated keep their nodes before anything is tried, and the wait time goes on from
``waitingSince``. See ``docs/design/gang-scheduling.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.gang.manager import GangManager
from arranger.engine.gang.placement.boards import Placements
from arranger.engine.gang.placement.topology import OUTSIDE_DOMAIN, age, allowed_domain
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.pod.schedule_result import RowMask, Scheduled
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.gangs import messages
from arranger.quota.ledger import QuotaLedger


@dataclass(frozen=True, slots=True)
class HoldRecovery:
    """Gives members their nodes back, as far as objects tell what was held.

    Args:
        cycle: places single pods.
    """

    _context: EngineContext
    _ledger: QuotaLedger
    _holds: GangHolds
    _gang_objects: GangObjects
    _manager: GangManager
    _cycle: SchedulingCycle

    def restore(self, members: Iterable[QueuedPod], now: float) -> None:
        """All objects and pods have been seen: hold again what incomplete groups held.

        ``members`` are the pods without a node, none of which is nominated yet: a nomination is
        for room that others may still have, and what is held is room.
        """
        groups = {e.key: e for m in members if (e := m.entity) is not None and e.group is not None}
        held = [(since, e) for e in groups.values() if (since := self._held_since(e)) is not None]
        if held:
            self._ledger.refresh(self._context.cluster)
        for since, entity in sorted(held, key=lambda each: (each[0], each[1].key)):
            self._restore_hold(entity, since, now)

    def _held_since(self, entity: QueuedEntity) -> int | None:
        """When the group's wait time began, if it waits still; in seconds since 1970."""
        group = entity.gang_group
        if group.is_strict and not self._holds.is_urgent(group):
            return None  # a Strict group holds nothing, and is tried as a whole
        if messages.blocking_reason(group) or self._gang_objects.blocks(group):
            return None
        known = (self._gang_objects.recorded_wait(gang.name) for gang in group.gangs)
        return min((since for since in known if since is not None), default=None)

    def _restore_hold(self, entity: QueuedEntity, since: int, now: float) -> None:
        group = entity.gang_group
        placed = [] if group.is_strict else self._place(entity)
        if placed or self._holds.is_urgent(group):
            began = self._context.clock.from_unix_time(since, now)
            self._holds.restore(entity, since, began, now)
        for member, _ in placed:
            entity.remove_member(member)
            member.transition(Phase.RESERVED)
        if placed:
            self._manager.hold_placed(entity, placed, now)

    def _place(self, entity: QueuedEntity) -> Placements:
        """Give members their nodes back, as far as there is room for them now."""
        placed: Placements = []
        waiting, before = sorted(filter(self._has_node, entity.members.values()), key=age), -1
        while len(placed) > before:  # some may have affinity to members that come after them
            before = len(placed)
            for member in list(waiting):
                rows = self._own_node(entity, member, [other for other, _ in placed])
                answer = self._cycle.place(member, rows)
                if isinstance(answer, Scheduled):
                    placed.append((member, answer.held))
                    waiting.remove(member)
        return placed

    def _own_node(
        self, entity: QueuedEntity, member: QueuedPod, placed: Sequence[QueuedPod]
    ) -> RowMask:
        """The node that a member is nominated for, where the group's topology allows it."""
        cluster = self._context.cluster
        rows = np.zeros(cluster.table.size, dtype=np.bool_)
        rows[cluster.table.index[member.shown_node]] = True
        domain = allowed_domain(cluster, entity.gang_group, placed)
        return RowMask(rows if domain is None else rows & domain, OUTSIDE_DOMAIN)

    def _has_node(self, member: QueuedPod) -> bool:
        """Whether a member is nominated; extenders are asked again about what they judge."""
        asked = (each.is_interested(member.pod.pod) for each in self._context.extenders)
        return member.shown_node in self._context.cluster.table.index and not any(asked)
