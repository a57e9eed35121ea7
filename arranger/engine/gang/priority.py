"""The priority that counts: a PodGroup's before the pod's own, as far as its queue believes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from arranger.api.types.pod_groups import AnyPodGroup, NativePodGroup
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.queue.nominator import Nominator
from arranger.gangs.registry import GangRegistry
from arranger.quota.ledger import QuotaLedger


@dataclass(frozen=True, slots=True)
class EffectivePriorities:
    """Works out the priorities of pods, and again when what they depend on has changed."""

    _context: EngineContext
    _nominator: Nominator
    _registry: GangRegistry
    _ledger: QuotaLedger

    def stated(self, pod: PodInfo) -> int:
        """A pod's priority: that of its PodGroup, if it has one, instead of its own (KEP-5710)."""
        gang = self._registry.gang_of(pod.uid)
        group_priority = None if gang is None else gang.settings.priority
        return pod.pod.priority if group_priority is None else group_priority

    def of(self, pod: PodInfo) -> int:
        """The priority that counts: no more than the queue of the pod believes."""
        ledger, stated = self._ledger, self.stated(pod)
        if not ledger.rights.limits_priority:
            return stated
        return ledger.rights.believed_priority(ledger.queue_name(pod), stated)

    def update_group(self, group: AnyPodGroup) -> None:
        """A PodGroup came, went or was edited: its gang's members may have another priority.

        The caller queues those that wait again, for their order.
        """
        gang = self._registry.gangs.get(group.key)
        # Other PodGroups do not set the priority of their pods; but they may name a queue.
        concerned = isinstance(group, NativePodGroup) or self._ledger.rights.limits_priority
        if gang is not None and concerned:
            for uid in list(gang.memberships):
                self._update(uid)

    def update_pods(self, uids: Iterable[str]) -> None:
        """Pods are in other queues."""
        for uid in uids:
            self._update(uid)

    def update_all(self) -> None:
        """Queues believe other priorities, or pods are in other queues."""
        placed = [pod.uid for pod, _ in self._context.cluster.placed_pods()]
        self.update_pods(dict.fromkeys((*placed, *self._context.pods)))

    def _update(self, uid: str) -> None:
        if uid not in self._nominator:
            self._update_placed_pod(uid)
        member = self._context.pods.get(uid)
        if member is None:
            return
        before = member.pod.priority
        for known in (member.pod, member.pending_update):
            if known is not None:
                known.priority = self.of(known)
        if uid in self._nominator and member.pod.priority != before:
            self._nominator.update(member)

    def _update_placed_pod(self, uid: str) -> None:
        cluster = self._context.cluster
        placed, node = cluster.pod(uid), cluster.node_of(uid)
        if placed is None or node is None:
            return
        priority = self.of(placed)
        if placed.priority != priority:
            # Off the node and back, so that what is cached about the pods there is computed again.
            assumed = uid in cluster.assumed
            cluster.remove_pod(uid)
            placed.priority = priority
            cluster.assume_pod(placed, node)
            if not assumed:
                cluster.observe_pod(placed)
