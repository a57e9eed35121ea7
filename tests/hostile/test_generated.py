"""Attacks on every field of every kind that the processes read.

``HOSTILE_PART=1`` plays all of them, by default one in 24 is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import pytest

from tests.hostile import generated
from tests.hostile.attack import Attack
from tests.hostile.cluster import HostileCluster
from tests.hostile.play import assert_harmless

pytestmark = pytest.mark.asyncio(loop_scope="module")

PART = int(os.environ.get("HOSTILE_PART", "24"))


@pytest.mark.parametrize(
    "table", [generated.of_tenants, generated.of_admins, generated.of_definitions]
)
async def test_attacks(cluster: HostileCluster, table: Callable[[int], Iterable[Attack]]) -> None:
    await assert_harmless(cluster, table(PART))
