"""The texts about gangs in Events, conditions and logs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from arranger.api.annotations import GANG_MIN
from arranger.api.listing import first_names
from arranger.gangs.gang import Gang
from arranger.gangs.group import MAX_NAMED, BundleCounts, GangGroup
from arranger.gangs.member_state import MemberState

#: Said where the members of a gang may be placed in so many ways that not all were tried.
TOO_MANY_WAYS: Final = "There are too many ways to place its members to try them all"


def blocking_reason(group: GangGroup) -> str:
    """Why a group is not tried, however many members have arrived; "" if nothing prevents it."""
    if group.missing_partners:
        names = first_names(group.missing_partners, MAX_NAMED)
        if group.spans_namespaces:
            names = f"{len(group.missing_partners)} more"
        return f"{group.display_name} waits for {names}, which must exist and name it"
    for gang in group.gangs:
        if gang.is_defined and not gang.blocked:
            continue
        title = f"gang {gang.name}"
        if not group.names_are_known:
            title = f"one gang of the {group.display_name}"
        if not gang.is_defined and (owner := gang.owner) and not group.spans_namespaces:
            return f"{title} waits to be defined: its owner {owner} has not been read"
        if not gang.is_defined:
            return f"{title} waits to be defined: it has neither a PodGroup nor {GANG_MIN}"
        if gang.blocked:
            annotations = {each.timeout_annotation for each in gang.memberships.values()}
            marks = " and ".join(sorted(annotations))
            return (
                f"{title} ran out of time: to try it again remove {marks} "
                "from its pods, edit its PodGroup or recreate the pods"
            )
    return ""


def arrival_summary(group: GangGroup, arrived: BundleCounts) -> str:
    """``3 of 5 arrived``, by gang and bundle where there are several."""
    parts = []
    for gang in group.gangs[:MAX_NAMED]:
        counts: Mapping[str, int] = arrived.get(gang.name, {})
        label = f"{gang.name} " if len(group.gangs) > 1 and group.names_are_known else ""
        there = sum(counts.values()) + _count_with_node(gang, None)
        if gang.minimum or not gang.bundle_minimums:
            parts.append(f"{label}{there} of {gang.minimum} arrived")
        for bundle, minimum in islice(gang.bundle_minimums.items(), MAX_NAMED):
            there = counts.get(bundle, 0) + _count_with_node(gang, bundle)
            name = bundle if bundle and group.names_are_known else "members"
            parts.append(f"{label}{name} {there} of {minimum} arrived")
    return ", ".join(parts) + (", …" if _has_more(group) else "")


def _has_more(group: GangGroup) -> bool:
    """Whether not all gangs and bundles are named."""
    shown = group.gangs[:MAX_NAMED]
    return len(group.gangs) > MAX_NAMED or any(len(g.bundle_minimums) > MAX_NAMED for g in shown)


def member_title(group: GangGroup, key: str) -> str:
    """What the members of a group are told about one of them, ``namespace/name``."""
    return "one of its pods" if group.spans_namespaces else f"pod {key}"


def _count_with_node(gang: Gang, bundle: str | None) -> int:
    return gang.settled_count(bundle) + gang.count(MemberState.BINDING, bundle)
