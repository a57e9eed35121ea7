"""What objects other than pods keep stays kept while they are set aside.

The nodes of a Reservation are nobody's meanwhile. What stands there says which nodes, how much of
them and when, and nothing else; and as our code may raise about whatever has the name of the
Reservation, it has another, which no object can have. Where even that makes our code raise, nothing
is reserved, as with a Reservation that is invalid.

The queue that a PodGroup names is closed where nothing can stand in for the PodGroup: its pods are
charged to the default queue meanwhile, so that it is not known what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from arranger.api.settings.queue_annotations import DEFAULT_QUEUE
from arranger.api.types.core import ObjectMeta
from arranger.api.types.pod_groups import POD_GROUPS, PodGroup
from arranger.api.types.reservation import (
    SET_ASIDE,
    Reservation,
    ReservationSpec,
    ReservationUsers,
)
from arranger.cluster.cluster import Cluster
from arranger.quota.ledger import QuotaLedger

#: A gang that there cannot be.
_NOBODY: Final = ReservationUsers(gangs=["/"])


@dataclass(frozen=True, slots=True)
class HeldByObjects:
    """Keeps in place of Reservations and PodGroups what they keep."""

    _cluster: Cluster
    _ledger: QuotaLedger

    def keeps(self, obj: Any) -> bool:
        """Whether it is an object that something can be kept for."""
        return isinstance(obj, (Reservation, *POD_GROUPS))

    def keep(self, obj: Any) -> None:
        """An object does not count, and no state of it does."""
        if isinstance(obj, Reservation):
            if not obj.stands_in:
                self._cluster.objects.set(_for_nobody(obj))
        elif isinstance(obj, PodGroup) and obj.spec.queue not in ("", DEFAULT_QUEUE):
            meta = obj.metadata
            self._ledger.uncharged.set(meta.uid, obj.spec.queue, meta.namespace)

    def end(self, obj: Any) -> None:
        """It counts again, or is gone."""
        if isinstance(obj, Reservation):
            self._cluster.objects.remove(_for_nobody(obj))
        elif isinstance(obj, POD_GROUPS):
            self._ledger.uncharged.end(obj.metadata.uid)

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
