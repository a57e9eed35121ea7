"""Hollow kubelets beside a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now


@asynccontextmanager
async def running_kubelets(cluster: EmbeddedCluster) -> AsyncIterator[None]:
    """All nodes of a cluster run what is bound to them, in virtual time."""
    kubelets = HollowKubelets(InProcessTransport(cluster), now=virtual_now)
    running = asyncio.create_task(kubelets.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})
