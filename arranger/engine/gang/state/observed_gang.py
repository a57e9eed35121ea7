"""What a Gang object shows of a gang, of what only the scheduler may write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from arranger.api.timestamps import second_time
from arranger.api.types.pod_groups import GangObject, GangStatus
from arranger.gangs.gang import Gang
from arranger.gangs.planned_start import KNOWN_ENDS, PlannedStart

#: An estimate that is shown may be wrong by so many seconds, or by this share of the time until it.
_LEEWAY: Final = 30.0
_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class ShownStart:
    """``status.plannedStart`` and ``status.startBasis``; None where nothing is planned."""

    moment: datetime | None = None
    basis: str | None = None

    def __bool__(self) -> bool:
        return self.moment is not None

    @property
    def at(self) -> str | None:
        """As the status has it."""
        return None if self.moment is None else second_time(self.moment)

    def outdates(self, shown: ShownStart, now: float) -> bool:
        """Whether it must be written where another is ``shown``; ``now`` in seconds since 1970.

        An estimate from guessed ends moves all the time, and none of its seconds is meant.
        """
        if self.moment is None or shown.moment is None or self.basis != shown.basis:
            return (self.moment, self.basis) != (shown.moment, shown.basis)
        if self.basis == KNOWN_ENDS:
            return self.moment != shown.moment
        leeway = max(_LEEWAY, _SHARE * (self.moment.timestamp() - now))
        return abs((self.moment - shown.moment).total_seconds()) > leeway


def shown_start(source: PlannedStart | GangStatus | None) -> ShownStart:
    """The planned start as it stands in a status, or is to stand there: in whole seconds."""
    if source is None:
        return ShownStart()
    if isinstance(source, PlannedStart):
        moment = datetime.fromtimestamp(math.ceil(source.at), UTC)
        return ShownStart(moment, source.basis)
    if source.planned_start is None:
        return ShownStart()
    return ShownStart(source.planned_start, source.start_basis)


@dataclass(slots=True)
class ObservedGang:
    """A Gang object: what it shows, or will show after the write on its way.

    Attributes:
        saved: the object as it was last seen.
        managed: whether a scheduler or controllers of our name made it.
        minimums: named bundle → minimum, of what only this object may know.
        waiting_since: in whole seconds since 1970.
        planned_start: when it starts by the plan, as its status says that.
        unknown: whether the fate of our last write is unknown.
        retry_at: when to write again, after a refusal.
    """

    saved: GangObject
    managed: bool = False
    minimums: Mapping[str, int] = field(default_factory=dict)
    satisfied: bool | None = None
    waiting_since: int | None = None
    planned_start: ShownStart = ShownStart()
    scheduling_cycle: int = 0
    written_at: float = float("-inf")
    unknown: bool = False
    retry_at: float = float("-inf")

    @property
    def uid(self) -> str:
        """The object's uid."""
        return self.saved.metadata.uid


def says_too_little(gang: Gang, observed: ObservedGang | None) -> bool:
    """Whether a gang has had its minimum, and its object, if there is one, does not say so."""
    return gang.satisfied and not (observed is not None and observed.satisfied)


def has_raised_minimum(gang: Gang | None, observed: ObservedGang | None) -> bool:
    """The same of a gang that needs more by now, so that its pods do not tell of it either."""
    return gang is not None and not gang.has_minimum and says_too_little(gang, observed)
