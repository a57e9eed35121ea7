"""What a Reservation's status is to say, and the writes that make it so.

What the watch shows is compared with what is true, and written again after a while as long as it
differs. Where the server refuses it, that takes twice as long each time, and an Event says so once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from arranger.api.effects import Effect, Outcome, PatchObject, Refused
from arranger.api.settings.reservation_windows import Window
from arranger.api.types.reservation import Reservation, ReservationStatus
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.reservations.entry import Entry, shown_time

#: Seconds until a status is written again that the watch does not show.
RETRY_AFTER: Final = 30.0
#: The same at most, where the server refuses it.
MAX_RETRY_AFTER: Final = 600.0
#: What the server says to one who may try again, and of an object that is gone or another one.
_NO_REFUSALS: Final = (404, 409, 429)
#: Statuses that are written at once; the others follow a second later.
_MOST_WRITES: Final = 20


def status_of(
    entry: Entry | None, window: Window | None, problem: str, now: float
) -> ReservationStatus:
    """What is true of a Reservation at a moment.

    Args:
        entry: as it was read; None if it is invalid.
        window: the one that holds or comes next; None after the last.
        problem: why it is invalid.
        now: in seconds since 1970.
    """
    if entry is None:
        return ReservationStatus(phase="Invalid", message=problem)
    nodes = int(entry.rows.sum())
    if window is None:
        return ReservationStatus(phase="Ended", message=entry.missing, nodes=nodes)
    phase = "Active" if now >= window.start else "Pending"
    start, end = shown_time(window.start), shown_time(window.end)
    return ReservationStatus(phase, entry.missing, nodes, start, end)


@dataclass(slots=True)
class _Refusal:
    """Of one Reservation: what the server has said last, and the seconds until the next try."""

    told: str
    pause: float = RETRY_AFTER


@dataclass(slots=True, eq=False)
class StatusWriter:
    """Writes the statuses that are not as they should be."""

    _effects: PendingEffects
    _context: EngineContext
    #: Uid → that its status was refused, until that is no more to be written.
    _refused: dict[str, _Refusal] = field(default_factory=dict, init=False)
    #: Name → (uid, what was written last, when it may be written again).
    _written: dict[str, tuple[str, ReservationStatus, float]] = field(
        default_factory=dict, init=False
    )
    _due: float | None = field(default=None, init=False)

    def write(
        self, stored: Iterable[Reservation], wanted: Mapping[str, ReservationStatus], now: float
    ) -> None:
        """Write what differs; later what has been written and does not show yet."""
        written, due, left = self._written, [], _MOST_WRITES
        refused, self._refused = self._refused, {}
        self._written = {}
        for each in stored:
            name, uid = each.metadata.name, each.metadata.uid
            status = wanted[name]
            if each.status == status or each.stands_in:
                continue
            again = now
            if uid in refused:
                self._refused[uid] = refused[uid]
            if (before := written.get(name)) is not None and before[:2] == (uid, status):
                again = before[2]
            if again <= now and left:
                left -= 1
                self._send(each, status)
                again = now + (refused[uid].pause if uid in refused else RETRY_AFTER)
            self._written[name] = uid, status, again
            due.append(max(again, now + 1))
        self._due = min(due, default=None)

    def next_timer(self) -> float | None:
        """When something is to be written again, in the engine's clock."""
        return self._due

    def on_outcome(
        self, effect: Effect, outcome: Outcome, subject: Reservation, now: float
    ) -> None:
        """What became of a write: a refusal is told, once for each text."""
        if not isinstance(outcome, Refused) or not 400 <= outcome.status < 500:
            return
        if outcome.status in _NO_REFUSALS:
            return
        uid, text = subject.metadata.uid, outcome.message or outcome.reason
        known = self._refused.get(uid)
        if known is None or known.told != text:
            self._context.outbox.append(pod_events.refused_reservation_status(subject, text))
        pause = RETRY_AFTER if known is None else known.pause
        self._refused[uid] = _Refusal(text, min(2 * pause, MAX_RETRY_AFTER))

    def _send(self, stated: Reservation, status: ReservationStatus) -> None:
        path = f"/apis/arranger.io/v1alpha1/reservations/{stated.metadata.name}/status"
        said = {
            "phase": status.phase,
            "message": status.message or None,
            "nodes": status.nodes,
            "start": status.start or None,
            "end": status.end or None,
        }
        change = {"metadata": {"uid": stated.metadata.uid}, "status": said}
        self._effects.send(PatchObject(path, change), self, stated)
