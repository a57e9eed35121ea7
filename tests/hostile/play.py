"""Plays attacks against a running cluster, many at once, and finds which of them did harm."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from tests.hostile.attack import Attack, Object
from tests.hostile.cluster import BOUND_WITHIN, HostileCluster
from tests.hostile.slowness import slowness
from tests.hostile.told import untold

#: Bytes by which a process may grow with one batch.
GROWTH: Final = 200 * 1024 * 1024
#: Seconds within which an owner must be told, and objects of one owner that are gone through in a
#: second besides: of a job that is four writes, and kube-controller-manager makes 20 in a second.
#: Who sends thousands waits for his own; others do not, which is asked besides.
TOLD_WITHIN: Final = 10.0
TOLD_A_SECOND: Final = 50
#: Attacks that are played at once.
BATCH: Final = 80


@dataclass(frozen=True, slots=True)
class Harm:
    """What attacks did."""

    attacks: Sequence[Attack]
    what: str

    def __str__(self) -> str:
        return f"{'; '.join(attack.name for attack in self.attacks)}: {self.what}"


async def assert_harmless(cluster: HostileCluster, attacks: Iterable[Attack]) -> None:
    """Play all attacks; none may do harm."""
    left = iter(attacks)
    found: list[Harm] = []
    while batch := list(islice(left, BATCH)):
        found += await harms(cluster, batch)
    assert not found, "\n".join(map(str, found))


async def harms(cluster: HostileCluster, attacks: Sequence[Attack]) -> list[Harm]:
    """Play attacks at once; those that did harm, found by halving.

    What does harm does it twice: the machine has other work, too.
    """
    what = await _play(cluster, attacks)
    if what is None or isinstance(what, list):
        return what or []
    await _start_over(cluster, attacks)
    half = len(attacks) // 2
    parts = (attacks[:half], attacks[half:]) if half else ()
    found = [harm for part in parts for harm in await harms(cluster, part)]
    if not found and (again := await _play(cluster, attacks)):
        await _start_over(cluster, attacks)
        found = again if isinstance(again, list) else [Harm(attacks, again)]
    return found


async def _play(cluster: HostileCluster, attacks: Sequence[Attack]) -> str | list[Harm] | None:
    """Create, edit and delete what the attacks consist of; the harm that this does.

    Of all that they do together it is a sentence; and a list of those whose owners are not told.
    """
    before = cluster.resident_bytes()
    await _each(cluster.create, [obj for attack in attacks for obj in attack.objects])
    what = await damage(cluster, before)
    if what is None and (edits := [obj for attack in attacks for obj in attack.edits]):
        await _each(cluster.replace, edits)
        what = await damage(cluster, before)
    if what is not None:
        return what
    silent = await _silent(cluster, attacks)
    _delete(cluster, attacks)
    gone = await damage(cluster, before, jobs=False)
    return silent or None if gone is None else f"when deleted: {gone}"


async def _each(write: Callable[[Object], None], objects: Iterable[Object]) -> None:
    """Write objects; the server, which is in this process, answers others meanwhile."""
    for obj in objects:
        write(obj)
        await asyncio.sleep(0)


async def _silent(cluster: HostileCluster, attacks: Sequence[Attack]) -> list[Harm]:
    """The attacks whose owners are not told."""
    objects = sum(len(attack.objects) for attack in attacks)
    seconds = TOLD_WITHIN + objects / TOLD_A_SECOND
    deadline = time.monotonic() + seconds * slowness()
    left = untold(cluster, attacks)
    while left and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
        left = untold(cluster, left)
    return [Harm([attack], "its owner is told nothing") for attack in left]


async def damage(
    cluster: HostileCluster, before: dict[str, int], *, jobs: bool = True
) -> str | None:
    """What is wrong with the processes or the neighbour now."""
    settled = await cluster.settled()
    wait = await cluster.seconds_until_bound() if settled else 0.0
    why = await cluster.why_jobs_wait() if settled and jobs else None
    await asyncio.sleep(0.05)
    if dead := cluster.dead():
        return "\n".join(f"{each.name} ended:\n{each.complaints()}" for each in dead)
    if not settled:
        return "another tenant's pod waits for half a minute"
    if wait > BOUND_WITHIN:
        return f"another tenant's pod waits for {wait:.1f} s"
    if why is not None:
        return f"another tenant's jobs do not run: {why[:600]}\n{cluster.controllers.complaints(4)}"
    if leaks := cluster.overheard.take():
        return f"another's objects are named: {leaks[0]}"
    after = cluster.resident_bytes()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    if large := {name: size >> 20 for name, size in grown.items() if size > GROWTH}:
        return f"memory grew by {large} MiB"
    return None


def _delete(cluster: HostileCluster, attacks: Sequence[Attack]) -> None:
    for obj in (obj for attack in attacks for obj in attack.objects):
        cluster.delete(obj)
    cluster.clear()


async def _start_over(cluster: HostileCluster, attacks: Sequence[Attack]) -> None:
    """Without the culprit's objects, and with fresh processes unless these are well."""
    _delete(cluster, attacks)
    if not cluster.dead() and await damage(cluster, cluster.resident_bytes()) is None:
        return
    await cluster.stop(kill=True)
    await cluster.start()
    await cluster.until_served()
