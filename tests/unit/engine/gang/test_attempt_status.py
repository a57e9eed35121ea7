"""How often a gang has been tried, as its Gang object shows."""

from __future__ import annotations

import msgspec
import pytest

from arranger.api.effects import PatchObject
from arranger.api.types.pod_groups import GangObject
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind

PATH = "/apis/arranger.io/v1alpha1/namespaces/default/gangs/g/status"


@pytest.fixture
def harness() -> EngineHarness:
    return EngineHarness(default_profile())


def gang(size: int = 2, groups: str = "") -> list[PodBuilder]:
    return [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", size, groups=groups) for n in range(size)]


def an_object(harness: EngineHarness, cycle: int = 0, *, uid: str = "uid-g") -> None:
    """The watch shows the Gang."""
    body = {
        "metadata": {"name": "g", "namespace": "default", "uid": uid},
        "status": {"schedulingCycle": cycle},
    }
    harness.engine.handlers.on_gang_updated(msgspec.convert(body, GangObject), harness.now)


def told(harness: EngineHarness) -> list[int]:
    return [
        write.change["status"]["schedulingCycle"] for write in of_kind(PatchObject, harness.effects)
    ]


def try_again(harness: EngineHarness, times: int, every: float = 11.0) -> None:
    """Something happens that lets the gang be tried, though it does not help."""
    for _ in range(times):
        harness.advance_to(harness.now + every)
        harness.observe(a_node(f"n-{harness.now}").offers(cpu=1))
        harness.run()


def test_a_gang_that_is_placed_at_once_was_tried_once(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), *gang())
    harness.run()
    assert told(harness) == [], "there is no object yet"
    an_object(harness)
    harness.advance_to(1)
    [write] = of_kind(PatchObject, harness.effects)
    change = {"metadata": {"uid": "uid-g"}, "status": {"schedulingCycle": 1}}
    assert write == PatchObject(PATH, change)
    harness.advance_to(1000)
    assert told(harness) == [1]


def test_while_it_is_tried_again_and_again_the_number_is_written_once_a_minute(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=1), *gang(40))
    harness.run()
    an_object(harness)
    try_again(harness, 30)
    assert told(harness) == [1, 7, 13, 19, 25]
    harness.advance_to(harness.now + 61)
    assert told(harness)[-1] == 31


def test_a_gang_that_waits_for_members_is_not_tried(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=1), *gang()[:1])
    an_object(harness)
    try_again(harness, 3)
    assert told(harness) == []


def test_old_news_and_our_own_echo_are_no_reason_to_write(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), *gang())
    harness.run()
    an_object(harness)
    harness.advance_to(1)
    for cycle in (0, 1, 0):
        an_object(harness, cycle)
        harness.advance_to(harness.now + 100)
    assert told(harness) == [1]


def test_an_object_that_was_deleted_and_made_anew_is_told_again(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), *gang())
    harness.run()
    for uid in ("one", "two"):
        an_object(harness, uid=uid)
        harness.advance_to(harness.now + 1)
    assert told(harness) == [1, 1]


def test_after_a_restart_the_count_goes_on(harness: EngineHarness) -> None:
    an_object(harness, 7)
    harness.observe(a_node("n").offers(cpu=2), *gang())
    harness.run()
    harness.advance_to(60)
    assert told(harness) == [8]
