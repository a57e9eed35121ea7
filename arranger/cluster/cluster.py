"""Which pod is on which node: observed, or assumed by us ahead of the watch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from arranger.api.types.core import Node
from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.device_inventory import DeviceInventory
from arranger.cluster.disruption_budgets import DisruptionBudgets
from arranger.cluster.nodes.bulk_moves import add_pods, remove_pods
from arranger.cluster.nodes.freed_room import FreedRoom, PodQuota
from arranger.cluster.nodes.node_results import NodeResults
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.nodes.selector_counts import SelectorCountCache
from arranger.cluster.object_store import ObjectStore
from arranger.cluster.pod_info import PodInfo

#: Pods from which on they are moved together.
_MANY: Final = 32


class Cluster:
    """The node table and the pods on it.

    A pod is *observed* on a node when the API said so, and *assumed* there from our decision
    until the API confirms it. Pods and nodes are watched separately, so a pod may be seen before
    its node: it waits, and joins the table together with the node.

    Attributes:
        table: the nodes.
        assumed: uids of the pods whose node is our decision, not yet confirmed by the API.
        objects: namespaces, services, controllers, storage and device objects.
        devices: what resource claims are allocated from.
        budgets: the PodDisruptionBudgets.
        work: what the present attempt may spend on what can be put off.
        selector_counts: how many pods on each node match a selector.
        node_results: what plugins say of nodes that depends on their objects alone.
    """

    def __init__(self, table: NodeTable | None = None, quota: PodQuota | None = None) -> None:
        """``table`` is empty; ``quota`` is told of every pod that takes or leaves a node."""
        self.table = table or NodeTable()
        self.work = AttemptWork()
        self.selector_counts = SelectorCountCache(self.table, self.work)
        self.node_results = NodeResults(self.table)
        self.assumed: set[str] = set()
        self.budgets = DisruptionBudgets(self.work)
        self._quota = quota
        self._pods: dict[str, PodInfo] = {}
        self._node_of: dict[str, str] = {}
        self._unknown_node_pods: dict[str, dict[str, PodInfo]] = {}
        self.devices = DeviceInventory(self._node_of.__contains__)
        self.objects = ObjectStore(self.devices.listeners())

    def __contains__(self, uid: object) -> bool:
        return uid in self._node_of

    def __len__(self) -> int:
        return len(self._node_of)

    def pod(self, uid: str) -> PodInfo | None:
        """The pod of that uid, if it is on a node."""
        return self._pods.get(uid)

    def node_of(self, uid: str) -> str | None:
        """The node a pod is on, observed or assumed."""
        return self._node_of.get(uid)

    def set_node(self, node: Node) -> Node | None:
        """Add or update a node; returns what it was before.

        Raises:
            QuantityError: an allocatable amount is not a quantity; nothing has changed.
        """
        row = self.table.index.get(node.metadata.name)
        before = None if row is None else self.table.node(row)
        offered = len(self.table.resources)
        row = self.table.set_node(node)
        if len(self.table.resources) != offered:
            self.objects.invalidate()  # until now nobody had what pods may have asked for
        if before is None:
            for pod in self._unknown_node_pods.pop(node.metadata.name, {}).values():
                self.table.add_pod(pod, row)
        return before

    def remove_node(self, name: str) -> Node | None:
        """Drop a node; its pods stay known, without a row, until the API deletes them."""
        row = self.table.index.get(name)
        if row is None:
            return None
        before = self.table.node(row)
        stranded = self.table.remove_node(name)
        if stranded:
            self._unknown_node_pods[name] = stranded
        return before

    def observe_pod(self, pod: PodInfo) -> None:
        """The API says ``pod`` is on ``spec.nodeName``, which ends an assumption about it."""
        uid, node = pod.uid, pod.pod.spec.node_name
        before = self._pods.get(uid)
        if before is not None:
            row = self.table.index.get(node)
            if self._node_of[uid] == node and row is not None and _same_footprint(before, pod):
                # The usual case, our own binding confirmed: nothing changes for any other pod.
                self.assumed.discard(uid)
                self._pods[uid] = pod
                self.table.replace_pod(pod, row)
                return
            self._detach(uid)
        self.assumed.discard(uid)
        self._attach(pod, node)

    def assume_pod(self, pod: PodInfo, node: str) -> None:
        """Reserve ``node`` for ``pod`` ahead of the API.

        Raises:
            ValueError: the pod has a node already.
        """
        if pod.uid in self._node_of:
            raise ValueError(f"{pod.key} is already on {self._node_of[pod.uid]}")
        self._attach(pod, node)
        self.assumed.add(pod.uid)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """The pod was deleted, has ended, or our assumption about it was wrong."""
        if uid not in self._node_of:
            return None
        self.assumed.discard(uid)
        return self._detach(uid)

    def place_anew(self, uid: str) -> None:
        """Have everybody look again at a pod on its node: its gang or its charge is another."""
        node = self._node_of[uid]
        row = self.table.index.get(node)
        order = {} if row is None else self.table.pods[row].copy()
        self._attach(self._detach(uid), node)
        if row is not None:
            self.table.restore_order(row, order)

    @contextmanager
    def simulate_without(self, pods: Iterable[PodInfo]) -> Iterator[None]:
        """Take pods off their nodes, in memory only, for as long as the block runs.

        Inside, :meth:`simulate_add_pod` puts single ones back, as when victims are reprieved.
        Afterwards all is as before, the order of the pods on their nodes included: it decides
        between victims that are equally important.
        """
        node_of, table = self._node_of, self.table
        removed = {pod.uid: node_of[pod.uid] for pod in pods}
        before = {uid: self._pods[uid] for uid in removed}
        assumed = self.assumed.intersection(removed)
        rows = table.rows(set(removed.values()))
        orders = {row: table.pods[row].copy() for row in rows}
        self._detach_all(list(removed))
        try:
            yield
        finally:
            self._attach_all([(before[uid], n) for uid, n in removed.items() if uid not in node_of])
            self.assumed |= assumed
            for row, pods_then in orders.items():
                table.restore_order(row, pods_then)

    @contextmanager
    def simulate_freed(
        self, pods: Iterable[PodInfo], looked_at: Callable[[PodInfo], bool]
    ) -> Iterator[FreedRoom]:
        """As :meth:`simulate_without`, for those who of most pods compare only sums of requests and
        the use of queues: pods that are no more than that stay with this cluster, which is a tenth
        of the work, and those of them that are ``looked_at`` are hidden on their nodes.
        """
        room = FreedRoom(self.table, self._quota)
        others = room.free(pods, self._node_of, looked_at)
        try:
            with self.simulate_without(others):
                yield room
        finally:
            room.end()

    @contextmanager
    def without_trace(self) -> Iterator[None]:
        """All that the block changes it undoes, so that nobody need look at it afterwards."""
        version = self.table.version
        try:
            yield
        finally:
            self.table.forget_changes_since(version)

    def lift(self, uids: Sequence[str]) -> None:
        """Take assumed pods off their nodes until :meth:`put_back`, or for good."""
        self.assumed.difference_update(uids)
        self._detach_all(uids)

    def put_back(self, placed: Sequence[tuple[PodInfo, str]]) -> None:
        """Assume pods on nodes, all of them at once.

        Raises:
            ValueError: one of them has a node already.
        """
        uids = [pod.uid for pod, _ in placed]
        if not self._node_of.keys().isdisjoint(uids):
            pod = next(pod for pod, _ in placed if pod.uid in self._node_of)
            raise ValueError(f"{pod.key} is already on {self._node_of[pod.uid]}")
        self._attach_all(placed)
        self.assumed.update(uids)

    def simulate_add_pod(self, pod: PodInfo, node: str) -> None:
        """Inside :meth:`simulate_without`: put a pod back on its node."""
        self._attach(pod, node)

    def simulate_remove_pod(self, pod: PodInfo) -> None:
        """Inside :meth:`simulate_without`: undo :meth:`simulate_add_pod`."""
        self._detach(pod.uid)

    def pods_on(self, node: str) -> Iterable[PodInfo]:
        """The pods on a node, assumed ones included; none if it does not exist."""
        row = self.table.index.get(node)
        return () if row is None else self.table.pods[row].values()

    def could_fit(self, pod: PodInfo, node: str, removable: Callable[[PodInfo], bool]) -> bool:
        """Whether a pod's requests would fit a node without the pods that ``removable`` accepts.

        A node that does not exist fits nothing.
        """
        table = self.table
        row = table.index.get(node)
        if row is None:
            return False
        columns, requested = pod.request_vector(table.resource_column)
        columns_of = zip(columns, requested, table.free(row, columns), strict=True)
        missing = {column: n - left for column, n, left in columns_of if n > left}
        for other in filter(removable, table.pods[row].values()) if missing else ():
            for column, amount in zip(*other.request_vector(table.resource_column), strict=True):
                if column in missing:
                    missing[column] -= amount
        return all(amount <= 0 for amount in missing.values())

    def amounts_of(self, pods: Iterable[PodInfo]) -> dict[int, int]:
        """Column of the resource matrices → what these pods request together."""
        amounts: dict[int, int] = {}
        for pod in pods:
            for column, amount in zip(*pod.request_vector(self.table.resource_column), strict=True):
                amounts[column] = amounts.get(column, 0) + amount
        return amounts

    def could_fit_beside(self, pod: PodInfo, node: str, removable: Mapping[int, int]) -> bool:
        """As :meth:`could_fit`, by what those that are removable request together."""
        row = self.table.index.get(node)
        if row is None:
            return False
        columns, requested = pod.request_vector(self.table.resource_column)
        free = zip(columns, requested, self.table.free(row, columns), strict=True)
        return all(n <= left or n <= left + removable.get(column, 0) for column, n, left in free)

    def check_consistent(self) -> None:
        """Check the table and the maps against each other.

        Raises:
            AssertionError: they disagree.
        """
        self.table.check_consistent()
        self.devices.check_consistent()
        self.budgets.check_consistent()
        table = self.table
        on_nodes = {uid: table.name(row) for row in range(table.size) for uid in table.pods[row]}
        waiting = {uid: node for node, pods in self._unknown_node_pods.items() for uid in pods}
        assert on_nodes | waiting == self._node_of, "a pod is on two nodes or none"
        assert not on_nodes.keys() & waiting.keys(), "a waiting pod is on a node"
        assert not self._unknown_node_pods.keys() & self.table.index.keys(), (
            "pods waiting for a known node"
        )
        assert self._pods.keys() == self._node_of.keys(), "pods and nodes"
        assert self.assumed <= self._node_of.keys(), "an assumed pod has no node"

    def placed_pods(self) -> Iterator[tuple[PodInfo, str]]:
        """Every pod with its node."""
        return ((self._pods[uid], node) for uid, node in self._node_of.items())

    def _attach(self, pod: PodInfo, node: str) -> None:
        if self._quota is not None:
            self._quota.on_pod_moved(pod, node, 1)
        self._pods[pod.uid] = pod
        self._node_of[pod.uid] = node
        row = self.table.index.get(node)
        if row is None:
            self._unknown_node_pods.setdefault(node, {})[pod.uid] = pod
            self._on_moved_beside_table()
        else:
            self.table.add_pod(pod, row)

    def _attach_all(self, placed: Sequence[tuple[PodInfo, str]]) -> None:
        index = self.table.index
        together = [each for each in placed if each[1] in index] if len(placed) >= _MANY else []
        if len(together) < len(placed):
            for pod, node in placed:
                if not together or node not in index:
                    self._attach(pod, node)
        if not together:
            return
        self._count_moved(together, 1)
        uids = [pod.uid for pod, _ in together]
        self._pods.update(zip(uids, [pod for pod, _ in together], strict=True))
        self._node_of.update(zip(uids, [node for _, node in together], strict=True))
        add_pods(self.table, [(pod, index[node]) for pod, node in together])

    def _detach_all(self, uids: Sequence[str]) -> None:
        index, node_of = self.table.index, self._node_of
        together = [uid for uid in uids if node_of[uid] in index] if len(uids) >= _MANY else []
        if len(together) < len(uids):
            for uid in uids:
                if not together or node_of[uid] not in index:
                    self._detach(uid)
        if not together:
            return
        pods = map(self._pods.pop, together)
        gone = list(zip(pods, map(node_of.pop, together), strict=True))
        self._count_moved(gone, -1)
        remove_pods(self.table, [(pod, index[node]) for pod, node in gone])

    def _count_moved(self, placed: Iterable[tuple[PodInfo, str]], sign: int) -> None:
        if self._quota is not None and self._quota.active:
            self._quota.on_pods_moved(placed, sign)

    def _detach(self, uid: str) -> PodInfo:
        node = self._node_of.pop(uid)
        pod = self._pods.pop(uid)
        if self._quota is not None:
            self._quota.on_pod_moved(pod, node, -1)
        row = self.table.index.get(node)
        if row is None:
            on_node = self._unknown_node_pods[node]
            del on_node[uid]
            if not on_node:
                del self._unknown_node_pods[node]
            self._on_moved_beside_table()
        else:
            self.table.remove_pod(pod, row)
        return pod

    def _on_moved_beside_table(self) -> None:
        """A pod took or left a node that is not in the table: no row tells that its queue's use is
        another one now."""
        if self._quota is not None:
            self.objects.invalidate()


def _same_footprint(before: PodInfo, after: PodInfo) -> bool:
    return (
        before.requests == after.requests
        and before.nonzero_requests == after.nonzero_requests
        and before.ports == after.ports
        and before.affinity_terms == after.affinity_terms
        and before.volumes == after.volumes
        and before.pod.metadata.namespace == after.pod.metadata.namespace
        and before.pod.metadata.labels == after.pod.metadata.labels
        and _terminating(before) == _terminating(after)
    )


def _terminating(pod: PodInfo) -> bool:
    return pod.pod.metadata.deletion_timestamp is not None
