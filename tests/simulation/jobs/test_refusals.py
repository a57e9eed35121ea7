"""What a Job says of what the server refuses to make for it, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from arranger.embedded.fault_injection import STATUSES, WRITES, Reply, for_resource
from tests.builders import a_node
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME


@pytest.fixture
def stage() -> Iterator[JobHarness]:
    """One node of eight CPUs."""
    stage = JobHarness()
    stage.create(a_node("n1").offers(cpu=8))
    yield stage
    stage.check()


@asynccontextmanager
async def everything(stage: JobHarness) -> AsyncIterator[None]:
    """A scheduler, kubelets and controllers at work."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(stage.kubelets())
        await stack.enter_async_context(stage.scheduler())
        await stack.enter_async_context(stage.controllers())
        yield


@pytest.mark.parametrize("what", ["pods", "podgroups", "services"])
async def test_a_status_says_what_is_refused_until_it_is_not(stage: JobHarness, what: str) -> None:
    stage.job("j", task(replicas=3), plugins={"svc": []})
    denied = stage.job_taps.inject(WRITES & for_resource(what), Reply(403, "Forbidden", "not you"))
    async with everything(stage):
        await stage.until(lambda: stage.reason("j")[0] == "Refused")
        assert stage.reason("j")[1].endswith(": not you")
        written = len(stage.job_taps.received(STATUSES & for_resource("jobs")))
        await asyncio.sleep(20)
        assert len(stage.job_taps.received(STATUSES & for_resource("jobs"))) == written > 0
        async with stage.controllers("heir"):
            await asyncio.sleep(1)
            assert stage.reason("j")[0] == "Refused"
        denied.stop()
        await stage.until_phase("j", "Running", within=120)
        assert stage.reason("j") == ("", "")


async def test_a_running_job_that_is_refused_more_pods_says_so_and_runs_on(
    stage: JobHarness,
) -> None:
    stage.job("j", task(replicas=1))
    async with everything(stage):
        await stage.until_phase("j", "Running")
        denied = stage.job_taps.inject(
            WRITES & for_resource("pods"), Reply(403, "Forbidden", "no more")
        )
        stage.edit("j", {"spec": {"minAvailable": 1, "tasks": [task(replicas=2)]}})
        await stage.until(lambda: stage.reason("j") == ("Refused", "j-w-1: no more"))
        assert stage.phase("j") == "Running"
        denied.stop()
        await stage.until(lambda: stage.reason("j") == ("", ""))


async def test_a_job_that_is_refused_is_left_in_peace_while_it_goes(stage: JobHarness) -> None:
    stage.job("j", task())
    stage.job_taps.inject(WRITES & for_resource("pods"), Reply(403, "Forbidden", "no"))
    async with everything(stage):
        await stage.until(lambda: stage.reason("j")[0] == "Refused")
        stage.edit("j", {"metadata": {"finalizers": ["example.com/later"]}})
        stage.delete_job("j")
        await asyncio.sleep(10)
        assert stage.reason("j")[0] == "Refused"
        stage.edit("j", {"metadata": {"finalizers": []}})
        await asyncio.sleep(1)
        assert not stage.cluster.objects("jobs", "batch.volcano.sh")
