"""Keeps what queues have used over restarts: in a ConfigMap of the scheduler's, written rarely.

It is written by whoever leads, as a whole, if it is still the same object; what is found in it at
the start is gone on from. What cannot be read is ignored, and written anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from arranger.api import event_reasons
from arranger.api.effects import (
    Ambiguous,
    Effect,
    ObjectKey,
    ObjectReference,
    Outcome,
    PatchObject,
    PublishEvent,
    Refused,
)
from arranger.api.parsing.errors import ParseError
from arranger.api.settings.usage_record import USAGE_KEY, UsageRecord, format_usage, parse_usage
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.pending_effects import PendingEffects
from arranger.quota.decayed_usage import DecayedUsage

#: Seconds between two writes.
WRITE_INTERVAL: Final = 300.0


@dataclass(slots=True, eq=False)
class UsageKeeper:
    """Looks at what queues use, and has the record written.

    Args:
        usage: None where only present use counts: then nothing is done.
    """

    _context: EngineContext
    _effects: PendingEffects
    _usage: DecayedUsage | None
    _record: ObjectKey | None = field(default=None, init=False)
    _next_write: float | None = field(default=None, init=False)
    _in_flight: bool = field(default=False, init=False)
    #: Whether something may have changed since the last look.
    _looks_later: bool = field(default=False, init=False)

    def restore(self, record: ObjectKey, data: str, now: float) -> None:
        """The ConfigMap is there, with this text or "": go on from it, and write to it.

        To be called before the engine runs.
        """
        if self._usage is None:
            return
        self._context.clock.advance(now)
        self._record = record
        try:
            known = parse_usage(data) if data else None
        except ParseError as error:
            note = f"What queues have used is forgotten: {USAGE_KEY}: {error}"
            event = _warning(record, event_reasons.INVALID_USAGE, "Reading", note)
            self._context.outbox.append(event)
            return
        if known is not None:
            age = self._context.unix_now - known.at
            self._usage.restore(known.scaled_to(self._usage.half_life), age)

    def look(self, now: float) -> None:
        """A run ends: look at what is used now, unless that was a moment ago."""
        if self._usage is not None:
            self._looks_later = not self._usage.advance(now)

    def advance(self, now: float) -> None:
        """Write what is due."""
        usage = self._usage
        if usage is None:
            return
        if self._next_write is None:
            self._next_write = now + WRITE_INTERVAL
            self.look(now)  # at what ran before us
        if self._record is None or self._in_flight or now < self._next_write:
            return
        self._next_write = now + WRITE_INTERVAL
        self.look(now)
        text = format_usage(UsageRecord(self._context.unix_now, usage.half_life, usage.sums))
        key = self._record
        change = {"metadata": {"uid": key.uid}, "data": {USAGE_KEY: text}}
        path = f"/api/v1/namespaces/{key.namespace}/configmaps/{key.name}"
        self._in_flight = True
        self._effects.send(PatchObject(path, change), self, key)

    def means(self) -> dict[str, dict[str, float]]:
        """Queue → what it has used on average; nothing where that does not count."""
        usage = self._usage
        return {} if usage is None else {queue: usage.mean(queue) for queue in usage.sums}

    def next_timer(self) -> float | None:
        """When there is something to do."""
        if self._usage is None:
            return None
        times = [self._usage.next_look()] if self._looks_later else []
        if self._record is not None and self._next_write is not None and not self._in_flight:
            times.append(self._next_write)
        return min(times, default=None)

    def on_outcome(self, effect: Effect, outcome: Outcome, subject: ObjectKey, now: float) -> None:
        """What became of a write; one that is refused is followed by the next in its time."""
        if isinstance(outcome, Ambiguous):
            return
        self._in_flight = False
        if isinstance(outcome, Refused) and outcome.status in (404, 409):
            self._record = None  # deleted, or made anew: that is read by whoever leads next
            gone = "was deleted" if outcome.status == 404 else "is another one"
            note = f"It {gone}: what queues use is not kept until the scheduler starts again"
            event = _warning(subject, event_reasons.USAGE_NOT_KEPT, "Writing", note)
            self._context.outbox.append(event)


def _warning(record: ObjectKey, reason: str, action: str, note: str) -> PublishEvent:
    about = ObjectReference("v1", "ConfigMap", record.namespace, record.name, record.uid)
    return PublishEvent(about, reason, action, note, "Warning")
