"""Several Reservations of one node, and who is in their way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from arranger.api.effects import Effect
from tests.builders import PodBuilder, a_node, a_queue
from tests.unit.engine.harness import EngineHarness
from tests.unit.engine.reservations.test_evictions import left
from tests.unit.engine.reservations.test_parts_of_nodes import GPU, eight, partly, pod
from tests.unit.engine.reservations.test_reservations import World, reserved
from tests.unit.engine.reservations.test_reservations import pod as any_pod

OTHER = {"queues": ["other"]}


def runs(name: str, gpus: int, queue: str = "") -> PodBuilder:
    return pod(name, gpus, queue=queue).on("n").with_status(phase="Running")


def until(harness: EngineHarness, end: float) -> list[Effect]:
    """What is asked for until then, at each time at which something is due."""
    found = list(harness.run())
    while (due := harness.engine.next_timer()) is not None and due <= end:
        found += harness.advance_to(max(due, harness.now))
    return [*found, *harness.advance_to(end)]


#: GPUs of the two parts of a node with eight → pods there (GPUs, queue) → who leaves.
CASES: dict[str, tuple[tuple[int, int], dict[str, tuple[int, str]], list[str]]] = {
    "both parts fill the node": ((4, 4), {"x": (4, "")}, ["x"]),
    "what both leave is too little": ((2, 2), {"x": (6, "")}, ["x"]),
    "what both leave is enough": ((2, 2), {"x": (4, "")}, []),
    "users of one are in their own part": ((4, 4), {"x": (4, "other")}, []),
    "users of one beyond their part are in the way": ((5, 2), {"x": (4, "other")}, ["x"]),
    "users of one beyond their part keep nobody from his own": (
        (4, 3),
        {"y": (3, "q"), "x": (5, "other")},
        ["x"],
    ),
    "users who have their part already need no more": ((2, 4), {"y": (2, "q"), "x": (2, "")}, []),
}


@pytest.mark.parametrize(("parts", "there", "leave"), CASES.values(), ids=CASES)
def test_who_leaves_for_two_parts_of_a_node(
    parts: tuple[int, int], there: dict[str, tuple[int, str]], leave: list[str]
) -> None:
    world = eight()
    world.show(
        partly("r", 100, 5000, {GPU: parts[0]}, evict=True),
        partly("s", 100, 5000, {GPU: parts[1]}, evict=True, users=OTHER),
    )
    world.harness.observe(*(runs(name, n, queue) for name, (n, queue) in there.items()))
    assert left(until(world.harness, 150.0)) == leave


@pytest.mark.parametrize("evict", [False, True], ids=["which evicts nobody", "which evicts"])
@pytest.mark.parametrize("opens", [50, 200], ids=["is reserved now", "is reserved from later on"])
def test_who_comes_to_be_in_the_way_by_another_part_leaves(opens: float, evict: bool) -> None:
    world = eight()
    harness = world.harness
    world.show(partly("r", 0, 5000, {GPU: 4}, evict=True))
    harness.observe(runs("x", 4))
    assert left(until(harness, 50.0)) == []
    world.show(partly("s", opens, 5000, {GPU: 4}, evict=evict, users=OTHER))
    before = until(harness, opens - 1) if opens > harness.now else []
    assert left(before) == []
    assert left(until(harness, 4900.0)) == ["x"]
    harness.engine.check_consistent()


def _fits(stay: Sequence[tuple[str, int, str]], parts: tuple[int, int]) -> bool:
    """Whether a node of eight holds some pods and what users have not taken of the parts."""
    kept = 0
    for part, queue in zip(parts, ("q", "other"), strict=True):
        kept += max(0, part - sum(n for _, n, of in stay if of == queue))
    return sum(n for _, n, _ in stay) + kept <= 8


@pytest.mark.parametrize("seed", range(300))
def test_all_parts_are_free_then_and_nobody_leaves_in_vain(seed: int) -> None:
    rng = random.Random(seed)
    parts = rng.randint(1, 4), rng.randint(1, 4)
    pods: list[tuple[str, int, str]] = []
    while (room := 8 - sum(n for _, n, _ in pods)) > 0:
        queue = rng.choice(["", "", "q", "other"])
        pods.append((f"p{len(pods)}", rng.randint(1, min(room, 3)), queue))
    world = eight()
    world.show(
        partly("r", 100, 5000, {GPU: parts[0]}, evict=True),
        partly("s", 100, 5000, {GPU: parts[1]}, evict=True, users=OTHER),
    )
    world.harness.observe(*(runs(*each) for each in pods))
    gone = set(left(until(world.harness, 150.0)))
    stay = [each for each in pods if each[0] not in gone]
    # Both parts are free, or else only their own users are in the way of each other.
    assert _fits(stay, parts) or all(queue for *_, queue in stay)
    victims = [each for each in pods if each[0] in gone]
    for back in victims:
        assert not _fits([*stay, back], parts), f"{back} left in vain"
    if not gone:
        assert _fits(pods, parts) or not any(
            _fits([each for each in pods if each not in some], parts)
            for size in range(1, len(pods) + 1)
            for some in combinations([each for each in pods if not each[2]], size)
        )


def test_who_is_in_the_way_of_a_node_that_has_shrunk_leaves() -> None:
    world = eight()
    harness = world.harness
    world.show(partly("r", 0, 5000, {GPU: 4}, evict=True))
    harness.observe(runs("x", 4))
    assert left(until(harness, 50.0)) == []
    harness.observe(a_node("n").offers(cpu=64, **{GPU: 4}))
    assert left(until(harness, 1000.0)) == ["x"]


def test_pods_of_queues_that_are_part_of_a_user_are_users() -> None:
    world = World("n")
    world.harness.observe(a_queue("research"), a_queue("team-a", parent="research"))
    world.show(reserved("r", 0, 5000, "n", users={"queues": ["research"]}))
    world.harness.observe(any_pod().in_queue("team-a"))
    assert world.at(0) == {"p": "n"}


def test_who_is_a_user_follows_what_a_queue_is_part_of() -> None:
    world = World("n")
    harness = world.harness
    harness.observe(a_queue("research"), a_queue("sales"), a_queue("team-a", parent="sales"))
    world.show(reserved("r", 0, 5000, "n", users={"queues": ["research"]}, evict=True))
    harness.observe(any_pod().in_queue("team-a"))
    assert world.at(0) == {}
    harness.observe(a_queue("team-a", parent="research"))
    assert world.at(15) == {"p": "n"}
    harness.observe(any_pod().in_queue("team-a").on("n").with_status(phase="Running"))
    assert left(until(harness, 30.0)) == []
    harness.observe(a_queue("team-a", parent="sales"))
    assert left(until(harness, 60.0)) == ["p"]
    harness.engine.check_consistent()


def test_nobody_comes_at_the_moment_at_which_a_window_opens() -> None:
    world = World("n")
    world.show(reserved("r", 50, 5000, "n", drainBefore="0s"))
    world.harness.now = 50
    world.harness.observe(any_pod())
    assert world.at(50) == {}
