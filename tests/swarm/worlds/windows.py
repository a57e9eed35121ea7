"""Reservations of a world: nodes that are kept for some of it, or for nobody, for some time."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from arranger.api.annotations import MAX_RUN_TIME, RESERVATION
from arranger.embedded.virtual_time import EPOCH
from tests.builders import Manifest
from tests.swarm.world import Object
from tests.swarm.worlds.tenants import SECOND

_HEAD: Final = {"apiVersion": "arranger.io/v1alpha1", "kind": "Reservation"}


def some_reservations(rng: random.Random, around: Iterable[Manifest]) -> list[Manifest]:
    """One to three, of nodes that are there at first; half of them hold from the beginning."""
    names: dict[str, list[str]] = {}
    for each in around:
        names.setdefault(each["kind"], []).append(each["metadata"]["name"])
    queues = names.get("Queue", [])
    return [_reservation(rng, f"r{n}", names["Node"], queues) for n in range(rng.randint(1, 3))]


def _reservation(rng: random.Random, name: str, nodes: list[str], queues: list[str]) -> Manifest:
    users: list[Object] = [_namespaced("default"), _namespaced(SECOND)]
    users += [{"queues": [queue]} for queue in queues]
    spec: Object = {"window": a_window(rng), "nodes": {"names": [rng.choice(nodes)]}}
    if rng.random() < 0.3:
        zone = {"topology.kubernetes.io/zone": rng.choice("ab")}
        spec["nodes"] = {"selector": {"matchLabels": zone}}
    spec |= {"maintenance": True} if rng.random() < 0.2 else {"users": rng.choice(users)}
    if "users" in spec and rng.random() < 0.3:
        spec["nodes"]["perNode"] = {"cpu": rng.choice(["500m", "1", "2"])}
    if rng.random() < 0.4:
        spec["evict"] = True
    if rng.random() < 0.7:
        spec["drainBefore"] = rng.choice(["1s", "20s", "2m"])
    return {**_HEAD, "metadata": {"name": name}, "spec": spec}


def a_window(rng: random.Random) -> Object:
    """One that holds from the beginning, or begins later."""
    start = EPOCH + timedelta(seconds=rng.choice([-600.0, -600.0, round(rng.uniform(0, 150))]))
    lasts = {"duration": rng.choice(["1m", "3m", "11m", "1h"])}
    return {"start": start.isoformat().replace("+00:00", "Z"), **lasts}


def a_change(rng: random.Random) -> Object:
    """What is edited of one."""
    return rng.choice(
        [
            {"spec": {"window": a_window(rng)}},
            {"spec": {"users": _namespaced(rng.choice(["default", SECOND]))}},
            {"spec": {"nodes": {"names": [f"n{rng.randint(0, 3)}"]}}},
            {"spec": {"evict": rng.random() < 0.5}},
        ]
    )


def with_wishes(rng: random.Random, manifest: Manifest) -> Manifest:
    """A pod may ask for a Reservation, or say how long it runs at most."""
    if manifest["kind"] != "Pod" or rng.random() < 0.7:
        return manifest
    wish = rng.choice([{MAX_RUN_TIME: rng.choice(["20s", "1m", "10m"])}, {RESERVATION: "r0"}])
    meta: dict[str, Any] = dict(manifest["metadata"])
    meta["annotations"] = {**meta.get("annotations", {}), **wish}
    return {**manifest, "metadata": meta}


def _namespaced(name: str) -> Object:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
