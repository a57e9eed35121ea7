"""Preemption for pods and for gangs, and who is protected (docs/design/preemption.md)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arranger.api.effects import (
    DeletePod,
    Effect,
    Eviction,
    PatchPodStatus,
    PublishEvent,
    Refused,
)
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import NativePodGroup
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins import DEFAULT_PLUGINS
from arranger.plugins.default_preemption import DefaultPreemption
from tests.builders import PodBuilder, PodGroupBuilder, a_disruption_budget, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, placements

FORBIDDEN = Refused(403, "Forbidden", "no")


def running(name: str, node: str, cpu: int = 1, priority: int = 0) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).with_priority(priority).on(node)


def budget(allowed: int, **labels: str) -> PodDisruptionBudget:
    return a_disruption_budget({"matchLabels": labels}, allowed)


def evicted(effects: Sequence[Effect]) -> set[str]:
    return {delete.pod.name for delete in of_kind(DeletePod, effects)}


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


def gang(name: str, size: int, priority: int = 0, least: int | None = None) -> list[PodBuilder]:
    return [
        a_pod(f"{name}-{n}")
        .needs(cpu=1)
        .with_priority(priority)
        .in_gang(name, size if least is None else least)
        for n in range(size)
    ]


def test_the_less_important_pod_makes_room(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), running("low", "n"), running("mid", "n", priority=5))
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    effects = harness.run()
    (delete,) = of_kind(DeletePod, effects)
    assert delete.pod.name == "low"
    assert delete.condition is not None
    assert (delete.condition.type, delete.condition.reason) == (
        "DisruptionTarget",
        "PreemptionByScheduler",
    )
    message = "arranger: preempting to accommodate a higher priority pod"
    assert delete.condition.message == message
    assert delete.eviction == Eviction("n", "preemption", "default/high")
    (event,) = [e for e in of_kind(PublishEvent, effects) if e.reason == "Preempted"]
    assert event.note == "Preempted by pod uid-default-high on node n"
    assert (event.regarding.name, event.type, event.action) == ("low", "Normal", "Preempting")
    assert event.related is not None
    assert event.related.name == "high"
    (event,) = [e for e in of_kind(PublishEvent, effects) if e.reason == "Preempting"]
    assert (event.regarding.name, event.note) == ("high", "Makes room by evicting default/low")
    (patch,) = of_kind(PatchPodStatus, effects)
    assert (patch.pod.name, patch.nominated_node) == ("high", "n")
    harness.settle(delete)
    harness.observe_deleted(running("low", "n"))
    assert bound(harness.advance_to(20)) == {"high"}


def test_what_is_freed_for_the_nominee_is_not_stolen(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), running("low", "n"), running("other", "n"))
    harness.observe(a_pod("high").needs(cpu=2).with_priority(10))
    harness.settle_all(harness.run())
    harness.observe_deleted(running("low", "n"))
    harness.observe(a_pod("thief").needs(cpu=1).with_priority(9))
    assert bound(harness.advance_to(20)) == set(), "there is room for it, which is promised"
    harness.observe_deleted(running("other", "n"))
    harness.advance_to(40)
    assert bound(harness.effects) == {"high"}


def test_a_more_important_pod_may_take_it(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1), running("low", "n"))
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    harness.settle(of_kind(DeletePod, harness.run())[0])
    harness.observe_deleted(running("low", "n"))
    harness.observe(a_pod("higher").needs(cpu=1).with_priority(20))
    assert bound(harness.run()) == {"higher"}


def test_while_the_victim_is_leaving_nobody_else_is_evicted(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), running("low", "n", 2), a_node("m").offers(cpu=2))
    harness.observe(running("other", "m", 2, 1))
    harness.observe(a_pod("high").needs(cpu=2).with_priority(10))
    assert evicted(harness.run()) == {"low"}
    harness.observe(running("low", "n", 2).deleting())
    for now in range(20, 1000, 20):
        harness.observe(a_node("k").labelled(turn=str(now)).cordoned())
        harness.advance_to(float(now))
    assert evicted(harness.effects) == {"low"}


def test_if_the_eviction_is_refused_the_pod_tries_again(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1), running("low", "n"))
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    harness.settle(of_kind(DeletePod, harness.run())[0], FORBIDDEN)
    assert harness.node_of(a_pod("high")) is None
    assert evicted(harness.advance_to(60)) == {"low"}


def test_no_pod_is_placed_beside_one_that_only_has_a_promise(harness: EngineHarness) -> None:
    """The second of the two filter passes, without nominees (RunFilterPluginsWithNominatedPods)."""
    web = a_pod("web").needs(cpu=1).host_port(80).labelled(app="web").with_priority(10)
    low = running("low", "n").host_port(80)
    harness.observe(a_node("n").offers(cpu=3), low)
    harness.observe(web)
    assert evicted(harness.run()) == {"low"}
    harness.observe(a_pod("near").needs(cpu=1).near("kubernetes.io/hostname", {"app": "web"}))
    effects = harness.run()
    assert bound(effects) == set()
    (patch,) = of_kind(PatchPodStatus, effects)
    assert patch.condition is not None
    assert "1 node(s) didn't match pod affinity rules" in patch.condition.message
    harness.observe_deleted(low)
    harness.settle_all(harness.run())
    harness.observe(web.on("n"))
    harness.advance_to(20)
    assert bound(harness.effects) == {"web", "near"}


def test_nobody_is_evicted_for_a_place_beside_one_that_only_has_a_promise(
    harness: EngineHarness,
) -> None:
    web = a_pod("web").needs(cpu=1).host_port(80).labelled(app="web").with_priority(10)
    harness.observe(a_node("n").offers(cpu=3), running("low", "n").host_port(80))
    harness.observe(web)
    harness.run()
    harness.observe(running("tiny", "n"))
    near = a_pod("near").needs(cpu=1).near("kubernetes.io/hostname", {"app": "web"})
    harness.observe(near.with_priority(5))
    effects = harness.run()
    assert evicted(effects) == set()
    (patch,) = of_kind(PatchPodStatus, effects)
    assert patch.condition is not None
    assert "preemption: 0/1 nodes are available: 1 node(s) didn't match pod affinity" in (
        patch.condition.message
    )


def test_a_nominee_that_is_deleted_gives_its_room_back(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1), running("low", "n"))
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    harness.settle(of_kind(DeletePod, harness.run())[0])
    harness.observe_deleted(a_pod("high"))
    harness.observe_deleted(running("low", "n"))
    harness.observe(a_pod("late").needs(cpu=1))
    assert bound(harness.advance_to(20)) == {"late"}
    harness.observe_deleted(a_pod("late"))
    assert len(harness.engine.cluster) == 0


def test_a_nominee_that_is_deleted_wakes_those_who_wait_for_its_room(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=1), running("low", "n"))
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    harness.settle(of_kind(DeletePod, harness.run())[0])
    harness.observe(a_pod("late").needs(cpu=1))
    harness.run()
    harness.observe_deleted(running("low", "n"))
    harness.observe_deleted(a_pod("high"))
    assert bound(harness.advance_to(5)) == {"late"}


def test_a_nominee_is_no_victim_itself(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1), running("low", "n"))
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    harness.settle(of_kind(DeletePod, harness.run())[0])
    harness.observe(a_pod("highest").needs(cpu=1).with_priority(20))
    harness.run()
    harness.advance_to(20)
    assert evicted(harness.effects) == {"low"}
    patches = [(p.pod.name, p.nominated_node) for p in of_kind(PatchPodStatus, harness.effects)]
    assert patches[:3] == [("high", "n"), ("highest", "n"), ("high", "")]
    assert ("high", None) in patches[3:], "it has looked for another node"


def test_a_nomination_of_an_earlier_life_is_honoured(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1))
    harness.observe(a_pod("late").needs(cpu=1), a_pod("high").needs(cpu=1).nominated_to("n"))
    harness.run()
    assert bound(harness.effects) == {"high"}


def native(size: int, least: int, *, said: int = 0, **spec: object) -> list[object]:
    """A gang of Kubernetes' own, each member alone on a node that it fills, and its PodGroup."""
    pods = [
        running(f"g-{n}", f"n{n}", 2, said).with_spec(schedulingGroup={"podGroupName": "g"})
        for n in range(size)
    ]
    nodes = [a_node(f"n{n}").offers(cpu=2) for n in range(size)]
    return [pod_group(least, **spec), *nodes, *pods]


def pod_group(least: int, **spec: object) -> NativePodGroup:
    """The PodGroup ``g`` of Kubernetes' own."""
    meta = {"name": "g", "namespace": "default"}
    spec["schedulingPolicy"] = {"gang": {"minCount": least}}
    built = PodGroupBuilder({"metadata": meta, "spec": spec}).build(NativePodGroup)
    assert isinstance(built, NativePodGroup)
    return built


def two_or_one(priority: int) -> list[object]:
    """Two pods leave one node, or one as large leaves another."""
    pods = [running("a", "n", 1, priority), running("b", "n", 1, priority)]
    return [*(a_node(n).offers(cpu=2) for n in "nm"), *pods, running("c", "m", 2, priority)]


#: What there is beside a pod of priority 10 that needs 2 CPU, and who is evicted.
WHO: dict[str, tuple[list[object], set[str]]] = {
    "nobody of the same priority": (
        [a_node("n").offers(cpu=2), running("a", "n", 2, 10)],
        set(),
    ),
    "nobody when there is room": ([a_node("n").offers(cpu=2), a_node("m")], set()),
    "as few as needed": (
        [a_node("n").offers(cpu=3), running("a", "n"), running("b", "n"), running("c", "n")],
        {"b", "c"},
    ),
    "the least important of several nodes": (
        [
            a_node("n").offers(cpu=2),
            a_node("m").offers(cpu=2),
            running("a", "n", 2, 5),
            running("b", "m", 2, 4),
        ],
        {"b"},
    ),
    "the fewest, where priorities are below zero": (two_or_one(-1), {"c"}),
    "the fewest, where the sums of priorities are equal": (two_or_one(-(2**31)), {"c"}),
    "not whom a budget protects": (
        [
            a_node("n").offers(cpu=2),
            a_node("m").offers(cpu=2),
            running("a", "n", 2).labelled(app="db"),
            running("b", "m", 2, 4),
            budget(0, app="db"),
        ],
        {"b"},
    ),
    "but whom a budget protects if there is no other way": (
        [
            a_node("n").offers(cpu=2),
            running("a", "n", 2).labelled(app="db"),
            budget(0, app="db"),
        ],
        {"a"},
    ),
    "a gang whole, or not at all": (
        [
            a_node("n").offers(cpu=2),
            a_node("m").offers(cpu=2),
            *(
                pod.needs(cpu=2).on(node)
                for pod, node in zip(gang("g", 2), ("n", "m"), strict=True)
            ),
        ],
        {"g-0", "g-1"},
    ),
    "a gang's surplus alone": (
        [
            a_node("m").offers(cpu=2),
            a_node("n").offers(cpu=2),
            *(
                pod.needs(cpu=2).on(node)
                for pod, node in zip(gang("g", 2, least=1), ("m", "n"), strict=True)
            ),
        ],
        {"g-0"},
    ),
    "not part of a gang some of whose pods are important": (
        [
            a_node("n").offers(cpu=2),
            a_node("m").offers(cpu=2),
            gang("g", 2)[0].needs(cpu=2).on("n"),
            gang("g", 2)[1].needs(cpu=2).with_priority(50).on("m"),
        ],
        set(),
    ),
    "no surplus alone of a PodGroup whose disruptionMode is all": (
        native(2, 1, disruptionMode={"all": {}}),
        {"g-0", "g-1"},
    ),
    "nor of one of v1alpha2": (native(2, 1, disruptionMode="PodGroup"), {"g-0", "g-1"}),
    "the surplus of one whose disruptionMode is single": (
        native(2, 1, disruptionMode={"single": {}}),
        {"g-0"},
    ),
    "nobody of a PodGroup of higher priority, whatever the pods say": (
        native(2, 1, priority=50),
        set(),
    ),
    "whom the PodGroup says is less important, whatever the pod says": (
        native(1, 1, priority=1, said=50),
        {"g-0"},
    ),
    "rather a pod than a gang": (
        [
            a_node("n").offers(cpu=2),
            a_node("m").offers(cpu=2),
            a_node("o").offers(cpu=2),
            *(
                pod.needs(cpu=2).on(node)
                for pod, node in zip(gang("g", 2), ("n", "m"), strict=True)
            ),
            running("single", "o", 2),
        ],
        {"single"},
    ),
    "nobody where it would not help": (
        [a_node("n").offers(cpu=1), running("a", "n")],
        set(),
    ),
}


@pytest.mark.parametrize("case", WHO.values(), ids=WHO.keys())
def test_evicts(case: tuple[list[object], set[str]], harness: EngineHarness) -> None:
    objects, expected = case
    for obj in objects:
        if isinstance(obj, PodDisruptionBudget):
            harness.engine.handlers.on_disruption_budget_updated(obj, 0.0)
        elif isinstance(obj, NativePodGroup):
            harness.engine.handlers.on_pod_group_updated(obj, 0.0)
        else:
            harness.observe(obj)  # type: ignore[arg-type]
    harness.observe(a_pod("high").needs(cpu=2).with_priority(10))
    assert evicted(harness.run()) == expected


def test_a_pod_that_never_preempts_evicts_nobody(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1), running("low", "n"))
    high = a_pod("high").needs(cpu=1).with_priority(10)
    harness.observe(high.with_spec(preemptionPolicy="Never"))
    effects = harness.run()
    assert evicted(effects) == set()
    (patch,) = of_kind(PatchPodStatus, effects)
    assert patch.condition is not None
    assert patch.condition.message.endswith("not eligible due to preemptionPolicy=Never.")


def test_a_node_is_taken_at_once_where_all_who_must_go_are_leaving_already(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").labelled(name="n").offers(cpu=1), running("low", "n", 1, 5))
    harness.observe(a_node("m").offers(cpu=1), running("lower", "m"))
    first = a_pod("first").needs(cpu=1).with_priority(10).selects(name="n")
    harness.observe(first)
    harness.settle_all(harness.run())
    harness.observe(running("low", "n", 1, 5).deleting())
    harness.observe_deleted(first)
    harness.observe(a_pod("second").needs(cpu=1).with_priority(10))
    harness.run()
    assert evicted(harness.effects) == {"low"}, "and not the less important one"
    harness.observe_deleted(running("low", "n", 1, 5))
    assert ("second", "n") in placements(harness.advance_to(20))


def test_without_the_plugin_nobody_is_evicted() -> None:
    enabled = [(plugin, w) for plugin, w in DEFAULT_PLUGINS if plugin is not DefaultPreemption]
    harness = EngineHarness(Profile("arranger", [PluginWeight(p(), w) for p, w in enabled]))
    harness.observe(a_node("n").offers(cpu=1), running("low", "n"))
    harness.observe(a_pod("high").needs(cpu=1).with_priority(10))
    assert evicted(harness.run()) == set()
    assert evicted(harness.advance_to(1000)) == set()


def test_what_kept_victims_from_helping_wakes_the_pod_when_it_goes(harness: EngineHarness) -> None:
    zone = "topology.kubernetes.io/zone"
    guard = a_pod("guard").needs(cpu=1).labelled(app="a").with_priority(100).on("small")
    harness.observe(
        a_node("n").offers(cpu=2).in_zone("z"), a_node("small").offers(cpu=1).in_zone("z")
    )
    harness.observe(running("low", "n", cpu=2), guard)
    harness.observe(a_pod("high").needs(cpu=2).with_priority(10).apart(zone, {"app": "a"}))
    assert not evicted(harness.run())
    harness.observe_deleted(guard)
    assert evicted(harness.run()) == {"low"}
