"""A gang group: gangs that are placed together (seed 000)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from arranger.api.gang_membership import Mode
from arranger.gangs.gang import Gang, Standing

#: Gang → bundle → how many.
Tally = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class GangGroup:
    """Gangs that are placed together, in the order of their names.

    Attributes:
        unanswered: gangs that were named and are not there, or do not name this group.
        name: the gangs' names, joined; for a gang on its own its name.
    """

    gangs: tuple[Gang, ...]
    unanswered: tuple[str, ...] = ()
    name: str = field(init=False)

    def __post_init__(self) -> None:
        # Once: it is asked for several times for every pod.
        object.__setattr__(self, "name", ",".join(gang.name for gang in self.gangs))

    @property
    def free(self) -> bool:
        """Whether members may be placed one by one."""
        return not self.unanswered and all(gang.free for gang in self.gangs)

    @property
    def strict(self) -> bool:
        """Whether it holds nothing while it is incomplete: one Strict gang makes it so."""
        return any(gang.mode is Mode.STRICT for gang in self.gangs)

    @property
    def partial(self) -> bool:
        """Whether part of the minimum is bound, as after a crash or a failed Binding."""
        short = any(gang.lacking({}) for gang in self.gangs)
        bound = any(gang.count(Standing.BOUND) for gang in self.gangs)
        return short and bound and not all(gang.satisfied for gang in self.gangs)

    def is_short(self, have: Tally) -> bool:
        """Whether any gang lacks members, given those placed now."""
        if self.unanswered:
            return True
        return any(gang.lacking(have.get(gang.name, {})) for gang in self.gangs)

    def gang_of(self) -> dict[str, Gang]:
        """uid → gang, of all members."""
        return {uid: gang for gang in self.gangs for uid in gang.claims}

    def tally(self, uids: Iterable[str]) -> dict[str, Counter[str]]:
        """How many of these members each bundle of each gang has."""
        counts: dict[str, Counter[str]] = {gang.name: Counter() for gang in self.gangs}
        for uid in uids:
            gang = next(gang for gang in self.gangs if uid in gang.claims)
            counts[gang.name][gang.claims[uid].bundle] += 1
        return counts
