"""Who may evict whom: preemption inside a queue, reclaim across queues.

See ``docs/design/queues.md``.

Inside a queue a pod of higher priority may evict one of lower priority. Across queues inference
pods may evict training pods of lower priority; and where nobody says the service types of pods,
they may evict one another by what their queues deserve
(:mod:`arranger.quota.preemption.reclaim`). That is all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nlargest
from typing import Final, Protocol

from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import (
    NO_LOSSES,
    UNPROTECTED,
    Departures,
    LimitsAfterEvictions,
    Losses,
    PriorityPolicy,
    QuotaLimits,
)
from arranger.quota.charging.charges import Charge
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.eviction_protection import EvictionProtection
from arranger.quota.preemption.leaving_charges import LeavingCharges, LeavingLimits
from arranger.quota.preemption.queue_losses import QueueLosses, Taker
from arranger.quota.preemption.reclaim import Demand, DeservedReclaim
from arranger.quota.preemption.spared_victims import NOBODY_SPARED, SparedVictims
from arranger.quota.preemption.victim_classes import VictimClasses

#: Larger than any priority: the queue's priority counts before the pod's.
_QUEUE_PRIORITY_FACTOR = 2**33


@dataclass(frozen=True, slots=True)
class QuotaConfig:
    """What about queues can be set.

    Attributes:
        respect_priority: whether a victim must also be of lower priority than the preemptor; not
            where neither has any.
        preempt_within_queue: whether a pod may take from a lower one of its own queue.
        service_type_by_owner: kind of a pod's owner → service type, for pods that do not state
            theirs.
        exempt_card_pods: whether pods with cards are free of limits on cpu and memory.
        over_commit: PodGroups are admitted while their cards fit into this many times the quota.
        reclaim_min_runtime, preempt_min_runtime: seconds that a pod runs at least before one of
            another queue, or of its own, takes its place.
        eviction_cool_down: seconds after an eviction for which what comes back is left alone.
        card_request_timeout: seconds for which cards are kept for an admitted PodGroup that
            does not take them.
        usage_half_life: seconds after which half of what queues have used counts for their turns;
            None where only present use counts.
        usage_period: what was used counts as if it had been used within so many seconds.
    """

    respect_priority: bool = True
    preempt_within_queue: bool = True
    service_type_by_owner: Mapping[str, str] = field(default_factory=dict)
    exempt_card_pods: bool = False
    over_commit: float = 1.0
    reclaim_min_runtime: float = 0.0
    preempt_min_runtime: float = 0.0
    eviction_cool_down: float = 0.0
    card_request_timeout: float = 300.0
    usage_half_life: float | None = None
    usage_period: float = 3600.0


class GangExpansion(Protocol):
    """Which pods leave together, since they are in one gang."""

    def in_gang(self, pod: PodInfo) -> bool:
        """Whether a pod is in a gang."""

    def group_of(self, pod: PodInfo) -> str | None:
        """The gang group of a pod; None for a pod on its own."""

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """The victims, and all that must leave with them."""

    def departures(self) -> Departures:
        """Who leaves one after the other: nobody yet."""

    def groups_broken(self, victims: Sequence[PodInfo]) -> int:
        """How many gang groups would be left with less than their minimum."""


#: Preemptors of which is remembered what counts.
_REMEMBERED: Final = 64


class QueuePreemptionPolicy:
    """The scheduler's :class:`~arranger.framework.preemption.EvictionPolicy`.

    Compares preemptors and victims by their queues; by priority alone where there are none.

    Args:
        terminating_victims: uids of pods that are being evicted: still charged to their queues, and
            not to be counted on any more.
        protection: whom time protects; nobody, where there is none.
        gangs: who leaves together.
        demands: queue → what members of a gang want of it at once.
        classes: of placed pods, where another policy of the same ledger has them.
        spared: whom nobody evicts; nobody, where there is none.
    """

    def __init__(
        self,
        ledger: QuotaLedger,
        config: QuotaConfig,
        terminating_victims: Collection[str] = (),
        protection: EvictionProtection | None = None,
        gangs: GangExpansion | None = None,
        demands: Mapping[str, Demand] | None = None,
        classes: VictimClasses | None = None,
        spared: SparedVictims = NOBODY_SPARED,
    ) -> None:
        self._reclaim = DeservedReclaim(ledger)
        self._demands = demands or {}
        self._gangs: GangExpansion = gangs or PriorityPolicy()
        self._protection = protection if protection is not None and protection.active else None
        self._ledger = ledger
        self._config = config
        self._terminating_victims = terminating_victims
        self._leaving = LeavingCharges(ledger, terminating_victims)
        self._limits_after_evictions = LeavingLimits(ledger, self._leaving)
        self._classes = classes or VictimClasses(ledger.table, self.victim_class)
        self._spared = spared
        #: uid → preemptor, version of the ledger, what counts of it.
        self._facts: dict[str, tuple[PodInfo, int, tuple[Charge, bool]]] = {}

    @property
    def by_priority_alone(self) -> bool:
        """Whether there are no queues, so that only priorities count."""
        return not (self._ledger.active or self._spared)

    @property
    def quota(self) -> QuotaLimits | None:
        """The queues' limits, where there are queues."""
        return self._ledger if self._ledger.active else None

    @property
    def quota_after_evictions(self) -> LimitsAfterEvictions | None:
        """The same, as they are once those have gone that are being evicted."""
        return self._limits_after_evictions if self._ledger.active else None

    @property
    def time_protects(self) -> bool:
        """Whether time alone protects any pod."""
        return self._protection is not None

    def can_preempt(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        """Whether a pod may take the place of another."""
        if self._spared.spares(victim):
            return False
        if not self._ledger.active:
            return victim.priority < preemptor.priority
        if not self._may_ever_preempt(preemptor, victim):
            return False
        protection = self._protection
        return protection is None or not protection.is_protected(
            victim, same_queue=self._same_queue(preemptor, victim)
        )

    def can_preempt_any(self, preemptor: PodInfo, victims: Iterable[PodInfo]) -> bool:
        """Whether a pod may take the place of any of these now."""
        return any(self.can_preempt(preemptor, victim) for victim in victims)

    def evictable_rows(
        self, preemptors: Sequence[PodInfo], work: AttemptWork | None = None
    ) -> Collection[int] | None:
        """See :class:`~arranger.framework.preemption.EvictionPolicy`; a class is asked about
        once."""
        ledger = self._ledger
        if ledger.active and self._protection is not None:
            return None
        found = set[int]()
        state = ledger.active, ledger.charges_version, ledger.has_dues, self._spared.version
        for like, rows in self._classes.rows_by_pod(state, work):
            if all(self.can_preempt(each, like) for each in preemptors):
                found.update(rows)
        return found

    def victim_class(self, pod: PodInfo) -> Hashable:
        """What decides for whom a placed pod may be evicted."""
        if self._spared.spares(pod):
            return pod.uid
        if not self._ledger.active:
            return pod.priority
        charge = self._ledger.charge_of(pod.uid)
        if charge is None:
            return pod.uid
        kind = self._reclaim.kind_of(pod, charge)
        return charge.queue, charge.service, charge.preemptable, pod.priority, kind

    def preemptor_class(self, pod: PodInfo) -> Hashable:
        """What else than its priority decides whom a pod may evict."""
        if not self._ledger.active:
            return None
        charge, open_ = self._preemptor_facts(pod)
        if self._ledger.has_dues and not charge.says_service:
            return charge.queue, charge.service, open_, frozenset(charge.amounts.items())
        return charge.queue, charge.service, open_

    def preemptor_state(self, pod: PodInfo) -> Hashable:
        """While it is the same, :meth:`can_preempt` says the same of a pod, if time protects nobody
        and the victims stay what they are."""
        spared = self._spared.version
        if not self._ledger.has_dues:
            return spared
        charge, _ = self._preemptor_facts(pod)
        if charge.says_service:
            return spared
        return spared, self._reclaim.state(self._demand_of(pod, charge))

    def lasting_preemptor_class(self, pod: PodInfo) -> Hashable:
        """Preemptors of one class may evict the same while only some of them are placed; None where
        that goes by what their queue has now, or by the time."""
        ledger, spared = self._ledger, self._spared.version
        if not ledger.active:
            return pod.priority, spared
        charge, open_ = self._preemptor_facts(pod)
        if self._protection is not None or (ledger.has_dues and not charge.says_service):
            return None
        return pod.priority, spared, charge.queue, charge.service, open_, ledger.facts_version

    def for_group(self, members: Sequence[PodInfo], needed: int) -> QueuePreemptionPolicy:
        """The policy for members of a gang, so many of which want nodes at once.

        Those of them that want most, so that its queue has no more than it deserves in any case.
        """
        ledger = self._ledger
        if not (ledger.active and ledger.has_dues):
            return self
        charges = [ledger.charge(pod).amounts for pod in members]
        names = {name for amounts in charges for name in amounts}
        wanted = {
            name: sum(nlargest(needed, (amounts.get(name, 0) for amounts in charges)))
            for name in names
        }
        held = Counter[str]()
        for pod in members:
            if (known := ledger.charge_of(pod.uid)) is not None:
                held.update(known.amounts)
        demands = (Demand(queue, wanted, held) for queue in set(map(ledger.queue_name, members)))
        return QueuePreemptionPolicy(
            ledger,
            self._config,
            self._terminating_victims,
            self._protection,
            self._gangs,
            {d.queue: replace(d, known=self._reclaim.dues(d)) for d in demands},
            self._classes,
            self._spared,
        )

    @property
    def now(self) -> float:
        """The present moment, in seconds since 1970; for whom time protects."""
        assert self._protection is not None, "time protects somebody"
        return self._protection.now

    def protected_until(self, preemptor: PodInfo, victim: PodInfo) -> float:
        """Until when nothing but time keeps a pod from taking the place of another.

        In seconds since 1970; a moment that is past where it may, or where time changes nothing.
        """
        if (
            self._protection is None
            or not self._ledger.active
            or self._spared.spares(victim)
            or not self._may_ever_preempt(preemptor, victim)
        ):
            return UNPROTECTED
        same_queue = self._same_queue(preemptor, victim)
        return self._protection.protected_until(victim, same_queue=same_queue)

    def _same_queue(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        theirs = self._ledger.charge_of(victim.uid)
        queue = theirs.queue if theirs is not None else self._ledger.queue_name(victim)
        return queue == self._preemptor_facts(preemptor)[0].queue

    def _may_ever_preempt(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        lower, ledger = victim.priority < preemptor.priority, self._ledger
        mine, open_ = self._preemptor_facts(preemptor)
        theirs = ledger.charge_of(victim.uid) or ledger.charge(victim)
        if not theirs.preemptable:
            return False
        if mine.queue == theirs.queue:
            return lower and self._config.preempt_within_queue
        if not open_:
            return False
        if self._takes_by_service(preemptor, mine, victim, theirs):
            return True
        if mine.says_service or theirs.says_service or not ledger.has_dues:
            return False
        return self._reclaim.may_reclaim(self._demand_of(preemptor, mine), victim, theirs)

    def _takes_by_service(
        self, preemptor: PodInfo, mine: Charge, victim: PodInfo, theirs: Charge
    ) -> bool:
        """Whether a pod may take from another queue because of their service types."""
        if not (mine.service == "inference" and theirs.service == "training"):
            return False
        # Pods without any priority are judged by their service types alone.
        lower = victim.priority < preemptor.priority
        none = preemptor.priority == victim.priority == 0
        if self._config.respect_priority and not (lower or none):
            return False
        state = self._ledger.queue_quota(theirs.queue)
        return state is not None and state.reclaimable

    def _preemptor_facts(self, pod: PodInfo) -> tuple[Charge, bool]:
        """What counts of a preemptor, and whether its queue may; remembered, since each is compared
        with many."""
        ledger = self._ledger
        known = self._facts.get(pod.uid)
        if known is None or known[0] is not pod or known[1] != ledger.facts_version:
            if len(self._facts) >= _REMEMBERED:
                self._facts.clear()
            charge = ledger.charge(pod)
            open_ = not ledger.why_refused(pod)
            known = self._facts[pod.uid] = pod, ledger.facts_version, (charge, open_)
        return known[2]

    def _demand_of(self, pod: PodInfo, charge: Charge) -> Demand:
        if (of_gang := self._demands.get(charge.queue)) is not None:
            return of_gang
        known = self._ledger.charge_of(pod.uid)
        return Demand(charge.queue, charge.amounts, {} if known is None else known.amounts)

    def in_gang(self, pod: PodInfo) -> bool:
        """Whether a pod is in a gang, so that others may have to leave with it."""
        return self._gangs.in_gang(pod)

    def group_of(self, pod: PodInfo) -> str | None:
        """The gang group of a pod; None for a pod on its own."""
        return self._gangs.group_of(pod)

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """The victims, and the whole of each gang that would be left short of its minimum."""
        return self._gangs.expand_to_gang(victims)

    def departures(self) -> Departures:
        """Who leaves one after the other: nobody yet."""
        return self._gangs.departures()

    def groups_broken(self, victims: Sequence[PodInfo]) -> int:
        """How many gang groups would be left short of their minimum."""
        return self._gangs.groups_broken(victims)

    def importance(self, pod: PodInfo) -> int:
        """How important a pod is among victims: by its queue's priority, then by its own."""
        ledger = self._ledger
        if not ledger.active:
            return pod.priority
        charge = ledger.charge_of(pod.uid)
        state = ledger.queue_quota(charge.queue if charge else ledger.queue_name(pod))
        return (state.priority if state is not None else 0) * _QUEUE_PRIORITY_FACTOR + pod.priority

    def losses(self, takers: Sequence[PodInfo]) -> Losses:
        """What queues lose to some pods: none but the takers' own may fall below what it is
        guaranteed, and none that they take from below what it deserves."""
        ledger = self._ledger
        if not ledger.has_dues:
            return NO_LOSSES
        leaving = self._leaving.charges()
        own = frozenset[str]().union(*map(ledger.queues_of, takers))
        return QueueLosses(ledger, self._reclaim, [*map(self._taker, takers)], own, leaving)

    def _taker(self, pod: PodInfo) -> Taker:
        mine = self._ledger.charge(pod)
        return Taker(self._demand_of(pod, mine), partial(self._takes_by_service, pod, mine))
