"""Starts that are planned where Reservations keep nodes for some time."""

from __future__ import annotations

import random

import pytest

from arranger.api.types.reservation import Reservation
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod, a_queue
from tests.unit.engine.gang.test_planned_starts import (
    bound,
    gang,
    policy,
    running,
    starts,
    waiting,
)
from tests.unit.engine.harness import EngineHarness
from tests.unit.engine.reservations.test_parts_of_nodes import partly
from tests.unit.engine.reservations.test_reservations import reserved

MINE = {"users": {"queues": ["mine"]}}


def planned(
    stated: list[Reservation], limit: int | None, *, queue: str = "default", first: int = 600
) -> EngineHarness:
    """One node of four CPUs, full until ``first``, and a gang of four that waits for it."""
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(a_queue("default"), a_queue("mine"), a_node("n0").offers(cpu=4))
    if first:
        harness.observe(running("a", "n0", 4, first))
    for each in stated:
        harness.engine.handlers.on_object_updated(each, harness.now)
    harness.observe(*(pod.in_queue(queue) for pod in gang("big", 4, limit=limit)))
    waiting(harness)
    harness.engine.check_consistent()
    return harness


#: What is reserved, the limit of the gang, its queue, when the node is empty, and the start.
STARTS: dict[str, tuple[list[Reservation], int | None, str, int, float]] = {
    "nothing is reserved": ([], 500, "default", 600, 600),
    "another node is": ([reserved("r", 700, 2000, "n1")], 500, "default", 600, 600),
    "it holds now, and the node is empty": (
        [reserved("r", 0, 2000, "n0")], 500, "default", 0, 2000,
    ),
    "the node is empty now, and its run reaches into it": (
        [reserved("r", 300, 2000, "n0")], 500, "default", 0, 2000,
    ),
    "it holds when the node is empty": ([reserved("r", 500, 2000, "n0")], 50, "default", 600, 2000),
    "its run would reach into it": ([reserved("r", 1000, 2000, "n0")], 401, "default", 600, 2000),
    "it has ended before it begins": ([reserved("r", 1000, 2000, "n0")], 400, "default", 600, 600),
    "without a limit, long before": ([reserved("r", 1000, 2000, "n0")], None, "default", 600, 600),
    "without a limit, it drains": ([reserved("r", 690, 2000, "n0")], None, "default", 600, 2000),
    "it is the user": ([reserved("r", 500, 2000, "n0", **MINE)], 500, "mine", 600, 600),
    "another is the user": ([reserved("r", 500, 2000, "n0", **MINE)], 500, "default", 600, 2000),
    "one after the other, and no time between": (
        [reserved("r", 500, 2000, "n0"), reserved("s", 2100, 3000, "n0")],
        101, "default", 600, 3000,
    ),
    "one after the other, and time between": (
        [reserved("r", 500, 2000, "n0"), reserved("s", 2100, 3000, "n0")],
        100, "default", 600, 2000,
    ),
    "of a part too little is left": (
        [partly("r", 500, 2000, {"cpu": 1}, "n0", users=MINE["users"])], 500, "default", 600, 2000,
    ),
    "a part, and it has ended before": (
        [partly("r", 1000, 2000, {"cpu": 1}, "n0")], 400, "default", 600, 600,
    ),
    "a part, and it is the user": (
        [partly("r", 500, 2000, {"cpu": 4}, "n0", users=MINE["users"])], 500, "mine", 600, 600,
    ),
    "a part of what it does not ask for": (
        [partly("r", 500, 2000, {"memory": "1Gi"}, "n0")], 500, "default", 600, 600,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "limit", "queue", "first", "start"), STARTS.values(), ids=STARTS.keys()
)
def test_a_gang_is_planned_when_no_reservation_keeps_it_off(
    stated: list[Reservation], limit: int | None, queue: str, first: int, start: float
) -> None:
    harness = planned(stated, limit, queue=queue, first=first)
    assert starts(harness) == {"big": (start, "KnownEnds")}
    if first:
        harness.now = float(first)
        harness.observe_deleted(running("a", "n0", 4, first))
    placed = bound(harness.advance_to(max(start - 1, harness.now)))
    assert not placed or start <= harness.now
    placed |= bound(harness.advance_to(start))
    assert len(placed) == 4, "what was planned is so"
    assert harness.engine.take_stats().broken_promises == {}


def test_a_gang_that_asks_for_a_reservation_is_planned_in_its_window() -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(a_queue("mine"), a_node("n0").offers(cpu=4), a_node("n1").offers(cpu=4))
    harness.engine.handlers.on_object_updated(reserved("r", 300, 2000, "n0", **MINE), 0)
    asks = {"arranger.io/reservation": "r"}
    harness.observe(*(p.in_queue("mine").annotated(asks) for p in gang("big", 4, limit=50)))
    waiting(harness)
    assert starts(harness) == {"big": (300.0, "KnownEnds")}


def test_a_reservation_that_comes_breaks_a_promise_and_is_its_reason() -> None:
    harness = planned([], 500)
    assert starts(harness) == {"big": (600.0, "KnownEnds")}
    harness.engine.handlers.on_object_updated(reserved("r", 700, 2000, "n0"), 50.0)
    harness.advance_to(60)
    assert starts(harness) == {"big": (2000.0, "KnownEnds")}
    assert harness.engine.take_stats().broken_promises == {"Reservation": 1}


def test_a_reservation_that_is_moved_away_lets_it_start_earlier() -> None:
    harness = planned([reserved("r", 700, 2000, "n0")], 500)
    assert starts(harness) == {"big": (2000.0, "KnownEnds")}
    harness.engine.handlers.on_object_updated(reserved("r", 7000, 9000, "n0"), 50.0)
    harness.advance_to(60)
    assert starts(harness) == {"big": (600.0, "KnownEnds")}
    assert harness.engine.take_stats().broken_promises == {}


def test_nodes_that_are_reserved_now_are_not_kept_where_no_start_is_known() -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(2)))
    harness.observe(running("a", "n0", 1, None), running("b", "n1", 3, None))
    harness.engine.handlers.on_object_updated(reserved("r", 0, 9000, "n0"), 0)
    harness.observe(*gang("big", 1, cpu=4))
    waiting(harness)
    harness.observe(a_pod("late").needs(cpu=1))
    assert bound(harness.run()) == set(), "n1 is kept as a whole"
    harness.observe_deleted(running("b", "n1", 3, None))
    assert bound(harness.run()) == {"big-0"}


@pytest.mark.parametrize("seed", range(16))
def test_random_worlds_obey_a_plain_model(seed: int) -> None:
    """Three nodes that become empty, of which a gang needs two at once, and windows on them."""
    rng = random.Random(seed)
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(a_queue("default"), a_queue("mine"))
    ends = {f"n{n}": 50 * rng.randint(1, 12) for n in range(3)}
    windows: list[tuple[int, int, set[str], bool]] = []
    for node, end in ends.items():
        harness.observe(a_node(node).offers(cpu=2), running(f"p-{node}", node, 2, end))
    for n in range(rng.randint(1, 5)):
        start, mine = 50 * rng.randint(-2, 20), rng.random() < 0.3
        end, nodes = start + 50 * rng.randint(2, 8), set(rng.sample(sorted(ends), 2))
        windows.append((start, end, nodes, mine))
        each = reserved(f"r{n}", start, end, *nodes, **(MINE if mine else {}))
        harness.engine.handlers.on_object_updated(each, 0)
    limit, queue = rng.choice([None, 50, 100, 300]), rng.choice(["default", "mine"])
    reaches = 100 if limit is None else limit
    harness.observe(*(pod.in_queue(queue) for pod in gang("big", 4, limit=limit)))
    waiting(harness)

    def is_open(node: str, at: int) -> bool:
        return at >= ends[node] and not any(
            node in nodes and start < at + reaches and at < end
            for start, end, nodes, mine in windows
            if not (mine and queue == "mine")
        )

    times = range(50, 5000, 50)
    expected = next(at for at in times if sum(is_open(node, at) for node in ends) >= 2)
    assert starts(harness) == {"big": (expected, "KnownEnds")}
    harness.engine.check_consistent()


def test_of_many_windows_the_end_of_the_last_is_waited_for() -> None:
    many = [reserved(f"r{n}", 500 + n, 2000 + n, "n0") for n in range(100)]
    assert starts(planned(many, 50)) == {"big": (2099.0, "KnownEnds")}


def test_a_planned_start_and_a_part_that_is_reserved_are_kept_free_together() -> None:
    """The pod would fit beside either of them, and not beside both."""
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(a_queue("default"), a_queue("mine"), a_node("n0").offers(cpu=8))
    harness.observe(running("a", "n0", 4, 600))
    part = partly("r", 700, 2000, {"cpu": 2}, "n0", drainBefore="1000s", **MINE)
    harness.engine.handlers.on_object_updated(part, harness.now)
    harness.observe(*(pod.in_queue("default") for pod in gang("big", 6, limit=5000)))
    waiting(harness)
    assert starts(harness) == {"big": (600, "KnownEnds")}
    harness.observe(a_pod("lone").needs(cpu=2).in_queue("default"))
    assert not bound(harness.run())
    harness.now = 600.0
    harness.observe_deleted(running("a", "n0", 4, 600))
    assert len(bound(harness.run())) == 6
    harness.observe(a_pod("theirs").needs(cpu=2).in_queue("mine"))
    assert set(bound(harness.advance_to(701))) == {"theirs"}
