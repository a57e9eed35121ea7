"""``arranger why``: the chain of causes, and that what it suggests helps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from arranger.daemon.config.schema import Config
from arranger.shadow import Shadow, Why
from arranger.shadow.forecast import Driver
from arranger.shadow.suggestions import Suggester
from arranger.shadow.why import Answer
from tests.builders import Manifest, a_node, a_pod, a_pod_group
from tests.builders.base import ManifestBuilder
from tests.queueing import a_queue_manifest

NOW = datetime(2026, 1, 2, tzinfo=UTC)
Given = ManifestBuilder | Manifest
ZONE = "topology.kubernetes.io/zone"


def why(what: str, *given: Given) -> list[Answer]:
    """The answers of a cluster of these objects."""
    manifests = [each.manifest() if isinstance(each, ManifestBuilder) else each for each in given]
    return Shadow.from_manifests(manifests, Config(), calendar=lambda: NOW).ask_now(
        Why(what, thorough=True)
    )


def node(name: str = "n1", cpu: int = 4) -> ManifestBuilder:
    return a_node(name).offers(cpu=cpu, memory="8Gi", pods=20)


def busy(name: str, cpu: int, on: str = "n1") -> ManifestBuilder:
    return a_pod(name).needs(cpu=cpu).on(on).in_phase("Running")


#: What it is about, the cluster, and a text of the chain and of a suggestion.
CAUSES: dict[str, tuple[Sequence[Given], str, str]] = {
    "a node that is full": (
        [node(), busy("old", 3), a_pod("new").needs(cpu=2)],
        "1 Insufficient cpu",
        "when pod default/old ends",
    ),
    "a node that is too small": (
        [node(cpu=1), a_pod("new").needs(cpu=2)],
        "1 Insufficient cpu",
        "cpu 1000m more on node n1",
    ),
    "nodes that are all full": (
        [node(), busy("old", 4), a_pod("new").needs(cpu=4)],
        "1 Insufficient cpu",
        "1 more node like n1",
    ),
    "a cordoned node": (
        [node().with_spec(unschedulable=True), a_pod("new").needs(cpu=1)],
        "node(s) were unschedulable",
        "node n1 uncordoned",
    ),
    "a taint": (
        [a_node("n1").offers(cpu=4, pods=20).tainted("gpu"), a_pod("new").needs(cpu=1)],
        "untolerated taint",
        "node n1 without its taints, or with a toleration",
    ),
    "a label that no node has": (
        [node(), a_pod("new").needs(cpu=1).selects(disk="ssd")],
        "didn't match Pod's node affinity/selector",
        "node n1 labelled disk=ssd",
    ),
    "a host port that is taken": (
        [node(), busy("old", 1).host_port(80), a_pod("new").needs(cpu=1).host_port(80)],
        "didn't have free ports",
        "when pod default/old ends",
    ),
    "a pod that it must avoid": (
        [
            node().labelled({"kubernetes.io/hostname": "n1"}),
            busy("old", 1).labelled(app="x"),
            a_pod("new").needs(cpu=1).apart("kubernetes.io/hostname", {"app": "x"}),
        ],
        "anti-affinity rules",
        "when pod default/old ends",
    ),
    "a scheduling gate": (
        [node(), a_pod("new").needs(cpu=1).gated("example.com/hold")],
        "scheduling gates: [example.com/hold]",
        "pod default/new without its scheduling gate example.com/hold",
    ),
    "a queue's limit": (
        [
            node(),
            a_queue_manifest("q", capability={"cpu": "1"}),
            a_pod("new").needs(cpu=2).in_queue("q"),
        ],
        "Queue <q> has insufficient CPU quota",
        "queue q with capability cpu 2",
    ),
    "members that have not come": (
        [node(), a_pod_group("g").with_spec(minMember=3)]
        + [a_pod(name).needs(cpu=1).in_pod_group("g") for name in ("new", "other")],
        "waits for members: 2 of 3 arrived",
        "1 more pod of gang default/g",
    ),
    "a node that has its pods": (
        [a_node("n1").offers(cpu=4, pods=1), busy("old", 1), a_pod("new").needs(cpu=1)],
        "1 Too many pods",
        "1 pod slot more on node n1",
    ),
    "a pod there that avoids it": (
        [
            node().labelled({"kubernetes.io/hostname": "n1"}),
            busy("old", 1).apart("kubernetes.io/hostname", {"app": "x"}),
            a_pod("new").needs(cpu=1).labelled(app="x"),
        ],
        "existing pods anti-affinity rules",
        "when pod default/old ends",
    ),
    "domains that may not have more": (
        [
            node().in_zone("a"),
            node("n2", cpu=1).in_zone("b"),
            busy("old", 1).labelled(app="x"),
            a_pod("new").needs(cpu=2).labelled(app="x").spreads(ZONE, over={"app": "x"}),
        ],
        "didn't match pod topology spread constraints",
        "cpu 1000m more on node n2",
    ),
    "one that may not evict": (
        [
            node(),
            busy("old", 4),
            a_pod("new").needs(cpu=4).with_priority(9).with_spec(preemptionPolicy="Never"),
        ],
        "preemption: not eligible due to preemptionPolicy=Never",
        "when pod default/old ends",
    ),
    "a queue that is not there": (
        [node(), a_queue_manifest("other"), a_pod("new").needs(cpu=1).in_queue("q")],
        "Queue <q> does not exist",
        "queue q created",
    ),
    "a limit above its queue": (
        [
            node(),
            a_queue_manifest("top", capability={"cpu": "1"}),
            a_queue_manifest("q", parent="top"),
            a_pod("new").needs(cpu=2).in_queue("q"),
        ],
        "insufficient CPU quota",
        "queue top with capability cpu 2",
    ),
    "a gang larger than the cluster": (
        [node(), a_pod_group("g").with_spec(minMember=2)]
        + [a_pod(name).needs(cpu=4).in_pod_group("g") for name in ("new", "x")],
        "Unsatisfiable",
        "1 more node like n1",
    ),
    "cards that are all taken": (
        [
            a_node("n1").offers({"nvidia.com/gpu": 2}, cpu=4, pods=20),
            a_pod("old").needs({"nvidia.com/gpu": 1}).on("n1").in_phase("Running"),
            a_pod("new").needs({"nvidia.com/gpu": 2}),
        ],
        "Insufficient nvidia.com/gpu",
        "nvidia.com/gpu 1 more on node n1",
    ),
    "a gang for which there is too little": (
        [node(), a_pod_group("g").with_spec(minMember=3)]
        + [a_pod(name).needs(cpu=2).in_pod_group("g") for name in ("new", "x", "y")],
        "blocked by pod",
        "1 more node like n1",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_pod_is_told_why_it_waits_and_what_helps(cause: str) -> None:
    given, reason, helps = CAUSES[cause]
    (answer,) = why("new", *given)
    assert answer.state in ("Waiting", "Gated")
    assert reason in answer.reason
    suggested = {each.change: each for each in answer.suggestions}
    assert helps in suggested, list(suggested)
    assert set(suggested[helps].nodes) == set(answer.pods)


def test_changes_for_which_there_is_no_time_are_named_and_not_tried() -> None:
    given = [node(), busy("old", 3), a_pod("new").needs(cpu=2)]
    shadow = Shadow.from_manifests([each.manifest() for each in given], Config())
    driver = Driver(shadow.engine, shadow.objects, Config(), NOW)
    told = driver.settle()
    (entity,) = told.engine.queue.entities()

    found, others = Suggester(driver, told, 0.0).suggest(entity, entity.representative)

    assert not found
    assert others[:3] == [
        "cpu 1000m more on node n1",
        "when pod default/old ends",
        "1 more node like n1",
    ]
    found, others = Suggester(driver, told, 60.0).suggest(entity, entity.representative)
    assert [each.change for each in found] == [
        "cpu 1000m more on node n1",
        "when pod default/old ends",
        "1 more node like n1",
    ]
    assert not others


def test_what_can_be_placed_says_where_and_suggests_nothing() -> None:
    (answer,) = why("new", node(), a_pod("new").needs(cpu=1))
    assert (answer.state, answer.nodes) == ("Placeable", {"default/new": "n1"})
    assert not answer.suggestions


def test_who_has_to_leave_is_named() -> None:
    (answer,) = why("new", node(), busy("old", 4), a_pod("new").needs(cpu=4).with_priority(9))
    assert (answer.state, answer.evicted) == ("Placeable", ["default/old"])


def test_one_that_is_evicted_is_told_for_whom() -> None:
    (answer,) = why("old", node(), busy("old", 4), a_pod("new").needs(cpu=4).with_priority(9))
    assert answer.reason == "it has to leave node n1 for default/new"


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (busy("new", 1), "Running"),
        (busy("new", 1).in_phase("Succeeded"), "Ended"),
        (a_pod("new").for_scheduler("other"), "NotOurs"),
    ],
    ids=["one that runs", "one that has ended", "one of another scheduler"],
)
def test_pods_that_do_not_wait_say_so(pod: ManifestBuilder, state: str) -> None:
    (answer,) = why("new", node(), pod)
    assert answer.state == state


def test_the_queue_says_whose_turn_it_is() -> None:
    waiting = [a_pod(f"p{n}").needs(cpu=9).with_priority(n).in_queue("q") for n in range(3)]
    answers = why("queue/q", node(), a_queue_manifest("q"), *waiting)
    assert [each.subject for each in answers] == [f"pod default/p{n}" for n in (2, 1, 0)]
    last = answers[-1].queue
    assert last is not None
    assert (last.position, last.waiting) == (3, 3)
    assert last.before == ["default/p2", "default/p1"]


def test_a_gang_is_answered_once_with_its_missing_members() -> None:
    members = [a_pod(name).needs(cpu=1).in_pod_group("g") for name in "ab"]
    for what in ("gang/g", "podgroup/g"):
        (answer,) = why(what, node(), a_pod_group("g").with_spec(minMember=3), *members)
        assert answer.gang is not None
        assert (answer.gang.missing, answer.gang.arrived) == (1, "2 of 3 arrived")
        assert answer.pods == ["default/a", "default/b"]


def test_the_pods_of_an_owner_are_answered_for() -> None:
    pods = [a_pod(name).needs(cpu=9).owned_by("ReplicaSet", "web") for name in "ab"]
    assert len(why("replicaset/web", node(), *pods)) == 2


@pytest.mark.parametrize("what", ["nobody", "gang/nobody", "queue/nobody", "job/nobody"])
def test_what_is_not_there_is_said(what: str) -> None:
    with pytest.raises(LookupError, match="nobody"):
        why(what, node())
