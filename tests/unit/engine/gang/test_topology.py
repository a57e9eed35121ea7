"""Gangs that ask to stay inside one domain."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arranger.api.effects import DeletePod, Effect
from arranger.api.types.pod_groups import NativePodGroup
from arranger.cluster.nodes.node_view import NodeInfo
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context.phases import Phase
from arranger.framework.interface import DependsOn, Plugin
from arranger.framework.status import CycleState, Status
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, PodGroupBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, conditions, of_kind, placements, small_profile

ZONE = "topology.kubernetes.io/zone"
Object = NodeBuilder | PodBuilder


def zone(name: str, *cpus: int) -> list[NodeBuilder]:
    """Nodes ``<name>-0`` … of a zone."""
    return [a_node(f"{name}-{n}").offers(cpu=cpu).in_zone(name) for n, cpu in enumerate(cpus)]


def gang(size: int, how: str = "required", key: str = ZONE, **more: str) -> list[PodBuilder]:
    return [
        a_pod(f"g-{n}")
        .needs(cpu=1)
        .in_gang("g", size, **more)
        .annotated({"arranger.io/topology": f"{how}={key}"})
        for n in range(size)
    ]


@pytest.fixture
def harness() -> EngineHarness:
    return EngineHarness(default_profile())


def zones(effects: Sequence[Effect]) -> dict[str, int]:
    """Zone → how many members are bound there."""
    counts: dict[str, int] = {}
    for _, node in placements(effects):
        name = node.rsplit("-", 1)[0]
        counts[name] = counts.get(name, 0) + 1
    return counts


BARE = a_node("bare-0").offers(cpu=8)
#: What there is, and where the members are bound.
CASES: dict[str, tuple[list[Object], dict[str, int]]] = {
    "the tightest zone that fits is taken": (
        [*zone("large", 4, 4), *zone("fitting", 2, 1), *zone("small", 2), *gang(3)],
        {"fitting": 3},
    ),
    "of equals the one that came first": (
        [*zone("one", 3), *zone("two", 3), *gang(3)],
        {"one": 3},
    ),
    "room that is taken does not count": (
        [
            *zone("one", 3),
            *zone("two", 2, 2),
            a_pod("other").needs(cpu=1).on("one-0"),
            *gang(3),
        ],
        {"two": 3},
    ),
    "no zone is large enough": ([*zone("one", 2), *zone("two", 2), *gang(3)], {}),
    "preferred, it may then be spread": (
        [*zone("one", 2), *zone("two", 2), *gang(3, "preferred")],
        {"one": 2, "two": 1},
    ),
    "preferred, it stays together if it can": (
        [*zone("one", 2), *zone("two", 2, 2), *gang(3, "preferred")],
        {"two": 3},
    ),
    "a node without the label is in no domain": ([BARE, *gang(3)], {}),
    "nor is it taken beside a domain": ([BARE, *zone("one", 2), *gang(3)], {}),
    "preferred, it may then be taken": (
        [BARE, *zone("one", 2), *gang(3, "preferred")],
        {"bare": 3},
    ),
    "the hostname may be the domain": (
        [*zone("one", 2, 3), *gang(3, key="kubernetes.io/hostname")],
        {"one": 3},
    ),
    "members beyond the minimum stay in the domain": (
        [*zone("one", 3), *zone("two", 4), *(p.in_gang("g", 2) for p in gang(4))],
        {"one": 3},
    ),
    "preferred, they may go elsewhere": (
        [*zone("one", 3), *zone("two", 4), *(p.in_gang("g", 2) for p in gang(6, "preferred"))],
        {"one": 3, "two": 3},
    ),
    "a large member decides which zone fits": (
        [
            *zone("many", 1, 1, 1, 1),
            *zone("large", 3, 2),
            *gang(3)[:2],
            a_pod("g-2").needs(cpu=3).in_gang("g", 3),
        ],
        {"large": 3},
    ),
    "a member that may run only in one zone decides": (
        [
            *zone("tight", 3),
            *zone("wide", 4),
            *gang(3)[:2],
            gang(3)[2].selects({ZONE: "wide"}),
        ],
        {"wide": 3},
    ),
    "members that may run only in different zones cannot be together": (
        [
            *zone("one", 3),
            *zone("two", 3),
            gang(2)[0].selects({ZONE: "one"}),
            gang(2)[1].selects({ZONE: "two"}),
        ],
        {},
    ),
    "one member's word holds for all": (
        [*zone("one", 2), *zone("two", 3), gang(3)[0], *gang(3, key="")[1:]],
        {"two": 3},
    ),
    "a member that is bound pins the zone": (
        [*zone("one", 3), *zone("two", 9), gang(3)[0].on("two-0"), *gang(3)[1:]],
        {"two": 2},
    ),
    "and even if that zone is full": (
        [*zone("one", 9), *zone("two", 1), gang(3)[0].on("two-0"), *gang(3)[1:]],
        {},
    ),
    "preferred, the others may then go elsewhere": (
        [
            *zone("one", 9),
            *zone("two", 1),
            gang(3, "preferred")[0].on("two-0"),
            *gang(3, "preferred")[1:],
        ],
        {"one": 2},
    ),
    "of two zones that others have chosen the one with more members": (
        [
            *zone("one", 9),
            *zone("two", 9),
            gang(4)[0].on("one-0"),
            *(pod.on("two-0") for pod in gang(4)[1:3]),
            gang(4)[3],
        ],
        {"two": 1},
    ),
    "a member on a node without the label pins nothing": (
        [BARE, *zone("one", 2), gang(3)[0].on("bare-0"), *gang(3)[1:]],
        {"one": 2},
    ),
    "a member on a node that is gone pins nothing": (
        [*zone("one", 2), gang(3)[0].on("gone"), *gang(3)[1:]],
        {"one": 2},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_where_the_members_are_bound(
    case: tuple[list[Object], dict[str, int]], harness: EngineHarness
) -> None:
    objects, expected = case
    harness.observe(*objects)
    effects = harness.run()
    assert zones(effects) == expected
    seen = sum(isinstance(o, PodBuilder) and bool(o.build().spec.node_name) for o in objects)
    assert len(harness.engine.cluster) == sum(expected.values()) + seen, "nothing else is held"


def test_the_field_of_kubernetes_asks_for_one_domain(harness: EngineHarness) -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "schedulingConstraints": {"topology": [{"key": ZONE}]},
    }
    meta = {"name": "g", "namespace": "default"}
    group = PodGroupBuilder({"metadata": meta, "spec": spec}).build(NativePodGroup)
    harness.engine.handlers.on_pod_group_updated(group, 0.0)
    pods = [a_pod(f"g-{n}").needs(cpu=1) for n in range(3)]
    harness.observe(*zone("one", 2), *zone("two", 3))
    harness.observe(*(pod.with_spec(schedulingGroup={"podGroupName": "g"}) for pod in pods))
    assert zones(harness.run()) == {"two": 3}


def test_gangs_of_a_group_share_the_domain(harness: EngineHarness) -> None:
    both = '["default/g", "default/h"]'
    partner = [a_pod(f"h-{n}").needs(cpu=1).in_gang("h", 2, groups=both) for n in range(2)]
    harness.observe(*zone("one", 3), *zone("two", 4), *gang(2, groups=both), *partner)
    assert zones(harness.run()) == {"two": 4}


# --- what is said ----------------------------------------------------------------------------

MESSAGES: dict[str, tuple[list[Object], str]] = {
    "the zone with most room is full": (
        [*zone("one", 1), *zone("two", 2), BARE.offers(cpu=0), *gang(3)],
        f"Unsatisfiable: no domain of {ZONE} has room for more than 2 of the 3 pods of gang "
        "default/g that must run. 0/3 nodes are available: 1 node(s) outside the gang's topology "
        "domain, 2 Insufficient cpu. gang default/g: 3 of 3 arrived, 2 placeable now, blocked by "
        "pod default/g-2.",
    ),
    "nodes that would do are in another domain": (
        [*zone("one", 1), *zone("two", 2, 0), BARE, *gang(3)],
        f"Unsatisfiable: no domain of {ZONE} has room for more than 2 of the 3 pods of gang "
        "default/g that must run. 0/4 nodes are available: 2 Insufficient cpu, 2 node(s) outside "
        "the gang's topology domain. gang default/g: 3 of 3 arrived, 2 placeable now, blocked by "
        "pod default/g-2.",
    ),
    "no node has the label": (
        [BARE, *gang(3)],
        f"no node has the label {ZONE} that the gang's topology asks for gang default/g: "
        "3 of 3 arrived, 0 placeable now, blocked by pod default/g-0.",
    ),
    "there are no nodes": (
        [*gang(3)],
        f"no node has the label {ZONE} that the gang's topology asks for gang default/g: "
        "3 of 3 arrived, 0 placeable now, blocked by pod default/g-0.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES.values(), ids=MESSAGES.keys())
def test_what_the_members_are_told(case: tuple[list[Object], str], harness: EngineHarness) -> None:
    objects, message = case
    harness.observe(*objects)
    assert set(conditions(harness.run())) == {("Unschedulable", message)}


# --- over time -------------------------------------------------------------------------------


def test_it_is_tried_again_when_a_zone_grows(harness: EngineHarness) -> None:
    harness.observe(*zone("one", 2), *zone("two", 2), *gang(3))
    harness.run()
    harness.now = 20
    harness.observe(a_node("two-9").offers(cpu=1).in_zone("two"))
    assert zones(harness.run()) == {"two": 3}


def test_it_is_tried_again_when_a_node_gets_the_label(harness: EngineHarness) -> None:
    harness.observe(BARE, *gang(3))
    harness.run()
    harness.now = 20
    harness.observe(BARE.in_zone("bare"))
    assert zones(harness.run()) == {"bare": 3}


def test_the_nodes_that_a_non_strict_gang_keeps_pin_the_zone(harness: EngineHarness) -> None:
    harness.observe(*zone("one", 1), *zone("two", 2), *gang(3, mode="NonStrict"))
    harness.run()
    kept = [m for m in harness.engine.pods() if m.phase is Phase.WAITING]
    assert [member.node for member in kept] == ["two-0", "two-0"]
    harness.now = 20
    harness.observe(*zone("three", 9))
    assert zones(harness.run()) == {}
    harness.now = 40
    harness.observe(a_node("two-1").offers(cpu=1).in_zone("two"))
    assert zones(harness.run()) == {"two": 3}


def test_a_non_strict_gang_may_prefer_a_domain(harness: EngineHarness) -> None:
    harness.observe(*zone("one", 1), *zone("two", 1), *gang(3, "preferred", mode="NonStrict"))
    harness.run()
    assert len(harness.engine.cluster) == 2
    harness.now = 20
    harness.observe(*zone("three", 1))
    assert zones(harness.run()) == {"one": 1, "two": 1, "three": 1}


def member(name: str, gang_name: str, how: str = "required", *, on: str = "") -> PodBuilder:
    """A member of a gang of two, bound if it has a node."""
    pod = a_pod(name).needs(cpu=1).in_gang(gang_name, 2)
    pod = pod.annotated({"arranger.io/topology": f"{how}={ZONE}"})
    return pod.on(on) if on else pod


def after_a_loss(harness: EngineHarness, *objects: Object, how: str = "required") -> list[Effect]:
    """A gang with its minimum in zone one has lost a member; what becomes of the replacement."""
    harness.observe(*zone("one", 2), *objects)
    harness.observe(member("g-0", "g", how, on="one-0"), member("g-1", "g", how, on="one-0"))
    harness.run()
    harness.engine.handlers.on_pod_deleted("default/g-1", 1.0)
    harness.observe(a_pod("taker").needs(cpu=1).on("one-0"))
    harness.observe(member("g-2", "g", how))
    return harness.run()


def test_a_replacement_waits_for_room_in_the_domain_of_its_gang(harness: EngineHarness) -> None:
    effects = after_a_loss(harness, *zone("two", 9))
    assert placements(effects) == []
    assert conditions(effects) == [
        (
            "Unschedulable",
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) outside the gang's topology "
            "domain. preemption: 0/2 nodes are available: 1 No preemption victims found for "
            "incoming pod, 1 Preemption is not helpful for scheduling.",
        )
    ]
    harness.now = 20
    harness.engine.handlers.on_pod_deleted("default/taker", 20.0)
    assert placements(harness.run()) == [("g-2", "one-0")]


def test_a_replacement_goes_elsewhere_where_the_domain_is_only_preferred(
    harness: EngineHarness,
) -> None:
    assert placements(after_a_loss(harness, *zone("two", 9), how="preferred")) == [("g-2", "two-0")]


def test_a_replacement_takes_a_node_that_joins_the_domain(harness: EngineHarness) -> None:
    harness.observe(a_node("one-0").offers(cpu=0).in_zone("one"))
    after_a_loss(harness, *zone("two", 9), BARE)
    harness.now = 20
    harness.observe(BARE.in_zone("one"))
    assert placements(harness.run()) == [("g-2", "bare-0")]


def test_replacements_evict_in_their_domain_only(harness: EngineHarness) -> None:
    cheap = a_pod("cheap").needs(cpu=9).on("two-0")
    harness.observe(*zone("one", 2), *zone("two", 9), cheap)
    kept, lost = (member(f"g-{n}", "g", on="one-0").with_priority(10) for n in (0, 1))
    harness.observe(kept, lost)
    harness.run()
    harness.engine.handlers.on_pod_deleted("default/g-1", 1.0)
    harness.observe(a_pod("dear").needs(cpu=1).with_priority(9).on("one-0"))
    harness.observe(member("g-2", "g").with_priority(10))
    victims = [effect.pod.name for effect in of_kind(DeletePod, harness.run())]
    assert victims == ["dear"]


def test_equal_replacements_of_two_gangs_wait_each_for_its_own_domain(
    harness: EngineHarness,
) -> None:
    harness.observe(*zone("one", 2), *zone("two", 2))
    for gang_name, node in {"g": "one-0", "h": "two-0"}.items():
        harness.observe(member(f"{gang_name}-0", gang_name, on=node))
        harness.observe(member(f"{gang_name}-1", gang_name, on=node))
    harness.run()
    for gang_name, node in {"g": "one-0", "h": "two-0"}.items():
        harness.engine.handlers.on_pod_deleted(f"default/{gang_name}-1", 1.0)
        harness.observe(a_pod(f"taker-{gang_name}").needs(cpu=1).on(node))
        harness.observe(member(f"{gang_name}-2", gang_name))
    assert placements(harness.run()) == []
    harness.now = 20
    harness.engine.handlers.on_pod_deleted("default/taker-h", 20.0)
    assert placements(harness.run()) == [("h-2", "two-0")]
    harness.now = 40
    harness.engine.handlers.on_pod_deleted("default/taker-g", 40.0)
    assert placements(harness.run()) == [("g-2", "one-0")]


class Raises(Plugin):
    depends_on = DependsOn.USAGE

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        raise RuntimeError("no such rack")


def test_a_filter_that_raises_stops_the_gang_and_nobody_else() -> None:
    harness = EngineHarness(small_profile(Raises()))
    harness.observe(*zone("one", 3), *gang(2))
    told = set(conditions(harness.run()))
    assert told == {
        (
            "SchedulerError",
            'running Filter plugin "Raises": RuntimeError: no such rack '
            "(gang default/g, pod default/g-0)",
        )
    }


def test_members_that_want_to_be_near_each_other_are_blamed_for_what_is_true_at_the_end(
    harness: EngineHarness,
) -> None:
    near = {"app": "x"}
    first = a_pod("g-0").needs(cpu=1).in_gang("g", 3).labelled(app="y").near(ZONE, near)
    second = a_pod("g-1").needs(cpu=1).in_gang("g", 3).labelled(app="x")
    third = a_pod("g-2").needs(cpu=9).in_gang("g", 3)
    harness.observe(*zone("one", 4), first, second, third)
    ((_, message),) = set(conditions(harness.run()))
    assert message == (
        "Unsatisfiable: pod default/g-2 asks for cpu 9, and the largest node has cpu 4. "
        "0/1 nodes are available: 1 Insufficient cpu. gang default/g: 3 of 3 arrived, "
        "2 placeable now, blocked by pod default/g-2."
    )
