"""Attacks of the audit, on both processes as they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.hostile import audit
from tests.hostile.attack import Attack
from tests.hostile.cluster import HostileCluster
from tests.hostile.play import assert_harmless

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    "table", [audit.amounts, audit.annotations, audit.deep, audit.templates, audit.counts]
)
async def test_attacks(cluster: HostileCluster, table: Callable[[], Iterable[Attack]]) -> None:
    await assert_harmless(cluster, table())
