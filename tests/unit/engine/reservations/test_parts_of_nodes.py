"""Reservations of parts of nodes: what is left to others, who has to leave, and who is woken.

The judge is arithmetic: what others use of a resource on a node, and what is reserved there or
used by users, may not be more than the node offers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from arranger.api.effects import Bind, DeletePod
from arranger.api.types.reservation import Reservation
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind
from tests.unit.engine.reservations.test_evictions import SAVES, left, notices, show
from tests.unit.engine.reservations.test_reservations import LIMIT, World, reserved, when

GPU = "nvidia.com/gpu"
#: Name, start, end, how many GPUs of each node, nodes, and the queue that may use them.
Stated = tuple[str, int, int, int, list[str], str]
USERS = {"users": {"queues": ["q"]}}


def partly(
    name: str, start: float, end: float, part: dict[str, Any], *nodes: str, **spec: Any
) -> Reservation:
    """Of each node a part is reserved for queue q."""
    named = {"names": list(nodes or ("n",)), "perNode": part}
    return reserved(name, start, end, **{"nodes": named, **USERS, **spec})


def pod(name: str, gpus: int = 0, limit: str | None = None, queue: str = "") -> PodBuilder:
    made = a_pod(name).needs(cpu=1, **({GPU: gpus} if gpus else {}))
    made = made if limit is None else made.annotated({LIMIT: limit})
    return made.in_queue(queue) if queue else made


def eight() -> World:
    """A node of 8 GPUs, and two queues."""
    world = World()
    world.harness = EngineHarness(default_profile())
    world.harness.observe(a_node("n").offers(cpu=64, **{GPU: 8}), a_queue("q"), a_queue("other"))
    return world


#: What is reserved, the pods in the order they come, and when each is placed; None for never.
PLACED: dict[str, tuple[list[Reservation], list[PodBuilder], list[float | None]]] = {
    "others get the rest": ([partly("r", 0, 500, {GPU: 5})], [pod("a", 3)], [0]),
    "others do not get more than the rest": ([partly("r", 0, 500, {GPU: 5})], [pod("a", 4)], [500]),
    "the rest is given once": (
        [partly("r", 0, 500, {GPU: 5})],
        [pod("a", 2), pod("b", 2)],
        [0, 500],
    ),
    "who asks for none of it is not kept off": ([partly("r", 0, 500, {GPU: 8})], [pod("a")], [0]),
    "users get it": ([partly("r", 0, 500, {GPU: 5})], [pod("a", 8, queue="q")], [0]),
    "what users take counts as the part": (
        [partly("r", 0, 500, {GPU: 5})],
        [pod("a", 5, queue="q"), pod("b", 3)],
        [0, 0],
    ),
    "what users take beyond the part is gone": (
        [partly("r", 0, 500, {GPU: 5})],
        [pod("a", 6, queue="q"), pod("b", 3)],
        [0, None],
    ),
    "of what users have taken half the rest is kept": (
        [partly("r", 0, 500, {GPU: 5})],
        [pod("a", 2, queue="q"), pod("b", 4)],
        [0, 500],
    ),
    "two parts add up": (
        [
            partly("r", 0, 500, {GPU: 4}),
            partly("s", 0, 300, {GPU: 3}, users={"queues": ["other"]}),
        ],
        [pod("a", 2), pod("b", 1)],
        [300, 0],
    ),
    "a part, and the whole node": (
        [partly("r", 0, 500, {GPU: 4}), reserved("s", 0, 300, "n")],
        [pod("a", 2)],
        [300],
    ),
    "users of one are others to the other": (
        [
            partly("r", 0, 500, {GPU: 4}),
            partly("s", 0, 300, {GPU: 3}, users={"queues": ["other"]}),
        ],
        [pod("a", 6, queue="q")],
        [300],
    ),
    "before the window, ended by then": (
        [partly("r", 99, 500, {GPU: 5})],
        [pod("a", 8, limit="99s")],
        [0],
    ),
    "before the window, not ended by then": (
        [partly("r", 99, 500, {GPU: 5})],
        [pod("a", 4, limit="100s"), pod("b", 3, limit="100s")],
        [500, 0],
    ),
    "before the window, no limit": ([partly("r", 99, 500, {GPU: 5})], [pod("a", 4)], [500]),
    "long before the window, no limit": ([partly("r", 101, 500, {GPU: 5})], [pod("a", 4)], [0]),
    "of two resources both count": (
        [partly("r", 0, 500, {GPU: 2, "cpu": 63})],
        [pod("a", 1), pod("b", 1)],
        [0, 500],
    ),
    "a resource that nobody offers": ([partly("r", 0, 500, {"example.com/x": 1})], [pod("a")], [0]),
}


@pytest.mark.parametrize(("there_are", "pods", "expected"), PLACED.values(), ids=PLACED.keys())
def test_what_is_reserved_of_a_node_is_kept_and_no_more(
    there_are: list[Reservation], pods: list[PodBuilder], expected: list[float | None]
) -> None:
    world, placed = eight(), dict[str, float]()
    world.show(*there_are)
    for each in pods:
        world.harness.observe(each)
        placed |= dict.fromkeys(world.at(0), 0.0)
    for now in (99, 300, 499, 500):
        placed |= dict.fromkeys(world.at(now), float(now))
    assert [placed.get(each.manifest()["metadata"]["name"]) for each in pods] == expected
    world.harness.engine.check_consistent()


def test_room_that_becomes_free_wakes_those_who_were_kept_off() -> None:
    world = eight()
    world.show(partly("r", 0, 500, {GPU: 5}))
    first, second = pod("a", 3), pod("b", 3)
    world.harness.observe(first)
    world.harness.observe(second)
    assert list(world.at(0)) == ["a"]
    assert "node(s) reserved in part by Reservation r until" in world.message("b")
    world.harness.observe_deleted(first.on("n"))
    assert list(world.at(20)) == ["b"]


def test_a_pod_that_becomes_no_user_gives_the_part_back() -> None:
    world = eight()
    world.show(partly("r", 0, 500, {GPU: 5}))
    world.harness.observe(pod("a", 5, queue="q").on("n"))
    world.harness.observe(pod("a", 5, queue="other").on("n"), pod("b", 3))
    assert not world.at(0)


#: What is reserved of node n from 100 on, who runs there, and who has to leave then.
LEAVE: dict[str, tuple[dict[str, Any], list[PodBuilder], set[str]]] = {
    "nobody, as it is free": ({GPU: 4}, [pod("a", 4)], set()),
    "the one in the way": ({GPU: 5}, [pod("a", 4)], {"a"}),
    "the less important": (
        {GPU: 4},
        [pod("a", 4).with_priority(1), pod("b", 4)],
        {"b"},
    ),
    "no more than must": ({GPU: 3}, [pod("a", 2), pod("b", 2), pod("c", 2), pod("d", 1)], {"c"}),
    "nobody who takes none of it": ({GPU: 8}, [pod("a")], set()),
    "no users": ({GPU: 8}, [pod("a", 6, queue="q"), pod("b", 2)], {"b"}),
    "what users have beyond it is not for others": (
        {GPU: 2},
        [pod("a", 4, queue="q"), pod("b", 4)],
        set(),
    ),
    "nobody, as one ends by then": ({GPU: 4}, [pod("a", 4, limit="100s"), pod("b", 4)], set()),
    "who ends a moment later": ({GPU: 4}, [pod("a", 4, limit="101s"), pod("b", 4)], {"b"}),
}


@pytest.mark.parametrize(("part", "pods", "expected"), LEAVE.values(), ids=LEAVE.keys())
def test_as_few_leave_as_take_what_is_reserved(
    part: dict[str, Any], pods: list[PodBuilder], expected: set[str]
) -> None:
    on = [each.on("n").with_status(phase="Running", startTime=when(0)) for each in pods]
    harness = EngineHarness(default_profile(), max_checkpoint_time=300)
    harness.observe(a_node("n").offers(cpu=64, **{GPU: 8}), a_queue("q"))
    show(harness, partly("r", 100, 500, part, evict=True), *on)
    assert not left(harness.advance_to(99.9))
    effects = harness.advance_to(100) + harness.advance_to(105)
    gone = {each.pod.name: each for each in of_kind(DeletePod, effects)}
    enforced = {name for name in gone if "MaximumExecution" in str(gone[name].condition)}
    assert gone.keys() - enforced == expected
    assert enforced <= {"a"}


def test_who_saves_its_state_is_told_before_and_left_alone_if_another_ends() -> None:
    harness = EngineHarness(default_profile(), max_checkpoint_time=300)
    harness.observe(a_node("n").offers(cpu=64, **{GPU: 8}), a_queue("q"))
    old = pod("old", 4).with_priority(1)
    young = pod("young", 4).annotated({SAVES: "30s"})
    on = [each.on("n").with_status(phase="Running", startTime=when(0)) for each in (old, young)]
    show(harness, partly("r", 100, 500, {GPU: 4}, evict=True), *on)
    assert notices(harness.advance_to(71)) == [("young", "True")]
    harness.observe_deleted(on[0])
    told = harness.advance_to(120)
    assert notices(told) == [("young", "False")]
    assert not left(told)


@pytest.mark.parametrize("seed", range(60))
def test_in_no_moment_others_have_what_is_reserved(seed: int) -> None:
    """Random pods come and end by their limits; at each second of a window it is counted.

    Once, perhaps within a window, another scheduler takes over, which knows the objects alone.
    """
    rng = random.Random(seed)
    sizes = {f"n{n}": rng.choice([2, 4, 8]) for n in range(rng.randint(1, 3))}
    stated = list(_windows(rng, sizes))
    harness, takes_over = _scheduler(sizes, stated), rng.randrange(120)
    known: dict[str, tuple[PodBuilder, int, str, int | None]] = {}
    on: dict[str, tuple[str, int]] = {}
    gone = set[str]()
    refused = 0
    for now in range(120):
        if now == takes_over:
            harness = _scheduler(sizes, stated)
            harness.now = float(now)
            for name, (made, *_) in known.items():
                if name in on:
                    status = {"phase": "Running", "startTime": when(on[name][1])}
                    harness.observe(made.on(on[name][0]).with_status(**status))
                elif name not in gone:
                    harness.observe(made)
        for name, (_, since) in list(on.items()):
            made, _, _, lasts = known[name]
            if lasts is not None and now >= since + lasts:
                gone.add(name)
                harness.observe_deleted(made.on(on.pop(name)[0]))
        if rng.random() < 0.4:
            name, queue = f"p{now}", rng.choice(["q", "other", "none"])
            gpus, lasts = rng.choice([1, 1, 2, 4]), rng.choice([None, 5, 15, 40])
            made = pod(name, gpus, None if lasts is None else f"{lasts}s", queue)
            known[name] = made, gpus, queue, lasts
            harness.observe(made)
        for bind in of_kind(Bind, harness.advance_to(float(now))):
            on[bind.pod.name] = bind.node, now
            made = known[bind.pod.name][0].on(bind.node)
            harness.observe(made.with_status(phase="Running", startTime=when(now)))
        harness.engine.check_consistent()
        for node, offered in sizes.items():
            use = {"q": 0, "other": 0, "none": 0}
            for name, (where, _) in on.items():
                use[known[name][2]] += known[name][1] if where == node else 0
            active = [each for each in stated if each[1] <= now < each[2] and node in each[4]]
            kept = {each[5]: each[3] for each in active}
            total = sum(max(use[queue], kept.get(queue, 0)) for queue in use)
            assert total <= offered, (now, node, use, active)
        refused += len(known) - len(on)
    assert refused, "nothing had to wait"


def _scheduler(sizes: dict[str, int], stated: list[Stated]) -> EngineHarness:
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(n).offers(cpu=64, **{GPU: gpus}) for n, gpus in sizes.items()))
    harness.observe(a_queue("q"), a_queue("other"))
    for name, start, end, part, nodes, queue in stated:
        users = {"users": {"queues": [queue]}, "drainBefore": "1000s"}
        show(harness, partly(name, start, end, {GPU: part}, *nodes, **users))
    return harness


def _windows(rng: random.Random, sizes: dict[str, int]) -> Iterator[Stated]:
    """One or two Reservations, of different queues, that a node has room for together."""
    for n, queue in enumerate(["q", "other"][: rng.randint(1, 2)]):
        nodes = rng.sample(list(sizes), rng.randint(1, len(sizes)))
        part = rng.randint(1, max(1, min(sizes[node] for node in nodes) // 2))
        start = rng.choice([0, 20, 50])
        yield f"r{n}", start, start + rng.choice([10, 40]), part, nodes, queue
