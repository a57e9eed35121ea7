"""What a Job says of what the server refuses to make for it, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.injector import STATUSES, WRITES, for_resource
from tests.faults.kinds import Reply
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME


@pytest.mark.parametrize("what", ["pods", "podgroups", "services"])
async def test_a_status_says_what_is_refused_until_it_is_not(sim: JobHarness, what: str) -> None:
    sim.job("j", task(replicas=3), plugins={"svc": []})
    denied = sim.job_faults.inject(WRITES & for_resource(what), Reply(403, "Forbidden", "not you"))
    async with sim.at_work():
        await sim.until(lambda: sim.reason("j")[0] == "Refused")
        assert sim.reason("j")[1].endswith(": not you")
        written = len(sim.job_faults.received(STATUSES & for_resource("jobs")))
        await asyncio.sleep(20)
        assert len(sim.job_faults.received(STATUSES & for_resource("jobs"))) == written > 0
        async with sim.controllers("heir"):
            await asyncio.sleep(1)
            assert sim.reason("j")[0] == "Refused"
        denied.stop()
        await sim.until_phase("j", "Running", within=120)
        assert sim.reason("j") == ("", "")


async def test_a_running_job_that_is_refused_more_pods_says_so_and_runs_on(
    sim: JobHarness,
) -> None:
    sim.job("j", task(replicas=1))
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        denied = sim.job_faults.inject(
            WRITES & for_resource("pods"), Reply(403, "Forbidden", "no more")
        )
        sim.edit("j", {"spec": {"minAvailable": 1, "tasks": [task(replicas=2)]}})
        await sim.until(lambda: sim.reason("j") == ("Refused", "j-w-1: no more"))
        assert sim.phase("j") == "Running"
        denied.stop()
        await sim.until(lambda: sim.reason("j") == ("", ""))


async def test_a_job_that_is_refused_is_left_in_peace_while_it_goes(sim: JobHarness) -> None:
    sim.job("j", task())
    sim.job_faults.inject(WRITES & for_resource("pods"), Reply(403, "Forbidden", "no"))
    async with sim.at_work():
        await sim.until(lambda: sim.reason("j")[0] == "Refused")
        sim.edit("j", {"metadata": {"finalizers": ["example.com/later"]}})
        sim.delete_job("j")
        await asyncio.sleep(10)
        assert sim.reason("j")[0] == "Refused"
        sim.edit("j", {"metadata": {"finalizers": []}})
        await asyncio.sleep(1)
        assert not sim.cluster.objects("jobs", "batch.volcano.sh")
