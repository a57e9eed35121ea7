"""Which queue may take room back from which, by what they deserve (docs/design/queues.md).

As the reclaim of Volcano's capacity plugin, between pods whose service type nobody says. A queue
takes only while it has no more than it deserves of anything that the taker asks for. It takes from
queues that have more than they deserve, and leaves them at least that. Priorities do not count
between queues.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from arranger.api.resource_requests import Amounts
from arranger.cluster.pod_info import PodInfo
from arranger.quota.charging.charges import Charge
from arranger.quota.ledger import QuotaLedger
from arranger.quota.queue_spec import QueueQuota

#: Pods that Volcano's conformance plugin spares.
_CRITICAL_CLASSES: Final = ("system-cluster-critical", "system-node-critical")
_SYSTEM_NAMESPACE: Final = "kube-system"


@dataclass(frozen=True, slots=True)
class Demand:
    """What a taker wants for its queue.

    Attributes:
        wanted: of all that is placed at once.
        held: what its queue is charged for it already, for nodes that it has been promised.
        known: what :meth:`is_due` says, where that was asked before: number of queues → the answer.
    """

    queue: str
    wanted: Amounts
    held: Mapping[str, int] = field(default_factory=dict)
    known: Sequence[bool] = ()

    def is_due(self, path: Sequence[QueueQuota]) -> bool:
        """Whether the first of its queues would have no more than they deserve of what is wanted.

        At least one must deserve some of it: who deserves nothing takes nothing.
        """
        if self.known:
            return self.known[len(path)]
        found = False
        for queue in path:
            for r, n in self.wanted.items():
                if r in queue.due:
                    found = True
                    if queue.used[r] + n - self.held.get(r, 0) > queue.due[r]:
                        return False
        return found


@dataclass(frozen=True, slots=True)
class Keeps:
    """What a queue must keep: of one of these resources at least what it deserves."""

    queue: QueueQuota
    resources: Sequence[str]

    def is_enough(self, lost: Mapping[str, int]) -> bool:
        """Whether it has that after losing so much (resource → amount, 0 for others)."""
        queue = self.queue
        return any(queue.used[r] - lost[r] >= queue.due[r] for r in self.resources)


@dataclass(frozen=True, slots=True)
class DeservedReclaim:
    """Compares what queues use with what they deserve; of queues in a tree, as far as they differ.

    What they have in common stays the same, whoever of its parts has it.
    """

    _ledger: QuotaLedger

    def kind_of(self, victim: PodInfo, charge: Charge) -> Hashable:
        """Of victims of one queue and kind all or none may be taken."""
        if charge.says_service or not self._ledger.has_dues:
            return None
        return _is_critical(victim), frozenset(charge.amounts)

    def may_reclaim(self, taker: Demand, victim: PodInfo, theirs: Charge) -> bool:
        """Whether a taker might have the place of a pod of another queue.

        Whether all victims may leave together is decided by what :meth:`keeps` tells.
        """
        state = self._ledger.queue_quota(theirs.queue)
        if state is None or not state.reclaimable or _is_critical(victim):
            return False
        mine, others = self._apart(taker.queue, theirs.queue)
        if not (mine and others) or not taker.is_due(mine):
            return False
        return all(
            any(each.used[r] > each.due[r] for r in resources)
            for each in others
            if (resources := _concerned(each, taker.wanted, theirs.amounts))
        )

    def keeps(self, taker: Demand, charge: Charge) -> Sequence[Keeps]:
        """What other queues must keep if pods charged with the same resources leave for a taker."""
        return [
            Keeps(each, resources)
            for each in self._apart(taker.queue, charge.queue)[1]
            if (resources := _concerned(each, taker.wanted, charge.amounts))
        ]

    def state(self, taker: Demand) -> tuple[object, ...]:
        """What :meth:`may_reclaim` depends on beside the victim."""
        over = tuple(
            (name, *(r for r, due in state.due.items() if state.used[r] > due))
            for name, state in self._ledger.queues.items()
            if state.due
        )
        return over, self.dues(taker)

    def dues(self, taker: Demand) -> tuple[bool, ...]:
        """:meth:`Demand.is_due` of none, the first, the first two and so on of a taker's queues."""
        path = list(self._ledger.path_self_to_root(taker.queue))
        return tuple(taker.is_due(path[:count]) for count in range(len(path) + 1))

    def uses(self) -> Mapping[str, Amounts]:
        """Queue → what it uses of what it deserves, for all queues that deserve anything."""
        if not self._ledger.has_dues:
            return {}
        queues = self._ledger.queues.items()
        return {name: {r: state.used[r] for r in state.due} for name, state in queues if state.due}

    def may_help(
        self, pod: PodInfo, before: Mapping[str, Amounts], after: Mapping[str, Amounts]
    ) -> bool:
        """Whether a waiting pod might take more than before, now that queues use this.

        Its own queues may use less, or others more than they deserve.
        """
        ledger = self._ledger
        taker = ledger.charge(pod)
        demand = Demand(taker.queue, taker.amounts)
        if taker.says_service or not any(self.dues(demand)):
            return False
        own = ledger.queues_of(pod)
        for name, uses in after.items():
            if (queue := ledger.queues.get(name)) is None:
                continue  # many that wait are not asked at once: it has gone since
            known, due = before.get(name, {}), queue.due
            for resource, used in uses.items():
                less = used < known.get(resource, 0)
                more = used > max(due.get(resource, 0), known.get(resource, 0))
                if less if name in own else more:
                    return True
        return False

    def _apart(self, mine: str, theirs: str) -> tuple[list[QueueQuota], list[QueueQuota]]:
        """The queues that each is in and the other is not."""
        ledger = self._ledger
        path, other = list(ledger.path_self_to_root(mine)), list(ledger.path_self_to_root(theirs))
        while path and other and path[-1].name == other[-1].name:
            path.pop()
            other.pop()
        return path, other


def _concerned(state: QueueQuota, wanted: Amounts, given: Amounts) -> Sequence[str]:
    """The resources by which it is judged whether a queue may lose a pod; none, if it may.

    Of those that the pod gives and the queue deserves, those that the taker wants, if any.
    """
    deserved = [r for r in state.due if given.get(r)]
    return [r for r in deserved if wanted.get(r)] or deserved


def _is_critical(pod: PodInfo) -> bool:
    spec, namespace = pod.pod.spec, pod.pod.metadata.namespace
    return spec.priority_class_name in _CRITICAL_CLASSES or namespace == _SYSTEM_NAMESPACE
