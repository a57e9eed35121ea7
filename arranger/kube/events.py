"""Events of events.k8s.io/v1, aggregated into series: what to send, not how.

The rules are client-go's (``tools/events``): the first occurrence is created, the second patches a
``series`` into it, later ones are only counted, and written every
:data:`~arranger.kube.event_series.REFRESH_TIME` and when the series has been quiet. Two rules are
ours.

*Another note is another Event.* Everything but the series of an Event is immutable, so a reason
that goes on with another note goes on in a new Event, where client-go keeps the first note for
ever. A note that comes back is counted in the Event that it has. Both cost a write, so the more
often a note changes, the longer it stands before the next: see
:class:`~arranger.kube.event_series.NoteRateLimit`. Of the notes in between only the last is
written, when the limit allows it.

*It ends.* What repeats for :data:`REPEAT_TIME` without anything new is counted on and not written
any more, whatever notes alternate.

The recorder is synchronous and reads no clock; the
:class:`~arranger.kube.writes.dispatcher.ApiDispatcher` sends what :meth:`EventRecorder.next` hands
out, from one namespace after the other. Events are best effort: the queue is bounded, and who has
most in it loses the oldest.
"""

from __future__ import annotations

import heapq
import itertools
import random
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import msgspec

from arranger.api.effects import ObjectReference, PublishEvent
from arranger.api.timestamps import micro_time, utc_now
from arranger.kube.client.metrics import NULL_METRICS, MetricsRecorder
from arranger.kube.client.status import AnswerClass, classify
from arranger.kube.client.transport import STRATEGIC_MERGE_PATCH
from arranger.kube.event_series import (
    REFRESH_TIME,
    EventAggregate,
    EventSeries,
    NoteChange,
    NoteRateLimit,
)
from arranger.kube.fair_queue import FairQueue, anyone

#: Seconds of quiet after which a series is over.
FINISH_TIME: Final = 360.0
#: Seconds for which repetitions are written.
REPEAT_TIME: Final = 24 * 3600.0
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
#: Occurrences that agree in all of these are of one aggregate.
_key_of = attrgetter("reason", "regarding", "action", "type", "controller", "related")


@dataclass(frozen=True, slots=True)
class EventWrite:
    """One request to send; hand it back to :meth:`EventRecorder.on_answer`."""

    method: str
    path: str
    body: bytes
    content_type: str
    series: EventSeries = field(repr=False)
    count: int

    @property
    def namespace(self) -> str:
        """That of the object that it is about; "" for one in none."""
        return self.series.event.regarding.namespace


@dataclass(eq=False)
class EventRecorder:
    """Turns occurrences into the fewest writes that show them.

    Args:
        host: names this process in ``reportingInstance`` (``<controller>-<host>``).
        rng: spreads the retries.
        clock: the calendar, for time stamps only.
        capacity: writes waiting at most; beyond, the oldest of the namespace that has most of them
            is dropped and counted.
        max_aggregates: aggregates kept at most; the one longest unseen is finished early.
        metrics: gets ``events_dropped`` {why}.
    """

    host: str
    _: KW_ONLY
    rng: random.Random
    clock: Callable[[], datetime] = utc_now
    capacity: int = 10_000
    max_aggregates: int = 20_000
    metrics: MetricsRecorder = NULL_METRICS

    def __post_init__(self) -> None:
        self._aggregates: OrderedDict[tuple[object, ...], EventAggregate] = OrderedDict()
        self._queue: FairQueue[EventSeries] = FairQueue()
        #: (when, …, series) of those to be sent again; who is due together, in their order.
        self._retries: list[tuple[float, int, EventSeries]] = []
        #: (when, …, aggregate) of those whose note is to change.
        self._changes: list[tuple[float, int, EventAggregate]] = []
        self._pushes = itertools.count()
        self._last_name = 0
        self._own_nanoseconds = zlib.crc32(self.host.encode()) % 1000
        self._sweep_due = float("inf")
        self.dropped = 0

    def __len__(self) -> int:
        """Writes ready to be sent."""
        return len(self._queue)

    def record(self, event: PublishEvent, now: float) -> None:
        """Note one occurrence at ``now`` (monotonic seconds)."""
        key, stamp = _key_of(event), self.clock()
        aggregate = self._aggregates.get(key)
        if aggregate is None:
            series = self._new_series(event, stamp)
            self._aggregates[key] = EventAggregate(series, now, now, NoteRateLimit(now))
            if len(self._aggregates) > self.max_aggregates:
                self._finish(next(iter(self._aggregates.values())))
            self._sweep_due = min(self._sweep_due, now + SWEEP_INTERVAL)
            self._enqueue(series)
            return
        self._aggregates.move_to_end(key)
        aggregate.last_seen = now
        known = aggregate.notes.get(event.note)
        if known is not None:
            known.add_occurrence(stamp)
        series = known or self._new_series(event, stamp)
        aggregate.holds_now(series)
        if aggregate.waiting is not None:
            self._change_when_due(aggregate, now)
        elif series.reported_count <= 1:
            # From the third on, occurrences wait for the next refresh or the end of the series.
            self._enqueue(series)

    def _new_series(self, event: PublishEvent, stamp: datetime) -> EventSeries:
        name, text = self._name(event.regarding, stamp), micro_time(stamp)
        return EventSeries(_key_of(event), event, name, text, text)

    def _change_when_due(self, aggregate: EventAggregate, now: float) -> None:
        """Go on under the note that holds now: at once, or when the rate limit allows it."""
        waiting = aggregate.waiting
        if waiting is None or self._aggregates.get(aggregate.key) is not aggregate:
            return
        change = aggregate.change_to(waiting)
        if change is NoteChange.BACK and _is_over(aggregate, now):
            return
        due = aggregate.rate_limit.allowed_at(change)
        if due > now:
            if due < aggregate.due_at:
                aggregate.due_at = due
                heapq.heappush(self._changes, (due, next(self._pushes), aggregate))
            return
        if change is not NoteChange.BACK:
            aggregate.last_news = now
        aggregate.rate_limit.record_change(now, change)
        earlier, aggregate.current, aggregate.waiting = aggregate.current, waiting, None
        self._enqueue(earlier)
        self._enqueue(waiting)

    def next(self, may: Callable[[str], bool] = anyone) -> EventWrite | None:
        """The next request to send, of each namespace the oldest; ``None`` when none is ready.

        ``may`` says of which namespaces.
        """
        series = self._queue.pop_allowed(may)
        if series is None:
            return None
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
            if series.reported_count == 1 or not self._is_current(series):
                self._enqueue(series)
        elif answer is AnswerClass.NOT_FOUND and not creates:
            # It has expired. One whose note holds no more is created anew if it comes back.
            series.reported_count = 0
            if series.key not in self._aggregates or self._is_current(series):
                self._enqueue(series)
        elif answer is AnswerClass.NO_ANSWER or answer.is_overload:
            series.attempts += 1
            if series.attempts >= MAX_ATTEMPTS:
                self._drop(series, "tries")
                return
            series.is_pending = True
            due = now + RETRY_DELAY * self.rng.uniform(1.0, 1.25)
            heapq.heappush(self._retries, (due, next(self._pushes), series))
        else:
            self._drop(series, "refused")

    def next_due(self) -> float:
        """When :meth:`tick` next has something to do; infinity for never."""
        due = (heap[0][0] for heap in (self._retries, self._changes) if heap)
        return min([self._sweep_due, *due])

    def tick(self, now: float) -> None:
        """Queue what is to be tried again, report long series, end quiet ones."""
        while self._retries and self._retries[0][0] <= now:
            series = heapq.heappop(self._retries)[2]
            series.is_pending = False
            self._enqueue(series)
        while self._changes and self._changes[0][0] <= now:
            aggregate = heapq.heappop(self._changes)[2]
            aggregate.due_at = float("inf")
            self._change_when_due(aggregate, now)
        if now < self._sweep_due:
            return
        for aggregate in list(self._aggregates.values()):
            if now - aggregate.last_seen >= FINISH_TIME:
                self._finish(aggregate)
            elif not _is_over(aggregate, now):
                for series in aggregate.notes.values():
                    if series.reported_count and now - series.reported_at >= REFRESH_TIME:
                        self._enqueue(series)
        self._sweep_due = now + SWEEP_INTERVAL if self._aggregates else float("inf")

    def clear(self) -> None:
        """Drop everything that waits: we may not write any more."""
        waiting = len(self._queue) + len(self._retries)
        self.dropped += waiting
        self.metrics.increment("events_dropped", waiting, why="not_leader")
        self._queue.take_all()
        self._retries.clear()
        self._changes.clear()
        self._aggregates.clear()

    def _enqueue(self, series: EventSeries) -> None:
        if series.is_pending or series.count <= series.reported_count:
            return
        series.is_pending = series.shown = True
        self._queue.push(series.event.regarding.namespace, series)
        if len(self._queue) > self.capacity:
            self._drop(self._queue.pop_from_longest(), "full")

    def _is_current(self, series: EventSeries) -> bool:
        aggregate = self._aggregates.get(series.key)
        return aggregate is not None and aggregate.current is series

    def _finish(self, aggregate: EventAggregate) -> None:
        del self._aggregates[aggregate.key]
        for series in aggregate.notes.values():
            self._enqueue(series)

    def _drop(self, series: EventSeries, why: str) -> None:
        # Forgotten altogether, so that the next occurrence starts a new Event.
        aggregate = self._aggregates.get(series.key)
        if aggregate is not None and aggregate.notes.get(series.event.note) is series:
            if aggregate.current is series:
                del self._aggregates[series.key]
            else:
                del aggregate.notes[series.event.note]
                if aggregate.waiting is series:
                    aggregate.waiting = None
        self.dropped += 1
        self.metrics.increment("events_dropped", 1, why=why)

    def _name(self, regarding: ObjectReference, stamp: datetime) -> str:
        # Upstream's form, the object's name and the time in nanoseconds; made unique by counting,
        # and by digits of its own that the clock has not.
        time = int(stamp.timestamp() * 1e6) * 1000 + self._own_nanoseconds
        self._last_name = max(self._last_name + 1000, time)
        return f"{regarding.name[:_NAME_LIMIT].rstrip('.-')}.{self._last_name:016x}"


def _is_over(aggregate: EventAggregate, now: float) -> bool:
    """Whether it has repeated itself for so long that nobody is told any more."""
    return now - aggregate.last_news >= REPEAT_TIME


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
