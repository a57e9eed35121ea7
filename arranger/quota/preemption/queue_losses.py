"""What queues lose by evictions, added up victim by victim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from arranger.cluster.pod_info import PodInfo
from arranger.quota.charging.charges import Charge
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.reclaim import Demand, DeservedReclaim, Keeps

#: What is left to a queue that loses nothing.
_NOTHING: Mapping[str, int] = Counter()
#: Queue → what it loses, what its parts lose included.
_Sums = dict[str, Counter[str]]


@dataclass(frozen=True, slots=True)
class Taker:
    """A pod that takes the places of others.

    Attributes:
        takes_by_service: whether it takes a victim's place because of their service types, so that
            it does not count what the victim's queue deserves.
    """

    demand: Demand
    takes_by_service: Callable[[PodInfo, Charge], bool]


@dataclass(slots=True, eq=False)
class QueueLosses:
    """Keeps every queue what it is guaranteed, and what it deserves where others take from it.

    The scheduler's :class:`~arranger.framework.preemption.Losses`. Good for one moment: it does not
    follow what queues use, nor who is being evicted.

    Args:
        own: the takers' queues and those above them, which may fall below their guarantees.
        leaving: uid → charge of the pods that are being evicted already; these are lost, too.
    """

    _ledger: QuotaLedger
    _reclaim: DeservedReclaim
    _takers: Sequence[Taker]
    _own: Collection[str]
    _leaving: Mapping[str, Charge]
    #: What leaves in all, and of it what leaves for the takers.
    _gone: _Sums = field(default_factory=dict)
    _taken: _Sums = field(default_factory=dict)
    #: uids of those added.
    _added: set[str] = field(default_factory=set)
    #: (taker, queue, resources given) → what other queues must keep where such pods leave for it.
    _keeps: dict[tuple[int, str, frozenset[str]], Sequence[Keeps]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for charge in () if self._gone else self._leaving.values():
            self._lose(self._gone, charge, 1)

    def copy(self) -> Self:
        """The same, to which others can be added."""
        return type(self)(
            self._ledger,
            self._reclaim,
            self._takers,
            self._own,
            self._leaving,
            {name: amounts.copy() for name, amounts in self._gone.items()},
            {name: amounts.copy() for name, amounts in self._taken.items()},
            self._added.copy(),
            self._keeps.copy(),
        )

    def add(self, victims: Sequence[PodInfo]) -> bool:
        """Add these, if they may leave with those that were added before; returns whether."""
        return self._add(victims, keep=True)

    def may_add(self, victims: Sequence[PodInfo]) -> bool:
        """Whether :meth:`add` would add these."""
        return self._add(victims, keep=False)

    @property
    def state(self) -> Hashable:
        """What queues have left of what they must keep something of."""
        return tuple(
            (name, r, amount, queue.used[r] - self._gone.get(name, _NOTHING)[r])
            for name, queue in self._ledger.queues.items()
            for kept in (queue.guarantee, queue.due)
            for r, amount in kept.items()
        )

    def kind_of(self, victim: PodInfo) -> Hashable:
        """The queue that it is charged to, and what it is charged."""
        charge = self._ledger.charge_of(victim.uid)
        if charge is None:
            return victim.uid
        return charge.queue, frozenset(charge.amounts.items())

    def _add(self, victims: Sequence[PodInfo], *, keep: bool) -> bool:
        charges, added, known = dict[str, Charge](), self._added, self._keeps
        for pod in victims:
            charge = self._ledger.charge_of(pod.uid)
            if charge is not None and pod.uid not in added:
                charges[pod.uid] = charge
        kinds = {
            (number, charge.queue, _given(charge)): (taker.demand, charge)
            for number, taker in enumerate(self._takers)
            for pod in victims
            if (charge := charges.get(pod.uid)) is not None
            and charge.queue != taker.demand.queue
            and not taker.takes_by_service(pod, charge)
        }
        new = {
            kind: self._reclaim.keeps(demand, charge)
            for kind, (demand, charge) in kinds.items()
            if kind not in known
        }
        known |= new
        self._count(charges, 1)
        allowed = self._is_enough_left(charges.values())
        if allowed and keep:
            added.update(charges)
        else:
            self._count(charges, -1)
            for kind in new:
                del known[kind]
        return allowed

    def _count(self, charges: Mapping[str, Charge], sign: int) -> None:
        for uid, charge in charges.items():
            self._lose(self._taken, charge, sign)
            if uid not in self._leaving:
                self._lose(self._gone, charge, sign)

    def _lose(self, sums: _Sums, charge: Charge, sign: int) -> None:
        for queue in self._ledger.path_self_to_root(charge.queue):
            lost = sums.get(queue.name)
            if lost is None:
                lost = sums[queue.name] = Counter()
            for resource, n in charge.amounts.items():
                lost[resource] += sign * n

    def _is_enough_left(self, losing: Iterable[Charge]) -> bool:
        """Whether queues have what they must keep; guarantees only of those that are ``losing``."""
        ledger, gone = self._ledger, self._gone
        for name in {charge.queue for charge in losing}:
            for queue in ledger.path_self_to_root(name):
                if queue.name in self._own or not queue.guarantee:
                    continue
                taken, lost = self._taken[queue.name], gone.get(queue.name, _NOTHING)
                for resource, guaranteed in queue.guarantee.items():
                    if taken[resource] and queue.used[resource] - lost[resource] < guaranteed:
                        return False
        return all(
            each.is_enough(gone.get(each.queue.name, _NOTHING))
            for keeps in self._keeps.values()
            for each in keeps
        )


def _given(charge: Charge) -> frozenset[str]:
    """The resources of which a pod gives any back."""
    return frozenset(resource for resource, n in charge.amounts.items() if n)
