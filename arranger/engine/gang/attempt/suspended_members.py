"""Members that are taken off their nodes between two steps, and put back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from arranger.cluster.affinity_terms import NO_TERMS
from arranger.cluster.cluster import Cluster
from arranger.cluster.device_inventory import LiftedDevices
from arranger.cluster.nodes.row_change import RowChange
from arranger.cluster.pod_info import PodInfo, PvcKey
from arranger.engine.context.entity import QueuedPod
from arranger.engine.gang.attempt.within_quotas import exceed_no_quota, one_of_each_charge
from arranger.engine.gang.placement.topology import OUTSIDE_DOMAIN
from arranger.engine.pod.attempt_limits import looks_at_pods
from arranger.engine.pod.reserve_and_permit import (
    has_claims,
    has_volumes,
    leave_nodes,
    lift_volumes,
    must_be_placed_again,
    reserve_again,
    reserve_volumes_again,
)
from arranger.engine.pod.schedule_result import PermitWait, RowMask, Scheduled
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.status import CycleState

#: Rows that may have changed between two steps.
_MAX_CHANGED_ROWS: Final = 1000
#: Units to put a member back on its node and to take it off again, more for its claims, and for its
#: volumes.
RESUMING: Final = 5
RESUMING_CLAIMS: Final = 5
RESUMING_VOLUMES: Final = 30


class SuspendedMember(NamedTuple):
    """A member that had got a node."""

    member: QueuedPod
    pod: PodInfo
    node: str
    state: CycleState


@dataclass(frozen=True, slots=True)
class SuspendedMembers:
    """Members that had got nodes, in this order.

    Attributes:
        devices: those that they had; None if these are not kept.
        again: whether they cannot just be put back.
        claiming: how many have claims.
        volumes: how many have volumes.
    """

    members: Sequence[SuspendedMember]
    devices: LiftedDevices | None
    again: bool
    claiming: int
    volumes: int

    def must_be_placed_again(self) -> bool:
        """Whether they cannot just be put back."""
        return self.again

    def count_same(self, placed: Sequence[QueuedPod]) -> int:
        """How many of those placed are these, where they were: all of these, or none."""
        if len(placed) < len(self.members):
            return 0
        same = all(
            now is member and now.pod is pod and now.node is node and now.cycle_state is state
            for now, (member, pod, node, state) in zip(placed, self.members, strict=False)
        )
        return len(self.members) if same else 0

    def resuming(self) -> int:
        """Units of :mod:`~arranger.cluster.attempt_work` to put these back and to take them off."""
        more = RESUMING_CLAIMS * self.claiming + RESUMING_VOLUMES * self.volumes
        return RESUMING * len(self.members) + more


@dataclass(frozen=True, slots=True)
class MemberSuspension:
    """Takes members off, and puts them back where they may still be there."""

    _cluster: Cluster
    _cycle: SchedulingCycle
    _nominator: Nominator
    _policy: EvictionPolicy

    def take_off(
        self,
        placed: Sequence[tuple[QueuedPod, PermitWait | None]],
        earlier: SuspendedMembers | None = None,
    ) -> SuspendedMembers:
        """Take those off that have got nodes.

        ``earlier``: what was taken off before, of which most is the same in a large gang.
        """
        members = [member for member, _ in placed]
        known = 0 if earlier is None else earlier.count_same(members)
        left = [SuspendedMember(m, m.pod, m.node, m.cycle_state) for m in members[known:]]
        again = must_be_placed_again(members[known:])
        claiming, volumes = (
            sum(map(has_claims, members[known:])),
            sum(map(has_volumes, members[known:])),
        )
        if earlier is not None and known:
            left, again = [*earlier.members, *left], again or earlier.again
            claiming, volumes = claiming + earlier.claiming, volumes + earlier.volumes
        devices = None
        if again:
            self._cycle.unreserve_all(members)
        else:
            for member in filter(has_volumes, reversed(members)) if volumes else ():
                lift_volumes(member)
            if claiming:
                devices = self._cluster.devices.lift([member.uid for member in members])
            leave_nodes(self._cluster, members)
        return SuspendedMembers(left, devices, again, claiming, volumes)

    def changed_rows(self, version: int) -> set[int] | None:
        """The rows that have changed since, in more than images; None if there are too many."""
        table = self._cluster.table
        if table.version == version:
            return set()
        changes = table.changed_since(version)
        if changes is None:
            return None
        rows = {row for kind, row in changes if kind is not RowChange.IMAGES}
        return rows if len(rows) <= _MAX_CHANGED_ROWS else None

    def put_back(self, suspended: SuspendedMembers, changed: set[int] | None) -> bool:
        """Put all back on their nodes; False, and nobody is, if one may not be there any more.

        ``changed`` are the rows whose pods have changed meanwhile, None for too many.
        """
        placed = suspended.members
        if any(member.pod is not pod for member, pod, _, _ in placed):
            return False
        if changed is None or (changed and not self._may_ignore(changed, placed)):
            return False
        if suspended.again:
            return self._place_all_again(placed)
        for each in placed if len(self._nominator) else ():
            self._nominator.clear(each.pod.uid)
        self._cluster.put_back([(pod, node) for _, pod, node, _ in placed])
        members = [each.member for each in placed]
        for member, _, node, state in placed:
            member.node, member.cycle_state = node, state
        if (
            self._have_room(placed, changed)
            and exceed_no_quota(self._policy, one_of_each_charge(self._policy, members))
            and self._cycle.may_stay(members)
            and self._reserve_claims(suspended)
            and self._reserve_volumes(suspended, changed)
        ):
            return True
        self._cycle.unreserve_all([each for each in members if each.uid in self._cluster])
        return False

    # --- inside ----------------------------------------------------------------------------

    def _may_ignore(self, changed: set[int], placed: Sequence[SuspendedMember]) -> bool:
        """Whether nothing but room is to be compared on the rows that have changed."""
        if any(looks_at_pods(each.pod) or each.pod.ports for each in placed):
            return False
        pods = self._cluster.table.pods
        return all(p.affinity_terms is NO_TERMS for row in changed for p in pods[row].values())

    def _have_room(self, placed: Sequence[SuspendedMember], changed: set[int]) -> bool:
        """Whether nothing is asked for too much on those of their rows that have changed."""
        if not changed:
            return True
        table = self._cluster.table
        rows = sorted(changed.intersection(table.rows({each.node for each in placed})))
        return bool((table.requested[:, rows] <= table.allocatable[:, rows]).all())

    def _reserve_claims(self, suspended: SuspendedMembers) -> bool:
        """Have the members the devices found for them, or others where these are not free."""
        if suspended.devices is None or self._cluster.devices.put_back(suspended.devices):
            return True
        for each in suspended.members:
            if not has_claims(each.member) or reserve_again(each.member):
                continue
            self._cycle.unreserve(each.member)
            if not self._place_again(each):
                return False
        return True

    def _reserve_volumes(self, suspended: SuspendedMembers, changed: set[int]) -> bool:
        """Have the members the volumes chosen for them; place those again that need others."""
        if not suspended.volumes:
            return True
        doubtful = self._whose_volumes_may_differ(suspended, changed)
        for each in suspended.members:
            if not has_volumes(each.member):
                continue
            if each.pod.uid not in doubtful and reserve_volumes_again(each.member):
                continue
            self._cycle.unreserve(each.member)
            if not self._place_again(each):
                return False
        return True

    def _whose_volumes_may_differ(
        self, suspended: SuspendedMembers, changed: set[int]
    ) -> Collection[str]:
        """The uids of those on nodes whose pods have changed, or whose claims pods there use.

        Their own claims are the same, or all would begin anew; what was chosen for them is compared
        when it is reserved again.
        """
        table, claims = self._cluster.table, dict[PvcKey, set[str]]()
        for each in suspended.members if changed else ():
            for key in each.pod.pvc_keys:
                claims.setdefault(key, set()).add(each.pod.uid)
        found = set[str]()
        for row in changed:
            for pod in table.pods[row].values():
                found.add(pod.uid)
                found.update(*(claims.get(key, ()) for key in pod.pvc_keys))
        return found

    def _place_all_again(self, placed: Sequence[SuspendedMember]) -> bool:
        """As :meth:`put_back`, for members for which somebody else's plugins reserve as well."""
        for n, each in enumerate(placed):
            if not self._place_again(each):
                self._cycle.unreserve_all([other.member for other in placed[:n]])
                return False
        return True

    def _place_again(self, each: SuspendedMember) -> bool:
        """Place a member on its node as if it had not been there."""
        table = self._cluster.table
        only = np.zeros(table.size, dtype=np.bool_)
        only[table.index[each.node]] = True
        with self._cluster.work.uninterrupted():
            answer = self._cycle.place(each.member, RowMask(only, OUTSIDE_DOMAIN))
        return isinstance(answer, Scheduled)
