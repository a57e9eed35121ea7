"""Looks into the processes of a world, again and again, for what nobody outside would see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from arranger.api.quarantine import QuarantinedObject
from arranger.cluster.columns import BASIC_RESOURCES
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.storage.store import Change
from tests.kept_evaluations import check_kept_evaluations
from tests.swarm.judge import Violation

if TYPE_CHECKING:
    from tests.swarm.play import Player

#: Seconds between two looks at the books: while anything is written, and else; and between two at
#: what is kept of classes of pods.
BOOKS_EVERY: Final = 0.5
QUIET_BOOKS_EVERY: Final = 5.0
CLASSES_EVERY: Final = 10.0
#: Seconds after a write in which it makes itself felt.
_FELT_FOR: Final = 2.0
#: What is written all the time, whatever happens.
_BEATS: Final = frozenset({"coordination.k8s.io/leases", "events.k8s.io/events"})
#: What is said of an object by which our own code has raised what it does not expect.
_OUR_FAULT: Final = "an internal error"


async def watch_books(player: Player) -> None:
    """The books of the leader are right at any time, and no object makes our own code raise."""
    seen: dict[Scheduler, set[str]] = {}
    written_at, looked_at, now_is = 0.0, 0.0, asyncio.get_running_loop().time

    def note(change: Change) -> None:
        nonlocal written_at
        if change.resource not in _BEATS:
            written_at = now_is()

    player.sim.cluster.store.subscribe(note)
    offered = set(BASIC_RESOURCES)
    player.sim.cluster.store.subscribe(lambda change: offered.update(_offers(change)), "/nodes")
    offered.update(*(_amounts(node) for node in player.sim.cluster.objects("nodes")))
    told = set[str]()
    classes_at = 0.0
    while True:
        await asyncio.sleep(BOOKS_EVERY)
        now = now_is()
        if now - written_at > _FELT_FOR and now - looked_at < QUIET_BOOKS_EVERY:
            continue
        looked_at = now
        for text in _faults(player):
            if text not in told:
                told.add(text)
                _violate(player, "our own fault", text)
        if (leader := player.processes.leader()) is not None:
            try:
                leader.engine.check_consistent()
                _check_nominations(leader, seen.setdefault(leader, set()))
                _check_columns(leader, offered)
                if now >= classes_at:
                    classes_at = now + CLASSES_EVERY
                    check_kept_evaluations(leader.engine)
            except AssertionError as error:
                _violate(player, "books", str(error))
                return


def _violate(player: Player, rule: str, text: str) -> None:
    now = asyncio.get_running_loop().time()
    player.outcome.violations.append(Violation(rule, f"at {now:g} s: {text}"))


def _faults(player: Player) -> Iterator[str]:
    """Objects that are set aside for what our own code has made of them; not what is unreadable."""
    controllers = player.processes.controllers
    found: Iterator[QuarantinedObject] = chain.from_iterable(
        iter(each._quarantine) for each in player.sim.schedulers.values()
    )
    if controllers is not None:
        barrier = controllers.barrier
        found = chain(found, barrier.unheard, barrier.unreconciled)
    for each in found:
        if each.message.startswith(_OUR_FAULT):
            yield f"{each.about.kind} {each.about.namespace}/{each.about.name}: {each.error}"


def _check_nominations(scheduler: Scheduler, seen: set[str]) -> None:
    """Nobody is nominated for a node that it has ``seen`` and that is gone; adds those there are.

    One that it has not seen may come yet.
    """
    nodes, nominated = scheduler.engine.cluster.table.index, scheduler.engine._nominator._nodes
    for uid, node in nominated.items():
        assert node in nodes or node not in seen, f"{uid} is nominated for {node}, which is gone"
    seen |= {*nominated.values()} & {*nodes}


def _check_columns(scheduler: Scheduler, offered: set[str]) -> None:
    """Nodes have no columns for what none of them has ever offered."""
    made_up = set(scheduler.engine.cluster.table.resources.values) - offered - {""}
    assert not made_up, f"{len(made_up)} columns are of what no node offers"


def _offers(change: Change) -> set[str]:
    return _amounts(change.after)


def _amounts(node: dict[str, object]) -> set[str]:
    status = node.get("status") or {}
    assert isinstance(status, dict)
    return {*(status.get("allocatable") or ()), *(status.get("capacity") or ())}
