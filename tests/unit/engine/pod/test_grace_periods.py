"""Who has to leave is gone within the time that the configuration allows, whatever its owner says.

A pod may ask for years to end, and its owner may have deleted it with as many, so that it counts as
leaving and goes on.
"""

from __future__ import annotations

import pytest

from arranger.api.effects import DeletePod
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind

LOW = (
    a_pod("low").needs(cpu=1).on("n").with_status(phase="Running", startTime="1970-01-01T00:00:00Z")
)
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
HIGH = a_pod("high").needs(cpu=1).with_priority(10)


def a_world(victim: PodBuilder, most: int | None = 100) -> EngineHarness:
    harness = EngineHarness(default_profile(), max_grace_period=most)
    harness.observe(a_node("n").offers(cpu=1), victim)
    harness.start()
    harness.now = 10.0
    harness.observe(HIGH)
    harness.run()
    return harness


def deletes(harness: EngineHarness) -> list[tuple[str, int | None]]:
    return [(each.pod.name, each.grace_seconds) for each in of_kind(DeletePod, harness.effects)]


#: Sentence → the victim, and the grace period that it is deleted with; None for its own.
VICTIMS: dict[str, tuple[PodBuilder, list[tuple[str, int | None]]]] = {
    "one that says nothing": (LOW, [("low", None)]),
    "one that asks for as much": (
        LOW.with_spec(terminationGracePeriodSeconds=100),
        [("low", None)],
    ),
    "one that asks for more": (
        LOW.with_spec(terminationGracePeriodSeconds=101),
        [("low", 100)],
    ),
    "one that asks for ever": (
        LOW.with_spec(terminationGracePeriodSeconds=2**63 - 1),
        [("low", 100)],
    ),
    "one that leaves in time anyway": (LOW.deleting("1970-01-01T00:01:50Z"), []),
    "one that leaves in a thousand years": (LOW.deleting("2970-01-01T00:00:00Z"), [("low", 100)]),
    "one of which its owner wrote that a scheduler evicts it": (
        LOW.deleting("2970-01-01T00:00:00Z").with_status(conditions=[EVICTED]),
        [("low", 100)],
    ),
}


@pytest.mark.parametrize(("victim", "expected"), VICTIMS.values(), ids=VICTIMS)
def test_how_long_victims_may_take(
    victim: PodBuilder, expected: list[tuple[str, int | None]]
) -> None:
    assert deletes(a_world(victim)) == expected


def test_without_a_maximum_pods_have_what_they_ask_for() -> None:
    forever = LOW.with_spec(terminationGracePeriodSeconds=2**31)
    assert deletes(a_world(forever, None)) == [("low", None)]
    assert deletes(a_world(LOW.deleting("2970-01-01T00:00:00Z"), None)) == []


def test_a_pod_that_deletes_itself_is_ended_by_its_limit_all_the_same() -> None:
    harness = EngineHarness(default_profile(), max_grace_period=100)
    limited = LOW.annotated({"arranger.io/max-run-time": "90s"})
    harness.observe(a_node("n").offers(cpu=1), limited.deleting("2970-01-01T00:00:00Z"))
    harness.start()
    harness.run()
    harness.advance_to(89.0)
    assert deletes(harness) == []
    harness.advance_to(90.0)
    assert deletes(harness) == [("low", 100)]


def test_it_is_evicted_once() -> None:
    harness = a_world(LOW.deleting("2970-01-01T00:00:00Z"))
    harness.settle_all(harness.effects)
    harness.observe(LOW.deleting("1970-01-01T00:01:50Z"))
    harness.advance_to(60.0)
    assert deletes(harness) == [("low", 100)]
    harness.observe_deleted(LOW)
    harness.settle_all(harness.advance_to(80.0))
    assert harness.engine.cluster.node_of("uid-default-high") == "n"


def test_nobody_waits_at_a_place_that_is_not_to_be_free_for_years() -> None:
    """What its owner wrote of it looks as if an earlier run of ours had evicted it."""
    harness = EngineHarness(default_profile(), max_grace_period=100)
    forged = LOW.deleting("2970-01-01T00:00:00Z").with_status(conditions=[EVICTED])
    harness.observe(a_node("n").offers(cpu=1), forged)
    harness.start()
    harness.now = 10.0
    harness.observe(HIGH.nominated_to("n"))
    harness.run()
    assert deletes(harness) == [("low", 100)]
