"""Gangs: all that is needed is placed, or nothing is (seeds 000 and 002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from arranger.api.effects import (
    AnnotatePod,
    Applied,
    Bind,
    DeletePod,
    Effect,
    PatchPodStatus,
    PublishEvent,
    Refused,
)
from arranger.engine.gang.holds import GangPolicy
from arranger.engine.phases import Phase
from arranger.framework.interface import Plugin, Wait
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, PodGroupBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.harness import (
    CONFLICT,
    EngineHarness,
    conditions,
    of_kind,
    placements,
    small_profile,
)

Object = NodeBuilder | PodBuilder | PodGroupBuilder
GROUPS = '["default/a", "other/b"]'


def gang(name: str, size: int, least: int | None = None, **more: str) -> list[PodBuilder]:
    """Pods ``name-0`` … of one CPU each that are a gang by annotations."""
    prefix = f"{name}-"
    return [
        a_pod(f"{prefix}{n}").needs(cpu=1).in_gang(name, size if least is None else least, **more)
        for n in range(size)
    ]


def nodes(*cpus: int) -> list[NodeBuilder]:
    return [a_node(f"n{n}").offers(cpu=cpu) for n, cpu in enumerate(cpus)]


def bundle(name: str, size: int, least: int, **more: str) -> list[PodBuilder]:
    return [
        a_pod(f"{name}-{n}").needs(cpu=1).in_bundle("job", name, least, **more) for n in range(size)
    ]


def of_group(name: str, size: int, **labels: str) -> list[PodBuilder]:
    return [a_pod(f"{name}-{n}").needs(cpu=1).in_pod_group(name) for n in range(size)]


def in_b(size: int, least: int, groups: str = GROUPS) -> list[PodBuilder]:
    pods = gang("b", size, least, groups=groups)
    return [pod.in_namespace("other") for pod in pods]


@pytest.fixture
def core() -> EngineHarness:
    return EngineHarness(default_profile())


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


#: What there is, and who is bound in the first run.
CASES: dict[str, tuple[list[Object], set[str]]] = {
    "all fit": ([*nodes(2, 2), *gang("g", 4)], {"g-0", "g-1", "g-2", "g-3"}),
    "one too many, and nobody gets a node": ([*nodes(2, 1), *gang("g", 4)], set()),
    "members are missing": ([*nodes(4), *gang("g", 2, 3)], set()),
    "members beyond the minimum are taken when they fit": (
        [*nodes(3), *gang("g", 4, 2)],
        {"g-0", "g-1", "g-2"},
    ),
    "a gang that fits is not held up by one that does not": (
        [*nodes(3), *gang("big", 4), *gang("small", 3)],
        {"small-0", "small-1", "small-2"},
    ),
    "a pod on its own takes what a gang cannot use": (
        [*nodes(3), *gang("big", 4), a_pod("single").needs(cpu=1)],
        {"single"},
    ),
    "pods wait for their PodGroup": ([*nodes(4), *of_group("g", 2)], set()),
    "the PodGroup came after its pods": (
        [*nodes(4), *of_group("g", 2), a_pod_group("g", least=2)],
        {"g-0", "g-1"},
    ),
    "the PodGroup came before": (
        [*nodes(4), a_pod_group("g", least=2), *of_group("g", 2)],
        {"g-0", "g-1"},
    ),
    "an annotation goes before the PodGroup": (
        [
            *nodes(4),
            a_pod_group("g", least=2),
            *(pod.in_gang("g", 3) for pod in of_group("g", 2)),
        ],
        set(),
    ),
    "a PodGroup's annotations go before its spec": (
        [
            *nodes(1),
            a_pod_group("g", least=2).annotated(
                {"gang.scheduling.koordinator.sh/min-available": "1"}
            ),
            *of_group("g", 2),
        ],
        {"g-0"},
    ),
    "each bundle has its own minimum": (
        [*nodes(4), *bundle("ps", 1, 1), *bundle("worker", 2, 2)],
        {"ps-0", "worker-0", "worker-1"},
    ),
    "a bundle short of members keeps the others back": (
        [*nodes(4), *bundle("ps", 1, 1), *bundle("worker", 1, 2)],
        set(),
    ),
    "surplus of one bundle does not take the room another needs": (
        [*nodes(3), *bundle("ps", 4, 1), *bundle("worker", 2, 2)],
        {"ps-0", "worker-0", "worker-1"},
    ),
    "gangs that name each other go together": (
        [*nodes(4), *gang("a", 2, groups=GROUPS), *in_b(2, 2)],
        {"a-0", "a-1", "b-0", "b-1"},
    ),
    "gangs that name each other stay together": (
        [*nodes(3), *gang("a", 2, groups=GROUPS), *in_b(2, 2)],
        set(),
    ),
    "a gang waits for a partner that is not there": (
        [*nodes(4), *gang("a", 2, groups=GROUPS)],
        set(),
    ),
    "a gang that is named without naming back is not held up": (
        [*nodes(4), *gang("a", 2, groups=GROUPS), *in_b(2, 2, groups="[]")],
        {"b-0", "b-1"},
    ),
    "members of different sizes": (
        [
            *nodes(3, 2),
            a_pod("big").needs(cpu=3).in_gang("g", 3),
            a_pod("s1").needs(cpu=1).in_gang("g", 3),
            a_pod("s2").needs(cpu=1).in_gang("g", 3),
        ],
        {"big", "s1", "s2"},
    ),
    "a gated member is not there yet": (
        [*nodes(4), *gang("g", 2), a_pod("late").needs(cpu=1).in_gang("g", 2).gated("x")],
        {"g-0", "g-1"},
    ),
    "a member needed and gated keeps the others back": (
        [*nodes(4), *gang("g", 1, 2), a_pod("late").needs(cpu=1).in_gang("g", 2).gated("x")],
        set(),
    ),
    "members may want to be near each other": (
        [
            *(node.in_zone(f"z{n}") for n, node in enumerate(nodes(2, 4, 2))),
            *(
                pod.labelled(app="x").near("topology.kubernetes.io/zone", {"app": "x"})
                for pod in gang("g", 2)
            ),
        ],
        {"g-0", "g-1"},
    ),
    "a minimum of none is no gang": ([*nodes(1), *gang("g", 2, 0)], {"g-0"}),
    "a minimum that is no number is none, and the PodGroup's counts": (
        [
            *nodes(1),
            a_pod_group("g", least=1),
            *(pod.in_gang("g", min_available="many") for pod in of_group("g", 2)),
        ],
        {"g-0"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_who_is_bound_at_once(case: tuple[list[Object], set[str]], core: EngineHarness) -> None:
    objects, expected = case
    core.observe(*objects)
    effects = core.run()
    assert bound(effects) == expected
    held = len(core.engine.cluster)
    assert held == len(expected), "nothing else is held"


def test_the_a_c_b_d_case_two_gangs_whose_members_arrive_in_turn(core: EngineHarness) -> None:
    core.observe(*nodes(3))
    for one, other in zip(gang("a", 2), gang("b", 2), strict=True):
        core.observe(one, other)
    assert bound(core.run()) == {"a-0", "a-1"}
    core.settle_all(core.effects)
    core.observe_deleted(a_pod("a-0"), a_pod("a-1"))
    assert bound(core.advance_to(20)) == {"b-0", "b-1"}


def test_non_strict_members_keep_their_nodes_until_the_rest_is_placed(core: EngineHarness) -> None:
    core.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    assert bound(core.run()) == set()
    assert core.phase("g-0") is Phase.WAITING
    assert core.node_of(a_pod("g-0")) == "n0"
    core.now = 10
    core.observe(a_node("n9").offers(cpu=1))
    assert bound(core.run()) == {"g-0", "g-1"}


def test_non_strict_members_give_up_when_their_time_is_over(core: EngineHarness) -> None:
    core.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    core.run()
    assert of_kind(AnnotatePod, core.advance_to(599.9)) == []
    effects = core.advance_to(600)
    marks = of_kind(AnnotatePod, effects)
    assert {(mark.pod.name, *mark.annotations.items()) for mark in marks} == {
        ("g-0", ("gang.scheduling.koordinator.sh/timeout", "true")),
        ("g-1", ("gang.scheduling.koordinator.sh/timeout", "true")),
    }
    assert len(core.engine.cluster) == 0
    told = {patch.pod.name: patch.condition for patch in of_kind(PatchPodStatus, effects)}
    assert told.keys() == {"g-0", "g-1"}
    assert told["g-0"] is not None
    assert "ran out of time" in told["g-0"].message
    core.observe(*nodes(4))
    assert bound(core.advance_to(6000)) == set(), "not tried again until somebody acts"


def test_each_dialect_has_its_own_mark_and_says_which(core: EngineHarness) -> None:
    core.observe(*nodes(1), *bundle("ps", 2, 2, isStrictMode="false", waitingTime="60s"))
    core.run()
    effects = core.advance_to(60)
    marks = [dict(mark.annotations) for mark in of_kind(AnnotatePod, effects)]
    assert marks == [{"gang.koordinater.io/timeOut": "true"}] * 2
    assert all("remove gang.koordinater.io/timeOut from" in text for _, text in conditions(effects))
    core.observe(*nodes(2), *bundle("ps", 2, 2, isStrictMode="false", timeOut="true"))
    assert bound(core.advance_to(200)) == set()
    core.observe(*bundle("ps", 2, 2, isStrictMode="false"))
    assert bound(core.advance_to(300)) == {"ps-0", "ps-1"}


def test_two_hours_of_patience_are_two_hours(core: EngineHarness) -> None:
    core.observe(*nodes(1), *gang("g", 2, mode="NonStrict", waiting_time="2h"))
    core.run()
    assert of_kind(AnnotatePod, core.advance_to(7199)) == []
    assert len(of_kind(AnnotatePod, core.advance_to(7200))) == 2


def timed_out(core: EngineHarness) -> list[PodBuilder]:
    """A gang of a PodGroup after its time was over, as the watch then shows it."""
    more = {"mode": "NonStrict"}
    pods = [pod.in_gang("g", **more) for pod in of_group("g", 2)]
    core.observe(*nodes(1), a_pod_group("g", least=2), *pods)
    core.run()
    core.advance_to(600)
    marked = [pod.in_gang("g", timeout="true", **more) for pod in pods]
    core.observe(*marked)
    core.observe(*nodes(4))
    core.advance_to(700)
    assert not of_kind(Bind, core.effects)
    return pods


REACTIONS: dict[str, Callable[[EngineHarness, list[PodBuilder]], None]] = {
    "takes the mark off one pod": lambda core, pods: core.observe(pods[0]),
    "edits the PodGroup": lambda core, pods: core.observe(
        a_pod_group("g", least=2, scheduleTimeoutSeconds=60)
    ),
    "recreates the pods": lambda core, pods: (
        core.observe_deleted(*pods),
        core.observe(*(pod.with_uid(f"new-{n}") for n, pod in enumerate(pods))),
    )[0],
}


@pytest.mark.parametrize("react", REACTIONS.values(), ids=REACTIONS.keys())
def test_it_is_tried_again_when_its_owner(
    react: Callable[[EngineHarness, list[PodBuilder]], None], core: EngineHarness
) -> None:
    pods = timed_out(core)
    react(core, pods)
    assert bound([*core.advance_to(720), *core.advance_to(800)]) == {"g-0", "g-1"}
    unmarked = [
        mark for mark in of_kind(AnnotatePod, core.effects) if None in mark.annotations.values()
    ]
    assert react is REACTIONS["recreates the pods"] or unmarked


def test_with_on_timeout_retry_it_is_tried_again(core: EngineHarness) -> None:
    core = EngineHarness(default_profile(), gangs=GangPolicy(wait_time=5, on_timeout="Retry"))
    core.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    core.run()
    assert of_kind(AnnotatePod, core.advance_to(5)) == []
    core.observe(*nodes(2))
    assert bound(core.advance_to(20)) == {"g-0", "g-1"}


def test_a_big_gang_is_not_starved_by_small_pods(core: EngineHarness) -> None:
    running = [a_pod(f"old-{n}").needs(cpu=2).on(f"n{n}") for n in range(2)]
    core.observe(*nodes(2, 2, 2), *running, *gang("big", 4))
    assert bound(core.run()) == set()
    for minute in range(20):
        core.now = minute * 60.0
        core.observe(a_pod(f"small-{minute}").needs(cpu=1))
        core.run()
        if minute == 8:
            assert bound(core.effects) == {"small-0", "small-1"}, "before it starves all may come"
            core.settle_all(core.effects)
            core.observe_deleted(a_pod("small-0"), a_pod("small-1"))
    core.observe(a_pod("vip").needs(cpu=1).with_priority(9))
    core.observe_deleted(running[0])
    assert "vip" in bound(core.run())
    core.observe_deleted(a_pod("vip"), running[1], *(a_pod(f"small-{n}") for n in range(20)))
    core.advance_to(1300)
    assert {f"big-{n}" for n in range(4)} <= bound(core.effects)
    core.observe(a_pod("after").needs(cpu=1), a_node("n9"))
    core.advance_to(1400)
    assert "after" in bound(core.effects), "nothing is kept for a gang that has its nodes"


@pytest.mark.parametrize(("lasts", "placed"), [(100, True), (600, False), (None, False)])
def test_around_a_starving_gang_only_those_are_placed_who_end_in_time(
    lasts: int | None, placed: bool, core: EngineHarness
) -> None:
    started = {"phase": "Running", "startTime": "1970-01-01T00:00:00Z"}
    old = a_pod("old").needs(cpu=1).on("n0").with_status(**started)
    core.observe(*nodes(2), old.with_spec(activeDeadlineSeconds=1500), *gang("big", 2))
    core.run()
    core.advance_to(700)
    core.now = 1000.0
    small = a_pod("small").needs(cpu=1)
    core.observe(small.with_spec(activeDeadlineSeconds=lasts) if lasts else small)
    assert bound(core.run()) == ({"small"} if placed else set())


def test_every_member_is_told_who_blocks_the_gang(core: EngineHarness) -> None:
    core.observe(*nodes(2), *gang("g", 3))
    effects = core.run()
    told = {patch.pod.name: patch.condition for patch in of_kind(PatchPodStatus, effects)}
    assert told.keys() == {"g-0", "g-1", "g-2"}
    assert {condition.message for condition in told.values() if condition} == {
        "0/1 nodes are available: 1 Insufficient cpu. gang default/g: 3 of 3 arrived, "
        "2 placeable now, blocked by pod default/g-2."
    }
    events = of_kind(PublishEvent, effects)
    assert [event.reason for event in events] == ["FailedScheduling"] * 3


WAITING: dict[str, tuple[list[Object], str]] = {
    "members are missing": (gang("g", 2, 5), "gang default/g waits for members: 2 of 5 arrived"),
    "the PodGroup is missing": (
        [*of_group("g", 1)],
        "gang default/g waits to be defined: it has neither a PodGroup nor "
        "gang.scheduling.koordinator.sh/min-available",
    ),
    "a partner is missing": (
        gang("a", 2, groups=GROUPS),
        "gang default/a waits for other/b, which must exist and name it",
    ),
    "a bundle is short": (
        [*bundle("ps", 1, 1), *bundle("worker", 1, 2)],
        "gang default/job waits for members: ps 1 of 1 arrived, worker 1 of 2 arrived",
    ),
}


@pytest.mark.parametrize("case", WAITING.values(), ids=WAITING.keys())
def test_members_are_told_what_they_wait_for(
    case: tuple[list[Object], str], core: EngineHarness
) -> None:
    objects, message = case
    core.observe(*nodes(9), *objects)
    assert core.run() == [], "the others are usually on their way"
    told = {
        patch.condition.message
        for patch in of_kind(PatchPodStatus, core.advance_to(3))
        if patch.condition
    }
    assert told == {message}


def test_while_members_arrive_nobody_is_told_and_the_complete_gang_never(
    core: EngineHarness,
) -> None:
    core.observe(*nodes(9))
    for n, pod in enumerate(gang("g", 5)):
        core.now = n * 1.5
        core.observe(pod)
        assert of_kind(PatchPodStatus, core.run()) == of_kind(PublishEvent, core.effects) == []
    assert len(bound(core.effects)) == 5


def test_a_gang_complete_by_the_time_it_would_be_told_is_bound_instead(core: EngineHarness) -> None:
    core.observe(*nodes(9), *gang("g", 5))
    assert of_kind(PatchPodStatus, core.advance_to(60)) == []
    assert len(bound(core.effects)) == 5


def test_after_the_gang_has_run_members_are_replaced_one_by_one(core: EngineHarness) -> None:
    pods = gang("g", 3)
    core.observe(*nodes(3), *pods)
    core.settle_all(core.run())
    core.observe(*(pod.on("n0") for pod in pods))
    core.observe_deleted(pods[0])
    core.observe(a_pod("again").needs(cpu=1).in_gang("g", 3))
    assert bound(core.run()) == {"again"}


MATCH: dict[str, tuple[str, int, set[str]]] = {
    "once satisfied: one by one": ("once-satisfied", 1, {"new-0"}),
    "running members count": ("waiting-and-running", 1, {"new-0"}),
    "only waiting ones count, and one is too few": ("only-waiting", 1, set()),
    "only waiting ones count, and three are enough": (
        "only-waiting",
        3,
        {"new-0", "new-1", "new-2"},
    ),
}


@pytest.mark.parametrize("case", MATCH.values(), ids=MATCH.keys())
def test_match_policy(case: tuple[str, int, set[str]], core: EngineHarness) -> None:
    policy, newcomers, expected = case
    pods = gang("g", 3, match_policy=policy)
    core.observe(*nodes(9), *pods)
    core.settle_all(core.run())
    core.observe(pods[0].on("n0"), pods[1].on("n0"), pods[2].on("n0").in_phase("Succeeded"))
    for n in range(newcomers):
        core.observe(a_pod(f"new-{n}").needs(cpu=1).in_gang("g", 3, match_policy=policy))
    assert bound(core.run()) == expected


def test_running_members_that_are_lost_are_replaced_together(core: EngineHarness) -> None:
    pods = gang("g", 3, match_policy="waiting-and-running")
    core.observe(*nodes(3), *pods)
    core.settle_all(core.run())
    core.observe(*(pod.on("n0") for pod in pods))
    core.observe_deleted(pods[0], pods[1])
    more = {"match_policy": "waiting-and-running"}
    core.observe(a_pod("x").needs(cpu=1).in_gang("g", 3, **more))
    assert bound(core.run()) == set()
    core.observe(a_pod("y").needs(cpu=1).in_gang("g", 3, **more))
    assert bound(core.run()) == {"x", "y"}


def test_a_member_whose_binding_fails_is_completed_before_all_others(core: EngineHarness) -> None:
    core.observe(*nodes(2), *gang("g", 2))
    first, second = of_kind(Bind, core.run())
    core.observe(a_pod("first").needs(cpu=1))
    core.settle(first, Applied())
    assert bound(core.settle(second, CONFLICT)) == {"g-1"}


def test_the_room_of_a_member_that_is_replaced_is_not_hurried_away(core: EngineHarness) -> None:
    replaced, other = gang("g", 2)
    core.observe(*nodes(2), replaced, other)
    core.run()
    core.settle(core.binding("g-1"), Applied())
    core.observe(a_pod("rival").needs(cpu=1))
    core.run()
    core.now = 0.4
    core.observe_deleted(replaced)
    core.run()
    core.observe(replaced.with_uid("again"))
    assert bound(core.advance_to(0.5)) == {"g-0"}, "the rival's back-off is not cut short"
    assert bound(core.advance_to(30)) == set()


def test_a_gang_found_half_bound_is_completed_first(core: EngineHarness) -> None:
    pods = gang("g", 3)
    core.observe(*nodes(3), pods[0].on("n0"))
    core.observe(a_pod("vip").needs(cpu=1).with_priority(1000), *pods[1:])
    assert bound(core.run()) == {"g-1", "g-2"}


def test_a_half_bound_gang_that_cannot_be_completed_is_deleted_if_so_configured() -> None:
    core = EngineHarness(
        default_profile(), gangs=GangPolicy(wait_time=60, on_partial_bind="Delete")
    )
    pods = gang("g", 2)
    core.observe(*nodes(1), pods[0].on("n0"), pods[1])
    core.run()
    assert of_kind(DeletePod, core.advance_to(59)) == []
    assert [delete.pod.name for delete in of_kind(DeletePod, core.advance_to(60))] == ["g-0"]


def test_by_default_it_goes_on_waiting_without_going_before_others(core: EngineHarness) -> None:
    pods = gang("g", 3)
    core.observe(*nodes(2), pods[0].on("n0"), *pods[1:])
    core.run()
    effects = core.advance_to(600)
    assert of_kind(DeletePod, effects) == of_kind(AnnotatePod, effects) == []
    core.observe(a_node("n9").offers(cpu=2), a_pod("vip").needs(cpu=1).with_priority(1000))
    assert bound(core.advance_to(620)) == {"vip", "g-1", "g-2"}


def test_a_member_deleted_while_others_wait_for_it(core: EngineHarness) -> None:
    pods = gang("g", 3, mode="NonStrict")
    core.observe(*nodes(2), *pods)
    core.run()
    core.observe_deleted(pods[0])
    assert len(core.engine.cluster) == 1
    core.observe_deleted(pods[1], pods[2])
    assert len(core.engine.cluster) == 0
    assert core.advance_to(1000) == []


def test_a_lower_minimum_lets_a_waiting_gang_go(core: EngineHarness) -> None:
    core.observe(*nodes(2), a_pod_group("g", least=3), *of_group("g", 3))
    assert bound(core.run()) == set()
    core.now = 20
    core.observe(a_pod_group("g", least=2))
    assert len(bound(core.run())) == 2


def test_a_minimum_raised_above_its_members_keeps_a_gang_back(core: EngineHarness) -> None:
    core.observe(a_pod_group("g", least=2), *of_group("g", 2))
    core.run()
    core.observe(a_pod_group("g", least=3), *nodes(9))
    assert bound(core.advance_to(20)) == set()
    core.observe(a_pod("g-2").needs(cpu=1).in_pod_group("g"))
    assert bound(core.advance_to(40)) == {"g-0", "g-1", "g-2"}


def test_a_podgroup_deleted_while_its_pods_wait(core: EngineHarness) -> None:
    core.observe(*nodes(1), a_pod_group("g", least=2), *of_group("g", 2))
    core.run()
    core.observe_deleted(a_pod_group("g", least=2))
    core.observe(*nodes(4))
    assert bound(core.advance_to(60)) == set()
    core.observe(a_pod_group("g", least=2))
    assert bound(core.advance_to(90)) == {"g-0", "g-1"}


def test_a_change_to_strict_gives_back_what_was_held(core: EngineHarness) -> None:
    pods = gang("g", 2, mode="NonStrict")
    core.observe(*nodes(1), *pods)
    core.run()
    assert len(core.engine.cluster) == 1
    core.observe(*gang("g", 2, mode="Strict"))
    core.advance_to(30)
    assert len(core.engine.cluster) == 0


def test_what_cannot_be_read_is_reported_once(core: EngineHarness) -> None:
    pod = a_pod("p").in_gang("g", 1, mode="Loose", waiting_time="soon")
    core.observe(pod, pod.labelled(x="y"))
    (event,) = [e for e in of_kind(PublishEvent, core.run()) if e.reason == "InvalidGang"]
    assert "gang.scheduling.koordinator.sh/mode: 'Loose' is none of Strict, NonStrict" in event.note
    assert "waiting-time: 'soon' is not a duration such as 90s or 1h30m" in event.note


class Door(Plugin):
    """Lets pods through when it is open."""

    def __init__(self) -> None:
        self.open: bool | None = None

    def permit(self, state, pod, node):  # type: ignore[no-untyped-def]
        if self.open is None:
            return Wait(30.0)
        return None if self.open else self.reject("closed")


def test_members_that_a_permit_plugin_holds_go_together(core: EngineHarness) -> None:
    door = Door()
    core = EngineHarness(small_profile(door))
    core.observe(*nodes(2), *gang("g", 2))
    assert bound(core.run()) == set()
    door.open = True
    core.observe(a_node("other"))
    assert bound(core.run()) == {"g-0", "g-1"}


def test_and_fall_together() -> None:
    door = Door()
    core = EngineHarness(small_profile(door))
    core.observe(*nodes(2), *gang("g", 2))
    core.run()
    door.open = False
    core.observe(a_node("other"))
    core.run()
    assert len(core.engine.cluster) == 0
    assert {member.phase for member in core.engine.pods()} == {Phase.QUEUED}


def test_nothing_is_left_when_gangs_are_gone(core: EngineHarness) -> None:
    everything: list[Object] = [
        a_pod_group("pg", least=2),
        *gang("a", 3, groups=GROUPS),
        *in_b(2, 2),
        *gang("held", 3, mode="NonStrict"),
        *of_group("pg", 2),
        *bundle("ps", 2, 1),
    ]
    core.observe(*nodes(2, 2), *everything)
    core.settle_all(core.run())
    core.observe_deleted(*everything)
    core.advance_to(10_000)
    gangs = core.engine._gangs
    registry = core.engine.registry
    left = (gangs._entities, gangs._holds, gangs._notices, gangs._timed_out)
    assert not any(left)
    known = (registry.gangs, registry._groups, registry._named_by, registry._partner_names)
    assert not any((*known, registry._pod_groups, registry._gang_by_uid))
    assert core.engine.next_timer() is None


def test_a_refused_binding_is_tried_again_without_the_others(core: EngineHarness) -> None:
    core.observe(*nodes(3), *gang("g", 3))
    one, two, three = of_kind(Bind, core.run())
    core.settle(one)
    assert bound(core.settle(two, Refused(409, "Conflict", "no"))) == {two.pod.name}
    core.settle(three)
    core.settle(core.binding(two.pod.name))
    assert not core.engine.pods()
