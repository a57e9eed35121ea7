"""Nodes reserved for a gang that has waited too long, so that smaller pods do not starve it.

One group at a time, the first in the queue's order, gets the nodes on which it would fit if they
were empty. Other pods are placed there only if they have a higher priority, and go first anyway, or
a lower one, and can be evicted, or will have ended by the time all these nodes are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from arranger.api.run_time import run_time_limit
from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import BoolArray
from arranger.engine.entity import RESERVATION, QueuedPod
from arranger.framework.diagnosis import PluginRejection
from arranger.framework.filter_result import Rejection
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.status import Code


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """``nodes`` are reserved for the entity ``key``, of ``priority``.

    Attributes:
        rank: its sort key in the queue; a group with a lower one takes the reservation over.
        title: the name of the group in messages to pods of its ``namespaces``.
        free_at: when the last of the pods there will have ended, in the engine's clock; None if
            one of them may run for ever.
    """

    key: str
    rank: tuple[object, ...]
    title: str
    namespaces: frozenset[str]
    priority: int
    nodes: frozenset[str]
    free_at: float | None = None

    def excludes(self, member: QueuedPod, now: float) -> bool:
        """Whether a pod must not be placed on the reserved nodes."""
        entity = member.entity
        if entity is not None and entity.key == self.key:
            return False
        lasts = run_time_limit(member.pod.pod)
        if self.free_at is not None and lasts is not None and now + lasts <= self.free_at:
            return False  # it will have ended before the group could start
        return member.pod.priority == self.priority

    def allowed_rows(self, cluster: Cluster) -> BoolArray:
        """Row → whether its node is not reserved."""
        rows = np.ones(cluster.table.size, dtype=np.bool_)
        rows[cluster.table.rows(self.nodes)] = False
        return rows

    def rejection_for(self, member: QueuedPod) -> PluginRejection:
        """Why another pod does not fit on these nodes."""
        known = member.pod.pod.metadata.namespace in self.namespaces
        reason = f"node(s) reserved for {self.title if known else 'a gang of another namespace'}"
        return PluginRejection(RESERVATION, Rejection((reason,), Code.UNRESOLVABLE))


@dataclass(slots=True, eq=False)
class NodeReservations:
    """The reservation in force: one group at a time.

    Attributes:
        current: it; None where no group starves.
    """

    current: NodeReservation | None = None

    def keep(self, reservation: NodeReservation | None) -> None:
        """Nodes are kept from now on, in place of others."""
        self.current = reservation

    def drop(self) -> None:
        """No nodes are kept any more."""
        self.current = None


def last_pod_end(cluster: Cluster, nodes: Iterable[str]) -> float | None:
    """When the last of the pods on these nodes will have ended, in seconds since 1970.

    By their maximum run times; None if one of them has none, or has not started.
    """
    ends = [0.0]
    for row in cluster.table.rows(nodes):
        for pod in cluster.table.pods[row].values():
            started, lasts = pod.pod.status.start_time, run_time_limit(pod.pod)
            if started is None or lasts is None:
                return None
            ends.append(started.timestamp() + lasts)
    return max(ends)


def select_nodes(
    cluster: Cluster,
    classes: Sequence[tuple[Evaluation, QueuedPod, int]],
    within: BoolArray | None = None,
) -> frozenset[str]:
    """The nodes to reserve for pods of some classes: those that are nearest to being empty.

    Empty if all nodes, or all rows of ``within``, are too few even without the pods that run there
    now. Each class gets nodes of its own, so that a few more may be reserved than are needed.

    Args:
        classes: (evaluation, one pod, how many pods) of each class.
    """
    table = cluster.table
    taken = np.zeros(table.size, dtype=np.bool_)
    for evaluation, member, count in classes:
        suitable = (
            evaluation.fits_when_empty if within is None else evaluation.fits_when_empty & within
        )
        empty = np.where(suitable, table.replica_capacity(member.pod, empty=True), 0)
        if empty.sum() < count:
            return frozenset()
        usable = suitable & ~taken
        total = np.where(usable, empty, 0)
        now = np.where(usable, table.replica_capacity(member.pod), 0)
        # Those first on which the fewest replicas have to go, the larger first among equals.
        order = np.lexsort((-total, total - now))
        enough = np.cumsum(total[order])
        last = int(np.searchsorted(enough, count)) + 1
        chosen = order[:last]
        taken[chosen[total[chosen] > 0]] = True
    return frozenset(table.name(int(row)) for row in np.flatnonzero(taken))
