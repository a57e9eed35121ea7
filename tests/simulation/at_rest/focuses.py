"""What happens in worlds that come to rest, and how their pods are: one kind of events at a time.

Where few kinds of events wake anybody, a wake-up that is missing shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: What happens → how often.
Weights = Mapping[str, float]
NEVER: Final = float("inf")


@dataclass(frozen=True)
class Focus:
    """What some worlds are about.

    Attributes:
        events: what happens → how often.
        traits: how pods choose their nodes → how often.
        gangs: what gangs ask for beside members → how often.
        starvation_after: seconds after which a gang's start is planned.
    """

    events: Weights
    traits: Weights
    gangs: Weights = field(default_factory=lambda: {"": 1})
    starvation_after: float = NEVER


_ALL: Final[Weights] = {
    "ends": 6,
    "arrives": 4,
    "node": 2,
    "namespace": 3,
    "service": 2,
    "replica set": 1,
    "owner": 2,
    "group": 3,
    "queue": 1,
    "goes": 1,
}
_FEW: Final[Weights] = {"arrives": 3, "ends": 1}

FOCUSES: Final[Mapping[str, Focus]] = {
    "everything": Focus(_ALL, {"": 6, "spread": 2, "apart": 3, "near": 1, "owned": 3}),
    "workloads": Focus({**_FEW, "service": 6, "replica set": 4}, {"": 1, "owned": 8}),
    "owners": Focus({**_FEW, "owner": 8}, {"": 1, "owned": 9}),
    "PodGroups": Focus({**_FEW, "group": 8}, {"": 8, "owned": 1}),
    "namespaces": Focus({**_FEW, "namespace": 8, "edited": 2}, {"": 2, "apart": 6, "near": 3}),
    # Where zones of nodes change, none is "apart": as with kube-scheduler nobody is woken when one
    # that avoids others gets out of their way so.
    "nodes": Focus(
        {**_FEW, "node": 2, "node changes": 5, "edited": 4, "shrinks": 1},
        {"": 3, "selects": 3, "tolerates": 2, "port": 2, "near": 1, "spread": 1},
    ),
    "domains": Focus(
        {**_FEW, "ends": 4, "node": 2, "node changes": 1},
        {"": 6, "selects": 2, "port": 1, "spread": 1},
        {"": 1, "in a zone": 4, "near in a zone": 1, "in a rack": 2},
    ),
    "gangs": Focus(
        {**_FEW, "ends": 4, "goes": 2, "node": 1, "edited": 2, "shrinks": 3},
        {"": 6, "selects": 1, "apart": 1},
        {"": 1, "bundles": 3, "together": 3, "keeps": 3},
    ),
    "queues": Focus(
        {**_FEW, "ends": 2, "queue": 1, "queue changes": 6, "namespace": 1},
        {"": 6, "owned": 1, "selects": 1},
        {"": 3, "bundles": 1},
    ),
    "Reservations": Focus(
        {**_FEW, "ends": 2, "reservation": 6, "time": 3, "namespace": 1, "node": 1, "edited": 2},
        {"": 4, "limited": 3, "asks": 2},
    ),
    "starvation": Focus(
        {**_FEW, "ends": 4, "time": 3, "node": 1, "goes": 1},
        {"": 6, "limited": 3},
        {"": 3, "in a zone": 1, "keeps": 1},
        starvation_after=4.0,
    ),
    "volumes": Focus(
        {**_FEW, "ends": 3, "volume": 4, "volume claim": 3, "class": 2, "space": 2},
        {"": 2, "shared volume": 8},
    ),
    # Not of shared volumes: as with kube-scheduler nobody is woken by a pod that comes with one,
    # and so has it counted on a node where others need not count it again.
    "volumes on nodes": Focus(
        {**_FEW, "ends": 3, "volume": 2, "class": 1, "drivers": 4, "node changes": 1},
        {"": 2, "volume": 8},
    ),
    "devices": Focus(
        {**_FEW, "ends": 3, "slice": 4, "device class": 2, "claim": 3},
        {"": 2, "device": 6, "shared device": 3},
    ),
}
