"""The texts about gangs in Events, conditions and logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from arranger.api.annotations import GANG_MIN
from arranger.gangs.gang import Gang, MemberState
from arranger.gangs.group import BundleCounts, GangGroup

#: Said where the members of a gang may be placed in so many ways that not all were tried.
TOO_MANY_WAYS: Final = "There are too many ways to place its members to try them all"


def blocking_reason(group: GangGroup) -> str:
    """Why a group is not tried, however many members have arrived; "" if nothing prevents it."""
    if group.missing_partners:
        names = ", ".join(group.missing_partners)
        return f"{group.display_name} waits for {names}, which must exist and name it"
    for gang in group.gangs:
        if not gang.is_defined and (owner := gang.owner):
            return f"gang {gang.name} waits to be defined: its owner {owner} has not been read"
        if not gang.is_defined:
            return f"gang {gang.name} waits to be defined: it has neither a PodGroup nor {GANG_MIN}"
        if gang.blocked:
            annotations = {each.timeout_annotation for each in gang.memberships.values()}
            marks = " and ".join(sorted(annotations))
            return (
                f"gang {gang.name} ran out of time: to try it again remove {marks} "
                "from its pods, edit its PodGroup or recreate the pods"
            )
    return ""


def arrival_summary(group: GangGroup, arrived: BundleCounts) -> str:
    """``3 of 5 arrived``, by gang and bundle where there are several."""
    parts = []
    for gang in group.gangs:
        counts: Mapping[str, int] = arrived.get(gang.name, {})
        label = f"{gang.name} " if len(group.gangs) > 1 else ""
        there = sum(counts.values()) + _count_with_node(gang, None)
        if gang.minimum or not gang.bundle_minimums:
            parts.append(f"{label}{there} of {gang.minimum} arrived")
        for bundle, minimum in gang.bundle_minimums.items():
            there = counts.get(bundle, 0) + _count_with_node(gang, bundle)
            parts.append(f"{label}{bundle or 'members'} {there} of {minimum} arrived")
    return ", ".join(parts)


def _count_with_node(gang: Gang, bundle: str | None) -> int:
    return gang.settled_count(bundle) + gang.count(MemberState.BINDING, bundle)
