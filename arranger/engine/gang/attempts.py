"""Attempts to place gang groups that go on in steps.

Between two steps nothing of an attempt is in the books: the members that have got nodes so far are
taken off, and others are decided as if it had not begun. In the next step they are put back, and
the attempt goes on where it was left. That comes to the same as all at once. Where something that
matters has changed meanwhile it begins anew, with longer steps after several times: other members
or settings, a changed node, room or quota that others have taken, or any change around members that
look at the pods of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from arranger.cluster.affinity_terms import NO_TERMS
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueuedEntity, QueuedPod
from arranger.engine.gang.group_attempt import GangScheduleResult
from arranger.engine.gang.holds import GangHolds
from arranger.engine.gang.placement.topology import OUTSIDE_DOMAIN
from arranger.engine.gang.scheduling_cycle import GangSchedulingCycle, NominatedMembers
from arranger.engine.gang.steps import Steps
from arranger.engine.pod.attempt_limits import looks_at_pods
from arranger.engine.pod.planned_room import PlannedRoom
from arranger.engine.pod.reserve_and_permit import reserves_more
from arranger.engine.pod.schedule_result import PermitWait, RowMask, Scheduled
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.status import CycleState

#: Units of one step: some 40 milliseconds.
STEP_UNITS: Final = 40_000
#: After so many beginnings steps are twice as long, for things may change as fast.
_MANY_BEGINNINGS: Final = 6
#: Rows that may have changed between two steps.
_MAX_CHANGED_ROWS: Final = 1000


@dataclass(frozen=True, slots=True)
class _Placed:
    """A member that has got a node."""

    member: QueuedPod
    pod: PodInfo
    node: str
    state: CycleState


@dataclass(slots=True, eq=False)
class SuspendedAttempt:
    """An attempt between two steps.

    Attributes:
        basis: what it is about; it is void when that is another one.
        placed: the members that have got nodes in it, in this order.
        nominated: those that were nominated when it began.
        version: the node table's, when they had left.
        beginnings: how often it has begun.
        taken: how many steps it has taken, since it began first.
    """

    steps: Steps[GangScheduleResult]
    basis: tuple[object, ...]
    placed: list[_Placed]
    nominated: NominatedMembers
    version: int
    beginnings: int
    taken: int


@dataclass(frozen=True, slots=True)
class GangAttempts:
    """Takes the steps of attempts to place gang groups."""

    _cluster: Cluster
    _pod_cycle: SchedulingCycle
    _cycle: GangSchedulingCycle
    _nominator: Nominator
    _holds: GangHolds
    _planned_room: PlannedRoom
    _policy: EvictionPolicy

    def go_on(self, entity: QueuedEntity, *, in_steps: bool) -> GangScheduleResult | None:
        """The next step of an attempt, or all of it; None if it is to go on in another."""
        suspended, entity.suspended = entity.suspended, None
        assert suspended is None or isinstance(suspended, SuspendedAttempt)
        beginnings, taken = (1, 0) if suspended is None else (suspended.beginnings, suspended.taken)
        longer = beginnings // _MANY_BEGINNINGS
        if suspended is not None and _reserve_more(suspended.placed):
            longer = taken  # each step has to place them all again
        if suspended is not None and not self._resume(entity, suspended):
            beginnings, suspended = beginnings + 1, None
        if suspended is None:
            steps, nominated = self._cycle.steps(entity), self._cycle.nominated_members(entity)
        else:
            steps, nominated = suspended.steps, suspended.nominated
        work = self._cluster.work
        if in_steps:
            work.limit(STEP_UNITS << min(longer, 10))
        try:
            placed = next(steps)
        except StopIteration as end:
            result: GangScheduleResult = end.value
            return result
        finally:
            work.lift()
        left = self._suspend(placed)
        self._cycle.renominate(nominated)
        version, basis = self._cluster.table.version, self._basis(entity)
        entity.suspended = SuspendedAttempt(
            steps, basis, left, nominated, version, beginnings, taken + 1
        )
        return None

    # --- inside ----------------------------------------------------------------------------

    def _basis(self, entity: QueuedEntity) -> tuple[object, ...]:
        """What an attempt rests on beside the pods on nodes."""
        cluster, group = self._cluster, entity.gang_group
        objects = cluster.objects
        return (
            entity.revision,
            tuple(gang.settings for gang in group.gangs),
            tuple(member.uid for member in self._holds.members_of(entity)),
            cluster.table.nodes_version,
            objects.version,
            objects.storage_version,
            tuple((plan.key, plan.nodes) for plan in self._planned_room.plans.values()),
        )

    def _suspend(self, placed: Sequence[tuple[QueuedPod, PermitWait | None]]) -> list[_Placed]:
        """Take those off that have got nodes."""
        left = [_Placed(m, m.pod, m.node, m.cycle_state) for m, _ in placed]
        self._pod_cycle.unreserve_all([member for member, _ in placed])
        return left

    def _resume(self, entity: QueuedEntity, suspended: SuspendedAttempt) -> bool:
        """Put the members back; False if the attempt is void, and nobody is on a node for it."""
        if suspended.basis != self._basis(entity):
            return False
        placed = suspended.placed
        if any(entity.members.get(each.pod.uid) is not each.member for each in placed):
            return False
        if any(each.member.pod is not each.pod for each in placed):
            return False
        if suspended.nominated != self._cycle.nominated_members(entity):
            return False
        changed = self._changed_rows(suspended.version)
        if changed is None or (changed and not self._may_ignore(changed, placed)):
            return False
        if self._put_back(placed, changed):
            return True
        self._cycle.renominate(suspended.nominated)
        return False

    def _changed_rows(self, version: int) -> set[int] | None:
        """The rows whose pods have changed since; None if there are too many."""
        table = self._cluster.table
        if table.version == version:
            return set()
        changes = table.changed_since(version)
        rows = None if changes is None else {row for _, row in changes}
        return rows if rows is not None and len(rows) <= _MAX_CHANGED_ROWS else None

    def _may_ignore(self, changed: set[int], placed: Sequence[_Placed]) -> bool:
        """Whether nothing but room is to be compared on the rows that have changed."""
        if any(looks_at_pods(each.pod) or each.pod.ports for each in placed):
            return False
        pods = self._cluster.table.pods
        return all(p.affinity_terms is NO_TERMS for row in changed for p in pods[row].values())

    def _put_back(self, placed: Sequence[_Placed], changed: set[int]) -> bool:
        """Put all back on their nodes; False, and nobody is, if one does not fit there any more."""
        if _reserve_more(placed):
            return self._place_again(placed)
        uids, table = [each.pod.uid for each in placed], self._cluster.table
        for uid in uids:
            self._nominator.clear(uid)
        self._cluster.put_back([(each.pod, each.node) for each in placed])
        rows = sorted(changed.intersection(table.rows({each.node for each in placed})))
        for each in placed:
            each.member.node, each.member.cycle_state = each.node, each.state
        members = [each.member for each in placed]
        fit = bool((table.requested[:, rows] <= table.allocatable[:, rows]).all())
        if fit and self._within_quotas(placed) and self._pod_cycle.may_stay(members):
            return True
        self._pod_cycle.unreserve_all(members)
        return False

    def _place_again(self, placed: Sequence[_Placed]) -> bool:
        """As :meth:`_put_back`, for members of which devices or volumes are reserved as well."""
        table = self._cluster.table
        for n, each in enumerate(placed):
            only = np.zeros(table.size, dtype=np.bool_)
            only[table.index[each.node]] = True
            answer = self._pod_cycle.place(each.member, RowMask(only, OUTSIDE_DOMAIN))
            if not isinstance(answer, Scheduled):
                self._pod_cycle.unreserve_all([other.member for other in placed[:n]])
                return False
        return True

    def _within_quotas(self, placed: Sequence[_Placed]) -> bool:
        """Whether they exceed no quota, of which others may have used more meanwhile."""
        quota = self._policy.quota
        if quota is None:
            return True
        classes = {each.member.equivalence_key: each for each in placed}
        for each in classes.values():
            own = dict(quota.released_by(each.pod))
            remaining = quota.remaining(each.pod, each.node)
            if any(left + own.get(limit, 0) < 0 for limit, left in remaining.items()):
                return False
        return True


def _reserve_more(placed: Sequence[_Placed]) -> bool:
    return any(reserves_more(each.member) for each in placed)
