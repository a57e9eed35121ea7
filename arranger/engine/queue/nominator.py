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
from arranger.engine.queued_pod import Member
from arranger.framework.runtime.dry_run import MayTake


class Nominations:
    """Who has been promised which node.

    Attributes:
        leaving: uids of pods that are being evicted, until they are gone.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._members: dict[str, Member] = {}
        self._nodes: dict[str, str] = {}
        self._at: dict[str, dict[str, Member]] = {}
        #: Priority → the pods of it, by uid.
        self._ranks: dict[int, dict[str, Member]] = {}
        self.leaving: set[str] = set()

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, uid: object) -> bool:
        return uid in self._nodes

    def node_of(self, uid: str) -> str:
        """The node a pod has been promised, "" for none."""
        return self._nodes.get(uid, "")

    def on(self, node: str) -> list[Member]:
        """The pods that have been promised a node."""
        return list(self._at.get(node, {}).values())

    def counted(self) -> list[PodInfo]:
        """The pods whose promises count now: those that are not aside."""
        return [m.pod for uid, m in self._members.items() if uid in self._cluster]

    def promise(self, member: Member, node: str) -> None:
        """Promise a node to a pod that has none, in place of an earlier promise."""
        self.take_back(member.uid)
        self._members[member.uid], self._nodes[member.uid] = member, node
        self._at.setdefault(node, {})[member.uid] = member
        self._ranks.setdefault(member.pod.priority, {})[member.uid] = member
        self._cluster.assume(member.pod, node)

    def take_back(self, uid: str) -> bool:
        """Withdraw a promise; whether there was one."""
        if uid not in self._nodes:
            return False
        self._drop(uid)
        self._cluster.remove(uid)
        return True

    def updated(self, member: Member) -> None:
        """A pod was edited: count it as it is now."""
        node = self.node_of(member.uid)
        if node:
            self.promise(member, node)

    @contextmanager
    def aside_for(
        self, member: Member, may_take: MayTake, *, by_priority: bool = False
    ) -> Iterator[None]:
        """Leave out the promises that do not count for a pod: its own, and those it may break.

        A pod that gets a node inside keeps it, and its promise is fulfilled. ``by_priority`` says
        that ``may_take`` looks at nothing else.
        """
        aside = self._aside(member, may_take, by_priority=by_priority)
        for other in aside:
            self._cluster.remove(other.uid)
        try:
            yield
        finally:
            for other in aside:
                if other.uid in self._cluster:
                    self._drop(other.uid)
                else:
                    self._cluster.assume(other.pod, self._nodes[other.uid])

    def _aside(self, member: Member, may_take: MayTake, *, by_priority: bool) -> list[Member]:
        aside = [member] if member.uid in self._nodes else []
        for rank in self._ranks.values():
            if by_priority and not may_take(member.pod, next(iter(rank.values())).pod):
                continue
            aside += [o for o in rank.values() if o is not member and may_take(member.pod, o.pod)]
        return aside

    def _drop(self, uid: str) -> None:
        """The promise is over, whatever room there is for it."""
        member, node = self._members.pop(uid), self._nodes.pop(uid)
        del self._at[node][uid]
        if not self._at[node]:
            del self._at[node]
        for priority, rank in list(self._ranks.items()):
            if rank.get(uid) is member:
                del rank[uid]
                if not rank:
                    del self._ranks[priority]

    def check_consistent(self) -> None:
        """Check the promises against the cluster.

        Raises:
            AssertionError: they disagree.
        """
        for uid, node in self._nodes.items():
            assert self._cluster.node_of(uid) == node, f"{uid} was promised {node}"
            assert uid in self._cluster.assumed, f"{uid} is promised and observed"
