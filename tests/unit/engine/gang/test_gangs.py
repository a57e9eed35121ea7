"""Gangs: all that is needed is placed, or nothing is (docs/design/gang-scheduling.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from arranger.api.annotations import MAX_RUN_TIME
from arranger.api.effects import (
    AnnotatePod,
    Bind,
    Effect,
    PatchPodStatus,
    PublishEvent,
)
from arranger.engine.context.phases import Phase
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import NodeBuilder, PodBuilder, PodGroupBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.harness import (
    EngineHarness,
    conditions,
    of_kind,
    placements,
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


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


#: What there is, and who is bound in the first run.
CASES: dict[str, tuple[list[Object], set[str]]] = {
    "all fit": ([*nodes(2, 2), *gang("g", 4)], {"g-0", "g-1", "g-2", "g-3"}),
    "one too many, and nobody gets a node": ([*nodes(2, 1), *gang("g", 4)], set()),
    "members are missing": ([*nodes(4), *gang("g", 2, 3)], set()),
    "members are missing, NonStrict": ([*nodes(4), *gang("g", 2, 3, mode="NonStrict")], set()),
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
def test_who_is_bound_at_once(case: tuple[list[Object], set[str]], harness: EngineHarness) -> None:
    objects, expected = case
    harness.observe(*objects)
    effects = harness.run()
    assert bound(effects) == expected
    held = len(harness.engine.cluster)
    assert held == len(expected), "nothing else is held"


def test_the_a_c_b_d_case_two_gangs_whose_members_arrive_in_turn(harness: EngineHarness) -> None:
    harness.observe(*nodes(3))
    for one, other in zip(gang("a", 2), gang("b", 2), strict=True):
        harness.observe(one, other)
    assert bound(harness.run()) == {"a-0", "a-1"}
    harness.settle_all(harness.effects)
    harness.observe_deleted(a_pod("a-0"), a_pod("a-1"))
    assert bound(harness.advance_to(20)) == {"b-0", "b-1"}


def test_non_strict_members_keep_their_nodes_until_the_rest_is_placed(
    harness: EngineHarness,
) -> None:
    harness.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    assert bound(harness.run()) == set()
    assert harness.phase("g-0") is Phase.WAITING
    assert harness.node_of(a_pod("g-0")) == "n0"
    harness.now = 10
    harness.observe(a_node("n9").offers(cpu=1))
    assert bound(harness.run()) == {"g-0", "g-1"}


def test_non_strict_members_give_up_when_their_time_is_over(harness: EngineHarness) -> None:
    harness.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    harness.run()
    assert of_kind(AnnotatePod, harness.advance_to(599.9)) == []
    effects = harness.advance_to(600)
    marks = of_kind(AnnotatePod, effects)
    assert {(mark.pod.name, *mark.annotations.items()) for mark in marks} == {
        ("g-0", ("gang.scheduling.koordinator.sh/timeout", "true")),
        ("g-1", ("gang.scheduling.koordinator.sh/timeout", "true")),
    }
    assert len(harness.engine.cluster) == 0
    told = {patch.pod.name: patch.condition for patch in of_kind(PatchPodStatus, effects)}
    assert told.keys() == {"g-0", "g-1"}
    assert told["g-0"] is not None
    assert "ran out of time" in told["g-0"].message
    harness.observe(*nodes(4))
    assert bound(harness.advance_to(6000)) == set(), "not tried again until somebody acts"


def test_each_dialect_has_its_own_mark_and_says_which(harness: EngineHarness) -> None:
    harness.observe(*nodes(1), *bundle("ps", 2, 2, isStrictMode="false", waitingTime="60s"))
    harness.run()
    effects = harness.advance_to(60)
    marks = [dict(mark.annotations) for mark in of_kind(AnnotatePod, effects)]
    assert marks == [{"gang.koordinater.io/timeOut": "true"}] * 2
    assert all("remove gang.koordinater.io/timeOut from" in text for _, text in conditions(effects))
    harness.observe(*nodes(2), *bundle("ps", 2, 2, isStrictMode="false", timeOut="true"))
    assert bound(harness.advance_to(200)) == set()
    harness.observe(*bundle("ps", 2, 2, isStrictMode="false"))
    assert bound(harness.advance_to(300)) == {"ps-0", "ps-1"}


def test_two_hours_of_patience_are_two_hours(harness: EngineHarness) -> None:
    harness.observe(*nodes(1), *gang("g", 2, mode="NonStrict", waiting_time="2h"))
    harness.run()
    assert of_kind(AnnotatePod, harness.advance_to(7199)) == []
    assert len(of_kind(AnnotatePod, harness.advance_to(7200))) == 2


def timed_out(harness: EngineHarness) -> list[PodBuilder]:
    """A gang of a PodGroup after its time was over, as the watch then shows it."""
    more = {"mode": "NonStrict"}
    pods = [pod.in_gang("g", **more) for pod in of_group("g", 2)]
    harness.observe(*nodes(1), a_pod_group("g", least=2), *pods)
    harness.run()
    harness.advance_to(600)
    marked = [pod.in_gang("g", timeout="true", **more) for pod in pods]
    harness.observe(*marked)
    harness.observe(*nodes(4))
    harness.advance_to(700)
    assert not of_kind(Bind, harness.effects)
    return pods


REACTIONS: dict[str, Callable[[EngineHarness, list[PodBuilder]], None]] = {
    "takes the mark off one pod": lambda harness, pods: harness.observe(pods[0]),
    "edits the PodGroup": lambda harness, pods: harness.observe(
        a_pod_group("g", least=2, scheduleTimeoutSeconds=60)
    ),
    "recreates the pods": lambda harness, pods: (
        harness.observe_deleted(*pods),
        harness.observe(*(pod.with_uid(f"new-{n}") for n, pod in enumerate(pods))),
    )[0],
}


@pytest.mark.parametrize("react", REACTIONS.values(), ids=REACTIONS.keys())
def test_it_is_tried_again_when_its_owner(
    react: Callable[[EngineHarness, list[PodBuilder]], None], harness: EngineHarness
) -> None:
    pods = timed_out(harness)
    react(harness, pods)
    assert bound([*harness.advance_to(720), *harness.advance_to(800)]) == {"g-0", "g-1"}
    unmarked = [
        mark for mark in of_kind(AnnotatePod, harness.effects) if None in mark.annotations.values()
    ]
    assert react is REACTIONS["recreates the pods"] or unmarked


def test_with_on_timeout_retry_it_is_tried_again(harness: EngineHarness) -> None:
    harness = EngineHarness(default_profile(), gangs=GangPolicy(wait_time=5, on_timeout="Retry"))
    harness.observe(*nodes(1), *gang("g", 2, mode="NonStrict"))
    harness.run()
    assert of_kind(AnnotatePod, harness.advance_to(5)) == []
    harness.observe(*nodes(2))
    assert bound(harness.advance_to(20)) == {"g-0", "g-1"}


def test_a_big_gang_is_not_starved_by_small_pods(harness: EngineHarness) -> None:
    running = [a_pod(f"old-{n}").needs(cpu=2).on(f"n{n}") for n in range(2)]
    harness.observe(*nodes(2, 2, 2), *running, *gang("big", 4))
    assert bound(harness.run()) == set()
    for minute in range(20):
        harness.now = minute * 60.0
        harness.observe(a_pod(f"small-{minute}").needs(cpu=1))
        harness.run()
        if minute == 8:
            assert bound(harness.effects) == {"small-0", "small-1"}, (
                "before it starves all may come"
            )
            harness.settle_all(harness.effects)
            harness.observe_deleted(a_pod("small-0"), a_pod("small-1"))
    harness.observe(a_pod("vip").needs(cpu=1).with_priority(9))
    harness.observe_deleted(running[0])
    assert "vip" in bound(harness.run())
    harness.observe_deleted(a_pod("vip"), running[1], *(a_pod(f"small-{n}") for n in range(20)))
    harness.advance_to(1300)
    assert {f"big-{n}" for n in range(4)} <= bound(harness.effects)
    harness.observe(a_pod("after").needs(cpu=1), a_node("n9"))
    harness.advance_to(1400)
    assert "after" in bound(harness.effects), "nothing is kept for a gang that has its nodes"


def _deadline(seconds: int) -> Callable[[PodBuilder], PodBuilder]:
    return lambda pod: pod.with_spec(activeDeadlineSeconds=seconds)


def _run_time(text: str) -> Callable[[PodBuilder], PodBuilder]:
    return lambda pod: pod.annotated({MAX_RUN_TIME: text})


LASTS: dict[str, tuple[Callable[[PodBuilder], PodBuilder], Callable[[PodBuilder], PodBuilder]]] = {
    "deadlines": (_deadline(1500), _deadline(100)),
    "maximum run times": (_run_time("25m"), _run_time("100s")),
    "the smaller of both": (
        lambda pod: _run_time("25m")(_deadline(9000)(pod)),
        lambda pod: _run_time("100h")(_deadline(100)(pod)),
    ),
}
LASTS_TOO_LONG: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "nothing is said": lambda pod: pod,
    "a long deadline": _deadline(600),
    "a long run time": _run_time("10m"),
    "a run time that cannot be read": _run_time("100 s"),
}


@pytest.mark.parametrize(("old_lasts", "lasts"), LASTS.values(), ids=LASTS.keys())
def test_around_a_starving_gang_those_are_placed_who_end_in_time(
    old_lasts: Callable[[PodBuilder], PodBuilder],
    lasts: Callable[[PodBuilder], PodBuilder],
    harness: EngineHarness,
) -> None:
    assert _placed_around_a_starving_gang(harness, old_lasts, lasts)


@pytest.mark.parametrize("lasts", LASTS_TOO_LONG.values(), ids=LASTS_TOO_LONG.keys())
def test_around_a_starving_gang_nobody_is_placed_who_ends_late(
    lasts: Callable[[PodBuilder], PodBuilder], harness: EngineHarness
) -> None:
    assert not _placed_around_a_starving_gang(harness, _deadline(1500), lasts)


def _placed_around_a_starving_gang(
    harness: EngineHarness,
    old_lasts: Callable[[PodBuilder], PodBuilder],
    lasts: Callable[[PodBuilder], PodBuilder],
) -> bool:
    started = {"phase": "Running", "startTime": "1970-01-01T00:00:00Z"}
    old = a_pod("old").needs(cpu=1).on("n0").with_status(**started)
    harness.observe(*nodes(2), old_lasts(old), *gang("big", 2))
    harness.run()
    harness.advance_to(700)
    harness.now = 1000.0
    harness.observe(lasts(a_pod("small").needs(cpu=1)))
    return bound(harness.run()) == {"small"}


def test_every_member_is_told_who_blocks_the_gang(harness: EngineHarness) -> None:
    harness.observe(*nodes(2), *gang("g", 3))
    effects = harness.run()
    told = {patch.pod.name: patch.condition for patch in of_kind(PatchPodStatus, effects)}
    assert told.keys() == {"g-0", "g-1", "g-2"}
    assert {condition.message for condition in told.values() if condition} == {
        "Unsatisfiable: all nodes together have room for 2 of the 3 pods of gang default/g that "
        "must run. 0/1 nodes are available: 1 Insufficient cpu. gang default/g: 3 of 3 arrived, "
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
    case: tuple[list[Object], str], harness: EngineHarness
) -> None:
    objects, message = case
    harness.observe(*nodes(9), *objects)
    assert harness.run() == [], "the others are usually on their way"
    told = {
        patch.condition.message
        for patch in of_kind(PatchPodStatus, harness.advance_to(3))
        if patch.condition
    }
    assert told == {message}


def test_while_members_arrive_nobody_is_told_and_the_complete_gang_never(
    harness: EngineHarness,
) -> None:
    harness.observe(*nodes(9))
    for n, pod in enumerate(gang("g", 5)):
        harness.now = n * 1.5
        harness.observe(pod)
        assert (
            of_kind(PatchPodStatus, harness.run()) == of_kind(PublishEvent, harness.effects) == []
        )
    assert len(bound(harness.effects)) == 5


def test_a_gang_complete_by_the_time_it_would_be_told_is_bound_instead(
    harness: EngineHarness,
) -> None:
    harness.observe(*nodes(9), *gang("g", 5))
    assert of_kind(PatchPodStatus, harness.advance_to(60)) == []
    assert len(bound(harness.effects)) == 5


def test_a_pod_of_another_scheduler_counts_once_it_has_a_node(harness: EngineHarness) -> None:
    ours = [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", 3) for n in range(2)]
    theirs = a_pod("g-2").needs(cpu=1).in_gang("g", 3).for_scheduler("other")
    harness.observe(a_node("n").offers(cpu=4), theirs)
    assert not harness.engine.registry.gangs, "nobody here places it"
    harness.observe(*ours)
    assert placements(harness.run()) == []
    harness.observe(theirs.on("n"))
    assert {name for name, _ in placements(harness.run())} == {"g-0", "g-1"}
