"""A plugin that raises, wherever it is asked, costs its pod a back-off and nobody else anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from arranger.api.effects import DeletePod
from arranger.engine.context.queue_state import QueueState
from arranger.framework.interface import Plugin, QueueSortInput, SpecOnlyPlugin, Wait
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins import DEFAULT_PLUGINS
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import (
    BindAll,
    EngineHarness,
    FirstCome,
    conditions,
    event_notes,
    of_kind,
    placements,
    small_profile,
)

MakeCore = Callable[..., EngineHarness]
BAD = a_pod("bad").labelled(bad="yes").with_spec(priority=1)
GOOD = a_pod("good")


def trips(pod: Any) -> bool:
    return bool(pod.pod.metadata.labels.get("bad"))


def breaking(point: str) -> type[Plugin]:
    """A plugin that raises at ``point`` for pods labelled bad, and lets others pass."""

    def broken(self: Plugin, *args: Any) -> Any:
        if any(hasattr(arg, "spec_key") and trips(arg) for arg in args):
            raise ValueError("boom")
        return passing(point, args)

    return type("Breaks", (SpecOnlyPlugin,), {point: broken})


def passing(point: str, args: tuple[Any, ...]) -> Any:
    if point == "score_node":
        return 1
    if point == "bind":
        return BindAll().bind(*args)
    return None


@pytest.mark.parametrize(
    ("point", "text"),
    {
        "pre_enqueue": 'running PreEnqueue plugin "Breaks": ValueError: boom',
        "pre_filter": 'running PreFilter plugin "Breaks": ValueError: boom',
        "filter_node": 'running Filter plugin "Breaks": ValueError: boom',
        "pre_score": 'running PreScore plugin "Breaks": ValueError: boom',
        "score_node": 'running Score plugin "Breaks": ValueError: boom',
        "reserve": 'running Reserve plugin "Breaks": ValueError: boom',
        "permit": 'running Permit plugin "Breaks": ValueError: boom',
        "pre_bind": 'running PreBind plugin "Breaks": ValueError: boom',
        "bind": 'running Bind plugin "Breaks": ValueError: boom',
    }.items(),
)
def test_a_plugin_that_raises_is_a_scheduler_error_and_others_go_on(
    make_harness: MakeCore, point: str, text: str
) -> None:
    harness = make_harness(small_profile(breaking(point)()))
    harness.observe(a_node("n1"), BAD, GOOD)
    said = harness.run()

    assert placements(said) == [("good", "n1")]
    assert event_notes(said) == [("FailedScheduling", text)]
    assert conditions(said) == [("SchedulerError", text)]
    assert harness.queue_state("bad") is QueueState.BACKOFF
    assert harness.node_of(BAD) is None
    assert event_notes(harness.advance_to(1)) == [("FailedScheduling", text)]
    assert harness.engine.next_timer() == 3


def test_post_filter_that_raises(make_harness: MakeCore) -> None:
    harness = make_harness(small_profile(breaking("post_filter")()))
    harness.observe(a_node("n1"), BAD.needs(cpu=9), GOOD)
    said = harness.run()

    assert placements(said) == [("good", "n1")]
    assert conditions(said) == [
        ("SchedulerError", 'running PostFilter plugin "Breaks": ValueError: boom')
    ]


@pytest.mark.parametrize("point", ["pre_filter", "filter_node", "score_node", "reserve"])
def test_for_a_pod_that_meets_an_error_nobody_is_evicted(
    make_harness: MakeCore, point: str
) -> None:
    plugins = [PluginWeight(plugin(), weight) for plugin, weight in DEFAULT_PLUGINS]
    harness = make_harness(Profile("arranger", [*plugins, PluginWeight(breaking(point)())]))
    low = a_pod("low").needs(cpu=1).on("n1").with_spec(priority=-1)
    room = [a_node("n2").offers(cpu=1)] if point in ("score_node", "reserve") else []
    harness.observe(a_node("n1").offers(cpu=1), low, *room, BAD.needs(cpu=1))
    assert conditions(harness.run())[0][0] == "SchedulerError"
    assert of_kind(DeletePod, harness.advance_to(60)) == []


def test_a_sort_that_raises_puts_the_pod_last(make_harness: MakeCore) -> None:
    class Breaks(FirstCome):
        def sort_key(self, queued: QueueSortInput) -> float:
            if trips(queued.pod):
                raise ValueError("boom")
            return queued.queued_at

    harness = make_harness(Profile("arranger", [PluginWeight(Breaks()), PluginWeight(BindAll())]))
    harness.observe(a_node("n1"), BAD, GOOD)
    said = harness.run()

    assert placements(said) == [("good", "n1")]
    assert event_notes(said) == [
        ("FailedScheduling", 'running QueueSort plugin "Breaks": ValueError: boom')
    ]
    assert harness.queue_state("bad") is QueueState.BACKOFF


def test_a_signature_that_raises_has_the_pod_judged_alone(make_harness: MakeCore) -> None:
    class Breaks(Plugin):
        def sign_pod(self, pod: Any) -> Any:
            raise ValueError("boom")

        def filter_node(self, state: Any, pod: Any, node: Any) -> None:
            return None

    harness = make_harness(small_profile(Breaks()))
    harness.observe(a_node("n1"), BAD, GOOD)

    assert placements(harness.run()) == [("bad", "n1"), ("good", "n1")]


def test_unreserve_that_raises_frees_the_node_all_the_same(make_harness: MakeCore) -> None:
    class Breaks(SpecOnlyPlugin):
        def reserve(self, state: Any, pod: Any, node: str) -> Any:
            return self.reject("no")

        def unreserve(self, state: Any, pod: Any, node: str) -> None:
            raise ValueError("boom")

    harness = make_harness(small_profile(Breaks()))
    harness.observe(a_node("n1"), BAD)
    harness.run()

    assert harness.node_of(BAD) is None
    assert harness.queue_state("bad") is QueueState.UNSCHEDULABLE


def test_post_bind_that_raises_changes_nothing(make_harness: MakeCore) -> None:
    harness = make_harness(small_profile(breaking("post_bind")()))
    harness.observe(a_node("n1"), BAD)
    harness.run()

    assert event_notes(harness.settle(harness.binding("bad"))) == [
        ("Scheduled", "Successfully assigned default/bad to n1")
    ]


def test_permit_that_raises_while_a_pod_waits(make_harness: MakeCore) -> None:
    class Breaks(SpecOnlyPlugin):
        broken = False

        def permit(self, state: Any, pod: Any, node: str) -> Wait:
            if self.broken:
                raise ValueError("boom")
            return Wait(60)

    plugin = Breaks()
    harness = make_harness(small_profile(plugin))
    harness.observe(a_node("n1"), BAD)
    harness.run()
    plugin.broken = True
    harness.now = 20
    harness.observe(a_node("n2"))

    assert event_notes(harness.run()) == [
        ("FailedScheduling", 'running Permit plugin "Breaks": ValueError: boom')
    ]
    assert harness.node_of(BAD) is None
    assert harness.engine.next_timer() == 21


def test_a_hint_that_raises_counts_as_yes(make_harness: MakeCore) -> None:
    from arranger.framework.cluster_event import ActionType, QueueingHint

    def boom(pod: Any, event: Any) -> bool:
        raise ValueError("boom")

    class Breaks(SpecOnlyPlugin):
        queueing_hints = (QueueingHint(ActionType.NODE_ADDED, boom),)

        def filter_node(self, state: Any, pod: Any, node: Any) -> Any:
            return self.reject("never")

    harness = make_harness(small_profile(Breaks()))
    harness.observe(a_node("n1"), BAD)
    harness.run()
    harness.now = 20
    harness.observe(a_node("n2"))

    assert len(event_notes(harness.run())) == 1


GARBAGE: dict[str, tuple[str, Any]] = {
    "verdicts that are none": ("filter", None),
    "a score that is none": ("score", None),
    "a score that is a word": ("score_node", "high"),
    "a status that is a word": ("pre_filter", "no"),
    "a reservation that is a word": ("reserve", "no"),
    "a permit that is a number": ("permit", 5),
    "preparations that are a number": ("pre_bind", 5),
}


@pytest.mark.parametrize(("point", "garbage"), GARBAGE.values(), ids=GARBAGE.keys())
def test_a_plugin_that_answers_garbage_is_a_scheduler_error(
    make_harness: MakeCore, point: str, garbage: Any
) -> None:
    def answer(self: Plugin, *args: Any) -> Any:
        return garbage

    harness = make_harness(small_profile(type("Garbage", (SpecOnlyPlugin,), {point: answer})()))
    harness.observe(a_node("n1"), GOOD)
    said = harness.run()

    assert [reason for reason, _ in conditions(said)] == ["SchedulerError"]
    assert placements(said) == []
    assert harness.queue_state("good") is QueueState.BACKOFF
    assert harness.node_of(GOOD) is None


def test_a_plugin_that_recovers_lets_the_pod_go(make_harness: MakeCore) -> None:
    class Breaks(SpecOnlyPlugin):
        broken = True

        def pre_enqueue(self, pod: Any) -> None:
            if self.broken:
                raise ValueError("boom")

    plugin = Breaks()
    harness = make_harness(small_profile(plugin))
    harness.observe(a_node("n1"), BAD)
    harness.run()
    plugin.broken = False

    assert event_notes(harness.advance_to(1)) != [], (
        "what it said at the time of queueing still counts"
    )
    assert placements(harness.advance_to(3)) == [("bad", "n1")]


def a_bad_pod(number: int) -> PodBuilder:
    return a_pod(f"bad{number}").labelled(bad="yes")


def test_one_broken_class_does_not_spoil_the_answers_of_the_next(make_harness: MakeCore) -> None:
    harness = make_harness(small_profile(breaking("pre_score")()))
    harness.observe(
        a_node("n1"), *[a_bad_pod(n) for n in range(3)], *[a_pod(f"p{n}") for n in range(3)]
    )

    assert placements(harness.run()) == [("p0", "n1"), ("p1", "n1"), ("p2", "n1")]


class RaisesNowAndThen(Plugin):
    """Raises about bad pods every other time, and else finds no node good enough."""

    def __init__(self) -> None:
        self.asked = 0

    def pre_filter(self, state: Any, pod: Any, cluster: Any) -> None:
        self.asked += trips(pod)
        if trips(pod) and self.asked % 2:
            raise ValueError("boom")

    def filter_node(self, state: Any, pod: Any, node: Any) -> Any:
        return self.reject("not good enough") if trips(pod) else None


def test_an_error_that_comes_and_goes_is_written_to_the_pod_less_and_less_often() -> None:
    plugin = RaisesNowAndThen()
    harness = EngineHarness(small_profile(plugin))
    harness.observe(a_node("n"), BAD)
    told: list[tuple[float, str]] = []
    for minute in range(240):
        harness.now = 15.0 * minute
        harness.observe(a_node("n").labelled(edited=str(minute)).offers(cpu=1 + minute))
        said = harness.advance_to(harness.now)
        harness.settle_all(said)
        told += ((harness.now, reason) for reason, _ in conditions(said))
    assert plugin.asked > 100
    errors = [at for at, reason in told if reason == "SchedulerError"]
    assert errors[0] == 0, "the first is told at once"
    assert len(errors) > 3, "and others later"
    assert len(told) <= 24
    harness.engine.check_consistent()
