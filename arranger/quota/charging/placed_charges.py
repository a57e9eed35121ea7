"""What is noted of pods that are charged: how much, and of whom that may be another by now."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice

from arranger.cluster.pod_info import PodInfo
from arranger.quota.charging.charges import Charge
from arranger.quota.guarantees import Guarantees
from arranger.quota.queue_spec import QueueQuota


class PlacedCharges:
    """What each placed pod is charged, and of which pods that may be another by now."""

    def __init__(self) -> None:
        self._charges: dict[str, Charge] = {}
        #: Namespace → uids.
        self._of_namespace: dict[str, dict[str, None]] = {}
        self._doubted: dict[str, None] | None = None
        #: Those that were, for who follows more of a pod's queue than what it is charged.
        self._to_follow: dict[str, None] = {}
        self._regrouped: dict[str, None] = {}

    def get(self, uid: str) -> Charge | None:
        """What a pod is charged."""
        return self._charges.get(uid)

    def copy(self) -> dict[str, Charge]:
        """uid → what the pod is charged."""
        return self._charges.copy()

    def values(self) -> Iterable[Charge]:
        """What all pods are charged."""
        return self._charges.values()

    def in_namespace(self, name: str) -> Iterable[str]:
        """The uids of the pods of a namespace."""
        return list(self._of_namespace.get(name, ()))

    def set(self, pod: PodInfo, charge: Charge) -> Charge:
        """A pod is charged this."""
        self._charges[pod.uid] = charge
        self._of_namespace.setdefault(pod.namespace, {})[pod.uid] = None
        return charge

    def pop(self, pod: PodInfo) -> Charge | None:
        """A pod is charged no more; what it was charged."""
        charge = self._charges.pop(pod.uid, None)
        if charge is not None:
            of_namespace = self._of_namespace[pod.namespace]
            del of_namespace[pod.uid]
            if not of_namespace:
                del self._of_namespace[pod.namespace]
        return charge

    def clear(self) -> None:
        """Nobody is charged anything."""
        self._charges.clear()
        self._of_namespace.clear()

    def doubt(self, uids: Iterable[str]) -> None:
        """What these are charged may be another by now."""
        if self._doubted is None:
            self._doubted = {}
        self._doubted.update(dict.fromkeys(uids))

    def doubt_group(self, namespace: str, uids: Iterable[str]) -> None:
        """The same of a group's pods, and of those that wait in its namespace."""
        self.doubt(uids)
        self._regrouped[namespace] = None

    def take_regrouped(self) -> Iterable[str]:
        """The namespaces whose waiting pods were doubted since the last time."""
        regrouped, self._regrouped = self._regrouped, {}
        return regrouped

    @property
    def has_doubted(self) -> bool:
        """Whether some are doubted and not taken."""
        return bool(self._doubted)

    def is_doubted(self, uid: str) -> bool:
        """Whether what a pod is charged may be another by now."""
        return uid in (self._doubted or ())

    def take_doubted(self, most: int = sys.maxsize) -> Iterable[str] | None:
        """Those that were doubted since the last time; None for nobody.

        Only the first, until ``most`` of them are charged anything; then the next time others.
        """
        doubted, self._doubted = self._doubted, None
        if doubted and len(doubted) > most:
            first: list[str] = []
            for uid in doubted:
                most -= uid in self._charges
                if most < 0:
                    break
                first.append(uid)
            self._doubted = dict(islice(doubted.items(), len(first), None))
            doubted = dict.fromkeys(first)
        self._to_follow.update(doubted or {})
        return doubted

    def take_to_follow(self) -> Iterable[str]:
        """Those of which the queue may be another one since the last time, by what was doubted."""
        to_follow, self._to_follow = self._to_follow, {}
        return to_follow


class LiftedCharges:
    """Charges that were given back, for pods that come back to their nodes unchanged.

    As when a plan whom to evict takes many pods away and puts them back in each of its steps.
    """

    def __init__(self) -> None:
        #: Uid → pod, node, charge.
        self._lifted: dict[str, tuple[PodInfo, str, Charge]] = {}

    def put(self, pod: PodInfo, node: str, charge: Charge) -> None:
        """A pod has left its node."""
        self._lifted[pod.uid] = pod, node, charge

    def take(self, pod: PodInfo, node: str) -> Charge | None:
        """What a pod was charged there, if it is the same as then."""
        known = self._lifted.pop(pod.uid, None)
        if known is None or known[0] is not pod or known[1] != node:
            return None
        return known[2]

    def queue_before(self, pod: PodInfo, node: str) -> str:
        """The queue that a pod was charged to there before it was edited; "" if it was not."""
        known = self._lifted.get(pod.uid)
        edited = known is not None and known[0] is not pod and known[1] == node
        return known[2].queue if known is not None and edited else ""

    def clear(self) -> None:
        """What charges depend on may have changed."""
        self._lifted.clear()


def count_use(
    charges: Iterable[Charge],
    sign: int,
    path_of: Callable[[str], Iterable[QueueQuota]],
    guarantees: Guarantees,
) -> None:
    """Add what is charged to the use of queues and of those above them (1), or take it off (-1).

    ``path_of`` a queue leads from it to the root. Of many pods each queue is looked at once.
    """
    found: dict[str, Counter[str]] = {}
    for charge in charges:
        if (amounts := found.get(charge.queue)) is None:
            amounts = found[charge.queue] = Counter()
        for name, n in charge.amounts.items():
            amounts[name] += n
    for queue, amounts in found.items():
        for state in path_of(queue):
            for name, n in amounts.items():
                state.used[name] += sign * n
        if guarantees.resources:
            guarantees.on_moved(queue, amounts, sign)
