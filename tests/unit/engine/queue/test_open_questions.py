"""Many that wait are asked piece by piece whether an event may help them."""

from __future__ import annotations

import pytest

from arranger.api.effects import Bind
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind

WAITING = 7
#: More than the node has at first; no two are alike, so that each is asked.
LARGE = [a_pod(f"large-{n}").needs(cpu=10 + n) for n in range(WAITING)]


def crowd(at_once: int) -> EngineHarness:
    """Pods that fit nowhere, of which so many are asked at once."""
    config = SchedulingQueueConfig(questions_at_once=at_once)
    harness = EngineHarness(default_profile(), queue_config=config)
    harness.start()
    harness.observe(a_node("n").offers(cpu=4), *LARGE)
    harness.run()
    return harness


def steps_until_quiet(harness: EngineHarness) -> list[list[str]]:
    """Who is bound in each step of the engine, until nothing is ready."""
    steps = []
    while harness.engine.ready:
        effects = harness.engine.run(harness.now)
        harness.engine.check_consistent()
        steps.append([bind.pod.name for bind in of_kind(Bind, effects)])
    return steps


@pytest.mark.parametrize(("at_once", "steps"), [(512, 1), (WAITING, 1), (3, 3), (1, 7)])
def test_nobody_is_tried_before_all_of_them_are_asked(at_once: int, steps: int) -> None:
    harness = crowd(at_once)
    harness.observe(a_node("n").offers(cpu=91))
    harness.observe(a_pod("low").needs(cpu=1).with_priority(-1))
    found = steps_until_quiet(harness)
    assert [len(bound) for bound in found] == [0] * (steps - 1) + [WAITING]
    assert found[-1] == [f"large-{n}" for n in range(WAITING)], "in their order; low has no room"


@pytest.mark.parametrize("at_once", [512, 3, 1])
def test_events_that_come_meanwhile_are_asked_about_as_well(at_once: int) -> None:
    harness = crowd(at_once)
    harness.observe(a_node("n").offers(cpu=11), a_node("m").offers(cpu=16))
    bound = sorted(name for step in steps_until_quiet(harness) for name in step)
    assert bound == ["large-0", "large-1"]


@pytest.mark.parametrize("at_once", [512, 1])
def test_who_is_edited_or_goes_before_its_turn_to_be_asked_is_not_lost(at_once: int) -> None:
    harness = crowd(at_once)
    harness.observe(a_node("n").offers(cpu=100))
    edited: PodBuilder = LARGE[-1].labelled(edited="yes")
    harness.observe(edited)
    harness.observe_deleted(*LARGE[:-1])
    assert steps_until_quiet(harness)[-1] == ["large-6"]


@pytest.mark.parametrize("at_once", [512, 2])
def test_a_type_of_event_that_none_of_them_asks_for_is_asked_of_none(at_once: int) -> None:
    harness = crowd(at_once)
    harness.observe(a_pod("elsewhere").needs(cpu=1).on("n"))
    assert not harness.engine.ready
