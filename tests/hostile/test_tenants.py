"""What one tenant asks is paid by that tenant, on both processes as they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.hostile import tenancy
from tests.hostile.attack import Attack
from tests.hostile.cluster import HostileCluster
from tests.hostile.play import assert_harmless

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("table", [tenancy.costly, tenancy.groups, tenancy.edited])
async def test_attacks(cluster: HostileCluster, table: Callable[[], Iterable[Attack]]) -> None:
    for manifest in tenancy.devices():
        cluster.create(manifest)
    await assert_harmless(cluster, table())
