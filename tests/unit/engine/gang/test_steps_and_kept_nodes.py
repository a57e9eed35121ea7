"""What is kept for others counts for members that got their nodes in an earlier step as well."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.effects import Applied, Bind
from arranger.api.types.reservation import Reservation
from arranger.engine.gang.attempt import attempts
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.unit.engine.gang.test_planned_starts import gang, policy, running, starts, waiting
from tests.unit.engine.harness import EngineHarness
from tests.unit.engine.reservations.test_reservations import reserved

LIMIT = "arranger.io/max-run-time"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "STEP_UNITS", 250)


def step(harness: EngineHarness, now: float) -> list[str]:
    """One step; who is bound where by it."""
    harness.now = now
    effects = harness.engine.run(now, seconds=1e9, limit=1)
    bound = [effect for effect in effects if isinstance(effect, Bind)]
    for effect in bound:
        harness.engine.on_outcome(effect, Applied(), now)
    harness.engine.check_consistent()
    return [effect.node for effect in bound]


def settle(harness: EngineHarness, now: float) -> list[str]:
    nodes = list[str]()
    for _ in range(100):
        nodes += step(harness, now)
        if not harness.engine.ready:
            return nodes
    raise AssertionError("it never comes to an end")


def cluster(*, limit: str | None = None, cpu: int = 1) -> EngineHarness:
    """Twelve nodes, and a gang of twelve of which some have got nodes in a first step."""
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(f"n{n}").offers(cpu=8) for n in range(12)))
    harness.run()
    for n in range(12):
        pod = a_pod(f"p{n}").needs(cpu=cpu).in_gang("g", 12)
        harness.observe(pod if limit is None else pod.annotated({LIMIT: limit}))
    return harness


FIRST = [f"n{n}" for n in range(6)]
#: What is reserved before the first step and before the second one, at 50, and the pods' limit.
KEPT: dict[str, tuple[list[Reservation], list[Reservation], str | None]] = {
    "one is made": ([], [reserved("r", 0, 500, *FIRST)], None),
    "one is edited, and keeps other nodes": (
        [reserved("r", 0, 500, "other")],
        [reserved("r", 0, 500, *FIRST)],
        None,
    ),
    "one is edited, and holds now": (
        [reserved("r", 400, 500, *FIRST)],
        [reserved("r", 0, 500, *FIRST)],
        None,
    ),
    "the window of one opens": ([reserved("r", 120, 500, *FIRST)], [], None),
    "one comes too near for their limit": ([reserved("r", 300, 500, *FIRST)], [], "4m10s"),
}


@pytest.mark.parametrize(("before", "after", "limit"), KEPT.values(), ids=KEPT.keys())
def test_no_member_stays_on_a_node_that_is_reserved_since(
    before: list[Reservation], after: list[Reservation], limit: str | None
) -> None:
    harness = cluster(limit=limit)

    def show(objects: list[Reservation]) -> None:
        for each in objects:
            harness.engine.handlers.on_object_updated(each, harness.now)

    show(before)
    assert step(harness, 1.0) == []
    assert harness.entity("p0").suspended is not None
    harness.now = 51.0
    show(after)
    nodes = settle(harness, 51.0)
    assert len(nodes) == 12
    assert not set(nodes) & set(FIRST)


def test_where_nothing_is_kept_from_them_the_attempt_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Any] = []
    cycle = attempts.GangSchedulingCycle
    steps = cycle.steps
    monkeypatch.setattr(cycle, "steps", lambda self, entity: begun.append(1) or steps(self, entity))
    harness = cluster()
    step(harness, 1.0)
    harness.engine.handlers.on_object_updated(reserved("r", 0, 500, "other"), 1.0)
    assert len(settle(harness, 2.0)) == 12
    assert len(begun) == 1


#: When the next step comes, and whether the gang is bound then.
TIMES = {"early enough": (190.0, True), "too late": (210.0, False)}


@pytest.mark.parametrize(("second", "placed"), TIMES.values(), ids=TIMES.keys())
def test_a_planned_start_that_came_nearer_is_not_delayed(second: float, placed: bool) -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(a_node("n0").offers(cpu=12), running("a", "n0", 6, 600))
    harness.observe(*gang("big", 12))
    waiting(harness)
    assert starts(harness) == {"big": (600.0, "KnownEnds")}
    for n in range(6):  # the first three get nodes first
        large = n < 3
        pod = a_pod(f"small-{n}").needs(cpu="1" if large else "500m").in_gang("small", 6)
        harness.observe(pod.with_spec(activeDeadlineSeconds=400 if large else 50))
    assert step(harness, 150.0) == []
    assert harness.entity("small-0").suspended is not None
    assert len(settle(harness, second)) == (6 if placed else 0)
