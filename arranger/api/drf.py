"""Dominant resource fairness (DRF): which share of the cluster a job requests.

Orders the jobs of a queue, see ``docs/design/tyjob.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

from arranger.api.resource_requests import Amounts


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
