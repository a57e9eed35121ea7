"""Admits PodGroups by their ``minResources``, and keeps that for those that run.

It is asked at every attempt, so who is admitted follows from what runs now. What the taker may
evict counts as room: whether it is needed is found out when the PodGroup is tried, and nobody
leaves unless all of it then fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from arranger.api.resource_requests import Amounts
from arranger.api.settings.queue_annotations import ROOT_QUEUE
from arranger.api.types.pod_groups import AnyPodGroup, VolcanoPodGroup
from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import exact_sum
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import EvictionPolicy, Limit
from arranger.quota.ledger import QuotaLedger
from arranger.quota.min_resources import (
    Room,
    cluster_limit,
    requested_minimum,
    why_not_admitted,
)
from arranger.quota.preemption.evictable_use import EvictableUse

#: In a :data:`Limit`, in place of a queue.
CLUSTER: Final = ""
#: Limit → amount.
Sums = Counter[Limit]


class Gangs(Protocol):
    """What is known of the gangs of PodGroups."""

    def members_of(self, name: str) -> Iterable[str]:
        """The uids of a gang's pods; none, if there is no such gang."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a PodGroup is not admitted, and the limits of which there is too little."""

    text: str
    lacks: frozenset[Limit]


@dataclass(slots=True, eq=False)
class MinResourcesAdmission:
    """Asks whether what PodGroups want at least fits beside what pods use, and what PodGroups that
    run are still to get."""

    _cluster: Cluster
    _ledger: QuotaLedger
    _policy: EvictionPolicy
    _gangs: Gangs
    #: PodGroups that may run and lack some of what they want.
    _unsettled: dict[str, VolcanoPodGroup] = field(default_factory=dict)
    _evictable: EvictableUse = field(init=False)

    def __post_init__(self) -> None:
        self._evictable = EvictableUse(self._cluster, self._policy, self._charged_queue)

    def admit(self, groups: Sequence[AnyPodGroup], taker: PodInfo) -> Refusal | None:
        """Admit PodGroups that are placed together, all or none; the reason if not.

        Nothing is kept for them before their minimum runs: who cannot be placed holds up nobody.
        """
        # A PodGroup in a queue that it may not use gets nothing there; its pods are told so.
        asking = [g for g in groups if requested_minimum(g) and self._ledger.queue_of_group(g)[1]]
        if not asking:
            return None
        for group in asking:
            self._unsettled.pop(group.key, None)
        promised = self._promised()
        refusal = self._refusal(asking, promised)
        if refusal is not None:
            promised.subtract(self._evictable_for(taker))
            refusal = self._refusal(asking, promised)
        if refusal is None:
            for group in asking:
                self.watch(group)
        return refusal

    def watch(self, group: AnyPodGroup) -> None:
        """A PodGroup was admitted or edited: if it runs, it may lack some of what it wants."""
        self._unsettled.pop(group.key, None)
        if isinstance(group, VolcanoPodGroup) and requested_minimum(group):
            self._unsettled[group.key] = group

    def forget(self, name: str) -> bool:
        """A PodGroup is gone; whether it may have lacked something."""
        return self._unsettled.pop(name, None) is not None

    # --- inside ----------------------------------------------------------------------------

    def _promised(self) -> Sums:
        """What PodGroups that run are still to get; those that lack nothing are done with."""
        found: Sums = Counter()
        for name, group in list(self._unsettled.items()):
            placed, amounts = self._outstanding(group)
            if placed < (group.spec.min_member or 1) or not any(amounts.values()):
                del self._unsettled[name]
            else:
                found.update(self._counted(group, amounts))
        return found

    def _outstanding(self, group: AnyPodGroup) -> tuple[int, Amounts]:
        """How many pods of a PodGroup have nodes; what they are still to get of what it wants."""
        pods = [pod for uid in self._gangs.members_of(group.key) if (pod := self._cluster.pod(uid))]
        held: Counter[str] = Counter()
        for pod in pods:
            held.update(pod.requests)
        wanted = requested_minimum(group)
        return len(pods), {name: max(0, n - held[name]) for name, n in wanted.items()}

    def _refusal(self, asking: Iterable[AnyPodGroup], promised: Sums) -> Refusal | None:
        promised = Counter(promised)
        for group in asking:
            _, amounts = self._outstanding(group)
            lacks: dict[Limit, str] = {}
            for key, room in self._rooms(group, amounts):
                used = max(0, room.used + promised[key[0], room.resource])
                if why := why_not_admitted(amounts, [room._replace(used=used)]):
                    lacks[key] = why
            if lacks:
                return Refusal(next(iter(lacks.values())), frozenset(lacks))
            promised.update(self._counted(group, amounts))
        return None

    def _counted(self, group: AnyPodGroup, amounts: Amounts) -> Sums:
        """What this counts towards, as pods of the PodGroup would."""
        scopes = self._scopes(self._ledger.queue_of_group(group)[0])
        return Counter({(scope, name): n for scope in scopes for name, n in amounts.items()})

    def _scopes(self, queue: str) -> set[str]:
        return {CLUSTER, ROOT_QUEUE, *(q.name for q in self._ledger.path_self_to_root(queue))}

    def _rooms(self, group: AnyPodGroup, wanted: Amounts) -> Iterator[tuple[Limit, Room]]:
        table = self._cluster.table
        for name, n in wanted.items():
            if n:
                column = table.resource_column(name)
                # Who asks for more than there is on a node leaves as much to others elsewhere.
                offered = table.allocatable[column, : table.size]
                used = exact_sum(np.minimum(table.requested[column, : table.size], offered))
                limit = cluster_limit(
                    group, self._ledger.card_column.resource_totals().get(name, 0)
                )
                yield (CLUSTER, name), Room(CLUSTER, name, used, limit)
        if self._ledger.active and isinstance(group, VolcanoPodGroup):
            for each in self._ledger.limits_for(self._ledger.queue_of_group(group)[0], wanted):
                yield each.key, Room(each.queue, each.resource, each.used, each.limit)

    def _evictable_for(self, taker: PodInfo) -> Sums:
        """What those use whose place a pod might take, by cluster and queue."""
        if taker.pod.spec.preemption_policy == "Never":
            return Counter()
        found: Sums = Counter()
        for queue, used in self._evictable.for_taker(taker, self._ledger.version).items():
            for scope in self._scopes(queue):
                found.update({(scope, name): n for name, n in used.items()})
        return found

    def _charged_queue(self, pod: PodInfo) -> str:
        charge = self._ledger.charge_of(pod.uid)
        return charge.queue if charge is not None else ""
