"""Answers that come when the TYJob, its pods or its Service are gone: they change nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.injector import FaultInjector
from tests.simulation.harnesses.late_answers import Story
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness
from tests.simulation.harnesses.tyjobs import FIRST, JOBS, TYJobHarness

pytestmark = VIRTUAL_TIME

JOB = f"{JOBS}/job"


def _make() -> tuple[TYJobHarness, FaultInjector]:
    sim = TYJobHarness()
    sim.nodes("n1", cpu=8)
    return sim, sim.controller_faults


async def _live(sim: SimulationHarness) -> None:
    """A job runs, loses a worker, and is edited."""
    assert isinstance(sim, TYJobHarness)
    sim.submit(workers=2, least=1)
    async with sim.scheduler(), sim.kubelets(), sim.controller():
        await asyncio.sleep(20)
        if FIRST in sim.pods():
            sim.patch("pod", FIRST, {"status": {"phase": "Failed"}}, sub="/status")
        await asyncio.sleep(20)
        if sim.cluster.objects("tyjobs", "arranger.io"):
            sim.edit(minWorkersNum=2, priority=7)
        await asyncio.sleep(30)


@pytest.mark.parametrize("owner", [JOB, ""], ids=["the job", "what the answer tells of"])
@pytest.mark.parametrize("anew", [False, True], ids=["is deleted", "is made anew"])
async def test_a_late_answer_changes_nothing(owner: str, anew: bool) -> None:
    assert await Story(_make, _live).tell(owner, anew=anew) > 2
