"""Gangs whose members are alike but for the nodes that Reservations leave to them."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from arranger.api.types.reservation import Reservation
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, placements
from tests.unit.engine.reservations.test_reservations import ASKED, LIMIT, reserved

#: The Reservation that a member asks for, and its longest run time in seconds.
Member = tuple[str | None, int | None]
#: Name → (first second, users, nodes): all last until 500.
Reserved = dict[str, tuple[int, bool, list[str]]]
#: Pods that state no run time keep off a node that is reserved so many seconds later.
DRAINS = 100


def is_open(node: str, member: Member, there_are: Reserved) -> bool:
    """Whether a member may start on a node at time 0."""
    asks, lasts = member
    if asks is not None:
        start, users, nodes = there_are.get(asks, (0, False, []))
        if not users or start > 0 or node not in nodes:
            return False
    reach = DRAINS if lasts is None else lasts
    return all(
        users or start > reach or node not in nodes for start, users, nodes in there_are.values()
    )


def fit(members: list[Member], room: Counter[str], there_are: Reserved) -> bool:
    """Whether all members can be placed at once: every way is tried."""
    if not members:
        return True
    for node in [node for node, left in room.items() if left]:
        if is_open(node, members[0], there_are):
            rest = room.copy()
            rest[node] -= 1
            if fit(members[1:], rest, there_are):
                return True
    return False


@pytest.mark.parametrize("seed", range(150))
def test_a_gang_is_placed_where_and_only_where_some_way_exists(seed: int) -> None:
    chance = random.Random(seed)
    room = Counter({f"n{n}": chance.choice([1, 1, 2]) for n in range(chance.randint(2, 4))})
    there_are: Reserved = {
        name: (
            chance.choice([0, 50, 200]),
            chance.random() < 0.5,
            chance.sample(list(room), chance.randint(1, len(room))),
        )
        for name in "rs"[: chance.randint(1, 2)]
    }
    members: list[Member] = [
        (chance.choice([None, None, "r"]), chance.choice([None, 20, 150]))
        for _ in range(chance.randint(2, min(5, room.total())))
    ]
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(name).offers(cpu=slots) for name, slots in room.items()))
    for name, (start, users, nodes) in there_are.items():
        harness.engine.handlers.on_object_updated(a_reservation(name, start, users, nodes), 0.0)
    harness.observe(*(a_member(n, each, len(members)) for n, each in enumerate(members)))
    harness.run()
    harness.engine.check_consistent()
    found = dict(placements(harness.effects))
    assert len(found) == (len(members) if fit(members, room, there_are) else 0)
    assert all(is_open(node, members[int(name)], there_are) for name, node in found.items())


def a_reservation(name: str, start: int, users: bool, nodes: list[str]) -> Reservation:
    spec = {"users": {"namespaceSelector": {}}} if users else {}
    return reserved(name, start, 500, *nodes, **spec)


def a_member(number: int, member: Member, count: int) -> PodBuilder:
    asks, lasts = member
    notes = {ASKED: asks, LIMIT: None if lasts is None else f"{lasts}s"}
    stated = {key: value for key, value in notes.items() if value is not None}
    return a_pod(str(number)).needs(cpu=1).in_gang("g", count).annotated(stated)
