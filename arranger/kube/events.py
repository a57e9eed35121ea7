"""Events of events.k8s.io/v1, aggregated into series: what to send, not how.

The rules are client-go's (``tools/events``): the first occurrence is created, the second patches a
``series`` into it, later ones are only counted and written out by a heartbeat and when the series
has been quiet. Everything but the series of an Event is immutable, so the note is the first one's.

The recorder is synchronous and reads no clock; :class:`~arranger.kube.effects.Writer` sends what
:meth:`EventRecorder.next` hands out. Events are best effort: the queue is bounded and the oldest
are dropped.
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
from arranger.kube.meter import Meter, SilentMeter
from arranger.kube.stamps import micro_time, utc_now

#: Seconds of quiet after which a series is over, and between two reports of one that goes on.
FINISH_AFTER: Final = 360.0
HEARTBEAT: Final = 1800.0
SWEEP: Final = 60.0
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


@dataclass(slots=True, eq=False)
class _Series:
    """All occurrences of one thing about one object."""

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
        text = micro_time(stamp)
        series = self._series.get(key)
        if series is None:
            series = _Series(key, event, self._name(event.regarding, stamp), text, text, now)
            self._series[key] = series
            if len(self._series) > self._remembered:
                self._finish(next(iter(self._series.values())))
            self._sweep_due = min(self._sweep_due, now + SWEEP)
        else:
            series.count += 1
            series.last = text
            series.seen = now
            self._series.move_to_end(key)
        # From the third on, occurrences wait for the heartbeat or the end.
        if series.reported <= 1:
            self._enqueue(series)

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
        return min(self._retries[0][0] if self._retries else float("inf"), self._sweep_due)

    def tick(self, now: float) -> None:
        """Queue what is to be tried again, report long series, end quiet ones."""
        while self._retries and self._retries[0][0] <= now:
            series = heapq.heappop(self._retries)[2]
            series.busy = False
            self._enqueue(series)
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
