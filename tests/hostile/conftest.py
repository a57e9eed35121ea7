"""The cluster that attacks are played against."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.hostile.cluster import HostileCluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HostileCluster]:
    """Both processes at work, shared by the tests of a module."""
    async with HostileCluster.running(Path(tmp_path_factory.mktemp("hostile"))) as cluster:
        yield cluster
