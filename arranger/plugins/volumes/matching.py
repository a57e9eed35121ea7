"""Which volumes a pod's unbound claims would get, on every node of a view.

Upstream: ``FindPodVolumes`` of the VolumeBinding plugin and ``FindMatchingVolume`` of
``k8s.io/component-helpers/storage/volume``. Of volumes of one size the first by name is chosen;
upstream takes any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from arranger.api.annotations import SELECTED_NODE
from arranger.api.selectors import Selector
from arranger.api.types.core import Requirement
from arranger.api.types.storage import (
    NO_PROVISIONER,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from arranger.cluster import ABSENT, BoolArray, IntArray, NodeView, ObjectStore
from arranger.framework import Code, GroupedRejections, Rejection
from arranger.plugins.volumes.topology import NodeTopologyIndex, volume_node_terms

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
_NONE: Final = -1


class UnboundClaim:
    """An unbound claim, and the volumes that it could be bound to, the best first."""

    def __init__(self, claim: PersistentVolumeClaim, volumes: tuple[PersistentVolume, ...]) -> None:
        self.claim = claim
        self.volumes = volumes

    @cached_property
    def ids(self) -> dict[int, int]:
        """id of a volume → its index in :attr:`volumes`."""
        return {id(volume): number for number, volume in enumerate(self.volumes)}

    def best_per_node(self, places: NodeTopologyIndex) -> IntArray:
        """The best volume on each node, as an index; ``len(volumes)`` where there is none."""
        best = np.full(places.nodes.length, len(self.volumes), dtype=np.int64)
        by_value, others = self._index
        for key, numbers in by_value.items():
            column, values = places.nodes.label(key), places.nodes.table.label_values(key)
            # The last entry is that of nodes without the label.
            of_value = np.full(len(values) + 1, len(self.volumes), dtype=np.int64)
            for value, number in numbers.items():
                of_value[values.find(value)] = number
            of_value[ABSENT] = len(self.volumes)
            np.minimum(best, of_value[column], out=best)
        for number in others:
            rows = places.entries_for_volume(self.volumes[number])
            best[rows] = np.minimum(best[rows], number)
        return best

    @cached_property
    def _index(self) -> tuple[dict[str, dict[str, int]], list[int]]:
        """Label → value → the best volume for nodes with it; and the volumes with other terms."""
        by_value: dict[str, dict[str, int]] = {}
        others: list[int] = []
        for number, volume in enumerate(self.volumes):
            terms = volume_node_terms(volume)
            if terms is not None and len(terms) == 1 and _is_single_in(terms[0]):
                first = by_value.setdefault(terms[0][0].key, {})
                for value in terms[0][0].values:
                    first.setdefault(value, number)
            else:
                others.append(number)
            if terms is None:
                break  # usable anywhere, and later ones are no better
        return by_value, others


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
        return rejections, np.where(self.conflicts > 0, kinds, _NONE)


@dataclass(frozen=True, slots=True)
class PodVolumeClaims:
    """The claims of a class of pods.

    Attributes:
        bound: the volumes of bound claims; ``None`` for a volume that does not exist.
        node_selected: unbound, and to be provisioned for a node that has been selected.
        to_match: unbound, the smallest first.
    """

    objects: ObjectStore
    bound: tuple[PersistentVolume | None, ...]
    node_selected: tuple[PersistentVolumeClaim, ...]
    to_match: tuple[UnboundClaim, ...]

    @classmethod
    def look_up(
        cls,
        objects: ObjectStore,
        bound: Iterable[PersistentVolumeClaim],
        unbound: Sequence[PersistentVolumeClaim],
    ) -> PodVolumeClaims:
        """Look up what the claims need; the unbound ones are WaitForFirstConsumer."""
        node_selected = [c for c in unbound if SELECTED_NODE in c.metadata.annotations]
        waiting = [c for c in unbound if SELECTED_NODE not in c.metadata.annotations]
        volumes: dict[str, list[PersistentVolume]] = {claim.class_name: [] for claim in waiting}
        for volume in objects.in_namespace(PersistentVolume, "") if waiting else ():
            if (of_class := volumes.get(volume.class_name)) is not None:
                of_class.append(volume)
        return cls(
            objects,
            tuple(objects.get(PersistentVolume, "", c.spec.volume_name) for c in bound),
            tuple(node_selected),
            tuple(
                UnboundClaim(claim, _candidate_volumes(claim, volumes[claim.class_name]))
                for claim in sorted(waiting, key=lambda claim: claim.size or 0)
            ),
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
        for wanted in self.to_match:
            chosen = _choose(wanted, undecided, found.chosen, places)
            found.chosen.append((wanted, chosen))
            provision.append((wanted.claim, undecided & (chosen == _NONE)))
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
            undecided &= rows == places.nodes.table.index.get(selected, _NONE)
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
        for claim, where in provision:
            needed = where & ~failed
            if needed.any():
                against = self._provisioning_conflicts(claim, places)
                conflicts = np.where(needed, against, 0)
                found.conflicts |= conflicts
                failed |= conflicts > 0
            found.provisions.append((claim, needed))

    def _provisioning_conflicts(
        self, claim: PersistentVolumeClaim, places: NodeTopologyIndex
    ) -> IntArray:
        """Why a claim's volume cannot be provisioned on the nodes, as bits."""
        against = np.full(places.nodes.length, NO_VOLUME, dtype=np.int64)
        storage_class = self.objects.get(StorageClass, "", claim.class_name)
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return against
        against[places.entries_for_class(storage_class)] = 0
        space = self._nodes_with_capacity(claim, storage_class, places)
        if space is not None:
            against[(against == 0) & ~space] = NO_SPACE
        return against

    def _nodes_with_capacity(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, places: NodeTopologyIndex
    ) -> BoolArray | None:
        """Where the driver reports enough capacity; ``None`` if it reports none at all."""
        driver = self.objects.get(CSIDriver, "", storage_class.provisioner)
        size = claim.size
        if driver is None or not driver.spec.storage_capacity or size is None:
            return None
        space = places.nodes.empty_mask()
        for capacity in self.objects.in_all_namespaces(CSIStorageCapacity):
            if (
                capacity.storage_class_name == storage_class.metadata.name
                and capacity.node_topology is not None
                and (largest := capacity.max_volume_size) is not None
                and largest >= size
            ):
                space[places.entries_for_selector(capacity.node_topology)] = True
        return space


def _choose(
    wanted: UnboundClaim,
    undecided: BoolArray,
    before: Sequence[tuple[UnboundClaim, IntArray]],
    places: NodeTopologyIndex,
) -> IntArray:
    """The best volume on each node that no earlier claim of the pod has chosen there."""
    taken = [(other.ids, at) for other, at in before if not wanted.ids.keys().isdisjoint(other.ids)]
    if not taken:
        best = wanted.best_per_node(places)
        return np.where(undecided & (best < len(wanted.volumes)), best, _NONE)
    chosen = np.full(places.nodes.length, _NONE, dtype=np.int64)
    left = int(undecided.sum())
    for number, volume in enumerate(wanted.volumes):
        if not left:
            break
        rows = places.entries_for_volume(volume)
        rows = rows[undecided[rows] & (chosen[rows] == _NONE)]
        for numbers, theirs in taken:
            if (as_theirs := numbers.get(id(volume))) is not None:
                rows = rows[theirs[rows] != as_theirs]
        chosen[rows] = number
        left -= len(rows)
    return chosen


def _is_single_in(term: Sequence[Requirement]) -> bool:
    return len(term) == 1 and term[0].operator == "In"


def _candidate_volumes(
    claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]
) -> tuple[PersistentVolume, ...]:
    """The volumes that match, wherever they are: the one reserved for the claim, or by size."""
    spec, size = claim.spec, claim.size or 0
    selector = None if spec.selector is None else Selector(spec.selector)
    free: list[PersistentVolume] = []
    for volume in volumes:
        theirs = volume.spec
        if (
            (theirs.claim_ref is not None and not volume.is_bound_to(claim))
            or volume.metadata.deletion_timestamp is not None
            or theirs.volume_mode != spec.volume_mode
            or (theirs.volume_attributes_class_name or "")
            != (spec.volume_attributes_class_name or "")
            or volume.size < size
        ):
            continue
        if volume.is_bound_to(claim):
            return (volume,)
        if (
            volume.status.phase == "Available"
            and (selector is None or selector.matches(volume.metadata.labels))
            and set(spec.access_modes) <= set(theirs.access_modes)
        ):
            free.append(volume)
    return tuple(sorted(free, key=lambda volume: (volume.size, volume.metadata.name)))
