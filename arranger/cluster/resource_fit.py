"""Whether a pod that waits might fit where another has just left: then it is worth a try."""

from __future__ import annotations

from collections.abc import Callable

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo


def might_fit(cluster: Cluster, pod: PodInfo, node: str, may_go: Callable[[PodInfo], bool]) -> bool:
    """Whether a node has room for a pod, were all gone that ``may_go``.

    Resources alone are looked at; a node that is not there has no room.
    """
    table = cluster.table
    row = table.index.get(node)
    if row is None:
        return False
    columns, wanted = table.vector(pod)
    free = (table.allocatable[columns, row] - table.requested[columns, row]).tolist()
    lacking = {
        column: amount - there
        for column, amount, there in zip(columns, wanted, free, strict=True)
        if amount > there
    }
    if not lacking:
        return True
    for other in table.pods[row].values():
        if may_go(other):
            for column, amount in zip(*table.vector(other), strict=True):
                if column in lacking:
                    lacking[column] -= amount
    return all(amount <= 0 for amount in lacking.values())
