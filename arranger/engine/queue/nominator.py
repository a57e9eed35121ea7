"""Room promised to pods that wait for their victims to go.

A nominated pod takes its room at once, in the cluster's books, so that nobody of the same or lower
priority gets what its victims free (seed 001's race). It stands aside for itself and for pods of
higher priority, as in the first of kube-scheduler's two filter passes; in the second, for pods that
would profit from its being there, it does not count
(:mod:`~arranger.engine.pod.second_filter_pass`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.entity import QueuedPod
from arranger.framework.preemption import EvictionPolicy


class Nominator:
    """Who has been promised which node.

    Attributes:
        terminating_victims: uids of pods that are being evicted, until they are gone.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods: dict[str, QueuedPod] = {}
        self._nodes: dict[str, str] = {}
        self._by_node: dict[str, dict[str, QueuedPod]] = {}
        #: Priority → the pods of it, by uid.
        self._of_priority: dict[int, dict[str, QueuedPod]] = {}
        self.terminating_victims: set[str] = set()

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, uid: object) -> bool:
        return uid in self._nodes

    def node_of(self, uid: str) -> str:
        """The node a pod has been promised, "" for none."""
        return self._nodes.get(uid, "")

    def nominated_pods_on(self, node: str) -> list[QueuedPod]:
        """The pods that have been promised a node."""
        return list(self._by_node.get(node, {}).values())

    def visible_pods(self) -> list[PodInfo]:
        """The pods whose promises count now: those that are not aside."""
        return [m.pod for uid, m in self._pods.items() if uid in self._cluster]

    def nominate(self, member: QueuedPod, node: str) -> None:
        """Promise a node to a pod that has none, in place of an earlier promise."""
        self.clear(member.uid)
        self._pods[member.uid], self._nodes[member.uid] = member, node
        self._by_node.setdefault(node, {})[member.uid] = member
        self._of_priority.setdefault(member.pod.priority, {})[member.uid] = member
        self._cluster.assume_pod(member.pod, node)

    def clear(self, uid: str) -> bool:
        """Withdraw a promise; whether there was one."""
        if uid not in self._nodes:
            return False
        self._forget(uid)
        self._cluster.remove_pod(uid)
        return True

    def update(self, member: QueuedPod) -> None:
        """A pod was edited: count it as it is now."""
        node = self.node_of(member.uid)
        if node:
            self.nominate(member, node)

    @contextmanager
    def hide_for(self, member: QueuedPod, policy: EvictionPolicy) -> Iterator[None]:
        """Leave out the promises that do not count for a pod: its own, and those it may break.

        A pod that gets a node inside keeps it, and its promise is fulfilled.
        """
        hidden = self._hidden_for(member, policy)
        for other in hidden:
            self._cluster.remove_pod(other.uid)
        try:
            yield
        finally:
            for other in hidden:
                if other.uid in self._cluster:
                    self._forget(other.uid)
                else:
                    self._cluster.assume_pod(other.pod, self._nodes[other.uid])

    def _hidden_for(self, member: QueuedPod, policy: EvictionPolicy) -> list[QueuedPod]:
        can_preempt, by_priority = policy.can_preempt, policy.by_priority_alone
        hidden = [member] if member.uid in self._nodes else []
        for rank in self._of_priority.values():
            if by_priority and not can_preempt(member.pod, next(iter(rank.values())).pod):
                continue
            hidden += [
                o for o in rank.values() if o is not member and can_preempt(member.pod, o.pod)
            ]
        return hidden

    def _forget(self, uid: str) -> None:
        """The promise is over, whatever room there is for it."""
        member, node = self._pods.pop(uid), self._nodes.pop(uid)
        del self._by_node[node][uid]
        if not self._by_node[node]:
            del self._by_node[node]
        for priority, rank in list(self._of_priority.items()):
            if rank.get(uid) is member:
                del rank[uid]
                if not rank:
                    del self._of_priority[priority]

    def check_consistent(self) -> None:
        """Check the promises against the cluster.

        Raises:
            AssertionError: they disagree.
        """
        for uid, node in self._nodes.items():
            assert self._cluster.node_of(uid) == node, f"{uid} was promised {node}"
            assert uid in self._cluster.assumed, f"{uid} is promised and observed"
