"""Which nodes have devices for claims, kept for the next pod whose claims ask for the same.

Most pods with claims are replicas: their claims are made from one template. So a search is
repeated only on nodes where devices have come, gone, been taken or given back since.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from arranger.api.devices import DeviceClass, ResourceClaim
from arranger.api.objects import Node
from arranger.cluster.cluster import Cluster
from arranger.plugins.device_pools import pools_for
from arranger.plugins.device_requests import AllocationError
from arranger.plugins.device_search import Chosen, Found, search

NOT_ENOUGH: Final = "cannot allocate all claims"
#: Different wishes kept.
_KEPT: Final = 16

_encode: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Kept:
    """What was found for one wish; ``claims`` are those that it was found for."""

    claims: list[str]
    devices_version: int
    classes_version: int
    by_node: dict[str, tuple[Node, Found | str]] = field(default_factory=dict)


class Wish:
    """Claims that are to be allocated together, on some node of a cluster as it is now."""

    def __init__(self, cluster: Cluster, claims: Sequence[ResourceClaim], kept: _Kept) -> None:
        self._cluster = cluster
        self._claims = claims
        self._kept = kept

    def on(self, node: Node) -> list[list[Chosen]] | str:
        """The devices for each claim, or why the claims cannot be allocated there."""
        _refresh(self._kept, self._cluster)
        name = node.metadata.name
        known = self._kept.by_node.get(name)
        if known is None or known[0] is not node:
            known = self._kept.by_node[name] = node, self._search(node)
        found = known[1]
        if isinstance(found, str):
            for theirs, claim in zip(self._kept.claims, self._claims, strict=True):
                found = found.replace(f"claim {theirs}", f"claim {claim.key}")
            return found
        if found.chosen is not None:
            return found.chosen
        if found.passed_over:
            return f"{NOT_ENOUGH}; not supported yet: {', '.join(found.passed_over)}"
        return NOT_ENOUGH

    def _search(self, node: Node) -> Found | str:
        devices, objects = self._cluster.devices, self._cluster.objects
        try:
            return search(
                self._claims,
                pools_for(node, devices),
                lambda name: objects.get(DeviceClass, "", name),
                devices.claims.is_taken,
            )
        except AllocationError as error:
            text = str(error)
            for theirs, claim in zip(self._kept.claims, self._claims, strict=True):
                text = text.replace(f"claim {claim.key}", f"claim {theirs}")
            return text


class Wishes:
    """The wishes of one cluster that were judged last."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._kept: OrderedDict[tuple[bytes, ...], _Kept] = OrderedDict()

    def of(self, cluster: Cluster, claims: Sequence[ResourceClaim]) -> Wish:
        """The wish for all these claims."""
        if cluster is not self._cluster:
            self._cluster, self._kept = cluster, OrderedDict()
        key = tuple(_encode(claim.spec) for claim in claims)
        kept = self._kept.get(key)
        if kept is None:
            names = [claim.key for claim in claims]
            devices = cluster.devices
            kept = _Kept(names, devices.version, devices.classes_version)
            self._kept[key] = kept
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return Wish(cluster, claims, kept)


def _refresh(kept: _Kept, cluster: Cluster) -> None:
    """Forget what is known of nodes where something has changed."""
    devices = cluster.devices
    if kept.devices_version == devices.version and kept.classes_version == devices.classes_version:
        return
    changed = devices.changed_since(kept.devices_version)
    if changed is None or kept.classes_version != devices.classes_version:
        kept.by_node.clear()
    else:
        for name in changed:
            kept.by_node.pop(name, None)
    kept.devices_version, kept.classes_version = devices.version, devices.classes_version
