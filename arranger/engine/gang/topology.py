"""The topology domains in which a gang group is tried, and the order of its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from arranger.api.gang_membership import Topology
from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import ABSENT, BoolArray, IntArray
from arranger.engine.entity import GANG, QueuedEntity, QueuedPod
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code
from arranger.gangs.group import GangGroup

OUTSIDE_DOMAIN: Final = PluginRejection(
    GANG, Rejection(("node(s) outside the gang's topology domain",), Code.UNRESOLVABLE)
)


def topology_constraint(group: GangGroup) -> Topology | None:
    """The constraint of a group: that of its first gang that has one."""
    return next((g.settings.topology for g in group.gangs if g.settings.topology), None)


def placement_order(members: Iterable[QueuedPod], group: GangGroup) -> list[QueuedPod]:
    """Members by priority, then the largest first, as these fit on the fewest nodes.

    A pod's size is the sum of its shares of the largest request for each resource. Equal ones go
    gang by gang, as they came, so that the order is the same at every attempt.
    """
    members = list(members)
    position = {uid: n for n, gang in enumerate(group.gangs) for uid in gang.memberships}
    pods = {member.equivalence_key: member.pod for member in members}
    largest: dict[str, int] = {}
    for pod in pods.values():
        for name, amount in pod.requests.items():
            largest[name] = max(largest.get(name, 0), amount)
    size = {
        key: sum(amount / largest[name] for name, amount in pod.requests.items() if amount)
        for key, pod in pods.items()
    }
    return sorted(
        members, key=lambda m: (-m.pod.priority, -size[m.equivalence_key], position[m.uid])
    )


class TopologyDomains:
    """Finds the domains in which a group may fit."""

    def __init__(self, cluster: Cluster, cycle: SchedulingCycle) -> None:
        self._cluster = cluster
        self._cycle = cycle

    def row_masks(
        self, entity: QueuedEntity, held: Sequence[QueuedPod]
    ) -> Iterable[RowMask | None]:
        """Where to try to place the group, in this order: domain by domain, then anywhere (None).

        A group without constraint is tried anywhere only; one whose constraint is required, in
        domains only.
        """
        group = entity.gang_group
        topology = topology_constraint(group)
        if topology is not None:
            members = placement_order(entity.ready(), group)
            for rows in self._candidates(topology, group, members, held):
                yield RowMask(rows, OUTSIDE_DOMAIN)
        if topology is None or not topology.required:
            yield None

    def _candidates(
        self,
        topology: Topology,
        group: GangGroup,
        members: Sequence[QueuedPod],
        held: Sequence[QueuedPod],
    ) -> list[BoolArray]:
        """The rows of the domains that may hold the group, the smallest capacity first.

        Where some of its members have nodes, only the domain that most of them are in. Where no
        domain is large enough, the largest one, whose diagnosis says best what is missing.
        """
        table = self._cluster.table
        column = table.label_column(topology.key)[: table.size]
        placed = [member.uid for member in held]
        placed += [
            uid for gang in group.gangs for uid in gang.memberships if not gang.is_terminating(uid)
        ]
        nodes = [self._cluster.node_of(uid) for uid in placed]
        used = [int(column[table.index[node]]) for node in nodes if node in table.index]
        values = Counter(value for value in sorted(used) if value != ABSENT)
        if values:
            return [column == values.most_common(1)[0][0]]
        labelled = table.alive[: table.size] & (column != ABSENT)
        weights = self._replica_capacity(members)[labelled]
        capacity = np.bincount(column[labelled], weights=weights, minlength=1)
        domains = np.unique(column[labelled]).tolist()
        needed = sum(gang.shortfall({}) for gang in group.gangs)
        fitting = [value for value in domains if capacity[value] >= needed]
        order = sorted(fitting, key=lambda value: (capacity[value], value))
        if not order:
            order = sorted(domains, key=lambda value: -capacity[value])[:1]
        return [column == value for value in order]

    def _replica_capacity(self, members: Iterable[QueuedPod]) -> IntArray:
        """Row → how many members fit at most, by the class of which most fit."""
        table = self._cluster.table
        best = np.zeros(table.size, dtype=np.int64)
        seen: set[Hashable] = set()
        for member in members:
            if member.equivalence_key in seen:
                continue
            seen.add(member.equivalence_key)
            try:
                evaluation = self._cycle.evaluate(member.profile, member.pod, member.signature)
            except Exception:
                continue  # placing the member fails in the same way, and its owner is told then
            capacity = np.where(evaluation.feasible, table.replica_capacity(member.pod), 0)
            np.maximum(best, capacity, out=best)
        return best
