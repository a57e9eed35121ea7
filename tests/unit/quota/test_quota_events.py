"""A pod that its queue's limits reject is told so by an event, whatever the cluster looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from arranger.api.effects import PublishEvent
from arranger.api.types.queue import Queue
from arranger.api.types.tyjob import parse_tyjob
from arranger.controllers.tyjob import manifests
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, a_pod, a_queue
from tests.queueing import CARD, GPU, gpu_node
from tests.tyjobs import a_template, a_tyjob
from tests.unit.engine.harness import EngineHarness, conditions, of_kind, placements

CARD_NAME = "volcano.sh/card.name"
#: What a pod asks for, what its queue allows, and what the events must say.
Case = tuple[dict[str, Any], dict[str, str], Queue, str, str]

QUOTA = (
    "Queue <q> has insufficient {0} quota: requested <{1}>, total would be <{2}>, "
    "but capability is <{3}>"
)
FAILED = "Get request resource failed, Queue <q>, error: <{}>"
CASES: dict[str, Case] = {
    "cpu": (
        {"cpu": 2},
        {},
        a_queue("q", capability={"cpu": 1}),
        "InsufficientCPUQuota",
        QUOTA.format("CPU", 2000, 2000, 1000),
    ),
    "memory": (
        {"memory": "2Gi"},
        {},
        a_queue("q", capability={"memory": "1Gi"}),
        "InsufficientMemoryQuota",
        QUOTA.format("memory", "2048 Mi", "2048 Mi", "1024 Mi"),
    ),
    "a card": (
        {GPU: 2},
        {CARD_NAME: CARD},
        a_queue("q", cards={CARD: 1}),
        "InsufficientScalarQuota",
        QUOTA.format(f"<{CARD}>", 2000, 2000, 1000),
    ),
    "two cards, and no quota for either": (
        {GPU: 2},
        {CARD_NAME: f"{CARD}|B"},
        a_queue("q", cards={CARD: 1, "B": 1}),
        "InsufficientScalarQuota",
        f"{QUOTA.format('<B>', 2000, 2000, 1000)}; {QUOTA.format(f'<{CARD}>', 2000, 2000, 1000)}",
    ),
    "another resource": (
        {GPU: 2},
        {},
        a_queue("q", capability={GPU: 1}),
        "InsufficientScalarQuota",
        QUOTA.format(f"<{GPU}>", 2000, 2000, 1000),
    ),
    "nothing, of a queue that is beyond its limit": (
        {},
        {},
        a_queue("q", capability={"cpu": 0.5, "memory": "4Gi", GPU: 3}),
        "EmptyQueueCapability",
        "Queue <q> capability <cpu 500.00, memory 4294967296.00, nvidia.com/gpu 3000.00> is empty, "
        "deny it to preempt",
    ),
    "a card that it names and does not ask for": (
        {},
        {CARD_NAME: CARD},
        a_queue("q", cards={CARD: 8}),
        "GetTaskRequestResourceFailed",
        FAILED.format(f"the pod names card {CARD} and requests none"),
    ),
    "a card that no node has": (
        {GPU: 1},
        {CARD_NAME: "NVIDIA-H2000"},
        a_queue("q", cards={CARD: 8, "NVIDIA-H2000": 8}),
        "GetTaskRequestResourceFailed",
        FAILED.format("no resource name found for card <NVIDIA-H2000>"),
    ),
}


def full(node: str, cards: int) -> PodBuilder:
    """A pod that leaves nothing on a node, and that nobody may evict."""
    pod = a_pod(f"on-{node}").needs({GPU: cards}, cpu=64, memory="32Gi").on(node)
    return pod.with_priority(100).annotated({"volcano.sh/preemptable": "false"})


NODES: list[NodeBuilder] = [gpu_node("n"), gpu_node("m", 4, "B")]
CLUSTERS: dict[str, Sequence[NodeBuilder | PodBuilder]] = {
    "no nodes": [],
    "empty nodes": NODES,
    "full nodes": [*NODES, full("n", 8), full("m", 4)],
    "nodes that are not selected": [node.cordoned() for node in NODES],
}


def lone(requests: dict[str, Any], notes: dict[str, str]) -> list[PodBuilder]:
    return [a_pod("p").needs(requests).in_queue("q").annotated(notes)]


def gang(requests: dict[str, Any], notes: dict[str, str]) -> list[PodBuilder]:
    make = (a_pod(f"p{n}").needs(requests).in_queue("q").annotated(notes) for n in range(2))
    return [pod.in_gang("g", 2) for pod in make]


def tyjob(requests: dict[str, Any], notes: dict[str, str]) -> list[PodBuilder]:
    template = a_template()
    (container,) = template["spec"]["containers"]
    container["resources"]["requests"] = {name: str(n) for name, n in requests.items()}
    template["metadata"]["annotations"] = notes
    job = parse_tyjob(a_tyjob(workers=1, leader=template, worker=template, queue="q"))
    made = [manifests.pod(job, r, scheduler="arranger", port=1, leader="u") for r in job.replicas]
    for pod in made:
        pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
    return [PodBuilder(pod) for pod in made]


@pytest.mark.parametrize("make", [lone, gang, tyjob])
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS.keys())
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_pod_is_told_which_limit_keeps_it_waiting(
    case: Case,
    cluster: Sequence[NodeBuilder | PodBuilder],
    make: Callable[[dict[str, Any], dict[str, str]], list[PodBuilder]],
) -> None:
    requests, notes, queue, reason, text = case
    harness = EngineHarness(default_profile())
    harness.observe(*cluster, queue)
    if reason == "EmptyQueueCapability":
        harness.observe(a_pod("earlier").needs(cpu=1).in_queue("q").on("gone"))
    harness.observe(*make(requests, notes))
    effects = harness.run()
    told = [e.note for e in of_kind(PublishEvent, effects) if e.reason == reason]
    if not cluster and notes.get(CARD_NAME) == "NVIDIA-H2000":
        assert told == [], "there are no nodes at all, and the condition says that"
        return
    assert told
    assert set(told) == {text}
    if cluster is CLUSTERS["full nodes"]:
        shown = [message for _, message in conditions(effects)]
        assert any(part in shown[0] for part in text.split("; ")), shown


#: What is used already of one CPU, what a pod asks for beside that, and whether it is placed.
BESIDE: dict[str, tuple[int, dict[str, Any], bool]] = {
    "nothing, within the limit": (1, {}, True),
    "nothing, beyond it": (2, {}, False),
    "something else, beyond it": (2, {"memory": "1Gi"}, True),
    "the same, beyond it": (2, {"cpu": "1m", "memory": "1Gi"}, False),
    "the same, at the limit": (1, {"cpu": "1m"}, False),
}


@pytest.mark.parametrize(("used", "requests", "placed"), BESIDE.values(), ids=BESIDE)
def test_an_exceeded_limit_keeps_out_who_asks_for_that_or_for_nothing(
    used: int, requests: dict[str, Any], placed: bool
) -> None:
    harness = EngineHarness(default_profile())
    earlier = a_pod("earlier").needs(cpu=used).in_queue("q").on("n")
    harness.observe(*NODES, a_queue("q", capability={"cpu": 1}), earlier, *lone(requests, {}))
    assert bool(placements(harness.run())) is placed


def test_a_card_with_quota_left_and_no_room_is_not_called_short_of_quota() -> None:
    harness = EngineHarness(default_profile())
    pods = [full("n", 8), full("m", 4)]
    harness.observe(*NODES, *pods, a_queue("q", cards={CARD: 8, "B": 1}))
    harness.observe(*lone({GPU: 2}, {CARD_NAME: CARD}))
    effects = harness.run()
    assert {e.reason for e in of_kind(PublishEvent, effects)} == {"FailedScheduling"}
    assert "Insufficient nvidia.com/gpu" in conditions(effects)[0][1]


def test_a_card_appears_and_the_pod_that_named_it_goes_there() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(*NODES, a_queue("q"), *lone({GPU: 1}, {CARD_NAME: "NVIDIA-H2000"}))
    harness.run()
    harness.observe(gpu_node("new", 8, "NVIDIA-H2000"))
    harness.now += 20
    harness.run()
    assert harness.binding("p").node == "new"


def test_the_notes_of_one_attempt_are_told_once_each() -> None:
    """Two notes of one reason would take turns in one series of Events."""
    harness = EngineHarness(default_profile())
    harness.observe(*NODES, a_queue("q", cards={CARD: 1, "B": 1}))
    harness.observe(*lone({GPU: 2}, {}))
    for _ in range(3):
        told = [e.reason for e in of_kind(PublishEvent, harness.run())]
        assert sorted(told) == ["FailedScheduling", "InsufficientScalarQuota"]
        harness.now += 400
