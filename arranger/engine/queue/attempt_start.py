"""What the queue notes when an attempt begins."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple


class AttemptStart(NamedTuple):
    """The time before an attempt.

    Attributes:
        events: how many cluster events there had been.
        nominated: whether the entity had a nomination.
        woken_from: the wake-up group for which it is tried.
    """

    events: int
    nominated: bool
    woken_from: Hashable
