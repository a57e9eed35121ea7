"""Judges a world that was played: what every write must keep to, and what must hold at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from arranger.embedded.virtual_time import virtual_now
from tests.simulation.harnesses.status_judge import CONTROLLERS, SCHEDULER, status_faults
from tests.simulation.harnesses.status_judge.views import key_of
from tests.specification import additions

if TYPE_CHECKING:
    from tests.swarm.play import Player

#: Seconds, and how often at most anything about one object is written in them at rest: a gang that
#: waits is tried every ten seconds or so, and says that it holds nodes and does not.
_FIGHT: Final = (60.0, 40)
#: Feature → the rule that is broken by it until the pod is tried the next time, and when that is:
#: by a status that was refused, and by a permit that came to nothing when all else was over.
_TRIED_AGAIN: Final = {
    "refusals": "who_is_nominated_waits_for_somebody",
    "permits": "who_fits_is_placed",
}
_FLUSH: Final = 330.0
#: What is untrue of a Gang as long as the server has not been told who of its pods is nominated.
_NOMINATION_UNSAID: Final = "no node is held, and it waits since"
#: Seconds within which two silent watches tell of a server that was restored.
_TOLD_WITHIN: Final = 200.0
#: Seconds within which what is so must be said, at the latest.
_WRITTEN_WITHIN = 3.0


class Violation(NamedTuple):
    """What was wrong; the rule is the same whichever objects broke it."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


async def judge(player: Player) -> None:
    """Add to the outcome of a world what is wrong, once it has come to rest."""
    found = player.outcome.violations
    specification = player.sim.trace.specification
    if not await player.rest():
        found.append(Violation("rest", "something is written for ever"))
    else:
        loop = asyncio.get_running_loop()
        wrong = [_of_rest(text) for text in specification.at_rest(loop.time())]
        found += (Violation(rule, text) for rule, text in additions.at_rest(specification))
        tried_again = {_TRIED_AGAIN[f] for f in _TRIED_AGAIN.keys() & set(player.world.features)}
        if any(each.rule in tried_again for each in wrong):
            await asyncio.sleep(_FLUSH)
            later = [_of_rest(text) for text in specification.at_rest(loop.time())]
            wrong = [each for each in wrong if each.rule not in tried_again]
            wrong += [each for each in later if each.rule in tried_again]
        found += wrong
    found += wrong_steps(player)
    found += [Violation("writers", text) for text in _fights(player)]
    if player.processes.leader() is None:
        found.append(Violation("leader", "nobody leads at rest"))
    found += [Violation("status", text) for text in await _untrue_statuses(player)]
    for name, scheduler in player.sim.schedulers.items():
        try:
            scheduler.engine.check_consistent()
        except AssertionError as error:
            found.append(Violation("books", f"{name}: {error}"))
        if scheduler.core_restarts:
            text = f"{name} has begun its core anew {scheduler.core_restarts} times"
            found.append(Violation("core", text))
        if {"hostile", "harm"}.isdisjoint(player.world.features):
            for each in scheduler._quarantine._objects.values():
                found.append(Violation("quarantine", f"{name}: {each.about} for {each.error}"))


def wrong_steps(player: Player) -> Iterator[Violation]:
    """What was written or asked for, or has ended, and should not."""
    trace = player.sim.trace
    trace.specification.settle(trace.specification.world.now)
    for spec in trace.specifications:
        yield from (Violation(each.rule, str(each)) for each in spec.violations)
    yield from (Violation(rule, text) for rule, text in trace.wrong_requests)
    yield from (Violation("end of a process", text) for text in player.processes.failures)


def _fights(player: Player) -> Iterator[str]:
    """Objects that are written on and on, as by two writers who know different things."""
    seconds, most = _FIGHT
    since = asyncio.get_running_loop().time() - seconds
    for what, times in player.written.items():
        if sum(at > since for at in times) > most:
            yield f"{what} has been written more than {most} times in {seconds:.0f} s"


async def _untrue_statuses(player: Player) -> list[str]:
    """What is untrue in statuses, and stays so for longer than a writer may wait.

    A gang that is tried again and again, with a wait in between, is never at rest.
    """

    def untrue() -> list[str]:
        wrong = status_faults(player.sim.cluster, virtual_now(), CONTROLLERS | {SCHEDULER})
        return [text for text in wrong if not _is_excused(text, player)]

    if not (found := untrue()):
        return []
    await asyncio.sleep(_WRITTEN_WITHIN)
    still = set(untrue())
    if "refusals" in player.world.features and any(_NOMINATION_UNSAID in text for text in still):
        await asyncio.sleep(_FLUSH)
        later = set(untrue())
        still = {text for text in still if text in later or _NOMINATION_UNSAID not in text}
    return [text for text in found if text in still]


def _is_excused(fault: str, player: Player) -> bool:
    """Whether the judge of statuses lacks what it needs: gangs by their owners, or right clocks.

    Or the controllers stood still while the versions of a restored server came to be as late as
    those that they know: then no silence tells them of it, as no client of Kubernetes is told.

    Or nobody knows any more whose a PodGroup was: a backup has undone what was written of it, and
    the controllers began anew when its pods and its Gang were gone.
    """
    if fault.startswith("PodGroup ") and _began_after_a_backup(player):
        gangs = map(key_of, player.sim.cluster.objects("gangs", "arranger.io"))
        if fault.split()[1] not in gangs:
            return True
    if fault.startswith(("Gang ", "PodGroup ", "Queue ")) and _slept_over_a_backup(player):
        return True
    of_gangs = fault.startswith(("Gang ", "PodGroup ", "Queue ")) and "Valid" not in fault
    if "whims" in player.world.features and of_gangs:
        return True  # pods of one gang say different things, in several dialects: who is right?
    by_owner = "workloads" in player.world.features and fault.startswith("Gangs: there are")
    return by_owner or ("skews" in player.world.features and "times out of order" in fault)


def _slept_over_a_backup(player: Player) -> bool:
    faults = player.world.faults
    restored = [each.at for each in faults if each.does == "restore" and not each.bump]
    pauses = (each for each in faults if each.does == "pause" and each.whom in ("", "controllers"))
    return any(at < each.at < at + _TOLD_WITHIN for each in pauses for at in restored)


def _began_after_a_backup(player: Player) -> bool:
    """Whether controllers may have begun anew since a backup was restored."""
    faults = player.world.faults
    restored = min((each.at for each in faults if each.does == "restore"), default=float("inf"))
    kills = (each for each in faults if each.does == "kill" and each.whom in ("", "controllers"))
    return any(each.at > restored for each in kills)


def _of_rest(text: str) -> Violation:
    """From a sentence that ends in its rule."""
    return Violation(text.rpartition("[")[2].rstrip("]"), text)
