"""NodePorts: a host port is used by one pod of a node at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from arranger.cluster import Cluster, NodeView
from arranger.cluster.exclusive_uses import ANY_ADDRESS, HostPort
from arranger.cluster.pod_info import PodInfo, host_ports
from arranger.framework import ActionType, ClusterEvent, FilterResult, QueueingHint, Rejection
from arranger.framework.interface import DependsOn, SpecOnlyPlugin
from arranger.framework.status import SKIP, CycleState, Status

#: Host ports of one pod that are looked at.
MAX_PORTS: Final = 512
REASON: Final = Rejection(("node(s) didn't have free ports for the requested pod ports",))


def ports_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether two host ports are the same: protocol and port, on one address or on all."""
    addresses: dict[tuple[str, int], set[str]] = {}
    for address, protocol, port in used:
        addresses.setdefault((protocol, port), set()).add(address)
    return any(
        taken is not None and (address in taken or ANY_ADDRESS in (address, *taken))
        for address, protocol, port in wanted
        for taken in (addresses.get((protocol, port)),)
    )


def _frees_a_port(pod: PodInfo, event: ClusterEvent) -> bool:
    return event.pod is None or ports_conflict(pod.ports, host_ports(event.pod.spec))


class NodePorts(SpecOnlyPlugin):
    """Reject nodes where another pod holds a host port this one wants."""

    depends_on = DependsOn.USAGE
    monotone = True
    queueing_hints = (
        QueueingHint(ActionType.POD_REMOVED, _frees_a_port),
        QueueingHint(ActionType.NODE_ADDED),
    )

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Skip pods without host ports."""
        if len(pod.ports) > MAX_PORTS:
            why = f"pod has {len(pod.ports)} host ports, and at most {MAX_PORTS} are looked at"
            return self.reject(why, resolvable=False)
        return None if pod.ports else SKIP

    def looks_at(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """At pods with host ports only."""
        return False

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes where all wanted ports are free."""
        table = nodes.table
        if nodes.length == 1:
            in_use = table.ports.on_row(int(nodes.row_numbers()[0]))
            return FilterResult(np.array([not ports_conflict(pod.ports, in_use)]), REASON)
        free = np.ones(table.size, dtype=np.bool_)
        for rows in table.ports.rows_with_conflicts(pod.ports):
            free[np.fromiter(rows, dtype=np.int64, count=len(rows))] = False
        return FilterResult(free[nodes.rows], REASON)
