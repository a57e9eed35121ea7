"""``arranger why``: the chain of causes, and that what it suggests helps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arranger.daemon.config.schema import Config
from arranger.shadow import Shadow, WhatIf
from arranger.shadow.answers.suggestions import Suggester
from arranger.shadow.forecasts.changes import create
from arranger.shadow.forecasts.forecast import Driver
from arranger.ui.views.observed import Observed
from arranger.ui.views.pods import pod_view
from tests import devices, storage
from tests.builders import a_node, a_pod, a_pod_group, expr
from tests.builders.base import ManifestBuilder
from tests.queueing import a_queue_manifest
from tests.simulation.shadow.asking import NOW, Given, a_shadow, busy, manifests, node, why

ZONE = "topology.kubernetes.io/zone"


def volcano_group(cpu: str) -> list[Given]:
    """A PodGroup of Volcano in queue q that wants at least so much, and its pod."""
    group = a_pod_group("g", least=1, queue="q", minResources={"cpu": cpu}).manifest()
    group["apiVersion"] = "scheduling.volcano.sh/v1beta1"
    return [group, a_pod("new").needs(cpu=1).annotated({"scheduling.k8s.io/group-name": "g"})]


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
    "a pod that it wants to be near": (
        [
            node().in_zone("a"),
            node("n2", cpu=1).in_zone("b"),
            busy("old", 1, on="n2").labelled(app="x"),
            a_pod("new").needs(cpu=2).near(ZONE, {"app": "x"}),
        ],
        "didn't match pod affinity rules",
        "cpu 2000m more on node n2",
    ),
    "required affinity to nodes": (
        [node(), a_pod("new").needs(cpu=1).requires(expr("disk", "In", "ssd"))],
        "didn't match Pod's node affinity/selector",
        "node n1 labelled disk=ssd",
    ),
    "no nodes at all": (
        [a_pod("new").needs(cpu=1)],
        "no nodes available to schedule pods",
        "a node with cpu 1000m, 1 pod slot",
    ),
    "a volume in another zone": (
        [
            node().in_zone("a"),
            node("n2", cpu=1).in_zone("b"),
            storage.a_volume("v").usable_in("b").held_by("data").manifest(),
            storage.a_claim("data").bound_to("v").manifest(),
            a_pod("new").needs(cpu=2).with_claim("data"),
        ],
        "Insufficient cpu",
        "cpu 1000m more on node n2",
    ),
    "devices that are all taken": (
        [
            node(),
            devices.a_device_class().manifest(),
            devices.a_slice("n1", "d0").manifest(),
            devices.a_claim("theirs").asks().given("d0", on="n1").reserved_for("uid-default-old"),
            devices.claiming(busy("old", 1), "theirs"),
            devices.a_claim("mine").asks(),
            devices.claiming(a_pod("new").needs(cpu=1), "mine"),
        ],
        "cannot allocate all claims",
        "when pod default/old ends",
    ),
    "the least that a PodGroup wants": (
        [
            node(),
            a_queue_manifest("q", capability={"cpu": "2"}),
            *volcano_group(cpu="3"),
        ],
        "for its minResources",
        "queue q with capability cpu 3",
    ),
    "room that others are guaranteed": (
        [
            node(),
            a_queue_manifest("q"),
            a_queue_manifest("other", guarantee={"resource": {"cpu": "3"}}),
            a_pod("new").needs(cpu=2).in_queue("q"),
        ],
        "beside what other queues are guaranteed",
        "queue other with guarantee cpu 1",
    ),
}


#: Causes that lie in objects which nobody can guess: the cluster, a text, and what would help.
REMEDIES: dict[str, tuple[Sequence[Given], str, Sequence[Given]]] = {
    "a claim that is not there": (
        [node(), a_pod("new").needs(cpu=1).with_claim("data")],
        'persistentvolumeclaim "data" not found',
        [storage.a_claim("data").bound_to("v"), storage.a_volume("v").held_by("data")],
    ),
    "no volume to bind": (
        [
            node(),
            storage.a_class(by="kubernetes.io/no-provisioner").manifest(),
            storage.a_claim("data").manifest(),
            a_pod("new").needs(cpu=1).with_claim("data"),
        ],
        "didn't find available persistent volumes to bind",
        [storage.a_volume("v")],
    ),
    "a queue that is closed": (
        [
            node(),
            a_queue_manifest("q", notes={"arranger.io/queue-state": "Closed"}),
            a_pod("new").needs(cpu=1).in_queue("q"),
        ],
        "is not open",
        [a_queue_manifest("q")],
    ),
    "a key that no node has": (
        [node(), a_pod("new").needs(cpu=1).spreads(ZONE, over={"app": "x"})],
        "topology spread constraints (missing required label)",
        [node().in_zone("a")],
    ),
}


@pytest.mark.parametrize("cause", REMEDIES)
def test_what_the_manual_says_helps_where_nothing_can_be_tried(cause: str) -> None:
    given, reason, remedy = REMEDIES[cause]
    (answer,) = why("new", *given)
    assert reason in answer.reason
    assert not answer.suggestions
    told = a_shadow(given).ask_now(WhatIf([create(manifests(remedy), "the remedy")]))
    assert "default/new" in told.placed


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


def test_when_a_pod_ends_at_the_latest_is_told_of_it_and_of_those_that_wait_for_it() -> None:
    started = "2026-01-01T23:00:00Z"
    old = busy("old", 3).with_spec(activeDeadlineSeconds=7200).with_status(startTime=started)
    cluster = [node(), old, a_pod("new").needs(cpu=2)]
    end = "2026-01-02 01:00:00 UTC"
    (answer,) = why("old", *cluster)
    assert answer.reason == f"it runs on node n1, until {end} at the latest"
    (answer,) = why("new", *cluster)
    told = [each.change for each in answer.suggestions]
    assert f"when pod default/old ends, at the latest at {end}" in told
    view = pod_view(Observed(a_shadow(cluster).objects, a_shadow(cluster).engine), "default/old")
    assert view is not None
    assert ("ends by", end) in view.facts
