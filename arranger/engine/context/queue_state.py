"""Where in the queue an entity is."""

from __future__ import annotations

from enum import Enum
from typing import Final


class QueueState(Enum):
    """The parts of the queue."""

    ACTIVE = "active"  # to be tried
    BACKOFF = "backoff"  # to be tried when its back-off ends
    UNSCHEDULABLE = "unschedulable"  # to be tried when something happens that may help
    GATED = "gated"  # a PreEnqueue plugin holds it back, or its gang is not complete
    WAITING_FOR_EXTENDERS = "consulting"  # to be tried when its extenders have answered
    NOT_QUEUED = "out"  # being tried, or placed


#: Where an attempt leaves an entity that has been told no.
REFUSED: Final = (QueueState.UNSCHEDULABLE, QueueState.GATED)
