"""Admits PodGroups by their ``minResources``, and keeps that for those that run.

It is asked at every attempt, so who is admitted follows from what runs now. What the taker may
evict counts as room: whether it is needed is found out when the PodGroup is tried, and nobody
leaves unless all of it then fits.

A promise costs its owner nothing, so it is kept from PodGroups of its own namespace only: one small
pod whose PodGroup asks for a whole cluster must not hold up the jobs of other tenants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from arranger.api.listing import namespace_of
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
    """Asks whether what PodGroups want at least fits beside what pods use, and what PodGroups of
    their namespaces that run are still to get."""

    _cluster: Cluster
    _ledger: QuotaLedger
    _policy: EvictionPolicy
    _gangs: Gangs
    #: Namespace → PodGroups that may run and lack some of what they want.
    _unsettled: dict[str, dict[str, VolcanoPodGroup]] = field(default_factory=dict)
    _evictable: EvictableUse = field(init=False)

    def __post_init__(self) -> None:
        self._evictable = EvictableUse(self._cluster, self._policy, self._charged_queue)

    def admit(self, groups: Sequence[AnyPodGroup], takers: Sequence[PodInfo]) -> Refusal | None:
        """Admit PodGroups that are placed together, all or none; the reason if not.

        What any of the takers, their pods, may evict counts as room. Nothing is kept for them
        before their minimum runs: who cannot be placed holds up nobody.
        """
        # A PodGroup in a queue that it may not use gets nothing there; its pods are told so.
        asking = [g for g in groups if requested_minimum(g) and self._ledger.queue_of_group(g)[1]]
        if not asking:
            return None
        for group in asking:
            self.forget(group.key)
        promised = {name: self._promised(name) for name in {_namespace(g) for g in asking}}
        refusal = self._refusal(asking, promised, Counter())
        evictable: Sums = Counter()
        for taker in takers if refusal is not None else ():
            evictable |= self._evictable_for(taker)
            if (refusal := self._refusal(asking, promised, evictable)) is None:
                break
        if refusal is None:
            for group in asking:
                self.watch(group)
        return refusal

    def watch(self, group: AnyPodGroup) -> None:
        """A PodGroup was admitted or edited: if it runs, it may lack some of what it wants."""
        self.forget(group.key)
        if isinstance(group, VolcanoPodGroup) and requested_minimum(group):
            self._unsettled.setdefault(_namespace(group), {})[group.key] = group

    def forget(self, name: str) -> bool:
        """A PodGroup is gone; whether it may have lacked something."""
        namespace = namespace_of(name)
        known = self._unsettled.get(namespace, {})
        found = known.pop(name, None)
        if found is not None and not known:
            del self._unsettled[namespace]
        return found is not None

    # --- inside ----------------------------------------------------------------------------

    def _promised(self, namespace: str) -> Sums:
        """What PodGroups of a namespace that run are still to get; those that lack nothing, or have
        no pod any more, are done with."""
        found: Sums = Counter()
        for name, group in list(self._unsettled.get(namespace, {}).items()):
            placed, amounts = self._outstanding(group)
            if not placed or not any(amounts.values()):
                self.forget(name)
            elif placed >= (group.spec.min_member or 1):  # else it runs again, or begins anew
                found.update(self._counted(group, amounts))
        return found

    def _outstanding(self, group: AnyPodGroup) -> tuple[int, Amounts]:
        """How many pods of a PodGroup have nodes; what they are still to get of what it wants."""
        pods = [pod for uid in self._gangs.members_of(group.key) if (pod := self._cluster.pod(uid))]
        wanted = requested_minimum(group)
        held = dict.fromkeys(wanted, 0)
        for pod in pods:
            requests = pod.requests  # of which a pod may have thousands
            for name in wanted.keys() & requests.keys():
                held[name] += requests[name]
        return len(pods), {name: max(0, n - held[name]) for name, n in wanted.items()}

    def _refusal(
        self, asking: Iterable[AnyPodGroup], promised: Mapping[str, Sums], evictable: Sums
    ) -> Refusal | None:
        """Why PodGroups are not admitted together.

        Args:
            promised: namespace → what PodGroups of it are still to get.
            evictable: what counts as room though it is used.
        """
        together: Sums = Counter()
        for group in asking:
            _, amounts = self._outstanding(group)
            own, lacks = promised[_namespace(group)], dict[Limit, str]()
            for limit, room in self._rooms(group, amounts):
                key = limit[0], room.resource
                beside = own[key] + together[key] - evictable[key]
                used = max(0, room.used + beside)
                if why := why_not_admitted(amounts, [room._replace(used=used)]):
                    lacks[limit] = why
            if lacks:
                return Refusal(next(iter(lacks.values())), frozenset(lacks))
            together.update(self._counted(group, amounts))
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


def _namespace(group: AnyPodGroup) -> str:
    return namespace_of(group.key)
