"""Random worlds, once as the node table sees them and once for the reference."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from arranger.api.settings.run_time import run_time_limit
from arranger.backfill.history import RunTimeHistory
from arranger.backfill.planner import Claim, Demand
from arranger.backfill.run_times import RunTimes
from arranger.backfill.timeline import Timeline
from arranger.cluster.columns import CPU, MEMORY, PODS
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from tests.builders import a_node, a_pod
from tests.unit.backfill.reference import Taken, World

NOW = 1000.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(name: str, cpu: int, start: float, limit: int | None, memory: int = 1) -> PodInfo:
    """A pod that has run since ``start``; memory in bytes."""
    pod = (
        a_pod(name).needs(cpu=cpu, memory=memory).with_status(phase="Running", startTime=at(start))
    )
    return (pod if limit is None else pod.with_spec(activeDeadlineSeconds=limit)).info()


def run_times(history: RunTimeHistory) -> RunTimes:
    return RunTimes(history, lambda pod: run_time_limit(pod.pod))


def timeline_of(table: NodeTable) -> Timeline:
    return Timeline(table, run_times(RunTimeHistory(lambda pod: "")))


@dataclass
class Both:
    """One world, twice: amounts are (cpu, memory, pods)."""

    rng: random.Random
    table: NodeTable
    timeline: Timeline
    world: World
    claims: list[Claim]

    def demand(self, cpu: int, memory: int, count: int, rows: list[int]) -> Demand:
        suitable = np.zeros(self.table.size, dtype=np.bool_)
        suitable[rows] = True
        return Demand([CPU, MEMORY, PODS], [cpu * 1000, memory, 1], count, suitable)

    def claim(self, claim: Claim) -> None:
        """It is planned from now on, in both worlds."""
        self.claims.append(claim)
        for n, row in enumerate(claim.rows.tolist()):
            amounts = tuple(claim.amounts[[CPU, MEMORY, PODS], n].tolist())
            self.world.taken.append(Taken(row, amounts, claim.start, claim.end))


def random_worlds(seed: int) -> Both:
    """A few nodes with pods on them, of which most end some time."""
    rng, table = random.Random(seed), NodeTable()
    world = World([])
    for n in range(rng.randint(1, 5)):
        cpu, memory, pods = rng.randint(1, 8), rng.randint(4, 20), rng.randint(2, 6)
        row = table.set_node(a_node(f"n{n}").offers(cpu=cpu, memory=memory, pods=pods).build())
        world.nodes.append((cpu * 1000, memory, pods))
        for p in range(rng.randint(0, 4)):
            needs = rng.randint(1, 3), rng.randint(1, 5)
            left = world.free(n, NOW)
            if any(a > b for a, b in zip((needs[0] * 1000, needs[1], 1), left, strict=True)):
                continue
            start = NOW - rng.randint(0, 5)
            limit = rng.choice((None, rng.randint(6, 30), rng.randint(6, 30)))
            table.add_pod(running(f"p{n}-{p}", needs[0], start, limit, needs[1]), row)
            end = float("inf") if limit is None else start + limit
            world.taken.append(Taken(n, (needs[0] * 1000, needs[1], 1), 0.0, end))
    timeline = timeline_of(table)
    timeline.refresh(NOW)
    return Both(rng, table, timeline, world, [])
