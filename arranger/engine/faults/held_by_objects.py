"""What objects other than pods keep stays kept while they are set aside.

The nodes of a Reservation are nobody's meanwhile. What stands there says which nodes, how much of
them and when, and nothing else; and as our code may raise about whatever has the name of the
Reservation, it has another, which no object can have. Where even that makes our code raise, nothing
is reserved, as with a Reservation that is invalid.

The queue that a PodGroup names is closed where nothing can stand in for the PodGroup, and that of
an owner of which nothing is known: their pods are charged to the default queue meanwhile, so that
it is not known what is left. Nobody evicts these pods, nor those of an owner or of a namespace of
which nothing is known: perhaps it says that they are to stay, or with whom they have to leave, or
makes them users of a Reservation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from arranger.api.settings.queue_annotations import DEFAULT_QUEUE, declared_queue
from arranger.api.types.core import ObjectMeta
from arranger.api.types.pod_groups import POD_GROUPS, PodGroup
from arranger.api.types.reservation import (
    SET_ASIDE,
    Reservation,
    ReservationSpec,
    ReservationUsers,
)
from arranger.api.types.workloads import Workload
from arranger.cluster.cluster import Cluster
from arranger.engine.context.spared_pods import SparedPods
from arranger.engine.handlers.watched_kinds import WatchedKind
from arranger.quota.charging.uncharged import ANOTHER
from arranger.quota.ledger import QuotaLedger

#: A gang that there cannot be.
_NOBODY: Final = ReservationUsers(gangs=["/"])
_POD_GROUP: Final = "PodGroup"
_NAMESPACE: Final = "Namespace"


@dataclass(frozen=True, slots=True)
class HeldByObjects:
    """Keeps in place of Reservations, PodGroups and owners what they keep."""

    _cluster: Cluster
    _ledger: QuotaLedger
    _spared: SparedPods

    def keeps(self, obj: Any) -> bool:
        """Whether it is an object that something can be kept for."""
        return isinstance(obj, (Reservation, *POD_GROUPS))

    def keep(self, kind: WatchedKind[Any], obj: Any) -> None:
        """An object does not count, and no state of it does."""
        if isinstance(obj, Reservation):
            if not obj.stands_in:
                self._cluster.objects.set(_for_nobody(obj))
            return
        self.on_unknown(kind, obj)
        meta, queue = obj.metadata, ""
        if isinstance(obj, PodGroup):
            queue = obj.spec.queue
        elif isinstance(obj, Workload):
            queue = declared_queue(meta) or ANOTHER
        if queue not in ("", DEFAULT_QUEUE):
            self._ledger.uncharged.set(meta.uid, queue, meta.namespace)

    def on_unknown(self, kind: WatchedKind[Any], obj: Any) -> None:
        """Nobody evicts the pods of an object of which nothing is known but its metadata."""
        meta = obj.metadata
        if kind.kind == _NAMESPACE:
            self._spared.spare_namespace(meta.name)
        elif kind.kind == _POD_GROUP:
            self._spared.spare_group(f"{meta.namespace}/{meta.name}")
        elif kind.owns_pods:
            self._spared.spare_owned(meta.namespace, meta.uid, f"{kind.kind} {meta.name}")

    def end(self, kind: WatchedKind[Any], obj: Any) -> None:
        """It counts again, or is gone; of one that cannot be decoded the metadata are given."""
        meta = obj.metadata
        if isinstance(obj, Reservation):
            self._cluster.objects.remove(_for_nobody(obj))
        elif kind.kind == _POD_GROUP:
            self._ledger.uncharged.end(meta.uid)
            self._spared.end_group(f"{meta.namespace}/{meta.name}")
        elif kind.owns_pods:
            self._ledger.uncharged.end(meta.uid)
            self._spared.end_owned(meta.uid)
        elif kind.kind == _NAMESPACE:
            self._spared.end_namespace(meta.name)

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
