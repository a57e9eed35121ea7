"""Topology spread constraints, compiled for one class of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec
import numpy as np

from arranger.api.selectors import Selector
from arranger.api.types.core import (
    LabelSelector,
    Node,
    OwnerReference,
    Pod,
    Requirement,
    TopologySpreadConstraint,
)
from arranger.api.types.packed import MANY, packed_labels, unpacked, unpacked_labels
from arranger.api.types.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from arranger.cluster import ABSENT, BoolArray, NodeView, ObjectStore, PodInfo
from arranger.cluster.nodes.selector_counts import SelectorCountCache, SelectorCounts
from arranger.plugins.helpers.node_selectors import RequiredNodeAffinity
from arranger.plugins.helpers.taints import tolerates_hard_taints

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

_encode: Final = msgspec.json.Encoder(enc_hook=unpacked).encode
#: Bytes of a selector with more of which its digest stands for it.
_LONG: Final = 4096
#: Labels of the selectors of a namespace's Services that are compared with a pod's.
MAX_COMPARED: Final = 50_000


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A constraint with its selector compiled.

    Attributes:
        selector_key: equal for equal selectors; a digest of a large one.
    """

    key: str
    max_skew: int
    min_domains: int
    honor_affinity: bool
    honor_taints: bool
    selector: Selector
    selector_key: bytes
    large_selector: bool

    def pods(self, counts: SelectorCountCache, namespace: str) -> SelectorCounts:
        """How many pods on each node count: of the namespace, selected, not terminating."""
        selector = self.selector

        def matches(pod: PodInfo) -> bool:
            metadata = pod.pod.metadata
            return metadata.deletion_timestamp is None and selector.matches(metadata.labels)

        if selector.empty:  # upstream counts nothing for a selector that selects everything
            return counts.get("no pods", frozenset(), matches)
        key = "spread", self.selector_key
        spaces, cost = frozenset({namespace}), lambda: 1 + selector.size // 4
        return counts.get(
            key, spaces, matches, cost, selector.required_labels, large=self.large_selector
        )

    def match_node_inclusion_policies(
        self, pod: Pod, affinity: RequiredNodeAffinity, nodes: NodeView
    ) -> BoolArray:
        """Which nodes count by ``nodeAffinityPolicy`` and ``nodeTaintsPolicy``.

        ``affinity`` is the pod's own.
        """
        matched = nodes.alive.copy()
        if self.honor_affinity:
            matched &= affinity.mask(nodes)
        if self.honor_taints:
            matched &= _tolerated(pod, nodes)
        return matched


def compile_constraint(
    constraint: TopologySpreadConstraint, labels: Mapping[str, str]
) -> SpreadConstraint:
    """Fill in defaults, and ``matchLabelKeys`` from the pod's labels."""
    keys = constraint.match_label_keys
    also = [Requirement(key, "In", [labels[key]]) for key in keys if key in labels]
    encoded = _encode((constraint.label_selector, also))
    return SpreadConstraint(
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains or 1,
        honor_affinity=constraint.node_affinity_policy == "Honor",
        honor_taints=constraint.node_taints_policy == "Honor",
        selector=Selector(constraint.label_selector, extra_requirements=also),
        selector_key=encoded if len(encoded) <= _LONG else sha256(encoded).digest(),
        large_selector=len(encoded) > _LONG,
    )


def default_selector(pod: Pod, objects: ObjectStore) -> tuple[LabelSelector, ...]:
    """The selectors of a pod's Services and of its controller: all must match.

    Of a namespace whose Services have more than :data:`MAX_COMPARED` labels only the first are
    looked at. Upstream: ``helper.DefaultSelector``.
    """
    namespace, labels = pod.metadata.namespace, unpacked_labels(pod.metadata.labels)
    merged: dict[str, str] = {}
    left = MAX_COMPARED
    for service in objects.in_namespace(Service, namespace):
        wanted = service.spec.selector
        left -= len(wanted or ())
        if left < 0:
            break
        if wanted and wanted.items() <= labels.items():
            merged.update(wanted.items())
    selectors: list[LabelSelector] = []
    owner = pod.metadata.controller or OwnerReference()
    match owner.api_version, owner.kind:
        case "v1", "ReplicationController":
            replication = objects.get(ReplicationController, namespace, owner.name)
            merged.update(replication.spec.selector.items() if replication is not None else ())
        case "apps/v1", "ReplicaSet" | "StatefulSet" as kind:
            kinds: dict[str, type[ReplicaSet | StatefulSet]]
            kinds = {"ReplicaSet": ReplicaSet, "StatefulSet": StatefulSet}
            workload = objects.get(kinds[kind], namespace, owner.name)
            if workload is not None and workload.spec.selector is not None:
                selectors.append(workload.spec.selector)
    if not merged:
        return tuple(selectors)
    return (LabelSelector(match_labels=packed_labels(merged)), *selectors)


def with_selector(
    constraint: TopologySpreadConstraint, selectors: Sequence[LabelSelector]
) -> TopologySpreadConstraint:
    """A default constraint for the pods that all of ``selectors`` select."""
    large = max((each.match_labels for each in selectors), key=len, default={})
    equal = large if len(large) > MANY else {}
    expressions = [
        *(
            Requirement(key, "In", [value])
            for each in selectors
            if each.match_labels is not equal
            for key, value in each.match_labels.items()
        ),
        *(expression for each in selectors for expression in each.match_expressions),
    ]
    selector = LabelSelector(match_labels=equal, match_expressions=expressions)
    return msgspec.structs.replace(constraint, label_selector=selector)


def has_all_keys(constraints: Sequence[SpreadConstraint], nodes: NodeView) -> BoolArray:
    """Which nodes carry every topology key."""
    present = nodes.alive.copy()
    for constraint in constraints:
        present &= nodes.label(constraint.key) != ABSENT
    return present


def node_has_all_keys(constraints: Sequence[SpreadConstraint], node: Node) -> bool:
    """Whether one node carries every topology key."""
    return all(constraint.key in node.metadata.labels for constraint in constraints)


def _tolerated(pod: Pod, nodes: NodeView) -> BoolArray:
    tolerations = pod.spec.tolerations
    passes = np.zeros(len(nodes.table.taint_lists), dtype=np.bool_)
    for number in np.unique(nodes.taints).tolist():
        taints = nodes.table.taints_of(number)
        passes[number] = tolerates_hard_taints(taints, tolerations)
    return passes.take(nodes.taints)
