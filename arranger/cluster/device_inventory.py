"""The devices of the cluster: from which nodes they can be used, and which are free."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from arranger.api.types.resource_claims import (
    IMPLICIT_RESOURCE_PREFIX,
    DeviceClass,
    DeviceId,
    PoolId,
    ResourceClaim,
    ResourceSlice,
)
from arranger.cluster.change_log import ChangeLog
from arranger.cluster.claim_reservations import LiftedReservations
from arranger.cluster.object_store import DeviceObject, ObjectListener
from arranger.cluster.resource_claim_tracker import (
    ResourceClaimTracker,
    discard_nested,
)

#: In place of a node's name: all nodes, or several.
ALL_NODES: Final = ""
#: Larger pools are logged as a change of all nodes when one of their slices changes.
_MAX_LOGGED_SLICES: Final = 16
#: Changes kept in the log.
_LOG_LIMIT: Final = 16384


@dataclass(frozen=True, slots=True)
class LiftedDevices:
    """What pods had reserved that are off their nodes for now.

    Attributes:
        before: the inventory's version when they still had it; ``after``: when they had not.
        offers: what was offered then.
    """

    reserved: LiftedReservations
    before: int
    after: int
    offers: tuple[int, int]


class DeviceInventory:
    """ResourceSlices by pool and by node, and which devices are taken.

    Attributes:
        claim_tracker: which devices are taken.
        classes_version: number of changes so far of device classes.
        shared_version: number of changes so far of devices that several nodes use, and of which of
            these are taken.
        extended_resources: extended resource → the DeviceClass that provides it.
    """

    def __init__(self, is_placed: Callable[[str], bool]) -> None:
        """``is_placed`` says whether a pod of that uid has a node."""
        self.claim_tracker = ResourceClaimTracker(is_placed, self._on_devices_changed)
        self.classes_version = self.shared_version = 0
        self.extended_resources: dict[str, str] = {}
        self._pools: dict[PoolId, dict[str, ResourceSlice]] = {}
        #: Slices by the one node that they are for; ALL_NODES for all others.
        self._by_node: dict[str, dict[str, ResourceSlice]] = {}
        #: Device → slice that lists it → the node which that is for.
        self._homes: dict[DeviceId, dict[str, str]] = {}
        #: By node that has slices of its own: when what it offers has changed last, and its devices
        #: if these have been asked for since.
        self._offers: dict[str, int] = {}
        self._ids: dict[str, tuple[DeviceId, ...]] = {}
        #: When anything that is offered anywhere has changed last.
        self._offers_version = 0
        #: When that which several nodes use has changed last, taken or not.
        self._shared_offers = 0
        self._log: ChangeLog[str] = ChangeLog(_LOG_LIMIT)

    def slices_for_node(self, node: str) -> Iterable[ResourceSlice]:
        """The slices of a node, and those that may be for several nodes."""
        yield from self._by_node.get(node, {}).values()
        yield from self._by_node.get(ALL_NODES, {}).values()

    def slices_of_pool(self, pool: PoolId) -> Iterable[ResourceSlice]:
        """All slices of a pool, of all its generations."""
        return self._pools.get(pool, {}).values()

    def listeners(self) -> dict[type[DeviceObject], ObjectListener]:
        """What follows the changes of each kind of object."""
        return {
            ResourceClaim: self.claim_tracker.on_claim_changed,
            ResourceSlice: self._on_slice_changed,
            DeviceClass: self._on_class_changed,
        }

    @property
    def version(self) -> int:
        """Number of changes so far of devices, and of which of them are taken."""
        return self._log.version

    def changed_since(self, version: int) -> set[str] | None:
        """The nodes whose devices changed after ``version``; ``None`` for all of them."""
        nodes = self._log.since(version)
        return None if nodes is None or ALL_NODES in nodes else set(nodes)

    def offers_at(self, node: str) -> Hashable:
        """Equal as long as nothing changes of what is offered on a node, taken or not."""
        return self.classes_version, self._offers.get(node), self._shared_offers

    def state_at(self, node: str) -> Hashable:
        """Equal whenever the same devices that are for a node alone are offered and taken."""
        if (slices := self._by_node.get(node)) is None:
            return None
        ids = self._ids.get(node)
        if ids is None:
            ids = tuple(chain.from_iterable(map(_device_ids, slices.values())))
            self._ids[node] = ids
        return self._offers[node], self.claim_tracker.taken_of(ids)

    def lift(self, pods: Iterable[str]) -> LiftedDevices:
        """Take what pods that are not bound have reserved out of the books, until they are back."""
        before = self.version
        reserved = self.claim_tracker.lift(pods)
        offers = self.classes_version, self._offers_version
        return LiftedDevices(reserved, before, self.version, offers)

    def put_back(self, lifted: LiftedDevices) -> bool:
        """Undo :meth:`lift`; False, and nothing is changed, if it cannot be as it was."""
        unchanged = self.version == lifted.after
        if (self.classes_version, self._offers_version) != lifted.offers:
            return False
        if not self.claim_tracker.put_back(lifted.reserved):
            return False
        if unchanged:
            self._log.forget_since(lifted.before)
        return True

    def check_consistent(self) -> None:
        """Check the parts against each other.

        Raises:
            AssertionError: they disagree.
        """
        self.claim_tracker.check_consistent()
        pooled = {name for slices in self._pools.values() for name in slices}
        assert pooled == {name for slices in self._by_node.values() for name in slices}, "slices"
        assert self._offers.keys() == self._by_node.keys() - {ALL_NODES}, "nodes with slices"
        assert self._ids.keys() <= self._offers.keys(), "devices of nodes without slices"

    def _on_slice_changed(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        if before is not None:
            self._remove_slice(before)
        if after is not None:
            self._add_slice(after)
        for pool in {found.pool_id for found in (before, after) if found is not None}:
            # A slice tells whether the others of its pool are complete, or out of date.
            others = self._pools.get(pool, {})
            node_names = (
                {_node_of_slice(other) for other in others.values()}
                if len(others) <= _MAX_LOGGED_SLICES
                else ()
            )
            for home in node_names or (ALL_NODES,):
                self._note(home)

    def _remove_slice(self, gone: ResourceSlice) -> None:
        discard_nested(self._pools, gone.pool_id, gone.metadata.name)
        discard_nested(self._by_node, _node_of_slice(gone), gone.metadata.name)
        for device in _device_ids(gone):
            discard_nested(self._homes, device, gone.metadata.name)
        self._note(_node_of_slice(gone))

    def _add_slice(self, there: ResourceSlice) -> None:
        self._pools.setdefault(there.pool_id, {})[there.metadata.name] = there
        self._by_node.setdefault(_node_of_slice(there), {})[there.metadata.name] = there
        self._note(_node_of_slice(there))
        for device in _device_ids(there):
            self._homes.setdefault(device, {})[there.metadata.name] = _node_of_slice(there)

    def _on_class_changed(self, before: DeviceClass | None, after: DeviceClass | None) -> bool:
        self.classes_version += 1
        was, now = _extended_resources(before), _extended_resources(after)
        if was != now:
            for resource in was:
                self.extended_resources.pop(resource, None)
            self.extended_resources |= now
        return was != now  # then pods that have no claims may ask for them, too

    def _on_devices_changed(self, devices: Iterable[DeviceId]) -> None:
        known = self._homes
        homes = {home for each in devices if each in known for home in known[each].values()}
        self.shared_version += ALL_NODES in homes
        self._log.extend(homes)

    def _note(self, home: str) -> None:
        """What a node offers has changed, or what several use."""
        self._log.append(home)
        shared = home == ALL_NODES
        self.shared_version += shared
        self._offers_version = self.version
        self._ids.pop(home, None)
        if shared:
            self._shared_offers = self.version
        elif home in self._by_node:
            self._offers[home] = self.version
        else:
            self._offers.pop(home, None)


def _node_of_slice(of: ResourceSlice) -> str:
    return of.spec.node_name or ALL_NODES


def _extended_resources(of: DeviceClass | None) -> dict[str, str]:
    if of is None:
        return {}
    name = of.metadata.name
    stated = of.spec.extended_resource_name
    return dict.fromkeys([f"{IMPLICIT_RESOURCE_PREFIX}{name}", *([stated] if stated else [])], name)


def _device_ids(of: ResourceSlice) -> list[DeviceId]:
    return [DeviceId(*of.pool_id, device.name) for device in of.spec.devices]
