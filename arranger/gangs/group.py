"""A gang group: gangs that are placed together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from arranger.api.listing import first_names, namespace_of
from arranger.api.settings.gang_settings import Mode, Topology
from arranger.gangs.gang import Gang
from arranger.gangs.member_state import MemberState

#: Gangs, or bundles of one, that a message names before it only counts.
MAX_NAMED: Final = 5
#: Gang → bundle → how many.
BundleCounts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class GangGroup:
    """Gangs that are placed together, in the order of their names.

    Attributes:
        missing_partners: gangs that one of these names and that do not exist or do not name it.
        name: the gangs' names, joined; for a gang on its own its name.
    """

    gangs: tuple[Gang, ...]
    missing_partners: tuple[str, ...] = ()
    name: str = field(init=False)

    def __post_init__(self) -> None:
        # Computed once, as it is read several times for every pod.
        object.__setattr__(self, "name", ",".join(gang.name for gang in self.gangs))

    @property
    def display_name(self) -> str:
        """Its name in messages, which all of its members are told, of whatever namespace."""
        if len(self.gangs) == 1:
            return f"gang {self.name}"
        if not self.names_are_known:
            return f"gang group of {len(self.gangs)} gangs in {len(self.namespaces)} namespaces"
        return f"gang group {first_names([gang.name for gang in self.gangs], MAX_NAMED, ',')}"

    @property
    def spans_namespaces(self) -> bool:
        """Whether its gangs are of several namespaces: then messages name no pods."""
        return len(self.gangs) > 1 and len(self.namespaces) > 1

    @property
    def names_are_known(self) -> bool:
        """Whether messages may name its gangs: those of other namespaces each gang names itself."""
        if not self.spans_namespaces:
            return True
        few = len(self.gangs) <= MAX_NAMED
        return few and all(
            self.gang_names <= {gang.name, *(gang.settings.groups or ())} for gang in self.gangs
        )

    @property
    def namespaces(self) -> set[str]:
        """The namespaces of its gangs."""
        return {namespace_of(gang.name) for gang in self.gangs}

    @property
    def gang_names(self) -> set[str]:
        """The names of its gangs."""
        return {gang.name for gang in self.gangs}

    @property
    def waiting_names(self) -> set[str]:
        """The names of its gangs, if any member waits for a node; else none."""
        waiting = any(gang.count(MemberState.PENDING) for gang in self.gangs)
        return self.gang_names if waiting else set()

    def mark_satisfied(self) -> set[str]:
        """All of its gangs have had their minimum; returns their names."""
        for gang in self.gangs:
            gang.satisfied = True
        return self.gang_names

    @property
    def schedules_individually(self) -> bool:
        """Whether its members are placed one by one."""
        if self.missing_partners:
            return False
        if len(self.gangs) == 1:  # nearly all, and it is asked several times for every pod
            return self.gangs[0].schedules_individually
        return all(gang.schedules_individually for gang in self.gangs)

    @property
    def is_strict(self) -> bool:
        """Whether it holds nothing while it is incomplete: one Strict gang makes it so."""
        return any(gang.mode is Mode.STRICT for gang in self.gangs)

    @property
    def topology(self) -> Topology | None:
        """Its constraint: that of its first gang that has one."""
        return next((g.settings.topology for g in self.gangs if g.settings.topology), None)

    @property
    def partially_bound(self) -> bool:
        """Whether part of the minimum is bound, as after a crash or a failed Binding."""
        if not any(gang.count(MemberState.BOUND) for gang in self.gangs):
            return False
        short = any(gang.missing_members({}) for gang in self.gangs)
        return short and not all(gang.satisfied for gang in self.gangs)

    @property
    def lacks_pods(self) -> bool:
        """Whether one of its gangs has fewer pods than it needs: nothing else must be counted."""
        return bool(self.missing_partners) or any(gang.lacks_pods for gang in self.gangs)

    def lacks_members(self, have: BundleCounts) -> bool:
        """Whether any gang lacks members beyond ``have``, those placed now."""
        if self.missing_partners:
            return True
        return any(gang.missing_members(have.get(gang.name, {})) for gang in self.gangs)

    def can_do_without(self, uid: str, unbound: Container[str]) -> bool:
        """Whether those members that are ``unbound``, but for one, would do for the minimum."""
        others = (
            other
            for gang in self.gangs
            for other in gang.memberships
            if other != uid and other in unbound and not gang.is_binding(other)
        )
        return not self.lacks_members(self.count_by_bundle(others))

    def gangs_by_uid(self) -> dict[str, Gang]:
        """uid → gang, of all members."""
        return {uid: gang for gang in self.gangs for uid in gang.memberships}

    def count_by_bundle(self, uids: Iterable[str]) -> dict[str, Counter[str]]:
        """How many of these members each bundle of each gang has."""
        counts: dict[str, Counter[str]] = {gang.name: Counter() for gang in self.gangs}
        for uid in uids:
            gang = next(gang for gang in self.gangs if uid in gang.memberships)
            counts[gang.name][gang.memberships[uid].bundle] += 1
        return counts
