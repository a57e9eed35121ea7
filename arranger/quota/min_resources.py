"""Whether there may be room for ``minResources`` of a PodGroup: what Volcano's enqueue action asks.

A PodGroup wants at least so much for its pods, which may be more than those ask for that must run
together: the executors of a Spark job come after its driver. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from arranger.api.bounded_cache import bounded_cache
from arranger.api.quantity import QuantityError
from arranger.api.resource_requests import Amounts, format_quantity, parse_resource_list
from arranger.api.types.pod_groups import (
    MAX_MIN_RESOURCES,
    AnyPodGroup,
    PodGroup,
    VolcanoPodGroup,
)

#: So many times the cluster may be promised to PodGroups of Volcano, as its overcommit plugin does.
CLUSTER_FACTOR: Final = 1.2
#: Limits and numbers of objects, which ResourceQuotas know.
_OTHER_PREFIXES: Final = ("requests.", "limits.", "count/")


class Room(NamedTuple):
    """A limit on what PodGroups may be promised.

    Attributes:
        queue: whose limit it is; "" for the cluster.
        used: what pods use, and what other PodGroups have been promised beside that.
    """

    queue: str
    resource: str
    used: int
    limit: int


def requested_minimum(group: AnyPodGroup | None) -> Amounts:
    """What counts of a PodGroup's ``minResources``; nothing, if that cannot be read or names too
    many resources.

    The answer is not to be changed.
    """
    if not isinstance(group, PodGroup) or not group.spec.min_resources:
        return {}
    if len(group.spec.min_resources) > MAX_MIN_RESOURCES:
        return {}
    return _parse(tuple(group.spec.min_resources.items()))


@bounded_cache(4096)
def _parse(resources: tuple[tuple[str, str | int | float], ...]) -> Amounts:
    try:
        amounts = parse_resource_list(dict(resources))
    except QuantityError:
        return {}
    return {
        name: amount
        for name, amount in amounts.items()
        if amount > 0 and name != "pods" and not name.startswith(_OTHER_PREFIXES)
    }


def cluster_limit(group: AnyPodGroup, total: int) -> int:
    """How much of a resource PodGroups like this one may be promised, of what the nodes have."""
    return int(total * CLUSTER_FACTOR) if isinstance(group, VolcanoPodGroup) else total


def why_not_admitted(wanted: Amounts, rooms: Iterable[Room]) -> str:
    """Why a PodGroup that wants so much more than its pods have may not be tried; "" if it may."""
    for room in rooms:
        amount = wanted.get(room.resource, 0)
        if amount and room.used + amount > room.limit:
            n, total, limit = (
                format_quantity(room.resource, each)
                for each in (amount, room.used + amount, room.limit)
            )
            if room.queue:
                lacks = f"Queue <{room.queue}> has insufficient {room.resource} quota"
            else:
                lacks = f"Insufficient {room.resource} in the cluster"
            return (
                f"{lacks} for its minResources: requested <{n}>, total would be <{total}>, but "
                f"capability is <{limit}>"
            )
    return ""
