"""Plays attacks against a running cluster, many at once, and finds which of them did harm."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.hostile.attack import Attack
from tests.hostile.cluster import BOUND_WITHIN, HostileCluster

#: Bytes by which a process may grow with one batch.
GROWTH: Final = 200 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Harm:
    """What attacks did."""

    attacks: Sequence[Attack]
    what: str

    def __str__(self) -> str:
        return f"{'; '.join(attack.name for attack in self.attacks)}: {self.what}"


async def harms(cluster: HostileCluster, attacks: Sequence[Attack]) -> list[Harm]:
    """Play attacks at once; those that did harm, found by halving."""
    what = await _play(cluster, attacks)
    if what is None:
        return []
    for attack in attacks:
        for obj in attack.objects:
            cluster.delete(obj)
    await _start_over(cluster)
    if len(attacks) == 1:
        return [Harm(attacks, what)]
    half = len(attacks) // 2
    found = [
        harm for part in (attacks[:half], attacks[half:]) for harm in await harms(cluster, part)
    ]
    return found or [Harm(attacks, f"only together: {what}")]


async def _play(cluster: HostileCluster, attacks: Sequence[Attack]) -> str | None:
    before = cluster.resident_bytes()
    for attack in attacks:
        for obj in attack.objects:
            cluster.create(obj)
    what = await damage(cluster, before)
    if what is None and any(attack.edits for attack in attacks):
        for attack in attacks:
            for obj in attack.edits:
                cluster.replace(obj)
        what = await damage(cluster, before)
    if what is not None:
        return what
    for attack in attacks:
        for obj in attack.objects:
            cluster.delete(obj)
    cluster.clear()
    gone = await damage(cluster, before, jobs=False)
    return None if gone is None else f"when deleted: {gone}"


async def damage(
    cluster: HostileCluster, before: dict[str, int], *, jobs: bool = True
) -> str | None:
    """What is wrong with the processes or the neighbour now."""
    if not await cluster.settled() and not cluster.dead():
        return "another tenant's pod waits for half a minute"
    wait = await cluster.seconds_until_bound()
    why = await cluster.why_jobs_wait() if jobs else None
    await asyncio.sleep(0.05)
    if dead := cluster.dead():
        return "\n".join(f"{each.name} ended:\n{each.complaints()}" for each in dead)
    if wait > BOUND_WITHIN:
        return f"another tenant's pod waits for {wait:.1f} s"
    if why is not None:
        return f"another tenant's jobs do not run: {why[:600]}\n{cluster.controllers.complaints(4)}"
    after = cluster.resident_bytes()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    if large := {name: size >> 20 for name, size in grown.items() if size > GROWTH}:
        return f"memory grew by {large} MiB"
    return None


async def _start_over(cluster: HostileCluster) -> None:
    """Without the culprit's objects, and with fresh processes unless these are well."""
    cluster.clear()
    if not cluster.dead() and await damage(cluster, cluster.resident_bytes()) is None:
        return
    await cluster.stop(kill=True)
    await cluster.start()
    await cluster.until_served()
