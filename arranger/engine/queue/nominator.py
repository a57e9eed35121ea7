"""Which node a pod is nominated for while its victims terminate (``nominator.go``).

A nominated pod is assumed on its node at once, so that no pod of the same or lower priority gets
what its victims free. It is hidden from itself and from pods of higher priority, as in the first of
kube-scheduler's two filter passes; the second pass is for pods that would profit from its being
there, and leaves it out
(:mod:`~arranger.engine.pod.second_filter_pass`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedPod
from arranger.framework.preemption import EvictionPolicy

#: Units of :mod:`~arranger.cluster.attempt_work` to take one nominated pod off its node and to put
#: it back.
HIDING: Final = 15


@dataclass(slots=True, eq=False)
class _StepOfGang:
    """What is hidden from one member of a gang to the next.

    Attributes:
        hidden: uid → nominated pod.
        whom_for: the class of the members for which these are hidden; None for a single one.
        times: how often pods have been hidden.
    """

    hidden: dict[str, QueuedPod] = field(default_factory=dict)
    whom_for: Hashable = None
    times: int = 0


@dataclass(slots=True, eq=False)
class Nominator:
    """The nominated pods and their nodes.

    Attributes:
        terminating_victims: uids of pods that are being evicted, until they are gone.
        inherited_victims: those of them that an earlier run of ours evicted, for whom is not known.
        changes: another number whenever another pod is nominated, or for another node.
    """

    _cluster: Cluster
    _pods: dict[str, QueuedPod] = field(default_factory=dict, init=False)
    _nodes: dict[str, str] = field(default_factory=dict, init=False)
    _by_node: dict[str, dict[str, QueuedPod]] = field(default_factory=dict, init=False)
    #: Priority → the pods of it, by uid.
    _of_priority: dict[int, dict[str, QueuedPod]] = field(default_factory=dict, init=False)
    terminating_victims: set[str] = field(default_factory=set, init=False)
    inherited_victims: set[str] = field(default_factory=set, init=False)
    changes: int = field(default=0, init=False)
    #: Set while :meth:`keep_hidden` counts.
    _step: _StepOfGang | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, uid: object) -> bool:
        return uid in self._nodes

    def terminating_pods(self) -> list[PodInfo]:
        """The pods that are being evicted and are on their nodes still."""
        known = map(self._cluster.pod, sorted(self.terminating_victims))
        return [pod for pod in known if pod is not None]

    def keep(self, uid: str) -> None:
        """A pod is not being evicted any more: it stays, or is gone."""
        self.terminating_victims.discard(uid)
        self.inherited_victims.discard(uid)

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated for, "" for none."""
        return self._nodes.get(uid, "")

    def nominated_pod(self, uid: str) -> QueuedPod | None:
        """A pod that is nominated; None if it is not."""
        return self._pods.get(uid)

    def nominated_pods_on(self, node: str) -> list[QueuedPod]:
        """The pods that are nominated for a node."""
        return list(self._by_node.get(node, {}).values())

    def nominated_pods(self) -> Iterable[QueuedPod]:
        """All nominated pods."""
        return self._pods.values()

    def visible_pods(self) -> list[PodInfo]:
        """The nominated pods that count now: those that are not hidden."""
        return [m.pod for uid, m in self._pods.items() if uid in self._cluster]

    def nominate(self, member: QueuedPod, node: str) -> None:
        """Nominate a pod without a node, in place of an earlier nomination."""
        self.clear(member.uid)
        self.changes += 1
        self._pods[member.uid], self._nodes[member.uid] = member, node
        self._by_node.setdefault(node, {})[member.uid] = member
        self._of_priority.setdefault(member.pod.priority, {})[member.uid] = member
        self._cluster.assume_pod(member.pod, node)

    def clear(self, uid: str) -> bool:
        """End a nomination; whether there was one."""
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
    def hide_for(
        self, member: QueuedPod, policy: EvictionPolicy, mates: Iterable[QueuedPod] = ()
    ) -> Iterator[None]:
        """Hide the nominations that do not count for a pod: its own, and those it may preempt.

        A pod that gets a node inside keeps it; its nomination is over. Those of the ``mates`` are
        hidden as well.
        """
        if (step := self._step) is not None:
            self._hide_in_step(step, member, policy)
            alone = [member, *mates]
        else:
            alone = [*self._hidden_for(member, policy), *mates]
        hidden = {each.uid: each for each in alone if each.uid in self._nodes}
        if step is not None:
            hidden = {uid: each for uid, each in hidden.items() if uid not in step.hidden}
        self._hide(hidden)
        try:
            yield
        finally:
            self._show(hidden)
            if step is not None:
                placed = [uid for uid in (member.uid,) if uid in step.hidden]
                self._show({uid: step.hidden.pop(uid) for uid in placed if uid in self._cluster})
                if step.whom_for is None:
                    self.show_hidden()

    def keep_hidden(self) -> None:
        """From now on what is hidden from a pod stays hidden from those who may preempt the same,
        until :meth:`show_all`: nobody but members of one gang is placed in between."""
        self._step = _StepOfGang()

    def show_all(self) -> None:
        """All nominated pods are on their nodes again; does no harm where they are."""
        self.show_hidden()
        self._step = None

    def show_hidden(self) -> None:
        """The same, while :meth:`keep_hidden` goes on."""
        if (step := self._step) is not None:
            hidden, step.hidden, step.whom_for = step.hidden, {}, None
            self._show(hidden)

    def _hide_in_step(self, step: _StepOfGang, member: QueuedPod, policy: EvictionPolicy) -> None:
        """Hide what a member may preempt, if anything else is hidden now.

        Raises:
            UnfinishedError: it is hidden in the next step: that would be the second time in this.
        """
        whom_for = policy.lasting_preemptor_class(member.pod)
        if whom_for is not None and step.whom_for == whom_for:
            return
        self.show_hidden()
        hidden = {o.uid: o for o in self._hidden_for(member, policy) if o is not member}
        if step.times and hidden:
            self._cluster.work.count(HIDING * len(hidden))
            self._cluster.work.check()
        step.times += 1
        step.hidden, step.whom_for = hidden, whom_for
        self._hide(hidden)

    def _hide(self, pods: dict[str, QueuedPod]) -> None:
        self._cluster.lift([uid for uid in pods if uid in self._cluster])

    def _show(self, pods: dict[str, QueuedPod]) -> None:
        """Put nominated pods back on their nodes; who has got a node is nominated no more."""
        for uid in pods:
            if uid in self._cluster:
                self._forget(uid)
        away = [(pod.pod, self._nodes[uid]) for uid, pod in pods.items() if uid in self._nodes]
        self._cluster.put_back(away)

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
        """The nomination is over; the pod stays on the node if it is there."""
        member, node = self._pods.pop(uid), self._nodes.pop(uid)
        self.changes += 1
        del self._by_node[node][uid]
        if not self._by_node[node]:
            del self._by_node[node]
        for priority, rank in list(self._of_priority.items()):
            if rank.get(uid) is member:
                del rank[uid]
                if not rank:
                    del self._of_priority[priority]

    def check_consistent(self) -> None:
        """Check the nominations against the cluster.

        Raises:
            AssertionError: they disagree.
        """
        for uid, node in self._nodes.items():
            assert self._cluster.node_of(uid) == node, f"{uid} is nominated for {node}"
            assert uid in self._cluster.assumed, f"{uid} is nominated and observed"
        stay = self.inherited_victims - self.terminating_victims
        assert not stay, f"others wait for {stay} to leave"
