"""The life of a pod we schedule, as a table of legal moves."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Phase(Enum):
    """Where a pod is between arriving and being bound."""

    QUEUED = "queued"  # in the scheduling queue, in whatever part of it
    RESERVED = "reserved"  # a node is assumed; nothing has been written
    WAITING = "waiting"  # a Permit plugin said wait; the reservation holds
    BINDING = "binding"  # writes are on their way
    UNKNOWN = "unknown"  # a write may have happened; the reservation holds until we know
    BOUND = "bound"  # the API server said so
    GONE = "gone"  # deleted, ended, or bound by somebody else


TRANSITIONS: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.QUEUED: frozenset({Phase.RESERVED, Phase.GONE}),
    Phase.RESERVED: frozenset({Phase.WAITING, Phase.BINDING, Phase.QUEUED, Phase.GONE}),
    Phase.WAITING: frozenset({Phase.BINDING, Phase.QUEUED, Phase.GONE}),
    Phase.BINDING: frozenset({Phase.BOUND, Phase.UNKNOWN, Phase.QUEUED, Phase.GONE}),
    Phase.UNKNOWN: frozenset({Phase.BOUND, Phase.QUEUED, Phase.GONE}),
    Phase.BOUND: frozenset({Phase.GONE}),
    Phase.GONE: frozenset(),
}
assert set(TRANSITIONS) == set(Phase), "a phase without a row"

#: Phases in which a node is reserved for the pod.
HOLDS_NODE: Final = frozenset(
    {Phase.RESERVED, Phase.WAITING, Phase.BINDING, Phase.UNKNOWN, Phase.BOUND}
)


class InvalidTransitionError(AssertionError):
    """The engine tried a move that the table forbids: a bug, never a condition of the cluster."""
