"""Jobs by the controllers as they run, kopf and all, over HTTP against the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from arranger.embedded.transport.http import serve
from arranger.kube.client.credentials import ApiServerConfig, CredentialSource
from tests.simulation.harnesses.controllers import running_controllers
from tests.simulation.harnesses.jobs import JobHarness


async def until(reached: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait for something that the controllers do, in real time."""
    for _ in range(500):
        if reached():
            return
        await asyncio.sleep(0.02)
    pytest.fail(str(what()))


async def test_a_job_that_gives_way() -> None:
    sim = JobHarness()
    sim.job("j", on={"PodEvicted": "AbortJob"}, plugins={"svc": []})
    both = {"j-w-0": "-", "j-w-1": "-"}
    async with serve(sim.cluster) as url:
        async with running_controllers(sim.cluster, ApiServerConfig(url, CredentialSource())):
            await until(lambda: sim.groups() == ["j-0"], lambda: sim.status("j"))
            assert sim.pods_of_job("j") == both
            sim.delete("pod", "j-w-0")
            await until(lambda: sim.phase("j") == "Aborted", lambda: sim.status("j"))
            assert sim.pods_of_job("j") == {}
            await until(lambda: sim.groups() == [], sim.groups)
        # Nobody looks while its owner asks for it.
        sim.annotate("j", "ResumeJob")
        async with running_controllers(sim.cluster, ApiServerConfig(url, CredentialSource())):
            await until(lambda: sim.groups() == ["j-2"], lambda: sim.status("j"))
            assert sim.pods_of_job("j") == both
            sim.delete_job("j")
            await until(lambda: sim.pods_of_job("j") == {}, lambda: sim.pods_of_job("j"))
