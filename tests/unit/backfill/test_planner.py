"""The earliest start of a gang is that of a model in plain Python, whatever is planned already."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import pytest

from arranger.backfill.planner import Planner
from arranger.backfill.run_times import Basis
from arranger.backfill.spare import SpareRoom, names_of
from arranger.cluster.columns import CPU, MEMORY, PODS
from arranger.engine.context.entity import QueuedPod
from arranger.engine.gang.planning.needs import Need, Needs, nearest_to_empty
from arranger.engine.gang.steps import at_once
from tests.builders import a_pod
from tests.unit.backfill.worlds import NOW, Both, random_worlds, running

SEEDS = range(100)


def plan_some(both: Both, gangs: int) -> int:
    """Plan gangs one after the other, each compared with the model; returns how many start."""
    rng, starts = both.rng, 0
    rows = range(both.table.size)
    for _ in range(gangs):
        cpu, memory, count = rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 5)
        lasts = rng.choice((math.inf, float(rng.randint(1, 25))))
        allowed = sorted(rng.sample(rows, rng.randint(1, len(rows))))
        demand = both.demand(cpu, memory, count, allowed)
        claim = at_once(Planner(both.timeline, NOW, both.claims).earliest([demand], lasts))
        expected = both.world.earliest((cpu * 1000, memory, 1), count, lasts, NOW, allowed)
        assert (None if claim is None else claim.start) == expected
        if claim is None:
            continue
        starts += 1
        assert claim.end == claim.start + lasts
        assert set(claim.rows.tolist()) <= set(allowed)
        assert int(claim.amounts[PODS].sum()) == count
        assert claim.known
        assert Planner(both.timeline, NOW, both.claims).still_fits(claim)
        both.claim(claim)
        for n in rows:  # nothing is planned that is not there
            for at in both.world.moments(NOW, math.inf):
                assert min(both.world.free(n, at)) >= 0
    return starts


def test_each_gang_is_planned_at_the_earliest_time_that_all_of_it_fits() -> None:
    starts = sum(plan_some(random_worlds(seed), 5) for seed in SEEDS)
    assert starts > len(SEEDS), "most of them are tried in earnest"


def test_a_gang_of_two_kinds_gets_room_for_both_at_once() -> None:
    found = 0
    for seed in SEEDS:
        both = random_worlds(seed)
        rows = list(range(both.table.size))
        demands = [both.demand(2, 2, 2, rows), both.demand(1, 1, 2, rows)]
        alone = both.world.earliest((2000, 2, 1), 2, math.inf, NOW, rows)
        claim = at_once(Planner(both.timeline, NOW).earliest(demands))
        if claim is not None:
            found += 1
            assert alone is not None
            assert alone <= claim.start
            both.claim(claim)
            assert all(min(both.world.free(n, claim.start)) >= 0 for n in rows)
    assert found > len(SEEDS) // 4


def test_who_may_start_now_is_who_delays_no_start_of_the_model() -> None:
    refused = let = 0
    for seed in SEEDS:
        both = random_worlds(seed)
        plan_some(both, 3)
        claims = {f"g{n}": claim for n, claim in enumerate(both.claims)}
        spare = SpareRoom(both.timeline, claims, names_of(both.table, both.claims))
        spare.start(NOW)
        for _ in range(10):
            rng = both.rng
            cpu, memory = rng.randint(1, 3), rng.randint(1, 4)
            end = rng.choice((math.inf, NOW + rng.randint(1, 40)))
            vector = [CPU, MEMORY, PODS], [cpu * 1000, memory, 1]
            found = spare.rows_in_the_way(*vector, end, frozenset(), "").values()
            bad = {row for rows in found for row in rows.tolist()}
            for n in range(both.table.size):
                if both.world.capacity(n, (cpu * 1000, memory, 1), NOW, NOW + 1e-3) < 1:
                    continue  # it does not fit now
                late = both.world.delays(n, (cpu * 1000, memory, 1), NOW, end)
                assert (n in bad) == late, (seed, n)
                refused, let = refused + late, let + (not late)
        spare.check_consistent(NOW)
    assert refused > 100
    assert let > 100


@pytest.mark.parametrize("longest", [0.0, 12.0], ids=["at one time", "and time, with pods late"])
def test_what_is_spare_follows_the_pods_that_come_and_go(longest: float) -> None:
    for seed in SEEDS:
        now = NOW
        both = random_worlds(seed)
        plan_some(both, 3)
        claims = {f"g{n}": claim for n, claim in enumerate(both.claims)}
        spare = SpareRoom(both.timeline, claims, names_of(both.table, both.claims))
        spare.start(now)
        for n in range(4 + int(longest)):
            now += both.rng.uniform(0, longest)
            row = both.rng.randrange(both.table.size)
            pods = list(both.table.pods[row].values())
            if longest and both.rng.random() < 0.5:
                pass  # only time has passed
            elif pods and both.rng.random() < 0.5:
                both.table.remove_pod(both.rng.choice(pods), row)
            else:
                both.table.add_pod(running(f"new-{n}", 1, now, both.rng.choice((None, 9))), row)
            spare.follow(both.timeline.refresh(now), now)
            both.timeline.check_consistent()
            spare.check_consistent(now)


@pytest.mark.parametrize("least", Basis)
def test_a_pod_without_a_limit_never_ends(least: Basis) -> None:
    both = random_worlds(0)
    row = 0
    both.table.add_pod(running("for-ever", 9, NOW, None), row)
    both.timeline.refresh(NOW)
    demand = both.demand(8, 1, 1, [row])
    assert at_once(Planner(both.timeline, NOW, least=least).earliest([demand])) is None


def test_what_many_kinds_take_is_counted_however_few_the_nodes_are() -> None:
    both = random_worlds(1)
    table = both.table
    rows = list(range(table.size))
    demands = [both.demand(0, 0, 0, rows) for _ in range(500)]
    assert sum(Planner(both.timeline, NOW).earliest(demands)) >= 500 * 50
    member = cast("QueuedPod", SimpleNamespace(pod=a_pod("p").needs(cpu=1).info()))
    needs = Needs([Need(member, demand) for demand in demands], math.inf)
    assert sum(nearest_to_empty(needs, table)) >= 500 * 50
