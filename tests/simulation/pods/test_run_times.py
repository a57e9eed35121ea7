"""Maximum run times, by the whole scheduler in virtual time: kept to the second, whoever leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.builders import PodBuilder, a_node, a_pod
from tests.faults.injector import from_user
from tests.faults.kinds import Reply
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.preemption import DELETES
from tests.simulation.harnesses.queues import QueueHarness
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME


@pytest.fixture
def sim() -> Iterator[QueueHarness]:
    """A simulation with queues."""
    sim = QueueHarness()
    yield sim
    sim.check()


KEY = "arranger.io/max-run-time"


def limited(name: str, limit: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).annotated({KEY: limit})


def deletes(sim: QueueHarness) -> list[str]:
    """The pods of the deletes that the server carried out, in order."""
    return [write.request.path.split("/")[-1] for write in sim.faults.applied(DELETES)]


async def seconds_until_gone(sim: QueueHarness, name: str) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await sim.until(lambda: name in deletes(sim), within=1000)
    return loop.time() - began


async def test_pods_end_when_they_have_run_so_long(sim: QueueHarness) -> None:
    sim.create(a_node("n1").offers(cpu=8))
    sim.cluster.create(a_queue_manifest("q", notes={KEY: "2m"}))
    async with sim.scheduler(), sim.kubelets():
        mine, theirs = limited("mine", "90s"), a_pod("theirs").needs(cpu=1).in_queue("q")
        sim.create(mine, theirs, a_pod("for-ever").needs(cpu=1))
        await sim.until(lambda: sim.bound() == 3)
        assert 88 <= await seconds_until_gone(sim, "mine") <= 92
        assert 28 <= await seconds_until_gone(sim, "theirs") <= 32
        await asyncio.sleep(3600)
        assert deletes(sim) == ["mine", "theirs"]
        reasons = {e["reason"] for e in sim.cluster.objects("events", "events.k8s.io")}
        assert "MaximumExecutionTimeExceeded" in reasons


async def test_whoever_leads_next_ends_them_in_time(sim: QueueHarness) -> None:
    sim.create(a_node("n1").offers(cpu=8))
    async with sim.kubelets(), sim.scheduler("a"):
        sim.create(limited("p", "90s"))
        await sim.until(lambda: sim.bound() == 1)
        await asyncio.sleep(30)
        sim.kill("a")
        async with sim.scheduler("b"):
            assert 58 <= await seconds_until_gone(sim, "p") <= 62
            await asyncio.sleep(600)
    assert deletes(sim) == ["p"]


async def test_a_delete_that_fails_is_repeated(sim: QueueHarness) -> None:
    sim.create(a_node("n1").offers(cpu=8))
    async with sim.kubelets(), sim.scheduler("one"):
        sim.create(limited("p", "90s"))
        await sim.until(lambda: sim.bound() == 1)
        sim.faults.inject(DELETES & from_user("one"), Reply(403), times=2)
        assert await seconds_until_gone(sim, "p") <= 120
        await asyncio.sleep(600)
    assert deletes(sim) == ["p"]


async def test_a_job_has_it_done_by_its_kubelets(sim: QueueHarness) -> None:
    """What stands on the pod is the smaller, so the scheduler leaves it alone."""
    sim.create(a_node("n1").offers(cpu=8))
    async with sim.kubelets(), sim.scheduler("one"):
        sim.create(limited("p", "90s").with_spec(activeDeadlineSeconds=90))
        await sim.until(lambda: sim.bound() == 1)
        await asyncio.sleep(600)
    assert deletes(sim) == []
