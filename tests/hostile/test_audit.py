"""Attacks of the audit, on both processes as they run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.hostile import audit
from tests.hostile.attack import Attack
from tests.hostile.cluster import HostileCluster
from tests.hostile.play import harms

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HostileCluster]:
    async with HostileCluster.running(Path(tmp_path_factory.mktemp("hostile"))) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "table",
    [audit.amounts, audit.annotations, audit.deep, audit.templates, audit.counts],
)
async def test_attacks(cluster: HostileCluster, table: Callable[[], Iterable[Attack]]) -> None:
    found = await harms(cluster, list(table()))
    assert not found, "\n".join(map(str, found))
