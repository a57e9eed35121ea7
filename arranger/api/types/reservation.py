"""Reservations: nodes that are kept for some, or for nobody, during a window of time.

Texts stay texts here; :mod:`arranger.api.settings.reservation_windows` reads them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from arranger.api.types.core import LabelSelector, ObjectMeta, ResourceList, Struct

#: How the names of those end that stand in for Reservations; no object can be called so.
SET_ASIDE: Final = " (set aside)"


class ReservedNodes(Struct):
    """``spec.nodes``: those that are named, and those that the selector matches.

    Of the latter so many, or so many as offer these resources and cards. Of each only so much as
    ``per_node`` says, if it says anything.
    """

    names: list[str] = msgspec.field(default_factory=list)
    selector: LabelSelector | None = None
    count: int | None = None
    resources: ResourceList = msgspec.field(default_factory=dict)
    cards: dict[str, int] = msgspec.field(default_factory=dict)
    per_node: ResourceList = msgspec.field(default_factory=dict)


class Recurrence(Struct):
    """``spec.window.recurrence``: the days on which the window comes again."""

    days: list[str] = msgspec.field(default_factory=list)
    time_zone: str = "UTC"
    until: str = ""


class ReservationWindow(Struct):
    """``spec.window``: when the nodes are reserved."""

    start: str = ""
    end: str = ""
    duration: str = ""
    recurrence: Recurrence | None = None


class ReservationUsers(Struct):
    """``spec.users``: whose pods may be there; one of these is enough."""

    queues: list[str] = msgspec.field(default_factory=list)
    namespace_selector: LabelSelector | None = None
    gangs: list[str] = msgspec.field(default_factory=list)


class ReservationSpec(Struct):
    """``spec`` of a Reservation."""

    nodes: ReservedNodes = msgspec.field(default_factory=ReservedNodes)
    window: ReservationWindow = msgspec.field(default_factory=ReservationWindow)
    users: ReservationUsers = msgspec.field(default_factory=ReservationUsers)
    maintenance: bool = False
    evict: bool = False
    drain_before: str = ""


class ReservationStatus(Struct):
    """``status``: how it stands, as the scheduler has written it."""

    phase: str = ""
    message: str = ""
    nodes: int = 0
    start: str = ""
    end: str = ""


class Reservation(Struct):
    """A Reservation of ``arranger.io``; it has no namespace."""

    metadata: ObjectMeta
    spec: ReservationSpec = msgspec.field(default_factory=ReservationSpec)
    status: ReservationStatus = msgspec.field(default_factory=ReservationStatus)

    @property
    def stands_in(self) -> bool:
        """Whether it is no object of the API server, and only stands in for one."""
        return self.metadata.name.endswith(SET_ASIDE)
