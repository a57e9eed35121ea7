"""What people are told about a gang."""

from __future__ import annotations

from collections.abc import Mapping

from arranger.api.annotations import GANG_MIN
from arranger.gangs.gang import Gang, Standing
from arranger.gangs.group import GangGroup, Tally


def title(group: GangGroup) -> str:
    """How messages call a group."""
    kind = "gang" if len(group.gangs) == 1 else "gang group"
    return f"{kind} {group.name}"


def why_not(group: GangGroup) -> str:
    """What keeps a group from being tried whoever has arrived; "" if nothing does."""
    if group.unanswered:
        names = ", ".join(group.unanswered)
        return f"{title(group)} waits for {names}, which must exist and name it"
    for gang in group.gangs:
        if not gang.defined:
            return f"gang {gang.name} waits to be defined: it has neither a PodGroup nor {GANG_MIN}"
        if gang.blocked:
            marks = " and ".join(sorted({claim.mark for claim in gang.claims.values()}))
            return (
                f"gang {gang.name} ran out of time: to try it again remove {marks} "
                "from its pods, edit its PodGroup or recreate the pods"
            )
    return ""


def census(group: GangGroup, arrived: Tally) -> str:
    """``3 of 5 arrived``, by gang and bundle where there are several."""
    parts = []
    for gang in group.gangs:
        of_gang: Mapping[str, int] = arrived.get(gang.name, {})
        label = f"{gang.name} " if len(group.gangs) > 1 else ""
        there = sum(of_gang.values()) + _on_nodes(gang, None)
        if gang.minimum or not gang.minima:
            parts.append(f"{label}{there} of {gang.minimum} arrived")
        for bundle, least in gang.minima.items():
            there = of_gang.get(bundle, 0) + _on_nodes(gang, bundle)
            parts.append(f"{label}{bundle or 'members'} {there} of {least} arrived")
    return ", ".join(parts)


def _on_nodes(gang: Gang, bundle: str | None) -> int:
    return gang.settled(bundle) + gang.count(Standing.PLACED, bundle)
