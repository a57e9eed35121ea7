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
def core() -> EngineHarness:
    return EngineHarness(default_profile())


def gang(size: int = 2, groups: str = "") -> list[PodBuilder]:
    return [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", size, groups=groups) for n in range(size)]


def an_object(core: EngineHarness, cycle: int = 0, *, uid: str = "uid-g") -> None:
    """The watch shows the Gang."""
    body = {
        "metadata": {"name": "g", "namespace": "default", "uid": uid},
        "status": {"schedulingCycle": cycle},
    }
    core.engine.on_gang_updated(msgspec.convert(body, GangObject), core.now)


def told(core: EngineHarness) -> list[int]:
    return [
        write.change["status"]["schedulingCycle"] for write in of_kind(PatchObject, core.effects)
    ]


def try_again(core: EngineHarness, times: int, every: float = 11.0) -> None:
    """Something happens that lets the gang be tried, though it does not help."""
    for _ in range(times):
        core.advance_to(core.now + every)
        core.observe(a_node(f"n-{core.now}").offers(cpu=1))
        core.run()


def test_a_gang_that_is_placed_at_once_was_tried_once(core: EngineHarness) -> None:
    core.observe(a_node("n").offers(cpu=2), *gang())
    core.run()
    assert told(core) == [], "there is no object yet"
    an_object(core)
    core.advance_to(1)
    [write] = of_kind(PatchObject, core.effects)
    change = {"metadata": {"uid": "uid-g"}, "status": {"schedulingCycle": 1}}
    assert write == PatchObject(PATH, change)
    core.advance_to(1000)
    assert told(core) == [1]


def test_while_it_is_tried_again_and_again_the_number_is_written_once_a_minute(
    core: EngineHarness,
) -> None:
    core.observe(a_node("n").offers(cpu=1), *gang(40))
    core.run()
    an_object(core)
    try_again(core, 30)
    assert told(core) == [1, 7, 13, 19, 25]
    core.advance_to(core.now + 61)
    assert told(core)[-1] == 31


def test_a_gang_that_waits_for_members_is_not_tried(core: EngineHarness) -> None:
    core.observe(a_node("n").offers(cpu=1), *gang()[:1])
    an_object(core)
    try_again(core, 3)
    assert told(core) == []


def test_old_news_and_our_own_echo_are_no_reason_to_write(core: EngineHarness) -> None:
    core.observe(a_node("n").offers(cpu=2), *gang())
    core.run()
    an_object(core)
    core.advance_to(1)
    for cycle in (0, 1, 0):
        an_object(core, cycle)
        core.advance_to(core.now + 100)
    assert told(core) == [1]


def test_an_object_that_was_deleted_and_made_anew_is_told_again(core: EngineHarness) -> None:
    core.observe(a_node("n").offers(cpu=2), *gang())
    core.run()
    for uid in ("one", "two"):
        an_object(core, uid=uid)
        core.advance_to(core.now + 1)
    assert told(core) == [1, 1]


def test_after_a_restart_the_count_goes_on(core: EngineHarness) -> None:
    an_object(core, 7)
    core.observe(a_node("n").offers(cpu=2), *gang())
    core.run()
    core.advance_to(60)
    assert told(core) == [8]
