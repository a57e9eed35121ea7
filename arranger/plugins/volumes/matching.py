"""Which volumes a pod's unbound claims would get, on every node of a view.

Upstream: ``FindPodVolumes`` of the VolumeBinding plugin. Of volumes of one size the first by name
is chosen; upstream takes any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from arranger.api.annotations import SELECTED_NODE
from arranger.api.types.storage import (
    NO_PROVISIONER,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from arranger.cluster import BoolArray, IntArray, NodeView, ObjectStore
from arranger.framework import Code, GroupedRejections, Rejection
from arranger.plugins.volumes.free_volumes import (
    NONE,
    FreeVolumes,
    UnboundClaim,
    choose,
)
from arranger.plugins.volumes.topology import NodeTopologyIndex

#: Why a node is rejected, as bits; several reasons are listed in this order.
AFFINITY_CONFLICT: Final = 1
NO_VOLUME: Final = 2
NO_SPACE: Final = 4
MISSING: Final = 8
REASONS: Final = {
    AFFINITY_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    NO_SPACE: "node(s) did not have enough free storage",
    MISSING: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


@dataclass(slots=True)
class MatchResult:
    """What was found, one entry per row of the view.

    Attributes:
        conflicts: the reasons against the node, as bits; 0 for none.
        chosen: claim → the volume it would get there, as an index into its ``volumes``.
        provisions: the claims that would be provisioned, and on which nodes.
    """

    conflicts: IntArray
    chosen: list[tuple[UnboundClaim, IntArray]] = field(default_factory=list)
    provisions: list[tuple[PersistentVolumeClaim, BoolArray]] = field(default_factory=list)

    def grouped_rejections(self) -> GroupedRejections:
        """The reasons, as :class:`FilterResult` wants them."""
        codes, kinds = np.unique(self.conflicts, return_inverse=True)
        rejections = [
            Rejection(tuple(r for bit, r in REASONS.items() if code & bit), Code.UNRESOLVABLE)
            for code in codes.tolist()
        ]
        return rejections, np.where(self.conflicts > 0, kinds, NONE)


@dataclass(frozen=True, slots=True)
class PodVolumeClaims:
    """The claims of a class of pods.

    Attributes:
        bound: the volumes of bound claims; ``None`` for a volume that does not exist.
        node_selected: unbound, and to be provisioned for a node that has been selected.
        to_match: unbound, the smallest first.
        free: how many volumes are free that any of these might get.
    """

    objects: ObjectStore
    bound: tuple[PersistentVolume | None, ...]
    node_selected: tuple[PersistentVolumeClaim, ...]
    to_match: tuple[UnboundClaim, ...]
    free: int = 0

    @classmethod
    def look_up(
        cls,
        objects: ObjectStore,
        bound: Iterable[PersistentVolumeClaim],
        unbound: Sequence[PersistentVolumeClaim],
    ) -> PodVolumeClaims:
        """Look up what the claims need; the unbound ones are WaitForFirstConsumer.

        Raises:
            TooManyClaimsError: there is more to match than is done for one pod.
        """
        node_selected = [c for c in unbound if SELECTED_NODE in c.metadata.annotations]
        waiting = [c for c in unbound if SELECTED_NODE not in c.metadata.annotations]
        volumes = objects.in_namespace(PersistentVolume, "") if waiting else ()
        free = FreeVolumes(volumes, {claim.class_name for claim in waiting})
        waiting.sort(key=lambda claim: claim.size or 0)
        to_match = [_to_match(claim, free, objects) for claim in waiting]
        return cls(
            objects,
            tuple(objects.get(PersistentVolume, "", c.spec.volume_name) for c in bound),
            tuple(node_selected),
            tuple(to_match),
            len(free),
        )

    @property
    def unbound(self) -> bool:
        """Whether something has to be bound before the pod can be."""
        return bool(self.node_selected or self.to_match)

    def match(self, nodes: NodeView) -> MatchResult:
        """Filter the nodes of a view, and say which volumes the claims would get on each."""
        places = NodeTopologyIndex(nodes)
        found = MatchResult(np.zeros(nodes.length, dtype=np.int64))
        self._check_bound(places, found)
        undecided = self._check_selected_nodes(places, found)
        provision = [(claim, undecided) for claim in self.node_selected]
        if self.to_match:
            found.chosen = choose(self.to_match, undecided, places)
        for each, at in found.chosen:
            nowhere = undecided & (at == NONE)
            if each.is_taken:
                found.conflicts[nowhere] |= AFFINITY_CONFLICT
            else:
                provision.append((each.claim, nowhere))
        self._check_provisioning(provision, places, found)
        return found

    def _check_bound(self, places: NodeTopologyIndex, found: MatchResult) -> None:
        """Reject nodes where a bound volume cannot be used; the first one states the reason."""
        undecided = places.nodes.full_mask()
        for volume in self.bound:
            if volume is None:
                found.conflicts[undecided] |= MISSING
                return
            usable = places.bound_volume_mask(volume, self.objects)
            found.conflicts[undecided & ~usable] |= AFFINITY_CONFLICT
            undecided &= usable

    def _check_selected_nodes(self, places: NodeTopologyIndex, found: MatchResult) -> BoolArray:
        """Reject all nodes but the selected one; returns the nodes that are left."""
        undecided = places.nodes.full_mask()
        rows = places.nodes.row_numbers()
        for claim in self.node_selected:
            selected = claim.metadata.annotations[SELECTED_NODE]
            undecided &= rows == places.nodes.table.index.get(selected, NONE)
        found.conflicts[~undecided] |= NO_VOLUME
        return undecided

    def _check_provisioning(
        self,
        provision: Iterable[tuple[PersistentVolumeClaim, BoolArray]],
        places: NodeTopologyIndex,
        found: MatchResult,
    ) -> None:
        """Reject nodes where a volume cannot be provisioned; the first claim states the reason."""
        failed = places.nodes.empty_mask()
        space: dict[str, IntArray | None] = {}
        for claim, where in provision:
            needed = where & ~failed
            if needed.any():
                against = self._provisioning_conflicts(claim, places, space)
                conflicts = np.where(needed, against, 0)
                found.conflicts |= conflicts
                failed |= conflicts > 0
            found.provisions.append((claim, needed))

    def _provisioning_conflicts(
        self,
        claim: PersistentVolumeClaim,
        places: NodeTopologyIndex,
        space: dict[str, IntArray | None],
    ) -> IntArray:
        """Why a claim's volume cannot be provisioned on the nodes, as bits."""
        against = np.full(places.nodes.length, NO_VOLUME, dtype=np.int64)
        storage_class = self.objects.get(StorageClass, "", claim.class_name)
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return against
        against[places.entries_for_class(storage_class)] = 0
        if (size := claim.size) is not None:
            if claim.class_name not in space:
                space[claim.class_name] = self._largest_volumes(storage_class, places)
            if (largest := space[claim.class_name]) is not None:
                against[(against == 0) & (largest < size)] = NO_SPACE
        return against

    def _largest_volumes(
        self, storage_class: StorageClass, places: NodeTopologyIndex
    ) -> IntArray | None:
        """The largest volume of a class that its driver can make for each node, -1 for none; None
        if it reports nothing of the kind."""
        driver = self.objects.get(CSIDriver, "", storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return None
        return places.largest(
            (capacity.node_topology, largest)
            for capacity in self.objects.in_all_namespaces(CSIStorageCapacity)
            if capacity.storage_class_name == storage_class.metadata.name
            and capacity.node_topology is not None
            and (largest := capacity.max_volume_size) is not None
        )


def _to_match(
    claim: PersistentVolumeClaim, free: FreeVolumes, objects: ObjectStore
) -> UnboundClaim:
    candidates = free.candidates_for(claim)
    best = next(iter(candidates.volumes), None)
    is_taken = best is not None and best.is_bound_to(claim) and objects.is_assumed(best)
    return UnboundClaim(claim, candidates, is_taken)
