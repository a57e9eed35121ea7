"""Who gives way to whom: preempt inside a queue, reclaim across (seed 004 and the decisions page).

Inside a queue a pod of higher priority takes from a lower one. Across queues inference takes from
training of lower priority, and nobody else from anybody: training takes from nobody, inference not
from inference, and who tells no service type neither takes nor gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from arranger.cluster.columns import BoolArray
from arranger.cluster.pod_info import PodInfo
from arranger.framework.runtime.dry_run import Limit
from arranger.quota.eviction_protection import UNPROTECTED, Sparing
from arranger.quota.ledger import Charge, QueueLedger

#: Larger than any priority: the queue's priority counts before the pod's.
_QUEUE = 2**33


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What about queues can be set.

    Attributes:
        respect_priority: whether a victim must also be of lower priority than the taker; not where
            neither has any.
        preempt_inside: whether a pod may take from a lower one of its own queue.
        by_owner: kind of a pod's owner → service type, for pods that do not tell theirs.
        cards_unlimit: whether pods with cards are free of limits on cpu and memory.
        over_commit: PodGroups are let in while their cards fit into this many times the quota.
        reclaim_min_runtime, preempt_min_runtime: seconds that a pod runs at least before one of
            another queue, or of its own, takes its place.
        eviction_cool_down: seconds after an eviction for which what comes back is left alone.
        card_request_timeout: seconds for which cards are kept for a PodGroup that has been let in
            and does not take them.
    """

    respect_priority: bool = True
    preempt_inside: bool = True
    by_owner: Mapping[str, str] = field(default_factory=dict)
    cards_unlimit: bool = False
    over_commit: float = 1.0
    reclaim_min_runtime: float = 0.0
    preempt_min_runtime: float = 0.0
    eviction_cool_down: float = 0.0
    card_request_timeout: float = 300.0


class QueuePolicy:
    """Judges takers and victims by their queues; by priority alone where there are none.

    Args:
        leaving: uids of pods that are being evicted: still charged, and no more to be counted on.
        sparing: whom time protects; nobody, where there is none.
    """

    def __init__(
        self,
        ledger: QueueLedger,
        rules: QueueRules,
        leaving: Collection[str] = (),
        sparing: Sparing | None = None,
    ) -> None:
        self.sparing = sparing if sparing is not None and sparing.active else None
        self._ledger = ledger
        self._rules = rules
        self._leaving = leaving
        self._taker: tuple[PodInfo | None, int, tuple[Charge, bool] | None] = None, -1, None

    @property
    def active(self) -> bool:
        """Whether there are queues."""
        return self._ledger.active

    def may_take(self, taker: PodInfo, victim: PodInfo) -> bool:
        """Whether a pod may take the place of another."""
        if not self._ledger.active:
            return victim.priority < taker.priority
        if not self._outranks(taker, victim):
            return False
        sparing = self.sparing
        return sparing is None or not sparing.spares(victim, inside=self._inside(taker, victim))

    @property
    def now(self) -> float:
        """The present moment, in seconds since 1970; for whom time protects."""
        assert self.sparing is not None, "time protects somebody"
        return self.sparing.now

    def until(self, taker: PodInfo, victim: PodInfo) -> float:
        """Until when nothing but time keeps a pod from taking the place of another.

        In seconds since 1970; a moment that is past where it may, or where time changes nothing.
        """
        if self.sparing is None or not self._ledger.active or not self._outranks(taker, victim):
            return UNPROTECTED
        return self.sparing.until(victim, inside=self._inside(taker, victim))

    def _inside(self, taker: PodInfo, victim: PodInfo) -> bool:
        theirs = self._ledger.charge_of(victim.uid)
        queue = theirs.queue if theirs is not None else self._ledger.queue_name(victim)
        return queue == self._as_taker(taker)[0].queue

    def _outranks(self, taker: PodInfo, victim: PodInfo) -> bool:
        """Whether a pod may take the place of another, whenever that is."""
        lower, ledger = victim.priority < taker.priority, self._ledger
        mine, open_ = self._as_taker(taker)
        theirs = ledger.charge_of(victim.uid) or ledger.charge(victim)
        if not theirs.may_leave:
            return False
        if mine.queue == theirs.queue:
            return lower and self._rules.preempt_inside
        if not (open_ and mine.service == "inference" and theirs.service == "training"):
            return False
        # Who has no priority at all is judged by its service alone (seed 004, case 5).
        none = taker.priority == victim.priority == 0
        if self._rules.respect_priority and not (lower or none):
            return False
        state = ledger.state_of(theirs.queue)
        return state is not None and state.reclaimable

    def _as_taker(self, pod: PodInfo) -> tuple[Charge, bool]:
        """What counts of a pod that takes, and whether its queue may; the last one is remembered,
        for it is compared with many."""
        ledger = self._ledger
        known, version, facts = self._taker
        if known is not pod or version != ledger.version:
            charge = ledger.charge(pod)
            there = ledger.state_of(charge.queue) is not None
            facts = charge, there and not ledger.closed(pod)
            self._taker = pod, ledger.version, facts
        assert facts is not None, "a taker is known with its facts"
        return facts

    def weight(self, pod: PodInfo) -> int:
        """How important a pod is among victims: by its queue's priority, then by its own."""
        ledger = self._ledger
        if not ledger.active:
            return pod.priority
        charge = ledger.charge_of(pod.uid)
        state = ledger.state_of(charge.queue if charge else ledger.queue_name(pod))
        return (state.priority if state is not None else 0) * _QUEUE + pod.priority

    def tight(self, pod: PodInfo) -> tuple[Hashable, BoolArray]:
        """(uses that decide, row → whether a limit would be exceeded with the pod there)."""
        return self._ledger.tight(pod)

    def room(self, pod: PodInfo, node: str) -> dict[Limit, int]:
        """What would be left of each limit of the pod's queues with it on that node."""
        return self._ledger.room(pod, self._ledger.cards_on(node)) if self._ledger.active else {}

    def frees(self, pod: PodInfo) -> Iterable[tuple[Limit, int]]:
        """What a placed pod would give back to each limit."""
        return self._ledger.frees(pod)

    def allows(self, victims: Sequence[PodInfo]) -> bool:
        """Whether no queue would fall below what it is guaranteed."""
        ledger = self._ledger
        if not any(state.guarantee for state in ledger.queues.values()):
            return True
        going = {pod.uid for pod in victims}
        taken: dict[str, Counter[str]] = {}
        left: dict[str, Counter[str]] = {}
        for uid in going.union(self._leaving):
            charge = ledger.charge_of(uid)
            if charge is None:
                continue
            for state in ledger.chain(charge.queue):
                left.setdefault(state.name, Counter(state.used)).subtract(charge.amounts)
                if uid in going:
                    taken.setdefault(state.name, Counter()).update(charge.amounts)
        return not any(
            amounts[resource] and left[name][resource] < least
            for name, amounts in taken.items()
            if (loser := ledger.state_of(name)) is not None
            for resource, least in loser.guarantee.items()
        )
