"""Makes a world from a seed, with some of the features switched off (swarm testing).

A world with everything in it seldom gets deep into any one thing: what one feature does keeps the
others from what they would do. So each seed has features of its own.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from arranger.embedded.kubelet import RUN_SECONDS
from tests.builders import Manifest, a_node, a_pod
from tests.hostile.attack import CULPRIT
from tests.swarm.extenders import an_extender
from tests.swarm.world import Event, World
from tests.swarm.worlds.arrivals import Arrivals
from tests.swarm.worlds.duels import in_early_version, some_duels
from tests.swarm.worlds.happenings import Happenings
from tests.swarm.worlds.harm import some_harm
from tests.swarm.worlds.life import some_life
from tests.swarm.worlds.rights import some_rights
from tests.swarm.worlds.tenants import SECOND, moved, namespaces
from tests.swarm.worlds.troubles import random_faults
from tests.swarm.worlds.whims import some_whims
from tests.swarm.worlds.windows import some_reservations, with_wishes

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
    "reservations": 0.2,
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
    "restores": 0.1,
    "nodes-go": 0.2,
    # who else is there
    "tenants": 0.3,
    "others": 0.2,
    "commands": 0.3,
    "hostile": 0.15,
    "extenders": 0.2,
    "permits": 0.1,
    # what is known to come about
    "duels": 0.3,
    "early-groups": 0.15,
    "harm": 0.1,
    "rights": 0.3,
    "life": 0.4,
    "whims": 0.3,
}
#: Feature → the random numbers that it is made from, where these are not those of all others: so
#: worlds without it are as they were before there was any.
_STREAMS: Final[Mapping[str, str]] = {
    "duels": "by itself",
    "early-groups": "by itself",
    "harm": "by itself",
    "rights": "later",
    "life": "last",
    "whims": "whims",
}
#: Feature → those that are off beside it. By a wrong clock nobody knows whether a window is open;
#: where there are queues, nodes are kept for others, or gangs are edited, nobody knows what must
#: come of a duel.
_ALONE: Final[Mapping[str, frozenset[str]]] = {
    "reservations": frozenset({"skews"}),
    "duels": frozenset({"queues", "queues-change", "reservations"}),
    "whims": frozenset({"duels"}),
}
#: Where the plugin is that makes pods wait.
PERMITS: Final = "tests/swarm/permits.py"
_ELECTION: Final = {"resourceNamespace": "kube-system"}
#: Leases that cost little over days; a new leader comes after a minute.
_SLOW_LEASE: Final = {"leaseDuration": 60.0, "renewDeadline": 40.0, "retryPeriod": 15.0}


def generate(
    seed: int, *, seconds: float = 180.0, weights: Mapping[str, float] | None = None
) -> World:
    """The world of a seed.

    Args:
        seconds: how long things happen.
        weights: feature → how often it is on, where that is not as in :data:`FEATURES`.
    """
    rng = random.Random(f"world {seed}")
    streams = {name: random.Random(f"{name} {seed}") for name in _STREAMS.values()}
    of = {feature: streams[name] for feature, name in _STREAMS.items()}
    features = tuple(_features({**FEATURES, **(weights or {})}, rng, of))
    every = rng.choice([3.0, 6.0, 12.0])
    arrivals = Arrivals(seed, features)
    around = arrivals.surround()
    if "reservations" in features:
        around += some_reservations(rng, around)
    happenings = Happenings(rng, features, around)
    at = 1.0
    number = 0
    while at < seconds:
        number += 1
        if rng.random() < 0.6:
            arrived = arrivals.next(f"w{number}")
            if "tenants" in features and rng.random() < 0.4:
                arrived = moved(arrived, SECOND)
            if "reservations" in features:
                arrived = [with_wishes(rng, each) for each in arrived]
            happenings.arrive(at, arrived)
        else:
            happenings.happen(at)
        at += rng.expovariate(1 / every)
    events = happenings.events(until=seconds)
    if "duels" in features:
        nodes, fought = some_duels(of["duels"], seconds)
        around += nodes
        events = tuple(sorted((*events, *fought), key=lambda event: event.at))
    if "harm" in features:
        devices, harm = some_harm(of["harm"], seconds)
        around += [*namespaces(CULPRIT), *devices]
        events = tuple(sorted((*events, *harm), key=lambda event: event.at))
    if "rights" in features:
        around, changes = some_rights(of["rights"], around, seconds)
        events = tuple(sorted((*events, *changes), key=lambda event: event.at))
    if "life" in features:
        lived = some_life(of["life"], around, events, seconds)
        events = tuple(sorted((*events, *lived), key=lambda event: event.at))
    if "whims" in features:
        jump = "skews" in features
        edited = some_whims(of["whims"], around, events, seconds, clocks_jump=jump)
        events = tuple(sorted((*events, *edited), key=lambda event: event.at))
    if "early-groups" in features:
        events = tuple(map(in_early_version, events))
    return World(
        seed=seed,
        seconds=seconds,
        features=features,
        config=_config(rng, features),
        objects=tuple(around),
        events=events,
        faults=random_faults(rng, features, seconds),
    )


def only(*features: str) -> Mapping[str, float]:
    """The weights of worlds that have these features, and no others."""
    return {name: float(name in features) for name in FEATURES}


def _features(
    shares: Mapping[str, float], rng: random.Random, of: Mapping[str, random.Random]
) -> Iterator[str]:
    """Those that are on; ``of``: the random numbers of those that have their own."""
    drawn = [name for name, share in shares.items() if of.get(name, rng).random() < share]
    off = frozenset[str]().union(*(_ALONE.get(name, frozenset()) for name in drawn))
    return (name for name in drawn if name not in off)


def stated_world(seed: int, *, seconds: float = 86400.0) -> World:
    """The world that rates are stated for: 50 nodes, about 300 pods at a time, faults all along.

    Every ten seconds a pod arrives in the mean, and lives for 3,000: lone ones, and gangs.
    """
    rng = random.Random(f"stated {seed}")
    nodes = [a_node(f"n{n}").offers(cpu=16).manifest() for n in range(50)]
    events: list[Event] = []
    at, number = 10.0, 0
    while at < seconds:
        number += 1
        size = rng.choice([1, 1, 1, 1, 2, 4])
        runs = {RUN_SECONDS: str(round(rng.expovariate(1 / 3000), 1))}
        for n in range(size):
            pod = a_pod(f"p{number}-{n}").needs(cpu=rng.choice([1, 2])).annotated(runs)
            if size > 1:
                pod = pod.in_gang(f"p{number}", size)
            events.append(Event(at=round(at, 3), does="create", object=pod.manifest()))
        at += rng.expovariate(1 / (10 * size))
    faults = random_faults(rng, ("kills", "pauses", "lost", "slow", "refusals", "watches"), seconds)
    return World(
        seed=seed,
        seconds=seconds,
        features=("removes-ended",),
        config={"leaderElection": {**_ELECTION, **_SLOW_LEASE}},
        objects=tuple(nodes),
        events=tuple(events),
        faults=tuple(fault for fault in faults if rng.random() < 0.05),
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
    config = {"leaderElection": dict(_ELECTION), "gangs": gangs, "queues": queues}
    if "extenders" in features:
        config["extenders"] = [an_extender(ignorable=rng.random() < 0.5, binds=rng.random() < 0.6)]
    if "permits" in features:
        config["profiles"] = [{"plugins": {"enabled": [{"name": "SlowPermit"}]}}]
        config["pluginFiles"] = [PERMITS]
    return config
