"""What somebody may see of a cluster: everything, or what is in some namespaces.

Names of nodes and queues, which are in no namespace, and numbers are for all who may see the pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from arranger.api.listing import first_names
from arranger.shadow.answers.why import Answer

#: Namespaces that are named to somebody who may see them.
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Scope:
    """The namespaces of which somebody may see objects; None for all."""

    namespaces: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all may be seen."""
        return self.namespaces is None

    def note(self, incomplete: bool) -> str:
        """What somebody is told of what is not shown; "" where all is.

        Args:
            incomplete: whether something could not be read at all.
        """
        if self.namespaces is None:
            return ""
        some = first_names(sorted(self.namespaces), _NAMED)
        said = (
            f"of the namespaces in which you may list pods: {some}" if some else "of no namespace"
        )
        note = f"Pods, gangs and jobs are shown {said}. Those of others are counted, and not named."
        if incomplete:
            note += " Some of the cluster could not be read, so answers may be incomplete."
        return note

    def sees(self, key: str) -> bool:
        """Whether an object ``namespace/name`` may be seen."""
        return self.namespaces is None or key.partition("/")[0] in self.namespaces

    def sees_all(self, keys: str) -> bool:
        """Whether all of some objects may, whose keys are joined by commas as of gang groups."""
        return all(self.sees(key.strip()) for key in keys.split(","))

    def of(self, keys: Iterable[str]) -> list[str]:
        """Those that may be seen."""
        return [key for key in keys if self.sees(key)]


EVERYTHING = Scope()


def within(scope: Scope, answer: Answer) -> Answer | None:
    """An answer without the names of what may not be seen; None if it is about that.

    What would help others is not told, either: it may name whoever runs beside.
    """
    if scope.is_whole:
        return answer
    if not answer.pods or not all(scope.sees(pod) for pod in answer.pods):
        return None
    place, gang = answer.queue, answer.gang
    if place is not None:
        place = msgspec.structs.replace(place, before=scope.of(place.before))
    if gang is not None:
        name = gang.name if scope.sees_all(gang.name) else "of several namespaces"
        arrived = gang.arrived if scope.sees_all(gang.name) else "in part"
        gang = msgspec.structs.replace(
            gang, name=name, arrived=arrived, blocked_by=scope.of(gang.blocked_by)
        )
    reason = answer.reason
    if answer.state == "Running" and answer.evicted:
        reason = reason.partition(" for ")[0]  # the taker
    return msgspec.structs.replace(
        answer,
        reason=reason,
        queue=place,
        gang=gang,
        evicted=scope.of(answer.evicted),
        suggestions=[],
        not_tried=[],
    )
