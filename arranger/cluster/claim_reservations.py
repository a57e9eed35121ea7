"""What pods of ours have reserved of claims, and what these are to be given."""

from __future__ import annotations

from dataclasses import dataclass, field

from arranger.api.effects import ObjectKey, ReserveClaim
from arranger.api.types.resource_claims import Allocation, DeviceId, ResourceClaim


@dataclass(slots=True)
class Reservation:
    """A pod of ours that is to use a claim.

    Attributes:
        write: the reservation on its way to the API, or done there.
        written: whether it is done.
        unwanted: whether it is to be taken back as soon as its outcome is known.
        tried: whether an earlier life of ours has written it, and the pod is not being bound.
    """

    claim: ObjectKey
    pod: ObjectKey
    write: ReserveClaim | None = None
    written: bool = False
    unwanted: bool = False
    tried: bool = False


@dataclass(frozen=True, slots=True)
class PendingAllocation:
    """An allocation that we have decided on, and that the API may not show yet."""

    allocation: Allocation
    devices: list[DeviceId]


@dataclass(frozen=True, slots=True)
class LiftedReservations:
    """What some pods had reserved, and nobody else has.

    Attributes:
        by_pod: uid of the pod → uid of the claim → its reservation.
        alone: uid of the claim → uid of the pod → the same, where that was the last one.
        joint: claim, pod and the reservation of all others.
        pending: uid of the claim → the allocation that is nobody's now.
        shared: uid of the claim → the allocation that others have kept; None for none of ours.
        claims: uid of the claim → as the API showed it.
    """

    by_pod: dict[str, dict[str, Reservation]] = field(default_factory=dict)
    alone: dict[str, dict[str, Reservation]] = field(default_factory=dict)
    joint: list[tuple[str, str, Reservation]] = field(default_factory=list)
    pending: dict[str, PendingAllocation] = field(default_factory=dict)
    shared: dict[str, PendingAllocation | None] = field(default_factory=dict)
    claims: dict[str, ResourceClaim | None] = field(default_factory=dict)

    def devices(self) -> list[DeviceId]:
        """Those that nobody has now."""
        return [device for pending in self.pending.values() for device in pending.devices]
