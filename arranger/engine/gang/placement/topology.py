"""The topology domains in which a gang group is tried, and the order of its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import ABSENT, BoolArray, IdArray, IntArray, occurring
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.rejecters import GANG
from arranger.engine.gang.steps import ROWS_PER_UNIT, Steps
from arranger.engine.pod.schedule_result import RowMask
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.status import Code
from arranger.gangs.group import GangGroup
from arranger.gangs.registry import GangRegistry

OUTSIDE_DOMAIN: Final = PluginRejection(
    GANG, Rejection(("node(s) outside the gang's topology domain",), Code.UNRESOLVABLE)
)


@dataclass(frozen=True, slots=True)
class RowMasks:
    """Where to try to place a group.

    Attributes:
        masks: the rows of a domain, or anywhere (None), in this order.
        passed_over_by: plugins that may have made domains too small to be tried.
    """

    masks: Iterable[RowMask | None]
    passed_over_by: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[RowMask | None]:
        return iter(self.masks)


def placement_order(members: Iterable[QueuedPod], group: GangGroup) -> list[QueuedPod]:
    """Members by priority, then the largest first, as these fit on the fewest nodes.

    A pod's size is the sum of its shares of the largest request for each resource. Equal ones go
    gang by gang, the oldest first, so that the order is the same at every attempt and after a
    restart.
    """
    members = sorted(members, key=age)
    pods = {member.equivalence_key: member.pod for member in members}
    if len(pods) < 2 and len(group.gangs) < 2:
        return sorted(members, key=lambda member: -member.pod.priority)
    position = {uid: n for n, gang in enumerate(group.gangs) for uid in gang.memberships}
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


def age(member: QueuedPod) -> tuple[float, str]:
    """The oldest is the smallest; of one second, names decide."""
    return member.created_at, member.pod.key


def topology_row_masks(
    cluster: Cluster, cycle: SchedulingCycle, entity: QueuedEntity, held: Sequence[QueuedPod]
) -> Steps[RowMasks]:
    """Where to try to place the group, in this order: domain by domain, then anywhere (None).

    A group without constraint is tried anywhere only; one whose constraint is required, in domains
    only. Where some of its members have nodes, only the domain that most of them are in is tried,
    else those that may hold the group, the smallest capacity first. Where none is large enough, the
    largest one, whose diagnosis says best what is missing.
    """
    topology = entity.gang_group.topology
    if topology is None:
        return RowMasks([None])
    table = cluster.table
    column = table.label_column(topology.key)[: table.size]
    domains, passed_over_by = yield from _domains(column, cluster, cycle, entity, held)
    masks = (RowMask(column == value, OUTSIDE_DOMAIN) for value in domains)
    return RowMasks(masks if topology.required else chain(masks, [None]), passed_over_by)


def _domains(
    column: IdArray,
    cluster: Cluster,
    cycle: SchedulingCycle,
    entity: QueuedEntity,
    held: Sequence[QueuedPod],
) -> Steps[tuple[list[int], frozenset[str]]]:
    """The values of a label's column that stand for the domains to try, and the plugins that may
    have made others too small for the group."""
    table, gangs = cluster.table, entity.gang_group.gangs
    if (used := _used_domain(column, cluster, entity.gang_group, held)) is not None:
        return [used], frozenset()
    labelled = table.alive[: table.size] & (column != ABSENT)
    replicas, plugins = yield from _replica_capacity(cluster, cycle, entity)
    weights = replicas[labelled]
    capacity = np.bincount(column[labelled], weights=weights, minlength=1)
    domains = occurring(column[labelled], len(capacity)).tolist()
    needed = sum(gang.shortfall({}) for gang in gangs)
    fitting = [value for value in domains if capacity[value] >= needed]
    order = sorted(fitting, key=lambda value: (capacity[value], value))
    order = order or sorted(domains, key=lambda value: -capacity[value])[:1]
    return order, plugins if len(order) < len(domains) else frozenset()


@dataclass(frozen=True, slots=True)
class MemberDomains:
    """Keeps members that are placed by themselves in the domain of their gang."""

    _cluster: Cluster
    _registry: GangRegistry

    def row_mask(self, member: QueuedPod) -> RowMask | None:
        """The rows that its gang leaves the member; None if it leaves all."""
        gang = self._registry.gang_of(member.uid) if member.in_domain else None
        if gang is None:
            return None
        rows = allowed_domain(self._cluster, self._registry.group_of(gang), ())
        return None if rows is None else RowMask(rows, OUTSIDE_DOMAIN)


def allowed_domain(
    cluster: Cluster, group: GangGroup, held: Sequence[QueuedPod]
) -> BoolArray | None:
    """Row → whether members may be there by a required constraint; None where there is none."""
    topology = group.topology
    if topology is None or not topology.required:
        return None
    column = cluster.table.label_column(topology.key)[: cluster.table.size]
    used = _used_domain(column, cluster, group, held)
    rows: BoolArray = column != ABSENT if used is None else column == used
    return rows


def _used_domain(
    column: IdArray, cluster: Cluster, group: GangGroup, held: Sequence[QueuedPod]
) -> int | None:
    """The domain that most of the members with nodes are in."""
    table = cluster.table
    placed = [member.uid for member in held]
    for gang in group.gangs:
        placed += [uid for uid in gang.memberships if not gang.is_terminating(uid)]
    nodes = [cluster.node_of(uid) for uid in placed]
    used = [int(column[table.index[node]]) for node in nodes if node in table.index]
    values = Counter(value for value in sorted(used) if value != ABSENT)
    return values.most_common(1)[0][0] if values else None


def _replica_capacity(
    cluster: Cluster, cycle: SchedulingCycle, entity: QueuedEntity
) -> Steps[tuple[IntArray, frozenset[str]]]:
    """Row → how many members fit at most, by the class of which most fit; and the plugins that have
    a say about where members may be."""
    table, plugins = cluster.table, set[str]()
    best = np.zeros(table.size, dtype=np.int64)
    for member in {member.equivalence_key: member for member in entity.ready()}.values():
        if cluster.work.is_spent:
            yield ()
        try:
            with cluster.work.uninterrupted():
                evaluation = cycle.evaluate(member.profile, member.pod, member.signature)
        except Exception:
            continue  # placing the member fails in the same way, and its owner is told then
        cluster.work.count(table.size // ROWS_PER_UNIT)
        capacity = np.where(evaluation.feasible, table.replica_capacity(member.pod), 0)
        np.maximum(best, capacity, out=best)
        plugins |= member.profile.filtering_plugins - evaluation.unconcerned_plugins
    return best, frozenset(plugins)
