"""How long pods waited and where they stayed, from a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arranger.cli.simulation.timeline import Happening

_OVER = frozenset({"Succeeded", "Failed", "Gone"})


@dataclass(slots=True)
class Stay:
    """One pod, from its creation on.

    Attributes:
        bound, ended: None for one that waits, or stays, to the end.
        outcome: what it ended with; ``Evicted`` and ``Deleted`` ones too.
    """

    pod: str
    owner: str
    created: float
    node: str = ""
    bound: float | None = None
    ended: float | None = None
    outcome: str = ""


def stays(happenings: Sequence[Happening]) -> list[Stay]:
    """Every pod's, in the order of their creation; a name that comes again is another pod."""
    found: list[Stay] = []
    now: dict[str, Stay] = {}
    for each in happenings:
        if each.kind != "Pod":
            continue
        stay = now.get(each.name)
        if each.what == "Created" or stay is None:
            stay = Stay(each.name, each.owner, each.at)
            now[each.name] = stay
            found.append(stay)
        if each.what == "Bound":
            stay.bound, stay.node = each.at, each.node
        elif each.what in ("Evicted", "Deleted"):
            stay.outcome = stay.outcome or each.what
        elif each.what in _OVER and stay.ended is None:
            stay.ended = each.at
            stay.outcome = stay.outcome or each.what
    return found


def waiting_over_time(found: Sequence[Stay]) -> list[tuple[float, int, int]]:
    """(when, pods that wait, pods that have a node) at every change of the two."""
    steps: dict[float, list[int]] = {}
    for stay in found:
        steps.setdefault(stay.created, [0, 0])[0] += 1
        if stay.bound is not None:
            step = steps.setdefault(stay.bound, [0, 0])
            step[0] -= 1
            step[1] += 1
        if stay.ended is not None:
            steps.setdefault(stay.ended, [0, 0])[0 if stay.bound is None else 1] -= 1
    counts, waiting, placed = [], 0, 0
    for at, (more_waiting, more_placed) in sorted(steps.items()):
        waiting, placed = waiting + more_waiting, placed + more_placed
        counts.append((at, waiting, placed))
    return counts
