"""What queues say about who may use them holds in the engine, and so do edits of it."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest

from arranger.api.effects import Bind, PatchPodStatus, PublishEvent
from arranger.api.types.core import Namespace
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind, placements

ML: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"team": "ml"}}}
NOT_FOR_DEFAULT = "Queue <q> is not for namespace <default>"


@pytest.fixture
def cluster() -> EngineHarness:
    """A node of 4 CPU, the namespaces ``default`` without labels and ``ml``, and no queue."""
    harness = EngineHarness(default_profile())
    label(harness, "default")
    label(harness, "ml", team="ml")
    harness.observe(a_node("n").offers(cpu=4))
    return harness


def label(harness: EngineHarness, name: str, **labels: str) -> None:
    """A namespace has these labels."""
    namespace = msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)
    harness.engine.handlers.on_object_updated(namespace, harness.now)
    harness.engine.check_consistent()


def of(name: str, where: str = "default", queue: str = "q") -> PodBuilder:
    return a_pod(name).in_namespace(where).in_queue(queue).needs(cpu=1)


def told(harness: EngineHarness, name: str) -> str:
    """The last condition of a pod."""
    patches = [p for p in of_kind(PatchPodStatus, harness.effects) if p.pod.name == name]
    return patches[-1].condition.message if patches and patches[-1].condition else ""


def events(harness: EngineHarness, reason: str) -> list[tuple[str, str]]:
    """The pod and the text of each event of a reason."""
    found = of_kind(PublishEvent, harness.effects)
    return [(e.regarding.name, e.note) for e in found if e.reason == reason]


def bound(harness: EngineHarness) -> set[str]:
    return {name for name, _ in placements(harness.run())}


#: How a pod of ``default`` may come to be in ``q``.
WAYS: dict[str, PodBuilder] = {
    "by annotation": of("p"),
    "by label": a_pod("p").needs(cpu=1).labelled({"scheduling.volcano.sh/queue-name": "q"}),
    "by its PodGroup": a_pod("p").needs(cpu=1).annotated({"scheduling.k8s.io/group-name": "g"}),
}


def a_group(queue: str) -> VolcanoPodGroup:
    manifest = a_pod_group("g", minMember=1, queue=queue).manifest()
    return msgspec.convert(manifest, VolcanoPodGroup)


@pytest.mark.parametrize("pod", WAYS.values(), ids=WAYS.keys())
def test_a_pod_waits_for_the_right_to_use_its_queue_however_it_names_it(
    pod: PodBuilder, cluster: EngineHarness
) -> None:
    cluster.observe(a_queue("q", **ML))
    cluster.engine.handlers.on_pod_group_updated(a_group("q"), 0)
    cluster.observe(pod)
    assert bound(cluster) == set()
    assert NOT_FOR_DEFAULT in told(cluster, "p")
    label(cluster, "default", team="ml")
    assert bound(cluster) == {"p"}


def test_the_default_queue_may_be_for_some_only(cluster: EngineHarness) -> None:
    cluster.observe(a_queue("default", **ML), a_pod("p").needs(cpu=1))
    cluster.observe(a_pod("q").in_namespace("ml").needs(cpu=1))
    assert bound(cluster) == {"q"}
    assert "Queue <default> is not for namespace <default>" in told(cluster, "p")


def test_pods_that_look_alike_are_judged_by_their_namespaces(cluster: EngineHarness) -> None:
    cluster.observe(a_queue("q", **ML), of("a"), of("b", "ml"), of("c"), of("d", "ml"))
    assert bound(cluster) == {"b", "d"}


def test_the_right_may_come_and_go_with_the_queue(cluster: EngineHarness) -> None:
    cluster.observe(a_queue("q", **ML), of("a"))
    assert bound(cluster) == set()
    cluster.observe(a_queue("q"))
    assert bound(cluster) == {"a"}
    cluster.observe(a_queue("q", **ML), of("b"))
    assert bound(cluster) == set()
    label(cluster, "default", team="ml")
    assert bound(cluster) == {"b"}
    label(cluster, "default")
    cluster.observe(of("c"))
    assert bound(cluster) == set()


def test_nobody_fills_a_queue_that_is_not_his(cluster: EngineHarness) -> None:
    cluster.observe(a_queue("q", capability={"cpu": 2}, **ML))
    cluster.observe(*(of(f"theirs-{n}").on("n") for n in range(2)), of("mine", "ml"))
    assert bound(cluster) == {"mine"}


def test_no_cards_are_kept_for_a_pod_group_in_a_queue_that_is_not_its_own() -> None:
    harness = EngineHarness(default_profile())
    label(harness, "default")
    label(harness, "ml", team="ml")
    harness.observe(a_queue("q", cards={"A": 1}, **ML))

    def group(where: str) -> VolcanoPodGroup:
        made = a_pod_group("g", minMember=1, queue="q")
        made = made.annotated({"volcano.sh/card.request": json.dumps({"A": 1})})
        manifest = made._set("metadata", namespace=where, uid=f"uid-{where}").manifest()
        return msgspec.convert(manifest, VolcanoPodGroup)

    for where in ("default", "ml"):
        harness.engine.handlers.on_pod_group_updated(group(where), 0)
        pod = a_pod(f"of-{where}").in_namespace(where).needs(cpu=1)
        harness.observe(pod.annotated({"scheduling.k8s.io/group-name": "g"}))
        harness.run()
    assert not events(harness, "InsufficientScalarQuota"), "the other one has taken nothing"


def test_a_priority_counts_as_far_as_the_queue_believes_it(cluster: EngineHarness) -> None:
    cluster.observe(a_queue("q", maxPriority=10), a_queue("other"))
    cluster.observe(of("loud").with_priority(10**9).needs(cpu=3))
    cluster.observe(of("quiet", "ml", "other").with_priority(11).needs(cpu=3))
    assert bound(cluster) == {"quiet"}
    assert events(cluster, "LimitedByQueue") == [
        ("loud", "priority 1000000000 counts as 10, as Queue <q> says")
    ]


@pytest.mark.parametrize("most", [5, None])
def test_nobody_is_evicted_for_a_priority_that_is_not_believed(
    most: int | None, cluster: EngineHarness
) -> None:
    cluster.observe(a_queue("q", **({} if most is None else {"maxPriority": most})))
    cluster.observe(of("old").with_priority(5).needs(cpu=3).on("n"))
    cluster.observe(of("loud").with_priority(1000).needs(cpu=3))
    cluster.run()
    assert bool(events(cluster, "Preempted")) == (most is None)


def test_a_queue_that_believes_more_is_heard_at_once(cluster: EngineHarness) -> None:
    cluster.observe(a_queue("q", maxPriority=5))
    cluster.observe(of("old").with_priority(5).needs(cpu=3).on("n"))
    cluster.observe(of("loud").with_priority(1000).needs(cpu=3))
    cluster.run()
    cluster.observe(a_queue("q"))
    cluster.run()
    assert [name for name, _ in events(cluster, "Preempted")] == ["old"]


def test_who_runs_is_protected_by_no_more_than_his_queue_believes(cluster: EngineHarness) -> None:
    cluster.observe(a_queue("q"), of("old").with_priority(1000).needs(cpu=3).on("n"))
    cluster.observe(of("new").with_priority(50).needs(cpu=3))
    cluster.run()
    assert not events(cluster, "Preempted")
    cluster.observe(a_queue("q", maxPriority=50))
    cluster.observe(a_queue("q", maxPriority=100), a_queue("q", maxPriority=20))
    cluster.run()
    assert not events(cluster, "Preempted"), "both count as 20"


@pytest.mark.parametrize("believed", [["training"], ["training", "inference"]])
def test_nobody_is_evicted_for_a_service_type_that_is_not_believed(
    believed: list[str], cluster: EngineHarness
) -> None:
    cluster.observe(a_queue("q", serviceTypes=believed), a_queue("other"))
    cluster.observe(of("old", queue="other").serving("training").needs(cpu=3).on("n"))
    cluster.observe(of("new").serving("inference").needs(cpu=3))
    cluster.run()
    assert bool(events(cluster, "Preempted")) == ("inference" in believed)
    assert bool(events(cluster, "LimitedByQueue")) == ("inference" not in believed)


def test_a_pod_is_told_once_what_is_not_believed(cluster: EngineHarness) -> None:
    cluster.observe(a_queue("q", serviceTypes=[], maxPriority=1))
    pod = of("p").serving("inference").with_priority(9).needs(cpu=5)
    cluster.observe(pod, pod.labelled({"x": "y"}), a_queue("q", serviceTypes=[], maxPriority=1))
    cluster.run()
    text = "priority 9 counts as 1; volcano.sh/service.type does not count, as Queue <q> says"
    assert events(cluster, "LimitedByQueue") == [("p", text)]


def test_a_pod_whose_queue_went_while_it_was_bound_is_charged_to_the_default_one(
    cluster: EngineHarness,
) -> None:
    cluster.observe(a_queue("q"), a_queue("other"), of("p"))
    (binding,) = of_kind(Bind, cluster.run())
    cluster.engine.handlers.on_queue_deleted(a_queue("q"), cluster.now)
    cluster.engine.check_consistent()
    cluster.settle(binding)
    cluster.observe(of("p").on("n"))
    cluster.run()
    charge = cluster.engine.ledger.charge_of(of("p").build().metadata.uid)
    assert charge is not None
    assert charge.queue == "default"


def test_a_pod_that_joins_a_gang_on_its_node_stays_in_its_queue_where_the_gangs_is_full(
    cluster: EngineHarness,
) -> None:
    cluster.observe(a_queue("q", capability={"cpu": "1"}), of("full").on("n"))
    cluster.engine.handlers.on_pod_group_updated(a_group("q"), 0)
    lone = a_pod("p").needs(cpu=1).on("n")
    cluster.observe(lone)
    cluster.run()
    cluster.observe(lone.annotated({"scheduling.k8s.io/group-name": "g"}))
    cluster.run()
    charge = cluster.engine.ledger.charge_of(lone.build().metadata.uid)
    assert charge is not None
    assert charge.queue == "default"
    assert events(cluster, "StaysInQueue") == [("p", ANY)]
