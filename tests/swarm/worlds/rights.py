"""Who may use the queues of a world: one namespace, both, or nobody for a while."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from tests.builders import Manifest
from tests.swarm.world import Event, an_event
from tests.swarm.worlds.tenants import SECOND

_NAME: Final = "kubernetes.io/metadata.name"
_SPACES: Final = ("default", SECOND)
#: Queues that those are charged to who may use no other.
_FOR_ALL: Final = ("default", "root")
#: Seconds between two changes.
_EVERY: Final = 40.0


def some_rights(
    rng: random.Random, objects: Sequence[Manifest], seconds: float
) -> tuple[list[Manifest], list[Event]]:
    """(the objects, of which some queues are not for everybody; what changes about that)."""
    queues = [each for each in objects if each["kind"] == "Queue"]
    queues = [each for each in queues if each["metadata"]["name"] not in _FOR_ALL]
    limited = {each["metadata"]["name"]: _selector(rng) for each in queues if rng.random() < 0.6}
    made = [
        {**each, "spec": {**each["spec"], "namespaceSelector": limited[each["metadata"]["name"]]}}
        if each["kind"] == "Queue" and limited.get(each["metadata"]["name"]) is not None
        else each
        for each in objects
    ]
    events: list[Event] = []
    at = rng.expovariate(1 / _EVERY)
    while queues and at < seconds:
        change = {"spec": {"namespaceSelector": _selector(rng)}}
        events.append(an_event(at, "patch", rng.choice(queues), change=change))
        at += rng.expovariate(1 / _EVERY)
    return made, events


def _selector(rng: random.Random) -> Manifest | None:
    """Of namespaces; None selects all."""
    if rng.random() < 0.3:
        return None
    values = rng.choice([["default"], [SECOND], [*_SPACES], ["nobody"]])
    if len(values) == 1:
        return {"matchLabels": {_NAME: values[0]}}
    return {"matchExpressions": [{"key": _NAME, "operator": "In", "values": values}]}
