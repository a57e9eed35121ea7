"""Events of events.k8s.io/v1, aggregated into series: what to send, not how.

The rules are client-go's (``tools/events``): the first occurrence is created, the second patches a
``series`` into it, later ones are only counted and written out by a heartbeat and when the series
has been quiet. One rule is ours: everything but the series of an Event is immutable, so a series
that goes on with another note goes on in a new Event, where client-go leaves the first note for
ever. That costs a create, so the more often a note changes, the longer it stands before the next:
see :class:`_Pace`. What is said in between is not written, but the last of it is in the end.

The recorder is synchronous and reads no clock; :class:`~arranger.kube.writes.dispatcher.Writer`
sends what :meth:`EventRecorder.next` hands out. Events are best effort: the queue is bounded and
the oldest are dropped.
"""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from arranger.api.effects import ObjectRef, PublishEvent
from arranger.kube.client.metrics import Meter, SilentMeter
from arranger.kube.client.timestamps import micro_time, utc_now

#: Seconds of quiet after which a series is over, and between two reports of one that goes on.
FINISH_AFTER: Final = 360.0
HEARTBEAT: Final = 1800.0
SWEEP: Final = 60.0
#: Seconds that a note stands before one that differs in its numbers only, and before any when they
#: change all the time: pods in back-off are tried every ten seconds.
RENEW_AFTER: Final = 10.0
RENEW_AT_MOST: Final = 300.0
MAX_TRIES: Final = 12
RETRY_DELAY: Final = 10.0
#: Bytes; the API server refuses longer notes.
NOTE_LIMIT: Final = 1024
_ELLIPSIS: Final = " ..."
#: An object name has at most 253 characters, and ours ends in a dot and 16 hexadecimal digits.
_NAME_LIMIT: Final = 253 - 17


class _Ref(msgspec.Struct, rename="camel", omit_defaults=True):
    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class _EventSeries(msgspec.Struct, rename="camel"):
    count: int
    last_observed_time: str


class _Meta(msgspec.Struct):
    name: str
    namespace: str


class _Event(msgspec.Struct, rename="camel", omit_defaults=True):
    metadata: _Meta
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    type: str
    note: str
    regarding: _Ref
    related: _Ref | None = None
    series: _EventSeries | None = None
    # Fields equal to their default are left out, so these two are set by hand.
    kind: str = ""
    api_version: str = ""


class _SeriesPatch(msgspec.Struct):
    series: _EventSeries


_encode = msgspec.json.Encoder().encode
_NO_DIGITS: Final = str.maketrans("", "", "0123456789")


@dataclass(slots=True)
class _Pace:
    """When a series may take up another note: ever more rarely while its notes go on changing.

    New words and new numbers in the same words are counted apart, so that a number that never
    rests does not hide another reason.
    """

    at: float
    gaps: dict[bool, float] = field(default_factory=lambda: {True: 0.0, False: RENEW_AFTER})

    def due(self, *, words: bool) -> float:
        """The earliest time for a note that has other ``words``, or other numbers only."""
        return self.at + self.gaps[words]

    def renewed(self, now: float, *, words: bool) -> None:
        """A note has been taken up."""
        if now - self.at >= 2 * RENEW_AT_MOST:
            self.gaps = {True: 0.0, False: RENEW_AFTER}  # it has been calm
        self.gaps[words] = min(max(2 * self.gaps[words], RENEW_AFTER), RENEW_AT_MOST)
        self.at = now


@dataclass(slots=True, eq=False)
class _Series:
    """All occurrences of one thing about one object, under one note."""

    key: tuple[object, ...]
    event: PublishEvent
    name: str
    first: str
    last: str
    seen: float
    count: int = 1
    #: The count the server knows; 0 until the Event is created.
    reported: int = 0
    reported_at: float = 0.0
    #: Queued, in flight, or waiting to be tried again.
    busy: bool = False
    tries: int = 0
    pace: _Pace = field(default_factory=lambda: _Pace(0.0))
    #: What goes on under a newer note, until it may.
    heir: _Series | None = None
    renew_at: float = float("inf")


@dataclass(frozen=True, slots=True)
class EventWrite:
    """One request to send; hand it back to :meth:`EventRecorder.answered`."""

    method: str
    path: str
    body: bytes
    content_type: str
    series: _Series = field(repr=False)
    count: int


class EventRecorder:
    """Turns occurrences into the fewest writes that show them.

    Args:
        host: names this process in ``reportingInstance`` (``<controller>-<host>``).
        rng: spreads the retries.
        wall: the calendar clock, for time stamps only.
        capacity: writes waiting at most; beyond, the oldest is dropped and counted.
        remembered: series kept at most; the one longest unseen is finished early.
    """

    def __init__(
        self,
        host: str,
        *,
        rng: random.Random,
        wall: Callable[[], datetime] = utc_now,
        capacity: int = 10_000,
        remembered: int = 20_000,
        meter: Meter | None = None,
    ) -> None:
        self._host = host
        self._rng = rng
        self._wall = wall
        self._capacity = capacity
        self._remembered = remembered
        self._meter = meter or SilentMeter()
        self._series: OrderedDict[tuple[object, ...], _Series] = OrderedDict()
        self._queue: deque[_Series] = deque()
        self._retries: list[tuple[float, int, _Series]] = []
        #: (when, …, series) of those that have an heir.
        self._renewals: list[tuple[float, int, _Series]] = []
        self._last_name = 0
        self._sweep_due = float("inf")
        self.dropped = 0

    def __len__(self) -> int:
        """Writes ready to be sent."""
        return len(self._queue)

    def record(self, event: PublishEvent, now: float) -> None:
        """Note one occurrence at ``now`` (monotonic seconds)."""
        key = (
            event.reason,
            event.regarding,
            event.action,
            event.type,
            event.controller,
            event.related,
        )
        stamp = self._wall()
        series = self._series.get(key)
        if series is None:
            series = self._open(key, event, stamp, now)
            series.pace.at = now
            self._series[key] = series
            if len(self._series) > self._remembered:
                self._finish(next(iter(self._series.values())))
            self._sweep_due = min(self._sweep_due, now + SWEEP)
        elif series.event.note != event.note:
            series.seen = now
            self._series.move_to_end(key)
            self._succeed(series, event, stamp, now)
            return
        else:
            series.heir = None  # it is as it was
            series.count += 1
            series.last = micro_time(stamp)
            series.seen = now
            self._series.move_to_end(key)
        # From the third on, occurrences wait for the heartbeat or the end.
        if series.reported <= 1:
            self._enqueue(series)

    def _open(
        self, key: tuple[object, ...], event: PublishEvent, stamp: datetime, now: float
    ) -> _Series:
        text = micro_time(stamp)
        return _Series(key, event, self._name(event.regarding, stamp), text, text, now)

    def _succeed(self, series: _Series, event: PublishEvent, stamp: datetime, now: float) -> None:
        """The series goes on under another note: at once, or when its pace allows."""
        heir = series.heir
        if heir is not None and heir.event.note == event.note:
            heir.count += 1
            heir.last = micro_time(stamp)
            heir.seen = now
            return
        series.heir = self._open(series.key, event, stamp, now)
        series.heir.pace = series.pace
        self._renew_when_due(series, now)

    def _renew_when_due(self, series: _Series, now: float) -> None:
        """Let the heir take the place of a series, or see to it later."""
        heir = series.heir
        if heir is None or self._series.get(series.key) is not series:
            return
        words = _words(series.event.note) != _words(heir.event.note)
        due = series.pace.due(words=words)
        if due > now:
            if due < series.renew_at:
                series.renew_at = due
                heapq.heappush(self._renewals, (due, id(series), series))
            return
        series.heir = None
        series.pace.renewed(now, words=words)
        self._series[series.key] = heir
        self._series.move_to_end(series.key)
        self._enqueue(series)
        self._enqueue(heir)

    def next(self) -> EventWrite | None:
        """The next request to send, oldest first; ``None`` when nothing is ready."""
        if not self._queue:
            return None
        series = self._queue.popleft()
        event = series.event
        namespace = event.regarding.namespace or "default"
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        tail = _EventSeries(series.count, series.last) if series.count > 1 else None
        if series.reported and tail is not None:
            body = _encode(_SeriesPatch(tail))
            content_type = "application/strategic-merge-patch+json"
            path = f"{path}/{series.name}"
            return EventWrite("PATCH", path, body, content_type, series, series.count)
        body = _encode(
            _Event(
                metadata=_Meta(series.name, namespace),
                event_time=series.first,
                reporting_controller=event.controller,
                reporting_instance=f"{event.controller}-{self._host}"[:128],
                action=event.action,
                reason=event.reason,
                type=event.type,
                note=shorten(event.note),
                regarding=_ref(event.regarding),
                related=_ref(event.related) if event.related else None,
                series=tail,
                kind="Event",
                api_version="events.k8s.io/v1",
            )
        )
        return EventWrite("POST", path, body, "application/json", series, series.count)

    def answered(self, write: EventWrite, status: int, now: float) -> None:
        """Take in the HTTP status of ``write``; 0 when no answer came."""
        series = write.series
        series.busy = False
        created = write.method == "POST"
        if 200 <= status < 300 or (created and status == 409):
            # AlreadyExists: our own create, whose answer was lost; it may lack the newer count.
            series.reported = write.count if status != 409 else 1
            series.reported_at = now
            series.tries = 0
            if series.reported == 1 or self._series.get(series.key) is not series:
                self._enqueue(series)
        elif status == 404 and not created:
            # It has expired; what is said no more is not worth another.
            if self._series.get(series.key) in (None, series):
                series.reported = 0
                self._enqueue(series)
        elif status in (0, 429) or status >= 500:
            series.tries += 1
            if series.tries >= MAX_TRIES:
                self._abandon(series, "tries")
                return
            series.busy = True
            due = now + RETRY_DELAY * self._rng.uniform(1.0, 1.25)
            heapq.heappush(self._retries, (due, id(series), series))
        else:
            self._abandon(series, "refused")

    def due(self) -> float:
        """When :meth:`tick` next has something to do; infinity for never."""
        heads = (heap[0][0] for heap in (self._retries, self._renewals) if heap)
        return min([self._sweep_due, *heads])

    def tick(self, now: float) -> None:
        """Queue what is to be tried again, report long series, end quiet ones."""
        while self._retries and self._retries[0][0] <= now:
            series = heapq.heappop(self._retries)[2]
            series.busy = False
            self._enqueue(series)
        while self._renewals and self._renewals[0][0] <= now:
            series = heapq.heappop(self._renewals)[2]
            series.renew_at = float("inf")
            self._renew_when_due(series, now)
        if now < self._sweep_due:
            return
        for series in list(self._series.values()):
            if now - series.seen >= FINISH_AFTER:
                self._finish(series)
            elif series.reported and now - series.reported_at >= HEARTBEAT:
                self._enqueue(series)
        self._sweep_due = now + SWEEP if self._series else float("inf")

    def clear(self) -> None:
        """Drop everything that waits: we may not write any more."""
        waiting = len(self._queue) + len(self._retries)
        self.dropped += waiting
        self._meter.count("events_dropped", waiting, why="not_leader")
        self._queue.clear()
        self._retries.clear()
        self._renewals.clear()
        self._series.clear()

    def _enqueue(self, series: _Series) -> None:
        if series.busy or series.count <= series.reported:
            return
        series.busy = True
        self._queue.append(series)
        if len(self._queue) > self._capacity:
            self._abandon(self._queue.popleft(), "full")

    def _finish(self, series: _Series) -> None:
        self._series.pop(series.key, None)
        self._enqueue(series)
        if series.heir is not None:
            self._enqueue(series.heir)

    def _abandon(self, series: _Series, why: str) -> None:
        # Forgotten altogether, so that the next occurrence starts a new Event.
        if self._series.get(series.key) is series:
            del self._series[series.key]
        self.dropped += 1
        self._meter.count("events_dropped", 1, why=why)

    def _name(self, regarding: ObjectRef, stamp: datetime) -> str:
        # Upstream's form, the object's name and the time in nanoseconds; made unique by counting.
        self._last_name = max(self._last_name + 1, int(stamp.timestamp() * 1e6) * 1000)
        return f"{regarding.name[:_NAME_LIMIT].rstrip('.-')}.{self._last_name:016x}"


def _words(note: str) -> str:
    return note.translate(_NO_DIGITS)


def shorten(note: str) -> str:
    """``note`` within :data:`NOTE_LIMIT` bytes, ending in ``" ..."`` where cut (as upstream)."""
    if 4 * len(note) <= NOTE_LIMIT:
        return note
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT:
        return note
    # A cut through a character loses that character, nothing else.
    return encoded[: NOTE_LIMIT - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS


def _ref(ref: ObjectRef) -> _Ref:
    return _Ref(ref.api_version, ref.kind, ref.name, ref.namespace, ref.uid)
