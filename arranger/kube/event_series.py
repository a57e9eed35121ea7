"""All Events of one reason about one object, a series for each note, and how often they change."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from arranger.api.effects import PublishEvent
from arranger.api.timestamps import micro_time

#: Seconds between two changes of a note: the least for a change of numbers only, and the most for
#: any when they change all the time (pods in back-off are tried every ten seconds).
MIN_NOTE_INTERVAL: Final = 10.0
MAX_NOTE_INTERVAL: Final = 300.0
#: Seconds between two reports of a series that goes on.
REFRESH_TIME: Final = 1800.0
#: Notes of one aggregate that are remembered.
MAX_NOTES: Final = 32

_NO_DIGITS: Final = str.maketrans("", "", "0123456789")


class NoteChange(Enum):
    """How the note to be shown next differs from the one that is shown.

    Each is limited apart, so that a number that changes all the time does not hide another reason.
    """

    WORDS = "words"
    NUMBERS = "numbers"
    #: It has been shown before, and its Event is there.
    BACK = "back"


#: The first interval, which doubles with each change, and the longest one.
_INTERVALS: Final = {
    NoteChange.WORDS: (0.0, MAX_NOTE_INTERVAL),
    NoteChange.NUMBERS: (MIN_NOTE_INTERVAL, MAX_NOTE_INTERVAL),
    NoteChange.BACK: (MIN_NOTE_INTERVAL, REFRESH_TIME),
}


@dataclass(slots=True)
class NoteRateLimit:
    """When the note of an aggregate may change: the more often it changes, the more rarely.

    Attributes:
        changed_at: when the note last changed, monotonic seconds.
        intervals: seconds until the next change; the first interval where there was none.
    """

    changed_at: float
    intervals: dict[NoteChange, float] = field(default_factory=dict)

    def allowed_at(self, change: NoteChange) -> float:
        """The earliest time for such a change."""
        return self.changed_at + self.intervals.get(change, _INTERVALS[change][0])

    def record_change(self, now: float, change: NoteChange) -> None:
        """The note has changed."""
        quiet = now - self.changed_at
        for kind, (first, longest) in _INTERVALS.items():
            if quiet >= 2 * longest:  # start anew after a quiet time
                self.intervals[kind] = first
        first, longest = _INTERVALS[change]
        doubled = max(2 * self.intervals.get(change, first), MIN_NOTE_INTERVAL)
        self.intervals[change] = min(doubled, longest)
        self.changed_at = now


@dataclass(slots=True, eq=False)
class EventSeries:
    """All occurrences under one note: one Event."""

    key: tuple[object, ...]
    event: PublishEvent
    name: str
    first_time: str
    last_time: str
    count: int = 1
    #: The count the server knows; 0 until the Event is created.
    reported_count: int = 0
    reported_at: float = 0.0
    #: Whether it has been handed out to be written.
    shown: bool = False
    #: Queued, in flight, or waiting to be tried again.
    is_pending: bool = False
    attempts: int = 0

    def add_occurrence(self, stamp: datetime) -> None:
        """It has happened once more."""
        self.count += 1
        self.last_time = micro_time(stamp)


@dataclass(slots=True, eq=False)
class EventAggregate:
    """All occurrences of one reason about one object, whatever their notes.

    Attributes:
        current: the series that is shown.
        last_seen: when there was an occurrence last, monotonic seconds.
        last_news: when a note was shown that had not been shown before.
        waiting: the series that holds now, if it is another; shown when the rate limit allows it.
        due_at: when that is looked at, monotonic seconds.
        notes: note → series, the one longest unseen first.
    """

    current: EventSeries
    last_seen: float
    last_news: float
    rate_limit: NoteRateLimit
    waiting: EventSeries | None = None
    due_at: float = float("inf")
    notes: dict[str, EventSeries] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.notes[self.current.event.note] = self.current

    @property
    def key(self) -> tuple[object, ...]:
        """What the occurrences have in common."""
        return self.current.key

    def holds_now(self, series: EventSeries) -> None:
        """An occurrence of ``series`` is the last one."""
        earlier, note = self.waiting, series.event.note
        if earlier is not None and earlier is not series and not earlier.shown:
            self.notes.pop(earlier.event.note, None)  # of notes in between only the last is shown
        self.waiting = None if series is self.current else series
        self.notes.pop(note, None)
        self.notes[note] = series
        if len(self.notes) > MAX_NOTES:
            oldest = next(note for note, each in self.notes.items() if each is not self.current)
            del self.notes[oldest]

    def change_to(self, series: EventSeries) -> NoteChange:
        """What showing ``series`` in place of the current one would change."""
        if series.shown:
            return NoteChange.BACK
        same_words = _words(self.current.event.note) == _words(series.event.note)
        return NoteChange.NUMBERS if same_words else NoteChange.WORDS


def _words(note: str) -> str:
    return note.translate(_NO_DIGITS)
