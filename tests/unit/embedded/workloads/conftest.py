"""The harness of hollow controllers as a fixture."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from tests.unit.embedded.workloads.harness import WorkloadHarness


@pytest_asyncio.fixture
async def at_work() -> AsyncIterator[WorkloadHarness]:
    """A cluster in which hollow controllers and kubelets work."""
    harness = WorkloadHarness()
    kubelets = HollowKubelets(InProcessTransport(harness.cluster), now=virtual_now)
    tasks = [asyncio.create_task(part) for part in (kubelets.run(), harness.controllers.run())]
    yield harness
    for task in tasks:
        assert not task.done(), task
        task.cancel()
    await asyncio.wait(tasks)
