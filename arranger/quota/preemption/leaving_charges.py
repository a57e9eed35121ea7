"""What pods are charged that are being evicted, and the limits as they are once these have gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from arranger.cluster.columns import BoolArray
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import Limit
from arranger.quota.card_column import kinds_in
from arranger.quota.charging.charges import Charge
from arranger.quota.ledger import QuotaLedger


@dataclass(slots=True, eq=False)
class LeavingCharges:
    """The charges of pods that are being evicted, and their sums.

    Args:
        terminating_victims: uids of these pods: still charged to their queues.
    """

    _ledger: QuotaLedger
    _terminating_victims: Collection[str]
    #: uid → charge, as last looked at.
    _charges: dict[str, Charge] = field(default_factory=dict)
    _given_back: Counter[Limit] = field(default_factory=Counter)
    _version: int = -1

    def charges(self) -> Mapping[str, Charge]:
        """uid → what the pod is charged."""
        self._refresh()
        return self._charges

    def given_back(self) -> Mapping[Limit, int]:
        """What all of them give back of each limit; 0 of others."""
        self._refresh()
        return self._given_back

    def __contains__(self, uid: str) -> bool:
        return uid in self._terminating_victims

    def _refresh(self) -> None:
        """Count those that are new, and do without those that have gone."""
        ledger, before = self._ledger, self._charges
        if ledger.version != self._version:
            self._version = ledger.version
            self._given_back.clear()
            before = {}
        charge_of = ledger.charge_of
        now = {uid: c for uid in self._terminating_victims if (c := charge_of(uid)) is not None}
        if now == before:
            return
        self._charges = now
        self._count((c for uid, c in before.items() if now.get(uid) != c), -1)
        self._count((c for uid, c in now.items() if before.get(uid) != c), 1)

    def _count(self, charges: Iterable[Charge], sign: int) -> None:
        for charge in charges:
            for limit, n in self._ledger.released(charge):
                self._given_back[limit] += sign * n


@dataclass(frozen=True, slots=True)
class LeavingLimits:
    """The limits of queues as they are once those have gone that are being evicted.

    The scheduler's :class:`~arranger.framework.preemption.LimitsAfterEvictions`. Who looks for
    victims need not make room again that others have made: those for whom they made it count as
    users already.
    """

    _ledger: QuotaLedger
    _leaving: LeavingCharges

    def exceeded_rows(self, pod: PodInfo) -> tuple[Hashable, BoolArray]:
        """(what is left of the limits that the pod would exceed, row → whether it would there)."""
        ledger, column = self._ledger, self._ledger.card_column
        kinds, tight = column.card_set_ids(), dict[int, Hashable]()
        for kind in kinds_in(kinds):
            left = self._with(ledger.remaining_with(pod, column.card_set(kind)))
            if min(left.values(), default=0) < 0:
                tight[kind] = tuple(sorted(left.items()))
        return (ledger.version, *tight.items()), np.isin(kinds, list(tight))

    def remaining(self, pod: PodInfo, node: str) -> dict[Limit, int]:
        """What would be left of each limit with the pod on that node; less than 0 is too little."""
        return self._with(self._ledger.remaining(pod, node))

    def released_by(self, pod: PodInfo) -> Iterable[tuple[Limit, int]]:
        """What a placed pod would give back; nothing where that has been counted already."""
        return () if pod.uid in self._leaving else self._ledger.released_by(pod)

    def _with(self, left: Mapping[Limit, int]) -> dict[Limit, int]:
        given_back = self._leaving.given_back()
        return {limit: n + given_back.get(limit, 0) for limit, n in left.items()}
