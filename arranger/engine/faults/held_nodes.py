"""The nodes of a Reservation stay reserved while it is set aside: for nobody.

What stands there says which nodes, how much of them and when, and nothing else; and as our code may
raise about whatever has the name of the Reservation, it has another, which no object can have.
Where even that makes our code raise, nothing is reserved, as with a Reservation that is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from arranger.api.types.core import ObjectMeta
from arranger.api.types.reservation import (
    SET_ASIDE,
    Reservation,
    ReservationSpec,
    ReservationUsers,
)
from arranger.cluster.cluster import Cluster

#: A gang that there cannot be.
_NOBODY = ReservationUsers(gangs=["/"])


@dataclass(frozen=True, slots=True)
class HeldNodes:
    """Reserves nodes in place of Reservations."""

    _cluster: Cluster

    def keep(self, obj: Any) -> None:
        """An object does not count; if it is a Reservation its nodes are nobody's."""
        if isinstance(obj, Reservation) and not obj.stands_in:
            self._cluster.objects.set(_for_nobody(obj))

    def end(self, obj: Any) -> None:
        """It counts again, or is gone."""
        if isinstance(obj, Reservation):
            self._cluster.objects.remove(_for_nobody(obj))

    def gives_up(self, obj: Any) -> bool:
        """Whether an object that makes our code raise is only what stands there; then it goes."""
        stands_in = isinstance(obj, Reservation) and obj.stands_in
        if stands_in:
            self._cluster.objects.remove(obj)
        return stands_in


def _for_nobody(reservation: Reservation) -> Reservation:
    meta, spec = reservation.metadata, reservation.spec
    kept = ReservationSpec(
        spec.nodes, spec.window, _NOBODY, drain_before=spec.drain_before, maintenance=False
    )
    named = ObjectMeta(meta.name + SET_ASIDE, creation_timestamp=meta.creation_timestamp)
    return Reservation(named, kept)
