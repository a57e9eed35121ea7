"""Answers that come when the job, its pods or its PodGroup are gone: they change nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.builders import a_node
from tests.faults.injector import FaultInjector
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.jobs import JOBS, JobHarness, task
from tests.simulation.harnesses.late_answers import Story
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME

JOB = f"{JOBS}/j"


def _make() -> tuple[JobHarness, FaultInjector]:
    sim = JobHarness()
    sim.create(a_node("n1").offers(cpu=8))
    sim.cluster.create(a_queue_manifest("team", capability={"cpu": "8"}))
    return sim, sim.job_faults


async def _live(sim: SimulationHarness) -> None:
    """A job runs, loses a pod, and is scaled."""
    assert isinstance(sim, JobHarness)
    sim.job(
        "j", task(replicas=2), plugins={"svc": []}, on={"PodEvicted": "RestartPod"}, queue="team"
    )
    async with sim.at_work() as controller:
        await asyncio.sleep(20)
        if "j-w-0" in sim.pods_of_job("j"):
            sim.evict("j-w-0", grace=0)
        await asyncio.sleep(20)
        if sim.cluster.objects("jobs", "batch.volcano.sh"):
            sim.edit("j", {"spec": {"tasks": [task(replicas=3)]}})
        await asyncio.sleep(30)
        assert not controller.work_queue.panics


@pytest.mark.parametrize("owner", [JOB, ""], ids=["the job", "what the answer tells of"])
@pytest.mark.parametrize("anew", [False, True], ids=["is deleted", "is made anew"])
async def test_a_late_answer_changes_nothing(owner: str, anew: bool) -> None:
    assert await Story(_make, _live).tell(owner, anew=anew) > 2
