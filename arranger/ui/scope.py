"""What somebody may see of a cluster: everything, or what is in some namespaces.

Names of nodes and queues, which are in no namespace, and numbers are for all who may see the pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from arranger.shadow.answers.why import Answer


@dataclass(frozen=True, slots=True)
class Scope:
    """The namespaces of which somebody may see objects; None for all."""

    namespaces: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all may be seen."""
        return self.namespaces is None

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
