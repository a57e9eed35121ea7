"""Jobs whose queue takes no work, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from tests.queueing import QUEUES, a_queue_manifest
from tests.simulation.harnesses.jobs import MERGE, JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME

CLOSED = {"arranger.io/queue-state": "Closed"}
#: The queue of a job → why it takes none.
NO_WORK = {
    "nobody": "Queue <nobody> does not exist",
    "root": "Queue <root> takes no pods: it is the root of all queues",
    "team": "Queue <team> takes no pods: 1 other queue is part of it",
    "closed": "Queue <closed> is not open",
    "below": "Queue <shut> is not open",
}


def _queues(sim: JobHarness) -> None:
    for queue in (
        a_queue_manifest("team"),
        a_queue_manifest("part", parent="team"),
        a_queue_manifest("closed", notes=CLOSED),
        a_queue_manifest("shut", notes=CLOSED),
        a_queue_manifest("below", parent="shut"),
    ):
        sim.cluster.create(queue)


@pytest.mark.parametrize(("queue", "why"), NO_WORK.items(), ids=NO_WORK)
async def test_a_job_is_not_begun_in_a_queue_that_takes_no_work(
    sim: JobHarness, queue: str, why: str
) -> None:
    _queues(sim)
    sim.job("j", task(), queue=queue)
    async with sim.at_work():
        await sim.until(lambda: sim.reason("j") == ("Invalid", why))
        assert sim.events_about("j")["Invalid"] == why
        await asyncio.sleep(10)
        assert sim.pods_of_job("j") == {}


@pytest.mark.parametrize("queue", ["part", "default"])
async def test_a_job_is_begun_in_one_that_takes_some(sim: JobHarness, queue: str) -> None:
    _queues(sim)
    sim.job("j", task(), queue=queue)
    async with sim.at_work():
        await sim.until_phase("j", "Running")


async def test_without_queues_any_name_will_do(sim: JobHarness) -> None:
    sim.job("j", task(), queue="nobody")
    async with sim.at_work():
        await sim.until_phase("j", "Running")


async def test_a_job_begins_when_its_queue_comes(sim: JobHarness) -> None:
    _queues(sim)
    sim.job("j", task(), queue="nobody")
    async with sim.at_work():
        await sim.until(lambda: sim.reason("j")[0] == "Invalid")
        sim.cluster.create(a_queue_manifest("nobody"))
        await sim.until_phase("j", "Running")


async def test_a_job_that_has_begun_goes_on_whatever_becomes_of_its_queue(sim: JobHarness) -> None:
    _queues(sim)
    sim.job("j", task(), queue="part", on={"PodEvicted": "RestartJob"})
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        _set_state(sim, "part", "Closed")
        await asyncio.sleep(5)
        assert sim.phase("j") == "Running"
        sim.annotate("j", "RestartJob")
        await sim.until(lambda: sim.reason("j")[0] == "Unschedulable")
        _set_state(sim, "part", "Open")
        await sim.until_phase("j", "Running")


def _set_state(sim: JobHarness, queue: str, state: str) -> None:
    change = {"metadata": {"annotations": {"arranger.io/queue-state": state}}}
    sim.request("PATCH", f"{QUEUES}/{queue}", change, MERGE)
