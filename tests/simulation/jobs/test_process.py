"""Jobs by the controllers as they run, kopf and all, over HTTP against the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from arranger.controllers.manager import run_in_thread
from arranger.embedded.transport.http import serve
from arranger.kube.client.credentials import ApiServerConfig, CredentialSource
from tests.simulation.harnesses.jobs import JobHarness


async def until(reached: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait for something that the controllers do in their thread, in real time."""
    for _ in range(500):
        if reached():
            return
        await asyncio.sleep(0.02)
    pytest.fail(str(what()))


async def test_a_job_that_gives_way() -> None:
    stage = JobHarness()
    stage.job("j", on={"PodEvicted": "AbortJob"}, plugins={"svc": []})
    both = {"j-w-0": "-", "j-w-1": "-"}
    async with serve(stage.cluster) as url:
        async with run_in_thread(ApiServerConfig(url, CredentialSource()), quiet=0.02):
            await until(lambda: stage.groups() == ["j-0"], lambda: stage.status("j"))
            assert stage.pods_of_job("j") == both
            stage.delete("pod", "j-w-0")
            await until(lambda: stage.phase("j") == "Aborted", lambda: stage.status("j"))
            assert stage.pods_of_job("j") == {}
            await until(lambda: stage.groups() == [], stage.groups)
        # Nobody looks while its owner asks for it.
        stage.annotate("j", "ResumeJob")
        async with run_in_thread(ApiServerConfig(url, CredentialSource()), quiet=0.02):
            await until(lambda: stage.groups() == ["j-2"], lambda: stage.status("j"))
            assert stage.pods_of_job("j") == both
            stage.delete_job("j")
            await until(lambda: stage.pods_of_job("j") == {}, lambda: stage.pods_of_job("j"))
