"""Members of gangs that need nobody: they are placed one by one, and preempt one by one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from arranger.api.annotations import GANG_MATCH
from arranger.api.effects import Bind, DeletePod
from arranger.api.types.pod_groups import AnyPodGroup, NativePodGroup, VolcanoPodGroup
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind, placements

BASIC = {"schedulingPolicy": {"basic": {}}}


def harness_of(running: int, free: int = 0) -> EngineHarness:
    """One node that is full of pods of no priority, but for ``free`` places."""
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=running + free))
    harness.observe(*(a_pod(f"low-{n}").needs(cpu=1).on("n") for n in range(running)))
    harness.run()
    return harness


def define(harness: EngineHarness, spec: object, kind: type[AnyPodGroup] = NativePodGroup) -> None:
    """The PodGroup ``g``, new or edited."""
    meta = {"name": "g", "namespace": "default", "uid": "uid-g"}
    group = msgspec.convert({"metadata": meta, "spec": spec}, kind)
    harness.engine.handlers.on_pod_group_updated(group, harness.now)
    harness.engine.check_consistent()


def high(name: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).with_priority(9)


def native(*names: str) -> list[PodBuilder]:
    return [high(name).with_spec(schedulingGroup={"podGroupName": "g"}) for name in names]


def evicted(harness: EngineHarness) -> set[str]:
    return {delete.pod.name for delete in of_kind(DeletePod, harness.effects)}


def let_go(harness: EngineHarness) -> None:
    """Those that are evicted are gone, and all Bindings succeed."""
    harness.observe_deleted(*map(a_pod, evicted(harness)))
    effects = harness.advance_to(harness.now + 30)
    while bindings := of_kind(Bind, effects):
        effects = [new for bind in bindings for new in harness.settle(bind)]


def two(**annotations: str) -> list[PodBuilder]:
    return [high(name).annotated(annotations) for name in ("a", "b")]


KOORDINATOR = "gang.scheduling.koordinator.sh/"
PARTNERS = '["default/g", "default/h"]'

#: How a gang says that it needs nobody → its PodGroup, if any, and its members.
WAYS: dict[str, tuple[object, type[AnyPodGroup] | None, list[PodBuilder]]] = {
    "the basic policy of Kubernetes": (BASIC, NativePodGroup, native("a", "b")),
    "a PodGroup of Volcano without minMember": (
        {},
        VolcanoPodGroup,
        two(**{"scheduling.k8s.io/group-name": "g"}),
    ),
    "annotations": (None, None, [high(name).in_gang("g", 0) for name in ("a", "b")]),
    "a bundle of which none must run": (
        None,
        None,
        [high(name).in_bundle("g", "worker", 0) for name in ("a", "b")],
    ),
    "NonStrict": (None, None, [high(name).in_gang("g", 0, mode="NonStrict") for name in "ab"]),
    "whichever members count": (
        BASIC,
        NativePodGroup,
        [pod.annotated({GANG_MATCH: "only-waiting"}) for pod in native("a", "b")],
    ),
    "two that are placed together": (
        None,
        None,
        [high(name).in_gang(gang, 0, groups=PARTNERS) for name, gang in (("a", "g"), ("b", "h"))],
    ),
}


@pytest.mark.parametrize(("spec", "kind", "members"), WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("free", [0, 1])
def test_each_member_without_a_node_evicts_as_a_lone_pod_does(
    spec: object, kind: type[AnyPodGroup] | None, members: Sequence[PodBuilder], free: int
) -> None:
    harness = harness_of(running=2, free=free)
    if kind is not None:
        define(harness, spec, kind)
    harness.observe(*members)
    harness.run()
    assert len(evicted(harness)) == 2 - free
    let_go(harness)
    assert {name for name, _ in placements(harness.effects)} == {"a", "b"}
    assert len(evicted(harness)) == 2 - free


def test_one_that_joins_a_gang_that_runs_evicts_although_it_is_not_needed() -> None:
    harness = harness_of(running=1, free=2)
    runs = [high(f"r-{n}").in_gang("h", 2, groups=PARTNERS) for n in range(2)]
    late = high("late").in_gang("g", 0, groups=PARTNERS)
    harness.observe(*(pod.on("n") for pod in runs), late)
    harness.run()
    assert evicted(harness) == {"low-0"}


def test_nobody_leaves_for_those_that_must_wait_for_partners() -> None:
    harness = harness_of(running=2)
    harness.observe(high("a").in_gang("g", 0, groups=PARTNERS))
    harness.observe(high("b").in_gang("h", 2, groups=PARTNERS))
    harness.run()
    assert evicted(harness) == set(), "its partner waits for members"


def test_without_a_definition_a_gang_is_not_one_that_needs_nobody() -> None:
    harness = harness_of(running=1, free=1)
    waits = high("a").in_gang("g").annotated({GANG_MATCH: "waiting-and-running"})
    harness.observe(waits)
    assert placements(harness.run()) == []
    assert evicted(harness) == set()


def tried() -> EngineHarness:
    """A basic group of three, of which one evicts nobody as nobody is less important."""
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=1), high("other").on("n"))
    define(harness, BASIC)
    harness.observe(*native("a", "b", "c"))
    harness.run()
    return harness


def test_one_that_needs_some_after_an_edit_waits_for_all_of_these() -> None:
    harness = tried()
    define(harness, {"schedulingPolicy": {"gang": {"minCount": 3}}})
    harness.observe(a_node("m").offers(cpu=2))
    assert placements(harness.advance_to(60)) == []
    harness.observe(a_node("o").offers(cpu=1))
    assert len(placements(harness.advance_to(120))) == 3


def test_without_its_podgroup_its_members_wait_for_another() -> None:
    harness = tried()
    group = msgspec.convert({"metadata": {"name": "g", "namespace": "default"}}, NativePodGroup)
    harness.engine.handlers.on_pod_group_deleted(group, harness.now)
    harness.observe(a_node("m").offers(cpu=3))
    assert placements(harness.advance_to(60)) == []
    define(harness, BASIC)
    assert len(placements(harness.advance_to(120))) == 3


def test_members_that_must_be_in_one_domain_stay_a_group_and_evict_nobody() -> None:
    """As in kube-scheduler 1.36: one by one they would choose different domains."""
    harness = harness_of(running=2)
    define(harness, {**BASIC, "schedulingConstraints": {"topology": [{"key": "zone"}]}})
    harness.observe(*native("a", "b"))
    harness.run()
    assert evicted(harness) == set()


def test_where_there_is_room_for_all_they_are_bound_at_once() -> None:
    harness = harness_of(running=0, free=2)
    define(harness, BASIC)
    harness.observe(*native("a", "b"))
    harness.run()
    assert {name for name, _ in placements(harness.effects)} == {"a", "b"}
