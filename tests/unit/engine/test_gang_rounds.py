"""How often a gang has been tried, as its Gang object shows."""

from __future__ import annotations

import msgspec
import pytest

from arranger.api.effects import PatchObject
from arranger.api.types.pod_groups import SavedGang
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import Core, of

PATH = "/apis/arranger.io/v1alpha1/namespaces/default/gangs/g/status"


@pytest.fixture
def core() -> Core:
    return Core(default_profile())


def gang(size: int = 2, groups: str = "") -> list[PodBuilder]:
    return [a_pod(f"g-{n}").needs(cpu=1).in_gang("g", size, groups=groups) for n in range(size)]


def an_object(core: Core, cycle: int = 0, *, uid: str = "uid-g") -> None:
    """The watch shows the Gang."""
    body = {
        "metadata": {"name": "g", "namespace": "default", "uid": uid},
        "status": {"schedulingCycle": cycle},
    }
    core.engine.gang_recalled(msgspec.convert(body, SavedGang), core.now)


def told(core: Core) -> list[int]:
    return [write.change["status"]["schedulingCycle"] for write in of(PatchObject, core.effects)]


def try_again(core: Core, times: int, every: float = 11.0) -> None:
    """Something happens that lets the gang be tried, though it does not help."""
    for _ in range(times):
        core.at(core.now + every)
        core.see(a_node(f"n-{core.now}").offers(cpu=1))
        core.run()


def test_a_gang_that_is_placed_at_once_was_tried_once(core: Core) -> None:
    core.see(a_node("n").offers(cpu=2), *gang())
    core.run()
    assert told(core) == [], "there is no object yet"
    an_object(core)
    core.at(1)
    [write] = of(PatchObject, core.effects)
    change = {"metadata": {"uid": "uid-g"}, "status": {"schedulingCycle": 1}}
    assert write == PatchObject(PATH, change)
    core.at(1000)
    assert told(core) == [1]


def test_while_it_is_tried_again_and_again_the_number_is_written_once_a_minute(core: Core) -> None:
    core.see(a_node("n").offers(cpu=1), *gang(40))
    core.run()
    an_object(core)
    try_again(core, 30)
    assert told(core) == [1, 7, 13, 19, 25]
    core.at(core.now + 61)
    assert told(core)[-1] == 31


def test_a_gang_that_waits_for_members_is_not_tried(core: Core) -> None:
    core.see(a_node("n").offers(cpu=1), *gang()[:1])
    an_object(core)
    try_again(core, 3)
    assert told(core) == []


def test_old_news_and_our_own_echo_are_no_reason_to_write(core: Core) -> None:
    core.see(a_node("n").offers(cpu=2), *gang())
    core.run()
    an_object(core)
    core.at(1)
    for cycle in (0, 1, 0):
        an_object(core, cycle)
        core.at(core.now + 100)
    assert told(core) == [1]


def test_an_object_that_was_deleted_and_made_anew_is_told_again(core: Core) -> None:
    core.see(a_node("n").offers(cpu=2), *gang())
    core.run()
    for uid in ("one", "two"):
        an_object(core, uid=uid)
        core.at(core.now + 1)
    assert told(core) == [1, 1]


def test_after_a_restart_the_count_goes_on(core: Core) -> None:
    an_object(core, 7)
    core.see(a_node("n").offers(cpu=2), *gang())
    core.run()
    core.at(60)
    assert told(core) == [8]
