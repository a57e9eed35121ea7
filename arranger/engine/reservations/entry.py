"""One Reservation, as it was read: its nodes, its window at a moment, and its users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from arranger.api.parsing.errors import ParseError
from arranger.api.selectors import Selector
from arranger.api.settings.reservation_windows import Window, Windows, problem_of, read_windows
from arranger.api.timestamps import from_unix, second_time
from arranger.api.types.reservation import ReservationSpec
from arranger.cluster.columns import BoolArray
from arranger.engine.reservations.reserved_rows import ReservedRows


@dataclass(frozen=True, slots=True)
class Entry:
    """A Reservation that can be read.

    Attributes:
        name: its name.
        spec: what it says.
        windows: when it holds.
        rows: row → whether its node is reserved in a window.
        part: column → how much of each node is reserved; empty where whole nodes are.
        missing: what it is to have, and its nodes do not offer; "" for nothing.
        namespaces: whose labels make pods its users.
    """

    name: str
    spec: ReservationSpec
    windows: Windows
    rows: BoolArray
    part: Mapping[int, int]
    missing: str
    namespaces: Selector

    def at_nodes(self, reserved: ReservedRows) -> Entry:
        """The same with its nodes as they are now."""
        rows, part, missing = reserved.of(self.spec.nodes)
        return replace(self, rows=rows, part=part, missing=missing)

    def window_for(self, now: float, lasts: float | None) -> Window | None:
        """The window that keeps a pod of others away which would start now; None if none does.

        Args:
            now: in seconds since 1970.
            lasts: the pod's maximum run time, in seconds; None if it may run for ever.
        """
        window = self.windows.at(now)
        if window is None:
            return None
        reaches = self.windows.drain_before if lasts is None else lasts
        return window if now >= window.start or now + reaches > window.start else None

    def reason(self, window: Window, now: float) -> str:
        """Why a node is not for others."""
        by = f"node(s) reserved {'in part ' if self.part else ''}by Reservation {self.name}"
        if now >= window.start:
            return f"{by} until {shown_time(window.end)}"
        return f"{by} from {shown_time(window.start)}"


def read_entry(name: str, spec: ReservationSpec, reserved: ReservedRows) -> Entry:
    """A Reservation with its nodes as they are now.

    Raises:
        ParseError: something of it cannot be read, or nothing is reserved for anybody.
    """
    if problem := problem_of(spec):
        raise ParseError(problem)
    rows, part, missing = reserved.of(spec.nodes)
    namespaces = Selector(spec.users.namespace_selector)
    return Entry(name, spec, read_windows(spec), rows, part, missing, namespaces)


def shown_time(at: float) -> str:
    """A moment in messages, in UTC."""
    return second_time(from_unix(at))
