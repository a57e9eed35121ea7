"""One series of like Events, and how often its note may change."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from arranger.api.effects import PublishEvent
from arranger.kube.client.timestamps import micro_time

#: Seconds between two changes of a note: the least for a change of numbers only, and the most for
#: any when they change all the time (pods in back-off are tried every ten seconds).
MIN_NOTE_INTERVAL: Final = 10.0
MAX_NOTE_INTERVAL: Final = 300.0


@dataclass(slots=True)
class NoteRateLimit:
    """When the note of a series may change: the more often it changes, the more rarely.

    A note with other words and one that differs in its numbers only are limited apart, so that a
    number that changes all the time does not hide another reason.

    Attributes:
        changed_at: when the note last changed, monotonic seconds.
        intervals: seconds until the next change; by whether its words change.
    """

    changed_at: float
    intervals: dict[bool, float] = field(
        default_factory=lambda: {True: 0.0, False: MIN_NOTE_INTERVAL}
    )

    def allowed_at(self, *, rephrased: bool) -> float:
        """The earliest time for a note with other words (``rephrased``), or other numbers only."""
        return self.changed_at + self.intervals[rephrased]

    def record_change(self, now: float, *, rephrased: bool) -> None:
        """The note has changed."""
        if now - self.changed_at >= 2 * MAX_NOTE_INTERVAL:  # start anew after a quiet time
            self.intervals = {True: 0.0, False: MIN_NOTE_INTERVAL}
        self.intervals[rephrased] = min(
            max(2 * self.intervals[rephrased], MIN_NOTE_INTERVAL), MAX_NOTE_INTERVAL
        )
        self.changed_at = now


@dataclass(slots=True, eq=False)
class EventSeries:
    """All occurrences of one reason about one object, under one note."""

    key: tuple[object, ...]
    event: PublishEvent
    name: str
    first_time: str
    last_time: str
    #: Monotonic seconds.
    last_seen: float
    rate_limit: NoteRateLimit
    count: int = 1
    #: The count the server knows; 0 until the Event is created.
    reported_count: int = 0
    reported_at: float = 0.0
    #: Queued, in flight, or waiting to be tried again.
    is_pending: bool = False
    attempts: int = 0
    #: The series under a newer note that replaces this one when the rate limit allows it.
    successor: EventSeries | None = None
    #: When the replacement is scheduled, monotonic seconds.
    succeed_at: float = float("inf")

    def add_occurrence(self, stamp: datetime, now: float) -> None:
        """It has happened once more, at ``now`` (monotonic seconds)."""
        self.count += 1
        self.last_time, self.last_seen = micro_time(stamp), now
