"""Whether what waits could ever be placed: is it larger than every node, domain or queue limit?

Only size is looked at, on nodes as if they were empty, and only what is certain is said: a pod that
is too large for every node, a minimum of which too few fit on all nodes or domains, or whose sum is
more than these have, or more than a limit of its queues. Whoever is told nothing may still not fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain
from typing import Final

import numpy as np

from arranger.api.annotations import JOB_PRIORITY
from arranger.api.settings.gang_settings import Topology
from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import ABSENT, IntArray, exact_sum
from arranger.cluster.nodes.node_sizes import amounts_text, why_too_large
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.quota.cards import is_card_resource
from arranger.quota.ledger import QuotaLedger

#: Kinds of pods of which it is kept how many fit on each node.
_MAX_KNOWN: Final = 64
#: Said of a group of several namespaces.
_ONE_GANG: Final = "one of its gangs is larger than the nodes, or than what its queue may use"


@dataclass(frozen=True, slots=True)
class _Demand:
    """Some of these pods must be placed.

    Attributes:
        pods: those that may be, one entry each.
        least: how many of them.
        what: their name in messages.
    """

    pods: Sequence[PodInfo]
    least: int
    what: str

    def kinds(self) -> list[PodInfo]:
        """One pod for each different request."""
        return list({_requests(pod): pod for pod in reversed(self.pods)}.values())

    def smallest_sums(self) -> dict[str, int]:
        """Resource → what so many pods ask for at least."""
        names = {name for pod in self.pods for name in pod.counted_requests}
        amounts = ((name, (p.counted_requests.get(name, 0) for p in self.pods)) for name in names)
        sums = {name: sum(nsmallest(self.least, each)) for name, each in amounts}
        return {name: total for name, total in sorted(sums.items()) if total}


@dataclass(frozen=True, slots=True)
class Satisfiability:
    """Says why an entity can never be placed as the cluster and the queues are."""

    _cluster: Cluster
    _ledger: QuotaLedger

    def why_never(self, entity: QueuedEntity, held: Sequence[QueuedPod] = ()) -> str:
        """Why, "" if it might be; worked out anew when nodes, queues or its members have changed.

        Of lone pods only those of jobs are asked about: the message of others is kube-scheduler's.

        Args:
            held: members of a gang that have their nodes already.
        """
        group, table = entity.group, self._cluster.table
        if group is None:
            pod = entity.representative.pod
            if JOB_PRIORITY not in pod.pod.metadata.annotations:
                return ""
        least = () if group is None else tuple(gang.shortfall({}) for gang in group.gangs)
        state = (table.nodes_version, self._ledger.facts_version, entity.revision, least, len(held))
        if entity.judged_at != state:
            entity.judged_at, entity.never = state, self._why_never(entity, held)
        return entity.never

    def _why_never(self, entity: QueuedEntity, held: Sequence[QueuedPod]) -> str:
        if not self._cluster.table.count:
            return ""  # an autoscaler may bring the first node
        if entity.group is None:
            pod = entity.representative.pod
            alone = _Demand([pod], 1, f"pod {pod.key}")
            return self._too_large(alone, {}) or self._beyond_queue(alone)
        demands = list(_demands(entity, held))
        topology = entity.group.topology
        required = topology if topology is not None and topology.required else None
        # Bundles ask for the same mostly.
        fits, rooms = dict[Hashable, bool](), dict[Hashable, IntArray]()
        found = chain(
            (self._too_large(demand, fits) for demand in demands),
            (self._too_few_fit(demand, required, rooms) for demand in demands),
            (self._beyond_queue(demand) for demand in demands),
        )
        why = next((why for why in found if why), "")
        # Its members of other namespaces are told as well, who cannot see this one.
        return _ONE_GANG if why and entity.group.spans_namespaces else why

    def _too_large(self, demand: _Demand, fits: dict[Hashable, bool]) -> str:
        """For the first pod that is too large, if too few others are left without such pods.

        ``fits``: requests → whether a node has them, as far as that is known.
        """
        large = [pod for pod in demand.pods if not self._fits_empty(pod, fits)]
        if len(demand.pods) - len(large) >= demand.least:
            return ""
        return why_too_large(self._cluster.table, large[0])

    def _fits_empty(self, pod: PodInfo, fits: dict[Hashable, bool]) -> bool:
        requests = _requests(pod)
        found = fits.get(requests)
        if found is None:
            found = fits[requests] = bool(self._room(pod).any())
        return found

    def _too_few_fit(
        self, demand: _Demand, required: Topology | None, known: dict[Hashable, IntArray]
    ) -> str:
        """By how many pods of each kind fit on empty nodes, and by the sum of what they ask for.

        ``known``: requests → row → how many such pods fit, of some.
        """
        if demand.least < 2:
            return ""
        rooms = np.zeros(1, dtype=np.int64)
        for pod in demand.kinds():
            requests = _requests(pod)
            fit = known.get(requests)
            if fit is None:
                fit = self._room(pod)
                if len(known) < _MAX_KNOWN:
                    known[requests] = fit
            rooms = rooms + fit
        room = self._largest(rooms, required)
        if room is None:
            return ""  # there is no domain, which the attempt itself says
        that, must = f"of the {demand.least} {demand.what} that must run", demand.least
        if room < must:
            if required is None:
                return f"all nodes together have room for {room} {that}"
            return f"no domain of {required.key} has room for more than {room} {that}"
        table = self._cluster.table
        for name, asked in demand.smallest_sums().items():
            most = self._largest(
                table.allocatable[table.resource_column(name), : table.size], required
            )
            if most is not None and most < asked:
                asks, has = amounts_text({name: asked}), amounts_text({name: most})
                where = "all nodes together have"
                if required is not None:
                    where = f"no domain of {required.key} has more than"
                return f"{must} {demand.what} ask for {asks} at least, and {where} {has}"
        return ""

    def _room(self, pod: PodInfo) -> IntArray:
        return self._cluster.table.replica_capacity(pod, empty=True)

    def _largest(self, amounts: IntArray, required: Topology | None) -> int | None:
        """The sum over all rows, or the largest over those of a domain; None for no domain."""
        if required is None:
            return exact_sum(amounts)
        table = self._cluster.table
        column = table.label_column(required.key)[: table.size]
        inside = table.alive[: table.size] & (column != ABSENT)
        if not inside.any():
            return None
        return int(np.bincount(column[inside], weights=amounts[inside]).max())

    def _beyond_queue(self, demand: _Demand) -> str:
        ledger, pod = self._ledger, demand.pods[0]
        if not ledger.active:
            return ""
        asked, queue = demand.smallest_sums(), ledger.queue_name(pod)
        cards = sum(amount for name, amount in asked.items() if is_card_resource(name))
        exempt = ("cpu", "memory") if ledger.exempt_card_pods and cards else ()
        one = demand.least == 1
        asks = f"pod {pod.key} asks for" if one else f"{demand.least} {demand.what} ask for"
        for state in ledger.path_self_to_root(queue):
            for name, amount in asked.items():
                limit = state.capability.get(name)
                if limit is not None and name not in exempt and amount > limit:
                    amounts, may = amounts_text({name: amount}), amounts_text({name: limit})
                    return f"{asks} {amounts}, and queue {state.name} may use {may}"
            if cards and state.card_quota is not None:
                names = ledger.annotations.cards_wanted_by(pod) or tuple(state.card_quota)
                quota = sum(state.card_quota.get(name, 0) for name in names)
                if cards > quota:
                    return f"{asks} {cards} cards, and queue {state.name} may use {quota}"
        return ""


def _demands(entity: QueuedEntity, held: Sequence[QueuedPod]) -> Iterator[_Demand]:
    """What the minimum of a gang group still lacks, by bundle and in all."""
    group = entity.gang_group
    members: dict[tuple[str, str | None], list[PodInfo]] = {}
    gang_of, have = group.gangs_by_uid(), group.count_by_bundle(member.uid for member in held)
    for member in entity.members.values():
        gang = gang_of[member.uid]
        for bundle in (gang.memberships[member.uid].bundle, None):
            members.setdefault((gang.name, bundle), []).append(member.pod)
    for gang in group.gangs:
        missing = gang.missing_members(have[gang.name])
        missing[None] = gang.shortfall(have[gang.name])
        for bundle, least in missing.items():
            pods = members.get((gang.name, bundle), [])
            if 0 < least <= len(pods):
                of_bundle = f"bundle {bundle} of " if bundle else ""
                yield _Demand(pods, least, f"pods of {of_bundle}gang {gang.name}")


def _requests(pod: PodInfo) -> Hashable:
    return tuple(sorted(pod.counted_requests.items()))
