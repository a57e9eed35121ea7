"""Where volumes can be used and where they can be provisioned, over all nodes of a view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from arranger.api.selectors import is_valid_requirement
from arranger.api.types.core import LabelSelector, NodeSelectorTerm, Requirement
from arranger.api.types.storage import CSINode, PersistentVolume, StorageClass
from arranger.cluster import ABSENT, BoolArray, IdArray, IntArray, NodeView, ObjectStore
from arranger.plugins.helpers.node_selectors import NodeTerm
from arranger.plugins.volumes.csi_migration import (
    Migration,
    Terms,
    migration_of,
    translate_topology,
)


def volume_node_terms(volume: PersistentVolume) -> Terms | None:
    """The terms of a volume's node affinity that can match; ``None`` if it can be used anywhere.

    As upstream, only a node's labels are matched: what a term says about names is ignored.
    """
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    terms: Iterable[NodeSelectorTerm] = affinity.required.node_selector_terms
    return [
        term.match_expressions
        for term in terms
        if (term.match_expressions or term.match_fields)
        and all(map(is_valid_requirement, term.match_expressions))
    ]


class NodeTopologyIndex:
    """Matches many selectors against the labels of a view's nodes.

    A volume on a node's own disk names one node of thousands, and there are thousands of such
    volumes: for these, entries are looked up by label value and not compared one by one.
    """

    def __init__(self, nodes: NodeView) -> None:
        self.nodes = nodes
        self._sorted: dict[str, tuple[IntArray, IdArray]] = {}
        self._served: dict[str, BoolArray] = {}

    @cached_property
    def all(self) -> IntArray:
        """Every entry."""
        return np.arange(self.nodes.length, dtype=np.int64)

    def entries_matching(self, terms: Terms | None) -> IntArray:
        """The entries that match one of the terms; all entries for ``None``."""
        if terms is None:
            return self.all
        if len(terms) == 1:
            return self._matching_all(terms[0])
        found = [self._matching_all(term) for term in terms]
        return np.unique(np.concatenate(found)) if found else self.all[:0]

    def entries_for_volume(self, volume: PersistentVolume) -> IntArray:
        """The entries where a volume can be used by its own node affinity."""
        return self.entries_matching(volume_node_terms(volume))

    def bound_volume_mask(self, volume: PersistentVolume, objects: ObjectStore) -> BoolArray:
        """Where a bound volume can be used; migrated ones also by their CSI driver's labels.

        On nodes where the driver has taken the in-tree plugin over, the translated terms count.
        """
        own = self._mask(volume_node_terms(volume))
        migrated = migration_of(volume)
        if migrated is None:
            return own
        migration, _ = migrated
        served = self._migrated_nodes(migration, objects)
        if not migration.topology_key or not served.any():
            return own
        there = translate_topology(volume_node_terms(volume), volume, migration.topology_key)
        return np.where(served, self._mask(there), own)

    def entries_for_class(self, storage_class: StorageClass) -> IntArray:
        """The entries where a class allows volumes to be provisioned."""
        if not storage_class.allowed_topologies:
            return self.all
        terms = [
            [Requirement(e.key, "In", e.values) for e in term.match_label_expressions]
            for term in storage_class.allowed_topologies
            if term.match_label_expressions
        ]
        return self.entries_matching([t for t in terms if all(map(is_valid_requirement, t))])

    def largest(self, sizes: Iterable[tuple[LabelSelector, int]]) -> IntArray:
        """By entry the largest of the sizes whose selector matches, -1 for none; an empty selector
        matches all."""
        found = np.full(self.nodes.length, -1, dtype=np.int64)
        by_key: dict[str, dict[str, int]] = {}
        for selector, size in sizes:
            wanted = [Requirement(key, "In", [v]) for key, v in selector.match_labels.items()]
            wanted += selector.match_expressions
            if not all(map(is_valid_requirement, wanted)):
                continue
            if len(wanted) == 1 and wanted[0].operator == "In":
                by_value = by_key.setdefault(wanted[0].key, {})
                for value in wanted[0].values:
                    by_value[value] = max(size, by_value.get(value, -1))
            else:
                rows = self._matching_all(wanted)
                found[rows] = np.maximum(found[rows], size)
        for key, by_value in by_key.items():
            values = self.nodes.table.label_values(key)
            # The last entry is that of nodes without the label, and of values that none has.
            of_value = np.full(len(values) + 1, -1, dtype=np.int64)
            for value, size in by_value.items():
                of_value[values.find(value)] = size
            of_value[-1] = -1
            np.maximum(found, of_value[self.nodes.label(key)], out=found)
        return found

    def _mask(self, terms: Terms | None) -> BoolArray:
        mask = self.nodes.empty_mask()
        mask[self.entries_matching(terms)] = True
        return mask

    def _matching_all(self, wanted: Sequence[Requirement]) -> IntArray:
        if len(wanted) == 1 and wanted[0].operator == "In":
            return self._with_label(wanted[0].key, wanted[0].values)
        return np.flatnonzero(NodeTerm(wanted, ()).mask(self.nodes))

    def _with_label(self, key: str, values: Sequence[str]) -> IntArray:
        if key not in self._sorted:
            column = self.nodes.label(key)
            order = np.argsort(column, kind="stable")
            self._sorted[key] = order, column[order]
        order, ordered = self._sorted[key]
        found: list[IntArray] = []
        for value in values:
            number = self.nodes.table.label_values(key).find(value)
            if number != ABSENT:
                first, last = np.searchsorted(ordered, (number, number + 1))
                found.append(order[first:last])
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else self.all[:0]

    def _migrated_nodes(self, migration: Migration, objects: ObjectStore) -> BoolArray:
        served = self._served.get(migration.plugin)
        if served is not None:
            return served
        served = self._served[migration.plugin] = self.nodes.empty_mask()
        for place, node in self.nodes.nodes():
            csi_node = objects.get(CSINode, "", node.name)
            served[place] = csi_node is not None and migration.plugin in csi_node.migrated_plugins
        return served
