"""The pools of devices that can be used from a node (``GatherPools``).

A pool with missing slices or with a device listed twice has no offers. It is listed all the same:
a request for all devices cannot be satisfied without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from arranger.api.types.core import Node, NodeSelector
from arranger.api.types.resource_claims import Device, DeviceId, PoolId, ResourceSlice
from arranger.cluster.device_inventory import DeviceInventory
from arranger.plugins.helpers.node_selectors import compile_terms


class DeviceOffer(NamedTuple):
    """A device, and the slice that lists it."""

    id: DeviceId
    device: Device
    slice: ResourceSlice

    @property
    def node_restriction(self) -> tuple[str, NodeSelector | None]:
        """(the one node it is for or "", the selector of its nodes)."""
        where = self.device if self.slice.spec.per_device_node_selection else self.slice.spec
        return where.node_name, where.node_selector


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as a node sees it; an incomplete or invalid one has no offers."""

    id: PoolId
    offers: tuple[DeviceOffer, ...] = ()
    incomplete: bool = False
    invalid: bool = False


def pools_for(node: Node, devices: DeviceInventory) -> list[Pool]:
    """The pools with devices for a node, in the order in which devices are tried."""
    relevant: dict[PoolId, list[ResourceSlice]] = {}
    for found in devices.slices_for_node(node.metadata.name):
        if not _is_relevant(found, node):
            continue
        of_pool = relevant.setdefault(found.pool_id, [])
        generation = found.spec.pool.generation
        if of_pool and generation > of_pool[0].spec.pool.generation:
            of_pool.clear()
        if not of_pool or generation == of_pool[0].spec.pool.generation:
            of_pool.append(found)
    pools = []
    for pool_id in sorted(relevant):
        pool = _pool(pool_id, relevant[pool_id], node, devices)
        if pool is not None:
            pools.append(pool)
    return pools


def _pool(
    pool_id: PoolId, slices: list[ResourceSlice], node: Node, devices: DeviceInventory
) -> Pool | None:
    """One pool; ``None`` when newer slices, of other nodes, have replaced those of this one."""
    ours = slices[0].spec.pool
    if len(slices) != ours.resource_slice_count:
        everywhere = [found.spec.pool.generation for found in devices.slices_of_pool(pool_id)]
        if max(everywhere) > ours.generation:
            return None
        if everywhere.count(ours.generation) != ours.resource_slice_count:
            return Pool(pool_id, incomplete=True)
    slices.sort(key=lambda found: found.metadata.name)
    names = [device.name for found in slices for device in found.spec.devices]
    if len(set(names)) != len(names):
        return Pool(pool_id, invalid=True)
    return Pool(pool_id, tuple(_offers(pool_id, slices, node)))


def _offers(pool_id: PoolId, slices: list[ResourceSlice], node: Node) -> Iterator[DeviceOffer]:
    for found in slices:
        for device in found.spec.devices:
            offer = DeviceOffer(DeviceId(*pool_id, device.name), device, found)
            if not found.spec.per_device_node_selection or _matches(
                node, device.node_name, device.all_nodes, device.node_selector
            ):
                yield offer


def _is_relevant(found: ResourceSlice, node: Node) -> bool:
    spec = found.spec
    if spec.shared_counters:
        return True  # it has no devices, but counts as one of the pool's slices
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return _matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    return spec.per_device_node_selection and any(
        _matches(node, device.node_name, device.all_nodes, device.node_selector)
        for device in spec.devices
    )


def _matches(node: Node, name: str, everywhere: bool, selector: NodeSelector | None) -> bool:
    if name:
        return name == node.metadata.name
    return everywhere or (selector is not None and selects(selector, node))


def selects(selector: NodeSelector, node: Node) -> bool:
    """Whether the selector matches the node."""
    return any(term.matches(node) for term in compile_terms(selector.node_selector_terms))
