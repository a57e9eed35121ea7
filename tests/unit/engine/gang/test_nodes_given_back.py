"""A gang that gives many nodes back asks those that wait once, not once for every member."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import Bind
from arranger.engine.context.phases import Phase
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.queue.hints import HelpQuestion
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind

MEMBERS, CLASSES = 60, 7
LONG_AGO = "2026-01-01T00:00:00Z"


def member(n: int, mode: str = "NonStrict", cpu: int = 1) -> PodBuilder:
    return a_pod(f"g-{n}").needs(cpu=cpu).in_gang("g", MEMBERS + 1, mode=mode)


def nominee(n: int) -> PodBuilder:
    pod = a_pod(f"g-{n}").needs(cpu=1).with_priority(5)
    return pod.in_gang("g", MEMBERS).nominated_to(f"n{n}")


def holding(harness: EngineHarness) -> None:
    """A gang that holds nodes for all of its members but one, which fits nowhere."""
    harness.start()
    harness.observe(*(a_node(f"n{n}").offers(cpu=1) for n in range(MEMBERS)))
    harness.observe(*map(member, range(MEMBERS)), member(MEMBERS, cpu=1000))
    harness.run()
    assert sum(pod.phase is Phase.WAITING for pod in harness.engine.pods()) == MEMBERS


def nominated(harness: EngineHarness) -> None:
    """A gang that waits until those have left its nodes that are being deleted."""
    harness.observe(*(a_node(f"n{n}").offers(cpu=1) for n in range(MEMBERS)))
    leaving = [a_pod(f"v-{n}").needs(cpu=1).on(f"n{n}") for n in range(MEMBERS)]
    harness.observe(*(pod.deleting(LONG_AGO) for pod in leaving), *map(nominee, range(MEMBERS)))
    harness.start()
    harness.run()
    assert len(harness.engine._nominator) == MEMBERS


def become_strict(harness: EngineHarness) -> None:
    harness.observe(member(0, "Strict"))


def wait_too_long(harness: EngineHarness) -> None:
    harness.advance_to(harness.now + 61.0)


def lose_a_member(harness: EngineHarness) -> None:
    harness.observe_deleted(nominee(0))
    for _ in range(3):
        harness.advance_to(harness.now + 20.0)


Step = Callable[[EngineHarness], None]

# sentence: what the gang has, what makes it give that back
WAYS: dict[str, tuple[Step, Step]] = {
    "an edit makes it Strict": (holding, become_strict),
    "its wait time is over": (holding, wait_too_long),
    "it lacks a member, and its nominations end": (nominated, lose_a_member),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of whom it was asked whether a pod that has left its node may help them."""
    names, real = list[str](), HelpQuestion.may_help

    def ask(self: HelpQuestion, entity, pods=None):  # type: ignore[no-untyped-def]
        if "POD_REMOVED" in str(self._event.action_type):
            names.append(entity.representative.pod.pod.metadata.name)
        return real(self, entity, pods)

    monkeypatch.setattr(HelpQuestion, "may_help", ask)
    return names


def given_back(harness: EngineHarness) -> bool:
    held = any(pod.phase is Phase.WAITING for pod in harness.engine.pods())
    return not held and not len(harness.engine._nominator)


@pytest.mark.parametrize(("begin", "give_back"), WAYS.values(), ids=WAYS)
def test_those_that_wait_are_asked_once_of_all_nodes_that_a_gang_gives_back(
    asked: list[str], begin: Step, give_back: Step
) -> None:
    harness = EngineHarness(default_profile(), gangs=GangPolicy(wait_time=60.0))
    begin(harness)
    harness.observe(*(a_pod(f"w-{n}").needs({"cpu": 2 + n}) for n in range(CLASSES)))
    harness.run()
    asked.clear()
    give_back(harness)
    harness.engine.check_consistent()
    assert given_back(harness)
    waiting = [name for name in asked if name.startswith("w-")]
    assert 0 < len(waiting) <= 3 * CLASSES


#: sentence: how many nodes are given back, what one that waits needs, whether it gets one
ROOM = {
    "few nodes, each looked at, and one fits": (3, 4, True),
    "few nodes, and none fits": (3, 5, False),
    "many nodes, and one is large enough": (20, 4, True),
    "many nodes, and none is large enough": (20, 5, False),
}


@pytest.mark.parametrize(("nodes", "cpu", "fits"), ROOM.values(), ids=ROOM)
def test_who_waits_gets_a_node_that_was_given_back_with_others(
    asked: list[str], nodes: int, cpu: int, fits: bool
) -> None:
    harness = EngineHarness(default_profile())
    harness.start()
    harness.observe(*(a_node(f"n{n}").offers(cpu=4 if n == 1 else 2) for n in range(nodes)))
    gang = [a_pod(f"g-{n}").in_gang("g", nodes + 1, mode="NonStrict") for n in range(nodes + 1)]
    sized = [pod.needs(cpu=4 if n == 1 else 2) for n, pod in enumerate(gang)]
    harness.observe(*sized[:-1], gang[-1].needs(cpu=1000))
    harness.run()
    waits = a_pod("waits").needs(cpu=cpu)
    harness.observe(waits)
    harness.run()
    attempts = harness.entity("waits").last_attempt
    harness.advance_to(harness.now + 5.0)
    assert not of_kind(Bind, harness.effects)
    harness.observe(a_pod("g-0").needs(cpu=2).in_gang("g", nodes + 1, mode="Strict"))
    harness.run()
    harness.engine.check_consistent()
    assert [bind.pod.name for bind in of_kind(Bind, harness.effects)] == ["waits"] * fits
    if not fits:
        assert harness.entity("waits").last_attempt == attempts, "it is not tried in vain"
