"""What one tenant asks is paid by that tenant, on both processes as they run.

``HOSTILE_PART=1`` plays all attacks that are generated, by default one in 24 is; and of those on
annotations one in three.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.hostile.attack import Attack
from tests.hostile.cluster import HostileCluster
from tests.hostile.play import assert_harmless
from tests.hostile.tables import amplified, audit, generated, tenancy

pytestmark = pytest.mark.asyncio(loop_scope="module")

PART = int(os.environ.get("HOSTILE_PART", "24"))


def annotations() -> Iterator[Attack]:
    """Some of the attacks on annotations."""
    return generated.chosen(audit.annotations(), min(PART, 3))


@pytest.mark.parametrize(
    "table", [audit.amounts, annotations, audit.deep, audit.templates, audit.counts]
)
async def test_values_of_the_audit(
    cluster: HostileCluster, table: Callable[[], Iterable[Attack]]
) -> None:
    await assert_harmless(cluster, table())


@pytest.mark.parametrize("table", [tenancy.costly, tenancy.groups, tenancy.edited])
async def test_what_costs_much_or_refers_to_itself_or_is_edited(
    cluster: HostileCluster, table: Callable[[], Iterable[Attack]]
) -> None:
    for manifest in tenancy.devices():
        cluster.create(manifest)
    await assert_harmless(cluster, table())
    for manifest in tenancy.devices():
        cluster.delete(manifest)


@pytest.mark.parametrize("table", [amplified.members, amplified.promises, amplified.jobs])
async def test_small_objects_of_which_much_is_made(
    cluster: HostileCluster, table: Callable[[], Iterable[Attack]]
) -> None:
    await assert_harmless(cluster, table())


@pytest.mark.parametrize(
    "table", [generated.of_tenants, generated.of_admins, generated.of_definitions]
)
async def test_every_field_of_every_kind(
    cluster: HostileCluster, table: Callable[[int], Iterable[Attack]]
) -> None:
    await assert_harmless(cluster, table(PART))
