"""Jobs that become smaller and larger again before their pods are gone, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, Object

pytestmark = VIRTUAL_TIME

#: What the job is made smaller to.
SMALLER: dict[str, list[Object]] = {
    "fewer pods": [task("a", 1), task(replicas=2)],
    "a task less": [task("a", 1)],
}


@pytest.mark.parametrize("action", ["AbortJob", "RestartJob", "RestartPod"])
@pytest.mark.parametrize("tasks", SMALLER.values(), ids=SMALLER)
async def test_pods_that_a_job_has_dropped_itself_are_no_eviction(
    sim: JobHarness, tasks: list[Object], action: str
) -> None:
    sim.may_repeat_pods.add("j")
    whole = [task("a", 1), task(replicas=3)]
    sim.job("j", *whole, on={"PodEvicted": action}, minAvailable=1)
    async with sim.at_work():
        await sim.until(lambda: sim.status("j").get("running") == 4)
        before = sim.pod("j-w-2")["metadata"]["uid"]
        sim.patch("pod", "j-w-2", {"metadata": {"finalizers": ["example.com/slow"]}})
        sim.edit("j", {"spec": {"tasks": tasks}})
        await sim.until(lambda: "deletionTimestamp" in sim.pod("j-w-2")["metadata"])
        await asyncio.sleep(2)
        sim.edit("j", {"spec": {"tasks": whole}})
        await asyncio.sleep(5)
        assert (sim.phase("j"), sim.status("j")["terminating"]) == ("Running", 1)
        sim.patch("pod", "j-w-2", {"metadata": {"finalizers": None}})
        await sim.until(lambda: sim.status("j")["running"] == 4)
        assert sim.pod("j-w-2")["metadata"]["uid"] != before
        assert (sim.status("j")["version"], sim.phase("j")) == (0, "Running")
        # From now on it is one like the others.
        sim.evict("j-w-2")
        await sim.until(lambda: sim.status("j")["version"] == 1)


async def test_a_restart_does_not_wait_for_pods_that_were_dropped(sim: JobHarness) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(replicas=3), on={"PodEvicted": "RestartPod"}, minAvailable=1)
    async with sim.at_work():
        await sim.until(lambda: sim.status("j").get("running") == 3)
        sim.patch("pod", "j-w-2", {"metadata": {"finalizers": ["example.com/slow"]}})
        sim.edit("j", {"spec": {"tasks": [task(replicas=2)]}})
        await sim.until(lambda: "deletionTimestamp" in sim.pod("j-w-2")["metadata"])
        await asyncio.sleep(2)
        sim.edit("j", {"spec": {"tasks": [task(replicas=3)]}})
        sim.evict("j-w-0", grace=0)
        await sim.until(lambda: sim.status("j")["version"] == 1)
        await sim.until(lambda: sim.status("j")["running"] == 2)
        assert sim.phase("j") == "Running"
        sim.patch("pod", "j-w-2", {"metadata": {"finalizers": None}})
        await sim.until(lambda: sim.status("j")["running"] == 3)


async def test_a_pod_that_was_to_be_dropped_goes_though_the_job_has_become_larger_again(
    sim: JobHarness,
) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(replicas=3), on={"PodEvicted": "AbortJob"}, minAvailable=1)
    async with sim.kubelets(), sim.scheduler():
        async with sim.controllers("one"):
            await sim.until(lambda: sim.status("j").get("running") == 3)
            before = sim.pod("j-w-2")["metadata"]["uid"]
            sim.edit("j", {"spec": {"tasks": [task(replicas=2)]}})
            await sim.until(lambda: "pods-dropped" in str(sim.status("j")["controlledResources"]))
            sim.kill("one")
        sim.edit("j", {"spec": {"tasks": [task(replicas=3)]}})
        async with sim.controllers("two"):
            await sim.until(lambda: "j-w-2" in sim.pods_of_job("j") and _uid(sim) != before)
            await sim.until(lambda: sim.status("j")["running"] == 3)
            assert sim.status("j")["version"] == 0


def _uid(sim: JobHarness) -> str:
    return str(sim.pod("j-w-2")["metadata"]["uid"])
