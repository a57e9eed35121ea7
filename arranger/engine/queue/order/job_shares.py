"""How much of the cluster a job asks for in all: dominant resource fairness (DRF) between jobs.

See ``docs/design/tyjob.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from arranger.api.resource_requests import Amounts
from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedEntity


@dataclass(slots=True, eq=False)
class JobShares:
    """Works out dominant shares, of what an entity's pods request whether they run or not."""

    _cluster: Cluster

    def share_of(self, entity: QueuedEntity) -> float:
        """The dominant share of a lone pod, or of all members of a gang group."""
        requested: Counter[str] = Counter()
        for member in entity.members.values():
            requested.update(member.pod.requests)
        for gang in entity.group.gangs if entity.group is not None else ():
            for uid in gang.memberships.keys() - entity.members.keys():
                placed = self._cluster.pod(uid)
                if placed is not None:
                    requested.update(placed.requests)
        return job_share(requested, self._capacity())

    def _capacity(self) -> dict[str, int]:
        table = self._cluster.table
        totals = table.allocatable[:, : table.size].sum(axis=1).tolist()
        return dict(zip(table.resources.values, totals, strict=False))


def job_share(requests: Amounts, capacity: Mapping[str, int]) -> float:
    """The largest share that ``requests`` make of any resource of the cluster.

    The job with the lower share goes first. A resource that the cluster has none of does not count:
    nobody could be served first because of it.

    Args:
        requests: what a job asks for in all, running or not; same units as ``capacity``.
        capacity: what all nodes offer together.

    Returns:
        0.0 for a job that asks for nothing; above 1.0 for one that the cluster can never hold.
    """
    counted = ((n, capacity.get(name, 0)) for name, n in requests.items() if n > 0)
    return max((amount / total for amount, total in counted if total > 0), default=0.0)
