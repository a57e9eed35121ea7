"""Queues: quotas, order, and reclaim (docs/design/queues.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from arranger.api.effects import DeletePod, Effect, PublishEvent
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind, placements

GPU = "nvidia.com/gpu"
CARD = "NVIDIA-GeForce-RTX-4090"


def gpu_node(name: str = "n", count: int = 8, card: str = CARD) -> NodeBuilder:
    labels = {f"{GPU}.product": card, f"{GPU}.count": str(count), f"{GPU}.memory": "24564"}
    return a_node(name).labelled(labels).offers({GPU: count}, cpu=64)


def inference(name: str, cards: int, priority: int = 80000) -> PodBuilder:
    pod = a_pod(name).needs({GPU: cards}, cpu="100m").with_priority(priority)
    return pod.in_queue("inference").serving("inference")


def training(name: str, cards: int, priority: int = 20000) -> PodBuilder:
    pod = a_pod(name).needs({GPU: cards}, cpu="100m").with_priority(priority)
    return pod.in_queue("training").serving("training")


def two_queues(quota: int = 8) -> list[Any]:
    return [
        a_queue("inference", cards={CARD: quota}, priority=80000, reclaimable=False),
        a_queue("training", cards={CARD: quota}, priority=20000, reclaimable=True),
    ]


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


def evicted(effects: Sequence[Effect]) -> set[str]:
    return {delete.pod.name for delete in of_kind(DeletePod, effects)}


def event(effects: Sequence[Effect], reason: str) -> str:
    (found,) = [e.note for e in of_kind(PublishEvent, effects) if e.reason == reason]
    return found


def gang(name: str, cards: Sequence[int], make: Any, **more: Any) -> list[PodBuilder]:
    return [
        make(f"{name}-{n}", count, **more).in_gang(name, len(cards))
        for n, count in enumerate(cards)
    ]


def node_groups(kind: str, *groups: str) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(groups)}}


# --- limits --------------------------------------------------------------------------------------

#: What there is, and who is bound.
LIMITS: dict[str, tuple[list[Any], set[str]]] = {
    "without queues nothing is limited": ([gpu_node(), training("a", 8)], {"a"}),
    "as many cards as the quota": (
        [gpu_node(), *two_queues(4), training("a", 4), training("b", 1)],
        {"a"},
    ),
    "each queue has its own": (
        [gpu_node(), *two_queues(4), training("a", 4), inference("b", 4)],
        {"a", "b"},
    ),
    "cards without an entry are not to be had": (
        [gpu_node(card="NVIDIA-H200"), *two_queues(), training("a", 1)],
        set(),
    ),
    "a queue that does not count cards does not limit them": (
        [gpu_node(), a_queue("training"), training("a", 8)],
        {"a"},
    ),
    "the capability limits cpu": (
        [
            a_node("n").offers(cpu=9),
            a_queue("q", capability={"cpu": 2}),
            *(a_pod(f"p{n}").needs(cpu=1).in_queue("q") for n in range(3)),
        ],
        {"p0", "p1"},
    ),
    "the parent's capability limits its children together": (
        [
            a_node("n").offers(cpu=9),
            a_queue("team", capability={"cpu": 2}),
            a_queue("a", parent="team"),
            a_queue("b", parent="team"),
            a_pod("a0").needs(cpu=1).in_queue("a"),
            a_pod("b0").needs(cpu=1).in_queue("b"),
            a_pod("b1").needs(cpu=1).in_queue("b"),
        ],
        {"a0", "b0"},
    ),
    "a closed queue takes nothing": (
        [a_node("n"), a_queue("q", state="Closed"), a_pod().needs(cpu=1).in_queue("q")],
        set(),
    ),
    "a queue that is not there takes nothing": (
        [a_node("n"), a_queue("other"), a_pod().needs(cpu=1).in_queue("q")],
        set(),
    ),
    "only nodes of the group that the queue names": (
        [
            a_node("n").labelled({"volcano.sh/nodegroup-name": "x"}),
            a_node("m"),
            a_queue("q", affinity=node_groups("nodeGroupAffinity", "y")),
            a_pod().in_queue("q"),
        ],
        set(),
    ),
    "one of several groups": (
        [
            a_node("n").labelled({"volcano.sh/nodegroup-name": "x"}),
            a_queue("q", affinity=node_groups("nodeGroupAffinity", "y", "x")),
            a_pod().in_queue("q"),
        ],
        {"p"},
    ),
    "no nodes of a group that it shuns": (
        [
            a_node("n").labelled({"volcano.sh/nodegroup-name": "x"}),
            a_queue("q", affinity=node_groups("nodeGroupAntiAffinity", "x")),
            a_pod().in_queue("q"),
        ],
        set(),
    ),
    "but of all others": (
        [
            a_node("n"),
            a_queue("q", affinity=node_groups("nodeGroupAntiAffinity", "x")),
            a_pod().in_queue("q"),
        ],
        {"p"},
    ),
    "the groups of the parent hold as well": (
        [
            a_node("n").labelled({"volcano.sh/nodegroup-name": "x"}),
            a_queue("team", affinity=node_groups("nodeGroupAntiAffinity", "x")),
            a_queue("q", parent="team", affinity=node_groups("nodeGroupAffinity", "x")),
            a_pod().in_queue("q"),
        ],
        set(),
    ),
    "the default queue is there without being made": (
        [a_node("n"), a_queue("other"), a_pod().needs(cpu=1)],
        {"p"},
    ),
    "a pod of one card or another is charged for the one it gets": (
        [
            gpu_node("n", 2, "A"),
            gpu_node("m", 2, "B"),
            a_queue("training", cards={"A": 1, "B": 1}),
            *(training(f"p{n}", 1).annotated({"volcano.sh/card.name": "A|B"}) for n in range(3)),
        ],
        {"p0", "p1"},
    ),
    "a whole gang or nothing": (
        [gpu_node(), *two_queues(6), *gang("g", (4, 4), training)],
        set(),
    ),
    "what is shared and what is sliced counts apart": (
        [
            gpu_node().offers({"nvidia.com/mig-1g.18gb": 2}),
            a_queue("training", cards={f"{CARD}/mig-1g.18gb-mixed": 1}),
            training("whole", 1),
            a_pod("slice").needs({"nvidia.com/mig-1g.18gb": 1}).in_queue("training"),
            a_pod("z").needs({"nvidia.com/mig-1g.18gb": 1}).in_queue("training"),
        ],
        {"slice"},
    ),
}


@pytest.mark.parametrize("case", LIMITS.values(), ids=LIMITS.keys())
def test_who_is_bound(case: tuple[list[Any], set[str]], harness: EngineHarness) -> None:
    objects, expected = case
    harness.observe(*objects)
    assert bound(harness.run()) == expected


def test_the_card_named_first_is_preferred(harness: EngineHarness) -> None:
    harness.observe(gpu_node("n", 8, "A"), gpu_node("m", 8, "B"), a_queue("other"))
    harness.observe(a_pod("p").needs({GPU: 1}).annotated({"volcano.sh/card.name": "B|A"}))
    assert placements(harness.run()) == [("p", "m")]


@pytest.mark.parametrize(("card", "nodes"), [("A", ["n"]), ("B", ["m"]), ("C", [])])
def test_a_pod_gets_only_the_card_it_names(
    card: str, nodes: list[str], harness: EngineHarness
) -> None:
    harness.observe(gpu_node("n", 8, "A"), gpu_node("m", 8, "B"), a_queue("other"))
    harness.observe(a_pod("p").needs({GPU: 1}).annotated({"volcano.sh/card.name": card}))
    assert [node for _, node in placements(harness.run())] == nodes


REASONS: dict[str, tuple[list[Any], str, str]] = {
    "cards": (
        [gpu_node(), *two_queues(3), training("p", 5)],
        "InsufficientScalarQuota",
        f"Queue <training> has insufficient <{CARD}> quota: requested <5000>, "
        "total would be <5000>, but capability is <3000>",
    ),
    "cpu": (
        [a_node("n"), a_queue("q", capability={"cpu": 1}), a_pod("p").needs(cpu=2).in_queue("q")],
        "InsufficientCPUQuota",
        "Queue <q> has insufficient CPU quota: requested <2000>, total would be <2000>, but "
        "capability is <1000>",
    ),
    "memory": (
        [
            a_node("n"),
            a_queue("q", capability={"memory": "1Gi"}),
            a_pod("p").needs(memory="2Gi").in_queue("q"),
        ],
        "InsufficientMemoryQuota",
        "Queue <q> has insufficient memory quota: requested <2048 Mi>, total would be <2048 Mi>, "
        "but capability is <1024 Mi>",
    ),
    "anything, when nothing may be used": (
        [
            a_node("n"),
            a_queue("q", capability={"cpu": 1}),
            a_pod("big").needs(cpu=2).in_queue("q").on("n"),
            a_pod("p").in_queue("q"),
        ],
        "EmptyQueueCapability",
        "Queue <q> capability <cpu 1000.00> is empty, deny it to preempt",
    ),
    "a card named and none asked for": (
        [
            gpu_node(),
            *two_queues(),
            a_pod("p").in_queue("training").annotated({"volcano.sh/card.name": CARD}),
        ],
        "GetTaskRequestResourceFailed",
        "Get request resource failed, Queue <training>, error: <the pod names card "
        f"{CARD} and requests none>",
    ),
}


@pytest.mark.parametrize("case", REASONS.values(), ids=REASONS.keys())
def test_the_pod_is_told_what_its_queue_lacks(
    case: tuple[list[Any], str, str], harness: EngineHarness
) -> None:
    objects, reason, text = case
    harness.observe(*objects)
    assert event(harness.run(), reason) == text


#: Queues, and why a pod of queue q waits.
WAITS: dict[str, tuple[list[Any], str]] = {
    "for a queue that is not there": ([a_queue("other")], "Queue <q> does not exist"),
    "for one that is closed": ([a_queue("q", state="Closed")], "Queue <q> is not open"),
    "for one that is part of a closed one": (
        [a_queue("q", parent="team"), a_queue("team", state="Closing")],
        "Queue <team> is not open",
    ),
    "for one that has parts": (
        [a_queue("q"), a_queue("part", parent="q")],
        "Queue <q> takes no pods: 1 other queue is part of it",
    ),
}


@pytest.mark.parametrize(("queues", "why"), WAITS.values(), ids=WAITS)
def test_the_pod_is_told_that_it_waits(queues: list[Any], why: str, harness: EngineHarness) -> None:
    harness.observe(a_node("n"), *queues, a_pod("p").in_queue("q"))
    assert why in event(harness.run(), "FailedScheduling")


def test_of_a_queue_that_is_deleted_the_pods_run_on_and_no_more_come(
    harness: EngineHarness,
) -> None:
    queue, running = a_queue("q", capability={"cpu": 1}), a_pod("a").needs(cpu=1).in_queue("q")
    harness.observe(a_node("n").offers(cpu=4), queue, a_queue("other"), running.on("n"))
    harness.observe(a_pod("b").needs(cpu=1).in_queue("q"))
    assert bound(harness.run()) == set()
    harness.engine.handlers.on_queue_deleted(queue, harness.now)
    assert bound(harness.advance_to(20)) == evicted(harness.effects) == set()
    told = [
        e.note for e in of_kind(PublishEvent, harness.effects) if e.reason == "FailedScheduling"
    ]
    assert "Queue <q> does not exist" in told[-1]
    harness.observe(a_queue("q", capability={"cpu": 2}))
    assert bound(harness.advance_to(40)) == {"b"}, "the running one counts again"
    harness.observe(a_pod("c").needs(cpu=1).in_queue("q"))
    assert bound(harness.advance_to(60)) == set()


def test_a_queue_that_cannot_be_read_is_told_and_gives_no_cards(harness: EngineHarness) -> None:
    queue = a_queue("training", cards={CARD: 1})
    queue.metadata.annotations["volcano.sh/card.quota"] = "lots"
    harness.observe(gpu_node(), queue, training("p", 1))
    effects = harness.run()
    assert bound(effects) == set()
    assert event(effects, "InvalidQueue") == "Ignored: volcano.sh/card.quota: 'lots' is not JSON"


UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "an order that blocks": (
        {"dequeueStrategy": "fifo"},
        "spec.dequeueStrategy: fifo: who cannot be placed holds up nobody",
    ),
    "limits of devices": (
        {"dra": {"capability": {"gpu.example.com": {"count": 1}}}},
        "spec.dra: devices by DeviceClass are not limited",
    ),
}


@pytest.mark.parametrize(("spec", "why"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_what_is_not_done_for_a_queue_is_told(
    spec: dict[str, Any], why: str, harness: EngineHarness
) -> None:
    harness.observe(a_queue("q", **spec))
    assert event(harness.run(), "InvalidQueue") == f"Ignored: {why}"


def test_a_pod_outside_the_groups_of_its_queue_is_told_and_woken(harness: EngineHarness) -> None:
    harness.observe(a_node("n"), a_queue("q", affinity=node_groups("nodeGroupAffinity", "x")))
    harness.observe(a_pod().in_queue("q"))
    told = event(harness.run(), "FailedScheduling")
    assert "1 node(s) weren't of a node group that the pod's queue may use" in told
    harness.observe(a_node("n").labelled({"volcano.sh/nodegroup-name": "x"}))
    assert bound(harness.advance_to(20)) == {"p"}


def test_a_pod_is_woken_when_its_queue_may_use_more(harness: EngineHarness) -> None:
    harness.observe(gpu_node(), *two_queues(1), training("p", 2))
    assert bound(harness.run()) == set()
    harness.observe(*two_queues(2))
    assert bound(harness.advance_to(20)) == {"p"}


def test_a_pod_group_is_let_in_while_its_cards_fit() -> None:
    harness = EngineHarness(default_profile(), queues=QuotaConfig(over_commit=2.0))
    harness.observe(gpu_node(count=1), a_queue("default", cards={CARD: 1}))
    for n in range(3):
        request = {"volcano.sh/card.request": f'{{"{CARD}": 1}}'}
        harness.observe(a_pod_group(f"g{n}", least=1).annotated(request))
        harness.observe(a_pod(f"p{n}").needs({GPU: 1}).in_pod_group(f"g{n}"))
    assert bound(harness.run()) == {"p0"}
    harness.advance_to(30)
    waits = [e.note for e in of_kind(PublishEvent, harness.effects) if e.regarding.name == "p2"]
    assert waits[-1].startswith("gang default/g2 waits: Queue <default> has insufficient")
