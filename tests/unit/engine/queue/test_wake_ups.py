"""Who is tried again after an event (docs/design/queue-order.md)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.api.effects import Bind, DeletePod, Refused
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_queue
from tests.queueing import CARD, gpu_node, training
from tests.unit.engine.harness import EngineHarness, of_kind, placements

H200 = "NVIDIA-H200"
CONFLICT = Refused(409, "Conflict", "the object has been modified")


@pytest.fixture
def harness() -> EngineHarness:
    harness = EngineHarness(default_profile())
    harness.start()
    return harness


def blue(name: str, cpu: int, priority: int = 0) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).in_queue("blue").with_priority(priority)


def red(name: str, cpu: int) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).in_queue("red")


def a_node_for(cpu: int, name: str = "n") -> NodeBuilder:
    return a_node(name).offers(cpu=cpu)


def gang(name: str, *cpu: int) -> list[PodBuilder]:
    return [
        a_pod(f"{name}-{n}").needs(cpu=each).in_gang(name, len(cpu)) for n, each in enumerate(cpu)
    ]


#: Objects before, the pod that waits, the one that leaves, and whether the first is tried again.
LEAVING: dict[str, tuple[list[Any], PodBuilder, PodBuilder, bool]] = {
    "one of its queue": (
        [a_node_for(8), a_queue("blue", capability={"cpu": 2})],
        blue("p", 2),
        blue("other", 1).on("n"),
        True,
    ),
    "one of another queue": (
        [
            *(a_node_for(8), a_queue("blue", capability={"cpu": 2}), a_queue("red")),
            blue("full", 2).on("n"),
        ],
        blue("p", 2),
        red("other", 1).on("n"),
        False,
    ),
    "one of another part of a queue that is full": (
        [
            a_node_for(8),
            a_queue("all", capability={"cpu": 2}),
            *(a_queue(name, parent="all") for name in ("blue", "red")),
        ],
        blue("p", 2),
        red("other", 1).on("n"),
        True,
    ),
    "one of its queue, which would have to free more": (
        [a_node_for(8), a_queue("blue", capability={"cpu": 3}), blue("full", 2).on("n")],
        blue("p", 2),
        blue("other", 1).on("n"),
        False,
    ),
    "one of its queue, where others could be evicted as well": (
        [a_node_for(8), a_queue("blue", capability={"cpu": 3}), blue("low", 2).on("n")],
        blue("p", 3, priority=10).with_spec(preemptionPolicy="Never"),
        blue("other", 1).on("n"),
        True,
    ),
    "one of another queue, from where one of its own could be evicted": (
        [
            *(a_node_for(4), a_queue("blue", capability={"cpu": 3}), a_queue("red")),
            blue("low", 2).on("n"),
        ],
        blue("p", 3, priority=10),
        red("other", 2).on("n"),
        True,
    ),
    "one that had another card": (
        [
            *(gpu_node("a", 8), gpu_node("b", 4, H200)),
            a_queue("training", cards={CARD: 0, H200: 4}),
        ],
        training("p", 5).annotated({"volcano.sh/card.name": CARD}),
        training("other", 1).on("b"),
        False,
    ),
}


@pytest.mark.parametrize(("before", "waiting", "leaves", "tried"), LEAVING.values(), ids=LEAVING)
def test_a_pod_beyond_its_quota_is_tried_when_there_leaves(
    harness: EngineHarness, before: list[Any], waiting: PodBuilder, leaves: PodBuilder, tried: bool
) -> None:
    harness.observe(*before, leaves, waiting)
    harness.run()
    attempts = harness.entity("p").attempts
    harness.observe_deleted(leaves)
    bound = placements(harness.run())
    again = bool(bound) or harness.entity("p").attempts > attempts
    assert again == tried


def test_nodes_that_get_other_cards_or_go_change_what_is_charged(harness: EngineHarness) -> None:
    harness.observe(
        *(gpu_node("a", 4), gpu_node("b", 4), a_queue("training", cards={CARD: 2, H200: 2})),
        *(training("other", 2).on("a"), training("p", 2).annotated({"volcano.sh/card.name": CARD})),
    )
    assert placements(harness.run()) == []
    harness.observe(gpu_node("a", 4, H200))
    assert placements(harness.run()) == [("p", "b")]


def test_so_does_a_node_that_goes(harness: EngineHarness) -> None:
    harness.observe(
        *(gpu_node("a", 4), gpu_node("b", 4), a_queue("training", cards={CARD: 2})),
        *(training("other", 2).on("a"), training("p", 2)),
    )
    assert placements(harness.run()) == []
    harness.observe_deleted(gpu_node("a", 4))
    assert placements(harness.run()) == [("p", "b")]


def test_a_pod_whose_node_has_gone_gives_its_queue_room(harness: EngineHarness) -> None:
    """No row of the node table changes when it goes."""
    lost = a_node("lost").offers(cpu=8)
    other = blue("other", 2).on("lost")
    harness.observe(a_node_for(8), lost, a_queue("blue", capability={"cpu": 2}))
    harness.observe(other, blue("p", 2))
    harness.observe_deleted(lost)
    assert placements(harness.run()) == []
    harness.observe_deleted(other)
    assert placements(harness.advance_to(5.0)) == [("p", "n")]


def test_a_pod_group_that_goes_gives_its_queue_room(harness: EngineHarness) -> None:
    manifest = {"metadata": {"name": "g", "namespace": "default", "uid": "uid-g"}}
    group = msgspec.convert({**manifest, "spec": {"queue": "blue"}}, VolcanoPodGroup)
    member = a_pod("m").needs(cpu=2).annotated({"scheduling.k8s.io/group-name": "g"})
    harness.observe(a_node_for(8), a_queue("blue", capability={"cpu": 2}), a_queue("default"))
    harness.engine.handlers.on_pod_group_updated(group, 0.0)
    harness.observe(member.on("n"), blue("p", 2))
    assert placements(harness.run()) == []
    harness.engine.handlers.on_pod_group_deleted(group, 0.0)
    assert placements(harness.run()) == [("p", "n")]


# --- room on nodes -------------------------------------------------------------------------------


def test_a_gang_is_not_tried_when_all_nodes_together_have_too_little(
    harness: EngineHarness,
) -> None:
    ending = [a_pod(f"e{n}").needs(cpu=1).on("n") for n in range(3)]
    harness.observe(a_node_for(3), *ending, *gang("g", 1, 1, 1))
    harness.run()
    for pod in ending[:2]:
        harness.observe_deleted(pod)
        assert harness.run() == []
        assert harness.entity("g-0").attempts == 1
    harness.observe_deleted(ending[2])
    assert len(placements(harness.run())) == 3


def test_of_members_of_several_kinds_no_more_fit_than_of_the_smallest(
    harness: EngineHarness,
) -> None:
    ending = a_pod("e").needs(cpu=2).on("n")
    harness.observe(a_node_for(2), ending, *gang("g", 1, 2, 2))
    harness.run()
    harness.observe_deleted(ending)
    assert harness.run() == []
    assert harness.entity("g-0").attempts == 1


def test_a_gang_whose_room_a_higher_one_has_taken_is_not_tried(harness: EngineHarness) -> None:
    ending = a_pod("e").needs(cpu=2).on("n")
    high = [pod.with_priority(10) for pod in gang("high", 1, 1)]
    harness.observe(a_node_for(2), ending.with_priority(10), *high, *gang("low", 1, 1))
    harness.run()
    harness.observe_deleted(ending)
    assert {name for name, _ in placements(harness.run())} == {"high-0", "high-1"}
    assert harness.entity("low-0").attempts == 1
    assert harness.queue_state("low-0").value == "unschedulable"


def test_it_is_tried_where_somebody_might_be_evicted(harness: EngineHarness) -> None:
    ending = a_pod("e").needs(cpu=1).on("n")
    low = a_pod("low").needs(cpu=2).on("n")
    high = [p.with_priority(10).with_spec(preemptionPolicy="Never") for p in gang("g", 1, 1, 1)]
    harness.observe(a_node_for(3), ending, low, *high)
    harness.run()
    harness.observe_deleted(ending)
    harness.run()
    assert harness.entity("g-0").attempts == 2


def test_a_member_of_another_kind_may_move_to_a_new_node(harness: EngineHarness) -> None:
    large, small = gang("g", 3, 2)
    harness.observe(a_node_for(3, "a"), large, small)
    assert placements(harness.run()) == []
    harness.observe(a_node_for(2, "b"))
    assert sorted(placements(harness.run())) == [("g-0", "a"), ("g-1", "b")]


def test_who_leaves_its_class_while_the_first_is_to_be_tried_is_tried_itself(
    harness: EngineHarness,
) -> None:
    ending, pods = a_pod("e").needs(cpu=2).on("n"), [a_pod(f"p{n}").needs(cpu=1) for n in range(2)]
    harness.observe(a_node_for(2), ending, *pods)
    harness.run()
    harness.observe_deleted(ending)
    harness.observe(pods[1].labelled(edited="yes"))
    assert len(placements(harness.run())) == 2


def test_what_a_gang_has_lost_counts_no_more_once_it_is_bound(harness: EngineHarness) -> None:
    members = [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", 1) for n in range(2)]
    harness.observe(a_node_for(1), *members)
    (refused,) = of_kind(Bind, harness.run())
    harness.settle(refused, CONFLICT)
    (again,) = of_kind(Bind, harness.advance_to(2.0))
    harness.settle(again)
    bound = next(pod for pod in members if pod.manifest()["metadata"]["name"] == again.pod.name)
    harness.observe(bound.on("n"))
    harness.observe_deleted(bound)
    assert len(placements(harness.run())) == 1, "it waits out no back-off"


def test_who_is_nominated_looks_elsewhere_when_others_have_taken_its_room(
    harness: EngineHarness,
) -> None:
    low = {n: a_pod(f"low-{n}").needs(cpu=2).on(n) for n in ("a", "b")}
    middle = a_pod("middle").needs(cpu=2).with_priority(10)
    harness.observe(a_node_for(2, "a"), a_node_for(2, "b"), *low.values(), middle)
    (evicted,) = of_kind(DeletePod, harness.run())
    harness.settle(evicted)
    node = evicted.pod.name.removeprefix("low-")
    harness.observe(a_pod("high").needs(cpu=2).with_priority(100).on(node))
    harness.observe_deleted(low[node])
    (again,) = of_kind(DeletePod, harness.run())
    assert again.pod.name != evicted.pod.name


def test_those_of_a_class_are_rejected_by_what_rejects_the_one_that_is_tried_for_them(
    harness: EngineHarness,
) -> None:
    zone = "topology.kubernetes.io/zone"
    harness.observe(a_node("n").offers(cpu=2).labelled({zone: "z1"}))
    running = [a_pod(f"running-{n}").needs(cpu=1).on("n") for n in range(2)]
    harness.observe(*running)
    harness.observe(*(a_pod(f"p{n}").needs(cpu=1).selects({zone: "z0"}) for n in range(2)))
    harness.run()
    harness.observe(a_node("n").offers(cpu=2).labelled({zone: "z0"}))
    assert not placements(harness.run())
    harness.observe(a_pod("q").needs(cpu=1))
    harness.run()
    harness.observe_deleted(*running)
    assert [name for name, _ in placements(harness.run())] == ["p0", "p1"]
