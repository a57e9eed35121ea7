"""Events of events.k8s.io/v1, aggregated into series: what to send, not how.

The rules are client-go's (``tools/events``): the first occurrence is created, the second patches a
``series`` into it, later ones are only counted, and written every :data:`REFRESH_TIME` and when the
series has been quiet. One rule is ours: everything but the series of an Event is immutable, so a
series that goes on with another note goes on in a new Event, where client-go keeps the first note
for ever. That costs a create, so the more often a note changes, the longer it stands before the
next: see :class:`~arranger.kube.event_series.NoteRateLimit`. Of the notes in between only the last
is written, when the limit allows it.

The recorder is synchronous and reads no clock; the
:class:`~arranger.kube.writes.dispatcher.ApiDispatcher` sends what :meth:`EventRecorder.next` hands
out. Events are best effort: the queue is bounded and the oldest are dropped.
"""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import msgspec

from arranger.api.effects import ObjectReference, PublishEvent
from arranger.kube.client.metrics import NULL_METRICS, MetricsRecorder
from arranger.kube.client.status import AnswerClass, classify
from arranger.kube.client.timestamps import micro_time, utc_now
from arranger.kube.client.transport import STRATEGIC_MERGE_PATCH
from arranger.kube.event_series import EventSeries, NoteRateLimit

#: Seconds of quiet after which a series is over.
FINISH_TIME: Final = 360.0
#: Seconds between two reports of a series that goes on.
REFRESH_TIME: Final = 1800.0
#: Seconds between two looks for series of either kind.
SWEEP_INTERVAL: Final = 60.0
MAX_ATTEMPTS: Final = 12
RETRY_DELAY: Final = 10.0
#: Bytes; the API server refuses longer notes.
NOTE_LIMIT: Final = 1024
_ELLIPSIS: Final = " ..."
#: An object name has at most 253 characters, and ours ends in a dot and 16 hexadecimal digits.
_NAME_LIMIT: Final = 253 - 17

_encode = msgspec.json.Encoder().encode
#: Occurrences that agree in all of these are of one series.
_key_of = attrgetter("reason", "regarding", "action", "type", "controller", "related")
_NO_DIGITS: Final = str.maketrans("", "", "0123456789")


@dataclass(frozen=True, slots=True)
class EventWrite:
    """One request to send; hand it back to :meth:`EventRecorder.on_answer`."""

    method: str
    path: str
    body: bytes
    content_type: str
    series: EventSeries = field(repr=False)
    count: int


@dataclass(eq=False)
class EventRecorder:
    """Turns occurrences into the fewest writes that show them.

    Args:
        host: names this process in ``reportingInstance`` (``<controller>-<host>``).
        rng: spreads the retries.
        clock: the calendar, for time stamps only.
        capacity: writes waiting at most; beyond, the oldest is dropped and counted.
        max_series: series kept at most; the one longest unseen is finished early.
        metrics: gets ``events_dropped`` {why}.
    """

    host: str
    _: KW_ONLY
    rng: random.Random
    clock: Callable[[], datetime] = utc_now
    capacity: int = 10_000
    max_series: int = 20_000
    metrics: MetricsRecorder = NULL_METRICS

    def __post_init__(self) -> None:
        self._series: OrderedDict[tuple[object, ...], EventSeries] = OrderedDict()
        self._queue: deque[EventSeries] = deque()
        self._retries: list[tuple[float, int, EventSeries]] = []
        #: (when, …, series) of those that have a successor.
        self._successions: list[tuple[float, int, EventSeries]] = []
        self._last_name = 0
        self._sweep_due = float("inf")
        self.dropped = 0

    def __len__(self) -> int:
        """Writes ready to be sent."""
        return len(self._queue)

    def record(self, event: PublishEvent, now: float) -> None:
        """Note one occurrence at ``now`` (monotonic seconds)."""
        key, stamp = _key_of(event), self.clock()
        series = self._series.get(key)
        if series is None:
            series = self._new_series(event, stamp, now, NoteRateLimit(now))
            self._series[key] = series
            if len(self._series) > self.max_series:
                self._finish(next(iter(self._series.values())))
            self._sweep_due = min(self._sweep_due, now + SWEEP_INTERVAL)
        else:
            self._series.move_to_end(key)
            if series.event.note != event.note:
                series.last_seen = now
                self._set_successor(series, event, stamp, now)
                return
            series.successor = None  # the earlier note holds again
            series.add_occurrence(stamp, now)
        # From the third on, occurrences wait for the next refresh or the end of the series.
        if series.reported_count <= 1:
            self._enqueue(series)

    def _new_series(
        self, event: PublishEvent, stamp: datetime, now: float, limit: NoteRateLimit
    ) -> EventSeries:
        name, text = self._name(event.regarding, stamp), micro_time(stamp)
        return EventSeries(_key_of(event), event, name, text, text, now, limit)

    def _set_successor(
        self, series: EventSeries, event: PublishEvent, stamp: datetime, now: float
    ) -> None:
        """The series goes on under another note: at once, or when the rate limit allows it."""
        if series.successor is not None and series.successor.event.note == event.note:
            series.successor.add_occurrence(stamp, now)
        else:
            series.successor = self._new_series(event, stamp, now, series.rate_limit)
            self._succeed_when_due(series, now)

    def _succeed_when_due(self, series: EventSeries, now: float) -> None:
        successor = series.successor
        if successor is None or self._series.get(series.key) is not series:
            return
        rephrased = _without_digits(series.event.note) != _without_digits(successor.event.note)
        due = series.rate_limit.allowed_at(rephrased=rephrased)
        if due > now:
            if due < series.succeed_at:
                series.succeed_at = due
                heapq.heappush(self._successions, (due, id(series), series))
            return
        series.successor = None
        series.rate_limit.record_change(now, rephrased=rephrased)
        self._series[series.key] = successor
        self._series.move_to_end(series.key)
        self._enqueue(series)
        self._enqueue(successor)

    def next(self) -> EventWrite | None:
        """The next request to send, oldest first; ``None`` when nothing is ready."""
        if not self._queue:
            return None
        series = self._queue.popleft()
        event = series.event
        namespace = event.regarding.namespace or "default"
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        tail = {"count": series.count, "lastObservedTime": series.last_time}
        if series.reported_count and series.count > 1:
            path, body = f"{path}/{series.name}", _encode({"series": tail})
            return EventWrite("PATCH", path, body, STRATEGIC_MERGE_PATCH, series, series.count)
        created: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": series.first_time,
            "reportingController": event.controller,
            "reportingInstance": f"{event.controller}-{self.host}"[:128],
            "action": event.action,
            "reason": event.reason,
            "type": event.type,
            "note": truncate_note(event.note),
            "regarding": _reference(event.regarding),
        }
        if event.related:
            created["related"] = _reference(event.related)
        if series.count > 1:
            created["series"] = tail
        return EventWrite("POST", path, _encode(created), "application/json", series, series.count)

    def on_answer(self, write: EventWrite, status: int, now: float) -> None:
        """Take in the HTTP status of ``write``; 0 when no answer came."""
        series = write.series
        series.is_pending = False
        creates = write.method == "POST"
        answer = classify(status)
        exists = creates and answer is AnswerClass.CONFLICT
        if answer is AnswerClass.SUCCESS or exists:
            # What exists is our own create, whose answer was lost; it may lack the newer count.
            series.reported_count = 1 if exists else write.count
            series.reported_at = now
            series.attempts = 0
            if series.reported_count == 1 or self._series.get(series.key) is not series:
                self._enqueue(series)
        elif answer is AnswerClass.NOT_FOUND and not creates:
            # It has expired, and a series that has ended needs no new one.
            if self._series.get(series.key) in (None, series):
                series.reported_count = 0
                self._enqueue(series)
        elif answer is AnswerClass.NO_ANSWER or answer.is_overload:
            series.attempts += 1
            if series.attempts >= MAX_ATTEMPTS:
                self._drop(series, "tries")
                return
            series.is_pending = True
            due = now + RETRY_DELAY * self.rng.uniform(1.0, 1.25)
            heapq.heappush(self._retries, (due, id(series), series))
        else:
            self._drop(series, "refused")

    def next_due(self) -> float:
        """When :meth:`tick` next has something to do; infinity for never."""
        due = (heap[0][0] for heap in (self._retries, self._successions) if heap)
        return min([self._sweep_due, *due])

    def tick(self, now: float) -> None:
        """Queue what is to be tried again, report long series, end quiet ones."""
        while self._retries and self._retries[0][0] <= now:
            series = heapq.heappop(self._retries)[2]
            series.is_pending = False
            self._enqueue(series)
        while self._successions and self._successions[0][0] <= now:
            series = heapq.heappop(self._successions)[2]
            series.succeed_at = float("inf")
            self._succeed_when_due(series, now)
        if now < self._sweep_due:
            return
        for series in list(self._series.values()):
            if now - series.last_seen >= FINISH_TIME:
                self._finish(series)
            elif series.reported_count and now - series.reported_at >= REFRESH_TIME:
                self._enqueue(series)
        self._sweep_due = now + SWEEP_INTERVAL if self._series else float("inf")

    def clear(self) -> None:
        """Drop everything that waits: we may not write any more."""
        waiting = len(self._queue) + len(self._retries)
        self.dropped += waiting
        self.metrics.increment("events_dropped", waiting, why="not_leader")
        self._queue.clear()
        self._retries.clear()
        self._successions.clear()
        self._series.clear()

    def _enqueue(self, series: EventSeries) -> None:
        if series.is_pending or series.count <= series.reported_count:
            return
        series.is_pending = True
        self._queue.append(series)
        if len(self._queue) > self.capacity:
            self._drop(self._queue.popleft(), "full")

    def _finish(self, series: EventSeries) -> None:
        self._series.pop(series.key, None)
        self._enqueue(series)
        if series.successor is not None:
            self._enqueue(series.successor)

    def _drop(self, series: EventSeries, why: str) -> None:
        # Forgotten altogether, so that the next occurrence starts a new Event.
        if self._series.get(series.key) is series:
            del self._series[series.key]
        self.dropped += 1
        self.metrics.increment("events_dropped", 1, why=why)

    def _name(self, regarding: ObjectReference, stamp: datetime) -> str:
        # Upstream's form, the object's name and the time in nanoseconds; made unique by counting.
        self._last_name = max(self._last_name + 1, int(stamp.timestamp() * 1e6) * 1000)
        return f"{regarding.name[:_NAME_LIMIT].rstrip('.-')}.{self._last_name:016x}"


def _without_digits(note: str) -> str:
    return note.translate(_NO_DIGITS)


def truncate_note(note: str) -> str:
    """``note`` within :data:`NOTE_LIMIT` bytes, ending in ``" ..."`` where cut (as upstream)."""
    if 4 * len(note) <= NOTE_LIMIT:
        return note
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT:
        return note
    # A cut through a character loses that character, nothing else.
    return encoded[: NOTE_LIMIT - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS


def _reference(ref: ObjectReference) -> dict[str, str]:
    place = {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid}
    fields = {"apiVersion": ref.api_version, "kind": ref.kind, **place}
    return {name: value for name, value in fields.items() if value}
