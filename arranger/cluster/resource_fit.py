"""Whether a waiting pod might fit where another has just left: then it is worth an attempt."""

from __future__ import annotations

from collections.abc import Callable

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo


def could_fit(
    cluster: Cluster, pod: PodInfo, node: str, removable: Callable[[PodInfo], bool]
) -> bool:
    """Whether a pod's requests would fit a node if all pods were gone that ``removable`` accepts.

    A node that does not exist fits nothing.
    """
    table = cluster.table
    row = table.index.get(node)
    if row is None:
        return False
    columns, requested = pod.request_vector(table.resource_column)
    free = (table.allocatable[columns, row] - table.requested[columns, row]).tolist()
    missing = {
        column: amount - available
        for column, amount, available in zip(columns, requested, free, strict=True)
        if amount > available
    }
    if not missing:
        return True
    for other in table.pods[row].values():
        if removable(other):
            for column, amount in zip(*other.request_vector(table.resource_column), strict=True):
                if column in missing:
                    missing[column] -= amount
    return all(amount <= 0 for amount in missing.values())
