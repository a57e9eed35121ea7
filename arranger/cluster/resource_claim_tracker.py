"""Which devices are taken: by allocations the API shows, or by decisions of ours before that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, TypeVar

import msgspec

from arranger.api.effects import Ambiguous, Applied, ObjectKey, Outcome, ReleaseClaim, ReserveClaim
from arranger.api.types.resource_claims import Allocation, DeviceId, ResourceClaim
from arranger.cluster.claim_reservations import (
    LiftedReservations,
    PendingAllocation,
    Reservation,
)

K = TypeVar("K")
V = TypeVar("V")

#: Bound pods that are looked for whenever a claim changes, whether they are still there.
_LOOKED_AT: Final = 4


class ResourceClaimTracker:
    """Allocations of claims: those the API shows, and those we are about to write or to take back.

    A device counts as taken from our decision on, and until the API, or the outcome of our write,
    has shown that it is not.

    Args:
        is_placed: whether a pod of that uid has a node.
        on_devices_changed: called with devices that are taken or free now.
    """

    def __init__(
        self,
        is_placed: Callable[[str], bool],
        on_devices_changed: Callable[[Iterable[DeviceId]], None],
    ) -> None:
        self._is_placed = is_placed
        self._on_devices_changed = on_devices_changed
        self._taken: Counter[DeviceId] = Counter()
        #: By uid of the claim: as the API shows it; what we have decided on.
        self._observed: dict[str, ResourceClaim] = {}
        self._pending: dict[str, PendingAllocation] = {}
        #: By uid of the pod, then of the claim; and by uid of the claim, then of the pod.
        self._reservations_by_pod: dict[str, dict[str, Reservation]] = {}
        self._reservations_by_claim: dict[str, dict[str, Reservation]] = {}
        #: Uids of bound pods whose reservations the API has not shown yet.
        self._bound_pods: dict[str, None] = {}
        #: By uid of the claim, how many releases are on their way.
        self._inflight_releases: Counter[str] = Counter()
        #: By uid of the claim, releases that are done and that the API does not show yet.
        self._unconfirmed_releases: dict[str, list[ReleaseClaim]] = {}
        #: By uid of the claim, pods that we released: an old state may still list them.
        self._released_pods: dict[str, set[str]] = {}
        #: By uid of the pod, then of the claim: what an earlier life has written, and attempts to
        #: place the pod have left as it was.
        self._left: dict[str, dict[str, Reservation]] = {}
        self._outbox: list[ReleaseClaim] = []
        self._planned: list[ReleaseClaim] = []

    def is_taken(self, device: DeviceId) -> bool:
        """Whether the device cannot be given to anybody else."""
        return device in self._taken

    def taken_of(self, devices: Iterable[DeviceId]) -> frozenset[DeviceId]:
        """Those of the devices that are taken."""
        return frozenset(filter(self._taken.__contains__, devices))

    def allocation_of(self, claim: ResourceClaim) -> Allocation | None:
        """What a claim has been allocated, or is about to be."""
        if claim.status.allocation is not None:
            return claim.status.allocation
        pending = self._pending.get(claim.metadata.uid)
        return None if pending is None else pending.allocation

    def is_being_released(self, claim: ResourceClaim) -> bool:
        """Whether we are taking back the claim's allocation."""
        uid = claim.metadata.uid
        return uid in self._inflight_releases or uid in self._unconfirmed_releases

    def users_of(self, claim: ResourceClaim) -> set[str]:
        """The uids of the pods that a claim is reserved for, or is about to be."""
        shown = {consumer.uid for consumer in claim.status.reserved_for}
        return shown | self._reservations_by_claim.get(claim.metadata.uid, {}).keys()

    def take_effects(self) -> list[ReleaseClaim]:
        """The writes that take something back, each once."""
        for effect in self._planned:
            self._send_release(effect)
        self._planned.clear()
        effects, self._outbox = self._outbox, []
        return effects

    def on_claim_changed(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        """A claim was added, changed or deleted."""
        if before is not None:
            self._observed.pop(before.metadata.uid, None)
        if after is not None:
            self._observed[after.metadata.uid] = after
        was, now = _devices(before), _devices(after)
        if was != now:
            self._mark_taken(now)
            self._mark_free(was)
        if before is not None:
            for consumer in before.status.reserved_for:
                if after is None or not after.is_reserved_for(consumer.uid):
                    discard_nested(self._left, consumer.uid, before.metadata.uid)
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            uid = before.metadata.uid
            self._released_pods.pop(uid, None)
            self._unconfirmed_releases.pop(uid, None)
            for reservation in list(self._reservations_by_claim.get(uid, {}).values()):
                self._drop_reservation(reservation)
        if after is not None:
            uid = after.metadata.uid
            if unseen := self._unconfirmed_releases.pop(uid, None):
                self._await_watch(after, unseen)
            for reservation in list(self._reservations_by_claim.get(uid, {}).values()):
                bound = reservation.pod.uid in self._bound_pods
                if bound and after.is_reserved_for(reservation.pod.uid):
                    self._drop_reservation(reservation)
        for pod_uid in list(islice(self._bound_pods, _LOOKED_AT)):
            del self._bound_pods[pod_uid]
            self._bound_pods[pod_uid] = None  # those after it have their turn
            if not self._is_placed(pod_uid):  # added and removed between two lists
                self._drop_all(pod_uid)

    def reserve(self, claim: ResourceClaim, pod: ObjectKey, allocation: Allocation | None) -> None:
        """Have a pod use a claim; ``allocation`` is what a claim without one is to be given."""
        meta = claim.metadata
        if allocation is not None and self.allocation_of(claim) is None:
            pending = PendingAllocation(allocation, allocation.exclusive_devices())
            self._pending[meta.uid] = pending
            self._mark_taken(pending.devices)
        reservation = Reservation(ObjectKey(meta.namespace, meta.name, meta.uid), pod)
        outdated = pod.uid in self._released_pods.get(meta.uid, ())
        reservation.written = claim.is_reserved_for(pod.uid) and not outdated
        reservation.tried = reservation.written
        self._reservations_by_pod.setdefault(pod.uid, {})[meta.uid] = reservation
        self._reservations_by_claim.setdefault(meta.uid, {})[pod.uid] = reservation

    def prepare_writes(self, pod_uid: str) -> list[ReserveClaim]:
        """The writes that must be applied before the pod may be bound, each once."""
        writes: list[ReserveClaim] = []
        for reservation in self._reservations_by_pod.get(pod_uid, {}).values():
            reservation.tried = False
            if reservation.write is None and not reservation.written:
                pending = self._pending.get(reservation.claim.uid)
                given = None if pending is None else msgspec.to_builtins(pending.allocation)
                reservation.write = ReserveClaim(reservation.claim, reservation.pod, given)
                writes.append(reservation.write)
        return writes

    def release_pod(self, pod_uid: str) -> None:
        """The pod does not get its node: give up its reservations.

        As that may be one of several tries, what an earlier life has written stays as it is until
        :meth:`give_up`, unless the pod was being bound.
        """
        for reservation in list(self._reservations_by_pod.get(pod_uid, {}).values()):
            if reservation.tried:
                self._left.setdefault(pod_uid, {})[reservation.claim.uid] = reservation
                self._drop_reservation(reservation)
            elif reservation.written:
                self._release(reservation)
            elif reservation.write is not None:
                reservation.unwanted = True
            else:
                self._drop_reservation(reservation)

    def give_up(self, pod_uid: str) -> None:
        """It is decided that the pod has no place for now: others may have what it was left."""
        for uid, left in self._left.pop(pod_uid, {}).items():
            claim = self._observed.get(uid)
            if claim is None or uid in self._reservations_by_pod.get(pod_uid, {}):
                continue
            others = self.users_of(claim) - self._released_pods.get(uid, set()) - {pod_uid}
            self._send_release(ReleaseClaim(left.claim, left.pod, deallocate=not others))

    def lift(self, pods: Iterable[str]) -> LiftedReservations:
        """Take the reservations of pods that are not bound out of the books; nothing is written."""
        lifted, by_claim = LiftedReservations(), self._reservations_by_claim
        observed, alone = self._observed, lifted.alone
        for pod_uid in pods:
            if (uses := self._reservations_by_pod.pop(pod_uid, None)) is None:
                continue
            lifted.by_pod[pod_uid] = uses
            for uid in uses:
                lifted.claims[uid] = observed.get(uid)
                if len(users := by_claim[uid]) == 1:
                    alone[uid] = by_claim.pop(uid)  # as it is: most claims are used by one pod
                else:
                    lifted.joint.append((uid, pod_uid, users.pop(pod_uid)))
        for uid in lifted.claims:
            kept = uid in by_claim or uid in self._inflight_releases
            if kept or uid not in self._pending:
                lifted.shared[uid] = self._pending.get(uid)
            else:
                lifted.pending[uid] = self._pending.pop(uid)
        self._mark_free(lifted.devices())
        return lifted

    def put_back(self, lifted: LiftedReservations) -> bool:
        """Undo :meth:`lift`; False, and nothing is changed, if anything of it is not as it was."""
        claims, observed, devices = lifted.claims, self._observed, lifted.devices()
        if any(observed.get(uid) is not claim for uid, claim in claims.items()):
            return False
        if any(self._pending.get(uid) is not given for uid, given in lifted.shared.items()):
            return False
        released = self._inflight_releases.keys() | self._unconfirmed_releases.keys()
        if not (
            released.isdisjoint(claims)
            and lifted.pending.keys().isdisjoint(self._pending)
            and self._taken.keys().isdisjoint(devices)
            and lifted.by_pod.keys().isdisjoint(self._reservations_by_pod)
        ):
            return False
        self._pending.update(lifted.pending)
        self._reservations_by_pod.update(lifted.by_pod)
        by_claim = self._reservations_by_claim
        for uid, pod_uid, reservation in lifted.joint:
            by_claim.setdefault(uid, {})[pod_uid] = reservation
        if by_claim.keys().isdisjoint(lifted.alone):
            by_claim.update(lifted.alone)
        else:
            for uid, users in lifted.alone.items():
                by_claim.setdefault(uid, {}).update(users)
        self._mark_taken(devices)
        return True

    def on_pod_bound(self, pod_uid: str) -> None:
        """The pod is bound; from now on its reservations are released by others."""
        for claim_uid, reservation in list(self._reservations_by_pod.get(pod_uid, {}).items()):
            claim = self._observed.get(claim_uid)
            outdated = pod_uid in self._released_pods.get(claim_uid, ())
            if claim is not None and claim.is_reserved_for(pod_uid) and not outdated:
                self._drop_reservation(reservation)
        if pod_uid in self._reservations_by_pod:
            self._bound_pods[pod_uid] = None

    def plan_deallocation(self, claim: ResourceClaim, pod: ObjectKey) -> None:
        """Take back an allocation that is reserved for nobody, or for this pod alone.

        Nothing changes before :meth:`take_effects`: a simulation that comes here writes nothing.
        """
        meta = claim.metadata
        ref = ObjectKey(meta.namespace, meta.name, meta.uid)
        self._planned.append(ReleaseClaim(ref, pod, deallocate=True))

    def on_outcome(self, effect: ReserveClaim | ReleaseClaim, outcome: Outcome) -> bool:
        """The outcome of a write; returns whether claims or devices are free for others now."""
        if isinstance(outcome, Ambiguous):
            return False
        uid = effect.claim.uid
        if isinstance(effect, ReleaseClaim):
            self._inflight_releases[uid] -= 1
            if not self._inflight_releases[uid]:
                del self._inflight_releases[uid]
            claim = self._observed.get(uid)
            if isinstance(outcome, Applied) and claim is not None:
                self._await_watch(claim, [*self._unconfirmed_releases.pop(uid, ()), effect])
            self._drop_unused_allocation(uid)
            return uid not in self._unconfirmed_releases
        reservation = self._reservations_by_pod.get(effect.pod.uid, {}).get(uid)
        if reservation is None or reservation.write is not effect:
            return False
        if not isinstance(outcome, Applied):
            self._drop_reservation(reservation)
            return True
        reservation.written = True
        if reservation.unwanted:
            self._release(reservation)
        return False

    def check_consistent(self) -> None:
        """Check the parts against each other.

        Raises:
            AssertionError: they disagree.
        """
        for uid, pending in self._pending.items():
            owned = uid in self._reservations_by_claim or uid in self._inflight_releases
            assert owned, f"claim {uid}: nobody's allocation"
            assert all(device in self._taken for device in pending.devices), f"claim {uid}: devices"
        assert all(count > 0 for count in self._taken.values()), "devices given back twice"
        assert self._bound_pods.keys() <= self._reservations_by_pod.keys(), (
            "bound pods without claims"
        )
        by_pod = {(claim, pod) for pod, uses in self._reservations_by_pod.items() for claim in uses}
        by_claim = {(c, pod) for c, uses in self._reservations_by_claim.items() for pod in uses}
        assert by_pod == by_claim, "pods and claims"

    def _release(self, reservation: Reservation) -> None:
        """Undo a reservation that is written; devices stay taken until it is known to be undone."""
        alone = len(self._reservations_by_claim[reservation.claim.uid]) == 1
        self._send_release(ReleaseClaim(reservation.claim, reservation.pod, deallocate=alone))
        self._drop_reservation(reservation)

    def _send_release(self, effect: ReleaseClaim) -> None:
        uid = effect.claim.uid
        self._outbox.append(effect)
        self._inflight_releases[uid] += 1
        self._released_pods.setdefault(uid, set()).add(effect.pod.uid)

    def _await_watch(self, claim: ResourceClaim, releases: Iterable[ReleaseClaim]) -> None:
        """Use nothing of a claim that the API still shows as it was before our writes."""
        unseen = [release for release in releases if not _is_undone(claim, release)]
        if unseen:
            self._unconfirmed_releases[claim.metadata.uid] = unseen

    def _drop_all(self, pod_uid: str) -> None:
        for reservation in list(self._reservations_by_pod[pod_uid].values()):
            self._drop_reservation(reservation)

    def _drop_reservation(self, reservation: Reservation) -> None:
        claim_uid, pod_uid = reservation.claim.uid, reservation.pod.uid
        discard_nested(self._reservations_by_pod, pod_uid, claim_uid)
        discard_nested(self._reservations_by_claim, claim_uid, pod_uid)
        if pod_uid not in self._reservations_by_pod:
            self._bound_pods.pop(pod_uid, None)
        self._drop_unused_allocation(claim_uid)

    def _drop_unused_allocation(self, claim_uid: str) -> None:
        if claim_uid in self._reservations_by_claim or claim_uid in self._inflight_releases:
            return
        pending = self._pending.pop(claim_uid, None)
        if pending is not None:
            self._mark_free(pending.devices)

    def _mark_taken(self, devices: list[DeviceId]) -> None:
        if devices:
            self._taken.update(devices)
            self._on_devices_changed(devices)

    def _mark_free(self, devices: list[DeviceId]) -> None:
        taken = self._taken
        for device in devices:
            left = taken[device] - 1
            if left:
                taken[device] = left
            else:
                taken.pop(device)
        if devices:
            self._on_devices_changed(devices)


def discard_nested(maps: dict[K, dict[str, V]], outer: K, inner: str) -> None:
    """Drop an entry of a map of maps if it is there, and a map that becomes empty."""
    entries = maps.get(outer)
    if entries is not None:
        entries.pop(inner, None)
        if not entries:
            del maps[outer]


def _is_undone(claim: ResourceClaim, release: ReleaseClaim) -> bool:
    if claim.is_reserved_for(release.pod.uid):
        return False
    kept = bool(claim.status.reserved_for) or not release.deallocate
    return kept or claim.status.allocation is None


def _devices(claim: ResourceClaim | None) -> list[DeviceId]:
    if claim is None or claim.status.allocation is None:
        return []
    return claim.status.allocation.exclusive_devices()
