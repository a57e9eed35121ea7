"""The priority that counts: a PodGroup's before the pod's own, as far as its queue believes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from arranger.api.types.pod_groups import AnyPodGroup, NativePodGroup
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.queue.cluster_events import quota_change
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.gangs.registry import GangRegistry
from arranger.quota.ledger import QuotaLedger

#: Pods on nodes that get another priority in one run of the engine, some 13 ms.
CHANGED_AT_ONCE: Final = 256


@dataclass(slots=True, eq=False)
class EffectivePriorities:
    """Works out the priorities of pods, and again when what they depend on has changed."""

    _context: EngineContext
    _nominator: Nominator
    _registry: GangRegistry
    _ledger: QuotaLedger
    _queue: SchedulingQueue
    #: uids of pods on nodes that may have another priority, and whether one of those that were due
    #: before has.
    _due: dict[str, None] = field(default_factory=dict, init=False)
    _changed: bool = field(default=False, init=False)

    @property
    def ready(self) -> bool:
        """Whether some pods on nodes may have another priority."""
        return bool(self._due)

    def advance(self, now: float) -> None:
        """Work out the priorities of some pods on nodes; in the end wake who may evict any.

        Not of those of which it is not known yet to which queue they are charged.
        """
        self._due.update(self._ledger.kept.take_changed())
        doubted = self._ledger.placed.is_doubted
        for uid in [uid for uid in islice(self._due, CHANGED_AT_ONCE) if not doubted(uid)]:
            self._changed |= self._update(uid)
            del self._due[uid]
        if self._changed and not self._due:
            self._changed = False
            self._queue.wake(quota_change("PodGroup"), now)

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

        The caller queues those that wait again, for their order; those on nodes get it later.
        """
        gang = self._registry.gangs.get(group.key)
        # Other PodGroups do not set the priority of their pods; but they may name a queue.
        concerned = isinstance(group, NativePodGroup) or self._ledger.rights.limits_priority
        if gang is not None and concerned:
            self.update_soon(gang.memberships)

    def update_soon(self, uids: Iterable[str]) -> None:
        """Pods may be in other queues: those that wait now, others once they are charged."""
        for uid in uids:
            self._update_waiting_pod(uid)
            if uid in self._context.cluster:
                self._due[uid] = None

    def update_all(self) -> None:
        """Queues believe other priorities, or pods are in other queues."""
        placed = [pod.uid for pod, _ in self._context.cluster.placed_pods()]
        for uid in dict.fromkeys((*placed, *self._context.pods)):
            self._update(uid)

    def _update(self, uid: str) -> bool:
        """Work out a pod's priority; whether it is on a node and has another."""
        changed = uid not in self._nominator and self._update_placed_pod(uid)
        self._update_waiting_pod(uid)
        return changed

    def _update_waiting_pod(self, uid: str) -> None:
        member = self._context.pods.get(uid)
        if member is None:
            return
        before = member.pod.priority
        for known in (member.pod, member.pending_update):
            if known is not None:
                known.priority = self.of(known)
        if uid in self._nominator and member.pod.priority != before:
            self._nominator.update(member)

    def _update_placed_pod(self, uid: str) -> bool:
        cluster = self._context.cluster
        placed, node = cluster.pod(uid), cluster.node_of(uid)
        if placed is None or node is None:
            return False
        priority = self.of(placed)
        if placed.priority == priority:
            return False
        # Off the node and back, so that what is cached about the pods there is computed again.
        assumed = uid in cluster.assumed
        cluster.remove_pod(uid)
        placed.priority = priority
        cluster.assume_pod(placed, node)
        if not assumed:
            cluster.observe_pod(placed)
        return True
