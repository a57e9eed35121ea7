"""A gang that cannot start delays others for a stated time only, and on part of the nodes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from arranger.api.effects import Effect
from arranger.engine.gang.planning.reservation_budget import (
    MAX_PENALTY,
    MIN_PAUSE,
    ReservationBudget,
)
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, placements

AFTER, LASTS = 40.0, 100.0
#: Who was refused is tried again this much later at most.
BACKOFF = 10.0
RED = frozenset({"red"})


def gang(name: str, size: int, cpu: int = 4, namespace: str = "default") -> list[PodBuilder]:
    pods = [a_pod(f"{name}-{n}").in_namespace(namespace).needs(cpu=cpu) for n in range(size)]
    return [pod.in_gang(name, size) for pod in pods]


def crowded(nodes: int, percent: int = 100) -> EngineHarness:
    """Nodes of 4 CPU; on each a pod of one that never ends."""
    policy = GangPolicy(
        starvation_after=AFTER, reservation_seconds=LASTS, reservation_max_nodes_percent=percent
    )
    harness = EngineHarness(default_profile(), gangs=policy)
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(nodes)))
    harness.observe(*(a_pod(f"old-{n}").needs(cpu=1).on(f"n{n}") for n in range(nodes)))
    return harness


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


def starve(harness: EngineHarness) -> None:
    """Until nodes are kept for who waits."""
    for _ in range(3):
        harness.advance_to(harness.now + AFTER)


def test_the_nodes_are_given_back_when_the_time_is_over_though_nothing_happens() -> None:
    harness = crowded(2)
    harness.observe(*gang("never", 2))
    starve(harness)
    harness.observe(a_pod("small").needs(cpu=1))
    assert bound(harness.run()) == set()
    at = harness.engine.next_timer()
    assert at is not None
    assert at <= harness.now + LASTS
    assert bound(harness.advance_to(harness.now + LASTS)) == {"small"}


def test_then_nothing_is_kept_for_as_long() -> None:
    harness = crowded(2)
    harness.observe(*gang("never", 2))
    starve(harness)
    over = harness.now + LASTS
    harness.advance_to(over)
    for n in range(3):
        harness.now = over + n * LASTS / 4
        harness.run()
        harness.observe(a_pod(f"small-{n}").needs(cpu=1))
        assert bound(harness.run()) == {f"small-{n}"}, n


def test_when_that_is_over_the_next_one_is_planned_though_nothing_happens() -> None:
    harness = crowded(2)
    harness.observe(*gang("never", 2))
    starve(harness)
    harness.observe(*gang("next", 2, namespace="blue"))
    over = harness.now + LASTS
    harness.advance_to(over)
    for n in range(1, 4):
        harness.advance_to(over + n * AFTER)
    harness.observe(a_pod("small").needs(cpu=1))
    assert bound(harness.run()) == set()
    assert harness.now < over + LASTS + AFTER


def test_nothing_is_kept_for_as_long_as_nodes_were() -> None:
    harness = crowded(2)
    never = gang("never", 2)
    harness.observe(*never)
    starve(harness)
    harness.observe(*gang("next", 2, namespace="blue"))
    harness.advance_to(harness.now + 1)
    kept_since = harness.now - 1 - AFTER
    harness.observe_deleted(*never)
    harness.run()
    gone = harness.now
    for _ in range(4):
        timer = harness.engine.next_timer()
        harness.advance_to(min(timer or gone + AFTER, gone + AFTER + MIN_PAUSE))
    harness.now = gone + AFTER + MIN_PAUSE
    harness.run()
    harness.observe(a_pod("small").needs(cpu=1))
    assert bound(harness.run()) == set(), "it is kept for the next one"
    assert kept_since < gone < kept_since + LASTS


@pytest.mark.parametrize(("percent", "kept"), [(50, True), (49, False), (0, False)])
def test_no_more_than_a_part_of_the_nodes_is_kept(percent: int, kept: bool) -> None:
    harness = crowded(4, percent)
    harness.observe(*gang("never", 2))
    starve(harness)
    harness.observe(*(a_pod(f"small-{n}").needs(cpu=3) for n in range(4)))
    assert len(bound(harness.run())) == (2 if kept else 4)


def test_one_node_may_always_be_kept() -> None:
    harness = crowded(2, 0)
    harness.observe(*gang("never", 1))
    starve(harness)
    harness.observe(*(a_pod(f"small-{n}").needs(cpu=3) for n in range(2)))
    assert len(bound(harness.run())) == 1


@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_delayed_for_longer_than_nodes_are_kept(seed: int) -> None:
    """However many gangs come and go, a pod that fits is bound within that time."""
    rng, harness = random.Random(seed), crowded(3)
    waiting: dict[str, float] = {}
    gangs: list[list[PodBuilder]] = []
    worst, made = 0.0, 0
    while harness.now < 20 * LASTS:
        if not gangs or (rng.random() < 0.3 and len(gangs) < 5):
            made += 1
            gangs.append(gang(f"never-{made}", rng.randint(1, 3), namespace=rng.choice("ab")))
            harness.observe(*gangs[-1])
        elif rng.random() < 0.2:
            harness.observe_deleted(*gangs.pop(rng.randrange(len(gangs))))
        if rng.random() < 0.5 and len(waiting) < 3:
            made += 1
            pod = a_pod(f"small-{made}").needs(cpu=1)
            waiting[f"small-{made}"] = harness.now
            harness.observe(pod)
        done = harness.run()
        timer, later = harness.engine.next_timer(), harness.now + rng.choice((1.0, 10.0, AFTER))
        soon = timer is not None and harness.now < timer < later
        done += harness.advance_to(timer if soon and timer is not None else later)
        for name in bound(done):
            worst = max(worst, harness.now - waiting.pop(name))
            harness.observe_deleted(a_pod(name))
    assert worst > 0, "somebody waited"
    assert worst <= LASTS + BACKOFF
    assert all(harness.now - since <= LASTS + BACKOFF for since in waiting.values())


def test_a_namespace_whose_gangs_have_nodes_in_vain_waits_longer_each_time() -> None:
    budget, now = ReservationBudget(GangPolicy(reservation_seconds=LASTS)), 0.0
    waits = []
    for _ in range(3):
        while not budget.allows(RED, now):
            now += LASTS / 10
        budget.keep({"g"}, now)
        budget.on_ended_in_vain(RED, now + LASTS)
        now += LASTS
        waits.append(next(n for n in range(1000) if budget.allows(RED, now + n * LASTS / 10)))
    assert waits == [20, 40, 80]
    assert budget.allows(frozenset({"blue"}), now + LASTS), "others need not"


@pytest.mark.parametrize(
    ("kept", "paused"), [(0.0, MIN_PAUSE), (MIN_PAUSE + 7, MIN_PAUSE + 7), (2 * LASTS, LASTS)]
)
def test_the_pause_is_as_long_as_nodes_were_kept(kept: float, paused: float) -> None:
    budget, blue = ReservationBudget(GangPolicy(reservation_seconds=LASTS)), frozenset({"blue"})
    budget.keep({"g"}, 0)
    budget.on_ended_in_vain(RED, kept)
    assert not budget.allows(blue, kept + paused - 1)
    assert budget.allows(blue, kept + paused)
    assert budget.allowed_at(RED) == kept + 2 * paused


@pytest.mark.parametrize("lasts", [1.0, MIN_PAUSE / 2])
def test_the_pause_is_half_a_minute_though_nodes_are_kept_for_less(lasts: float) -> None:
    budget, blue = ReservationBudget(GangPolicy(reservation_seconds=lasts)), frozenset({"blue"})
    budget.keep({"g"}, 0)
    budget.on_ended_in_vain(RED, lasts)
    assert budget.allowed_at(blue) == lasts + MIN_PAUSE
    assert budget.allowed_at(RED) == lasts + 2 * MIN_PAUSE


def test_a_gang_that_starts_ends_the_penalty() -> None:
    budget = ReservationBudget(GangPolicy(reservation_seconds=LASTS))
    budget.keep({"g"}, 0)
    budget.on_ended_in_vain(RED, LASTS)
    budget.keep({"g"}, 1000)
    budget.on_started("g", RED, frozenset())
    assert budget.allows(RED, 1000)
    assert budget.ends_at() is None


@pytest.mark.parametrize(
    "then", [{"never", "small"}, {"never"}, {"made after never was deleted", "small"}]
)
def test_who_starts_gives_others_no_more_time(then: set[str]) -> None:
    budget = ReservationBudget(GangPolicy(reservation_seconds=LASTS))
    budget.keep({"never"}, 0)
    budget.keep({"never", "small"}, 10)
    budget.keep(then, 50)
    budget.on_started("small", RED, RED)
    assert budget.ends_at() == LASTS


def test_what_was_kept_for_who_starts_counts_no_more() -> None:
    budget = ReservationBudget(GangPolicy(reservation_seconds=LASTS))
    budget.keep({"first"}, 0)
    budget.keep({"first", "later"}, 30)
    budget.on_started("first", RED, RED)
    assert budget.ends_at() == 30 + LASTS


def test_a_penalty_stays_while_nodes_are_kept_for_another_gang_of_the_namespace() -> None:
    budget = ReservationBudget(GangPolicy(reservation_seconds=LASTS))
    budget.keep({"never"}, 0)
    budget.on_ended_in_vain(RED, LASTS)
    budget.keep({"never", "small"}, 1000)
    budget.on_started("small", RED, RED)
    budget.on_ended_in_vain(RED, 1000 + LASTS)
    assert budget.allowed_at(RED) == 1000 + LASTS + 4 * LASTS, "the second time"


def test_small_gangs_that_start_meanwhile_keep_no_nodes_for_one_that_never_does() -> None:
    """Their owner lets one of them start whenever he likes."""
    policy = GangPolicy(
        starvation_after=AFTER,
        reservation_seconds=LASTS,
        reservation_max_nodes_percent=100,
        planned_gangs=2,
    )
    harness = EngineHarness(default_profile(), gangs=policy)
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(4)))
    harness.observe(*(a_pod(f"old-{n}").needs(cpu=1).on(f"n{n}") for n in range(4)))
    harness.observe(*(pod.with_priority(2) for pod in gang("never", 3, namespace="evil")))
    hostname, waits, most, starts = "kubernetes.io/hostname", 0.0, 0.0, 0
    for n in range(1, 100):
        if n % 8 == 1:  # the last small one has started; the next one waits for its port
            block = a_pod(f"block-{n}").in_namespace("evil").host_port(77).on("n3")
            name = f"small-{n}"
            (small,) = gang(name, 1, cpu=0, namespace="evil")
            small = small.selects({hostname: "n3"}).host_port(77).with_priority(1)
            harness.observe(block, small)
        if n % 8 == 7:
            harness.observe_deleted(block)
        probe = a_pod(f"probe-{n}").needs(cpu=3)
        harness.observe(probe)
        started = bound(harness.advance_to(10.0 * n))
        waits = 0.0 if f"probe-{n}" in started else waits + 10.0
        most, starts = max(most, waits), starts + (f"{name}-0" in started)
        harness.observe_deleted(probe, *([small] if f"{name}-0" in started else []))
    assert starts > 5
    assert 0 < most <= LASTS


def test_no_penalty_is_longer_than_a_day() -> None:
    budget, now = ReservationBudget(GangPolicy()), 0.0
    for _ in range(50):
        budget.keep({"g"}, now)
        now += 600
        budget.on_ended_in_vain(RED, now)
        now += MAX_PENALTY
        assert budget.allows(RED, now)
