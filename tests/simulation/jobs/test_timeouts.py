"""Policies with a timeout, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME


def _job(sim: JobHarness, event: str, action: str, timeout: str, **more: Any) -> None:
    sim.may_repeat_pods.add("j")
    sim.job("j", task(), **more)
    policies = [{"event": event, "action": action, "timeout": timeout}]
    sim.edit("j", {"spec": {"policies": policies}})


async def test_a_job_runs_for_as_long_as_a_policy_lets_it(sim: JobHarness) -> None:
    _job(sim, "PodRunning", "CompleteJob", "1h")
    async with sim.at_work():
        await sim.until_phase("j", "Running")
        await asyncio.sleep(3500)
        assert sim.phase("j") == "Running"
        await sim.until_phase("j", "Completed", within=120)


async def test_a_pod_that_was_evicted_is_missed_for_the_timeout_whoever_watches(
    sim: JobHarness,
) -> None:
    _job(sim, "PodEvicted", "AbortJob", "10m", minAvailable=1)
    async with sim.kubelets(), sim.scheduler():
        async with sim.controllers("one"):
            await sim.until(lambda: sim.status("j").get("running") == 2)
            sim.evict("j-w-0")
            await asyncio.sleep(300)
            assert sim.pods_of_job("j") == {"j-w-1": "Running"}
        async with sim.controllers("two"):
            await asyncio.sleep(295)
            assert (sim.phase("j"), sim.pods_of_job("j")) == ("Running", {"j-w-1": "Running"})
            await sim.until_phase("j", "Aborted", within=30)
            assert sim.status("j")["retryCount"] == 0
            sim.annotate("j", "ResumeJob")
            await sim.until(lambda: sim.status("j").get("running") == 2)
            await asyncio.sleep(700)
            assert sim.phase("j") == "Running"
