"""What a Reservation's status is to say, and the writes that make it so.

Nothing waits for these writes: what the watch shows is compared with what is true, and written
again after a while as long as it differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from arranger.api.effects import PatchObject
from arranger.api.settings.reservation_windows import Window
from arranger.api.types.reservation import Reservation, ReservationStatus
from arranger.engine.context import EngineContext
from arranger.engine.reservations.entry import Entry, shown_time

#: Seconds until a status is written again that the watch does not show.
RETRY_AFTER: Final = 30.0
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
        return ReservationStatus(phase="Ended", nodes=nodes)
    phase = "Active" if now >= window.start else "Pending"
    start, end = shown_time(window.start), shown_time(window.end)
    return ReservationStatus(phase=phase, nodes=nodes, start=start, end=end)


@dataclass(slots=True, eq=False)
class StatusWriter:
    """Writes the statuses that are not as they should be."""

    _context: EngineContext
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
        self._written = {}
        for each in stored:
            name, uid = each.metadata.name, each.metadata.uid
            status = wanted[name]
            if each.status == status:
                continue
            again = now
            if (before := written.get(name)) is not None and before[:2] == (uid, status):
                again = before[2]
            if again <= now and left:
                left -= 1
                self._send(each, status)
                again = now + RETRY_AFTER
            self._written[name] = uid, status, again
            due.append(max(again, now + 1))
        self._due = min(due, default=None)

    def next_timer(self) -> float | None:
        """When something is to be written again, in the engine's clock."""
        return self._due

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
        self._context.outbox.append(PatchObject(path, change))
