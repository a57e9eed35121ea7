"""A restart among hostile objects, and what is left when they are gone."""

from __future__ import annotations

import itertools
import re
from contextlib import suppress
from functools import partial

import pytest

from tests.controlplane.admin import until
from tests.hostile.attack import Attack
from tests.hostile.cluster import HostileCluster
from tests.hostile.play import damage
from tests.hostile.tables import audit, generated, tenancy

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Bytes by which a process may be larger after all than before it met any.
LEFT = 150 * 1024 * 1024
QUARANTINED = re.compile(
    r"^arranger_quarantined_objects(?:\{kind=\"(\w+)\"\})? (\S+)$", re.MULTILINE
)


def _attacks() -> list[Attack]:
    tables = (
        audit.deep(),
        audit.templates(),
        audit.amounts(),
        tenancy.groups(),
        generated.of_tenants(48),
        generated.of_definitions(48),
        generated.of_admins(96),
    )
    return list(itertools.chain(*tables))


async def _quarantined(cluster: HostileCluster, name: str) -> dict[str, str]:
    """Kind → how many of it."""
    counts = QUARANTINED.findall(await cluster.get(name, "/metrics"))
    return {kind: count for kind, count in counts if float(count)}


async def _none_is_quarantined(cluster: HostileCluster, name: str) -> bool:
    return not await _quarantined(cluster, name)


async def test_both_start_again_among_them_and_forget_them(cluster: HostileCluster) -> None:
    before = cluster.resident_bytes()
    attacks = _attacks()
    for obj in (obj for attack in attacks for obj in attack.objects):
        cluster.create(obj)
    assert await damage(cluster, before) is None
    assert await cluster.stop() == [0, 0]
    await cluster.start()
    await cluster.until_served()
    assert await damage(cluster, before) is None
    for obj in (obj for attack in attacks for obj in attack.objects):
        cluster.delete(obj)
    cluster.clear()
    assert await damage(cluster, before) is None
    for name in ("run", "controllers"):
        # A write of ours on its way when an object went may have to fail first.
        with suppress(TimeoutError):
            await until(partial(_none_is_quarantined, cluster, name))
        assert await _quarantined(cluster, name) == {}, name
    after = cluster.resident_bytes()
    assert {name: size for name, size in after.items() if size > before[name] + LEFT} == {}
