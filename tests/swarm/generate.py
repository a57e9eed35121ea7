"""Makes a world from a seed, with some of the features switched off (swarm testing).

A world with everything in it seldom gets deep into any one thing: what one feature does keeps the
others from what they would do. So each seed has features of its own.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any, Final

from tests.builders import Manifest
from tests.swarm.arrivals import Arrivals
from tests.swarm.happenings import Happenings
from tests.swarm.troubles import random_faults
from tests.swarm.world import World

#: Feature → how often it is on.
FEATURES: Final[Mapping[str, float]] = {
    # who arrives
    "gangs": 0.6,
    "bundles": 0.4,
    "pairs": 0.3,
    "podgroups": 0.6,
    "jobs": 0.3,
    "workloads": 0.3,
    "vcjobs": 0.3,
    "tyjobs": 0.3,
    "deployments": 0.3,
    # what pods ask for
    "queues": 0.5,
    "cards": 0.4,
    "priorities": 0.5,
    "choosy": 0.4,
    "budgets": 0.3,
    "volumes": 0.25,
    "devices": 0.25,
    "owners": 0.3,
    "slow-ends": 0.5,
    "gates": 0.2,
    # what happens
    "runs-end": 0.7,
    "deletes": 0.6,
    "edits": 0.6,
    "nodes-change": 0.6,
    "queues-change": 0.4,
    # what goes wrong
    "kills": 0.5,
    "pauses": 0.3,
    "lost": 0.5,
    "slow": 0.4,
    "refusals": 0.5,
    "watches": 0.5,
    "leases": 0.3,
    "halts": 0.2,
    "skews": 0.15,
}
_ELECTION: Final = {"resourceNamespace": "kube-system"}


def generate(
    seed: int, *, seconds: float = 240.0, weights: Mapping[str, float] | None = None
) -> World:
    """The world of a seed.

    Args:
        seconds: how long things happen.
        weights: feature → how often it is on, where that is not as in :data:`FEATURES`.
    """
    rng = random.Random(f"world {seed}")
    shares = {**FEATURES, **(weights or {})}
    features = tuple(name for name, share in shares.items() if rng.random() < share)
    every = rng.choice([2.0, 4.0, 8.0, 15.0])
    arrivals = Arrivals(seed, features)
    around = arrivals.surround()
    happenings = Happenings(rng, features, around)
    at = 1.0
    number = 0
    while at < seconds:
        number += 1
        if rng.random() < 0.6:
            happenings.arrive(at, arrivals.next(f"w{number}"))
        else:
            happenings.happen(at)
        at += rng.expovariate(1 / every)
    return World(
        seed=seed,
        seconds=seconds,
        features=features,
        config=_config(rng, features),
        objects=tuple(around),
        events=happenings.events(),
        faults=random_faults(rng, features, seconds),
    )


def _config(rng: random.Random, features: Collection[str]) -> dict[str, Any]:
    gangs: Manifest = {}
    if rng.random() < 0.5:
        gangs["waitTimeSeconds"] = rng.choice([20.0, 60.0])
        gangs["onTimeout"] = rng.choice(["Block", "Retry"])
    if rng.random() < 0.3:
        gangs["onPartialBind"] = rng.choice(["Complete", "Delete", "Hold"])
    if rng.random() < 0.3:
        gangs["starvationAfterSeconds"] = 60.0
        gangs["reservationSeconds"] = 60.0
    queues: Manifest = {}
    if "queues" in features:
        queues["preemptWithinQueue"] = rng.random() < 0.7
        queues["respectPriority"] = rng.random() < 0.8
        queues["overCommitFactor"] = rng.choice([1.0, 2.0])
        queues["cardUnlimitedCpuMemory"] = rng.random() < 0.5
    return {"leaderElection": dict(_ELECTION), "gangs": gangs, "queues": queues}
