"""Pods of TYJobs that end as they are evicted, and pods that go when they have ended."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.harnesses.tyjobs import FIRST, LEADER, SECOND, TYJobHarness
from tests.simulation.tyjobs.test_tyjobs import ending
from tests.tyjobs import a_template, a_tyjob

pytestmark = VIRTUAL_TIME

HOLD = "example.com/hold"
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize("marked", [True, False], ids=["evicted", "deleted"])
async def test_a_leader_that_has_to_go_and_exits_with_0_has_not_done_its_work(
    sim: TYJobHarness, marked: bool
) -> None:
    sim.nodes("n1")
    sim.submit(restartLimit=0)
    async with sim.at_work():
        await sim.until_stage("Running")
        lost = sim.pod(LEADER)["metadata"]["uid"]
        sim.patch("pod", LEADER, {"metadata": {"finalizers": [HOLD]}})
        if marked:
            conditions = [*sim.pod(LEADER)["status"]["conditions"], DISRUPTED]
            sim.patch("pod", LEADER, {"status": {"conditions": conditions}}, sub="/status")
        sim.delete("pod", LEADER, grace=30)
        await asyncio.sleep(3)
        sim.patch("pod", LEADER, {"status": {"phase": "Succeeded"}}, sub="/status")
        await asyncio.sleep(1)
        sim.patch("pod", LEADER, {"metadata": {"finalizers": None}})
        await sim.until_stage("Running")
        assert sim.stages() == ["Pending", "Starting", "Running", "Rescheduling", "Running"]
        assert sim.pod(LEADER)["metadata"]["uid"] != lost
        assert sim.status()["restarts"] == 0


async def test_a_set_that_comes_back_is_not_given_up_for_what_another_did(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1", cpu=8)
    job = a_tyjob(restartLimit=0, workers=1)
    actor = job["spec"]["workerSets"][0]
    failing, good = ({"name": "eval", "template": each} for each in (ending(5, 1), a_template()))
    job["spec"]["workerSets"].append({**failing, "counts": 2})
    sim.cluster.create(job)
    evals = ["job-eval-0", "job-eval-1"]
    async with sim.at_work():
        counted = dict.fromkeys(evals, 1)
        await sim.until(lambda: sim.status().get("workerRestarts") == counted)
        sim.edit(workerSets=[actor])
        await sim.until(lambda: "workerRestarts" not in sim.status())
        sim.edit(workerSets=[actor, {**good, "counts": 2}])
        await sim.until(lambda: sim.status()["readyWorkers"] == 3)
        assert "workerRestarts" not in sim.status()


async def test_a_worker_that_was_given_up_is_tried_again_when_its_set_grows_back(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1")
    sim.submit(workers=2, restartLimit=0)
    async with sim.at_work():
        await sim.until(lambda: sim.status().get("readyWorkers") == 2)
        sim.patch("pod", SECOND, {"status": {"phase": "Failed"}}, sub="/status")
        await sim.until(lambda: sim.status().get("workerRestarts") == {SECOND: 1})
        (actor,) = sim.job()["spec"]["workerSets"]
        sim.edit(workerSets=[{**actor, "counts": 1}])
        await sim.until(lambda: SECOND not in sim.pods())
        sim.edit(workerSets=[{**actor, "counts": 2}])
        await sim.until(lambda: sim.status()["readyWorkers"] == 2)
        assert "workerRestarts" not in sim.status()


# --- workers that are through ------------------------------------------------------------------


async def _one_through(sim: TYJobHarness) -> None:
    """A job that needs both its workers runs, and the first of them is through."""
    await sim.until(lambda: sim.status().get("readyWorkers") == 2)
    sim.patch("pod", FIRST, {"status": {"phase": "Succeeded"}}, sub="/status")
    await sim.until(lambda: sim.status().get("succeededWorkers") == {"actor": "0"})


async def _one_through_and_gone(sim: TYJobHarness) -> None:
    """The same, and the pod of the first has been removed."""
    await _one_through(sim)
    sim.delete("pod", FIRST)
    await asyncio.sleep(5)


@pytest.mark.parametrize("restart", [False, True], ids=["", "the controller starts anew"])
async def test_a_worker_that_is_through_is_not_made_again_when_its_pod_is_removed(
    sim: TYJobHarness, restart: bool
) -> None:
    sim.nodes("n1")
    sim.submit(workers=2, least=2)
    async with sim.scheduler(), sim.kubelets():
        async with sim.controller():
            await _one_through(sim)
            if not restart:
                sim.delete("pod", FIRST)
                await asyncio.sleep(20)
        if restart:
            sim.delete("pod", FIRST)
        async with sim.controller():
            await asyncio.sleep(20)
            assert sim.pods().keys() == {LEADER, SECOND}
            assert sim.stages() == ["Pending", "Starting", "Running"]
            assert sim.status()["scheduleState"] == "ScheduledSucceed"


def _uid(sim: TYJobHarness, name: str) -> str:
    return str(sim.pod(name)["metadata"]["uid"])


async def test_a_gang_does_not_wait_for_a_worker_that_is_through_and_gone(
    sim: TYJobHarness,
) -> None:
    sim.nodes("n1")
    sim.submit(workers=2, least=2)
    async with sim.at_work():
        await _one_through_and_gone(sim)
        lost = _uid(sim, SECOND)
        sim.delete("pod", SECOND)
        await sim.until(lambda: SECOND in sim.pods() and _uid(sim, SECOND) != lost)
        await sim.until(lambda: sim.node_of(SECOND) == "n1")
        assert sim.pods().keys() == {LEADER, SECOND}


async def test_the_next_leader_has_all_its_workers_again(sim: TYJobHarness) -> None:
    sim.nodes("n1")
    sim.submit(workers=2, least=2)
    async with sim.at_work():
        await _one_through_and_gone(sim)
        sim.delete("pod", LEADER)
        await sim.until(lambda: sim.status()["readyWorkers"] == 2)
        assert sim.pods().keys() == {LEADER, FIRST, SECOND}
        assert "succeededWorkers" not in sim.status()
