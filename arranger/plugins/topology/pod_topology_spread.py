"""PodTopologySpread: keep a workload's pods even over zones, hosts or other domains."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from pydantic import Field, model_validator

from arranger.api.types.core import LabelSelector, Pod, TopologySpreadConstraint
from arranger.api.types.packed import labels_key, unpacked
from arranger.cluster import ABSENT, BoolArray, Cluster, IntArray, NodeView, PodInfo
from arranger.cluster.nodes.topology_counts import TopologyCounts
from arranger.framework import ActionType, ClusterEvent, DependsOn, Plugin, QueueingHint
from arranger.framework.filter_result import FilterResult, GroupedRejections, Rejection
from arranger.framework.status import SKIP, Code, CycleState, Status
from arranger.plugins.helpers.args import ArgsSection, PluginArgs
from arranger.plugins.helpers.node_selectors import RequiredNodeAffinity, too_large
from arranger.plugins.topology.soft_spreading import crowd_scores, soft_counts
from arranger.plugins.topology.spread_constraints import (
    HOSTNAME,
    ZONE,
    SpreadConstraint,
    compile_constraint,
    default_selector,
    has_all_keys,
    node_has_all_keys,
    with_selector,
)

#: Hard and soft ones.
_Compiled = tuple[list[SpreadConstraint], list[SpreadConstraint]]
_encode: Final = msgspec.json.Encoder(enc_hook=unpacked).encode

#: Kinds whose selectors count where a pod states no constraints.
_WORKLOADS: Final = frozenset({"Service", "ReplicaSet", "StatefulSet", "ReplicationController"})
#: Constraints of one pod: each costs a look at all nodes.
MAX_CONSTRAINTS: Final = 16
#: Requirements of all its selectors, each of which is asked about each pod.
MAX_REQUIREMENTS: Final = 128
#: Compiled default constraints that are kept.
_MAX_COMPILED: Final = 1024
#: Bytes of their selectors as JSON; what is kept of a selector may have twenty times as many.
_MAX_COMPILED_BYTES: Final = 2 * 1024 * 1024
TOO_SKEWED: Final = Rejection(("node(s) didn't match pod topology spread constraints",))
NO_LABEL: Final = Rejection(
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
    Code.UNRESOLVABLE,
)


class DefaultConstraint(ArgsSection):
    """A constraint for pods that state none; its selector comes from their workload."""

    max_skew: Annotated[int, Field(ge=1)]
    topology_key: Annotated[str, Field(min_length=1)]
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]


class PodTopologySpreadArgs(PluginArgs):
    """``List`` applies ``defaultConstraints``, ``System`` those built in."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"

    @model_validator(mode="after")
    def _one_or_the_other(self) -> PodTopologySpreadArgs:
        if self.defaulting_type == "System" and self.default_constraints:
            raise ValueError("defaultConstraints must be empty when defaultingType is System")
        keys = [(each.topology_key, each.when_unsatisfiable) for each in self.default_constraints]
        if len(set(keys)) < len(keys):
            raise ValueError("defaultConstraints: two of one topologyKey and whenUnsatisfiable")
        return self


SYSTEM_DEFAULTS: Final = (
    DefaultConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    DefaultConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
)


@dataclass(slots=True)
class _PreFilterState:
    """What is worked out once for a class of pods, and what for its present attempt.

    Attributes:
        affinity: the pod's selection of nodes.
        hard, soft: the constraints, DoNotSchedule and ScheduleAnyway.
        require_all_topologies: whether a node without one of the soft keys gets no points.
        sums: for each hard constraint, how many pods are in each domain.
        remaining_skew: for each hard constraint, domain → how many more pods it can take.
        soft_counts: for each soft constraint, (domain → pods, the weight of a pod).
        ignored_nodes: the rows that get no points.
    """

    cluster: Cluster
    affinity: RequiredNodeAffinity
    hard: list[SpreadConstraint]
    soft: list[SpreadConstraint]
    require_all_topologies: bool
    sums: list[TopologyCounts] = field(default_factory=list)
    remaining_skew: list[IntArray] = field(default_factory=list)
    soft_counts: list[tuple[IntArray, float]] = field(default_factory=list)
    ignored_nodes: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))


class PodTopologySpread(Plugin):
    """Reject nodes in domains that have too many of these pods; favour those with few."""

    depends_on = DependsOn.CLUSTER
    Args = PodTopologySpreadArgs

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        args = args or PodTopologySpreadArgs()
        self._system = args.defaulting_type == "System"
        defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._defaults = [
            msgspec.convert(constraint.model_dump(by_alias=True), TopologySpreadConstraint)
            for constraint in defaults
        ]
        self._compiled: dict[bytes, _Compiled] = {}
        self._compiled_bytes = 0

    def sign_pod(self, pod: PodInfo) -> Hashable:
        """Namespace, labels and controller, which decide what a pod is counted with."""
        metadata = pod.pod.metadata
        owners = tuple((o.kind, o.name) for o in metadata.owner_references if o.controller)
        return metadata.namespace, labels_key(metadata.labels), owners

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Count the pods of every domain; skip pods without hard constraints."""
        data: _PreFilterState | None = state.get(self.name)
        constraints = pod.pod.spec.topology_spread_constraints
        if data is None and (why := _too_much(constraints) or too_large(pod.pod)):
            return self.reject(why, resolvable=False)
        if data is None:
            data = state[self.name] = self._new_state(pod.pod, cluster)
        if not data.hard:
            return SKIP
        if not all(sums.is_current for sums in data.sums) or not data.sums:
            nodes = NodeView(cluster.table)
            complete = has_all_keys(data.hard, nodes)
            masks = [
                complete & c.match_node_inclusion_policies(pod.pod, data.affinity, nodes)
                for c in data.hard
            ]
            pairs = zip(data.hard, masks, strict=True)
            data.sums = [TopologyCounts(cluster.table, c.key, mask) for c, mask in pairs]
        data.remaining_skew = [
            _remaining_skew(constraint, pod.pod, cluster, sums)
            for constraint, sums in zip(data.hard, data.sums, strict=True)
        ]
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes whose domains can all take one more."""
        data: _PreFilterState = state[self.name]
        passes = nodes.full_mask()
        for constraint, room in zip(data.hard, data.remaining_skew, strict=True):
            passes &= (room >= 0).take(nodes.label(constraint.key))

        def explain() -> GroupedRejections:
            kinds = np.full(nodes.length, -1, dtype=np.int64)
            for constraint, room in zip(data.hard, data.remaining_skew, strict=True):
                ids = nodes.label(constraint.key)
                kind = np.where(ids == ABSENT, 1, np.where(room.take(ids) < 0, 0, -1))
                kinds = np.where(kinds < 0, kind, kinds)
            return (TOO_SKEWED, NO_LABEL), kinds

        return FilterResult(passes, explain)

    def looks_at(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """At pods of its namespace that its hard constraints count."""
        data: _PreFilterState = state[self.name]
        if other.namespace != pod.namespace:
            return False
        labels = other.pod.metadata.labels
        return any(constraint.selector.matches(labels) for constraint in data.hard)

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Count the pods of the domains that feasible nodes are in; skip without soft ones."""
        data: _PreFilterState = state[self.name]
        if not data.soft or not nodes.length:
            return SKIP
        complete = nodes.alive
        if data.require_all_topologies:
            complete = has_all_keys(data.soft, nodes)
        data.ignored_nodes = ~complete
        candidates = feasible & complete
        counters = data.cluster.selector_counts
        data.soft_counts = [
            soft_counts(c, pod.pod, nodes, counters, data.affinity, complete, candidates)
            for c in data.soft
        ]
        return None

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """The weighted number of pods in the node's domains; -1 for nodes not to be scored."""
        data: _PreFilterState = state[self.name]
        scores = crowd_scores(list(zip(data.soft, data.soft_counts, strict=True)), nodes)
        scores[data.ignored_nodes[nodes.rows]] = -1
        return scores

    def normalize_score(self, scores: IntArray, feasible: BoolArray) -> IntArray:
        """The emptiest gets 100, the others in proportion; nodes not scored get 0."""
        scored = feasible & (scores >= 0)
        if scored.all():  # the usual case, in half the time
            most = int(scores.max(initial=0))
            least = int(scores.min(initial=most))
        else:
            most = int(scores.max(where=scored, initial=0))
            least = int(scores.min(where=scored, initial=most))
        if most == 0:
            return np.where(scores >= 0, 100, 0)
        if most > len(scores):
            return np.where(scored, 100 * (most + least - scores) // most, 0)
        # Few different scores: each is brought to 0-100 once.
        points = 100 * (most + least - np.arange(most + 1)) // most
        return np.where(scored, points.take(scores, mode="clip"), 0)

    def _new_state(self, pod: Pod, cluster: Cluster) -> _PreFilterState:
        own = pod.spec.topology_spread_constraints
        if own:
            hard, soft = _compiled(own, pod.metadata.labels)
        else:
            hard, soft = self._compiled_defaults(default_selector(pod, cluster.objects))
        require_all = bool(own) or not self._system
        return _PreFilterState(cluster, RequiredNodeAffinity(pod), hard, soft, require_all)

    def _compiled_defaults(self, selectors: tuple[LabelSelector, ...]) -> _Compiled:
        """The default constraints for the pods that all of ``selectors`` select, if there are any;
        worked out once for all pods of a workload."""
        if not selectors:
            return [], []
        key = _encode(selectors)
        found = self._compiled.get(key)
        if found is None:
            self._compiled_bytes += len(key)
            while self._compiled and (
                len(self._compiled) >= _MAX_COMPILED or self._compiled_bytes > _MAX_COMPILED_BYTES
            ):
                oldest = next(iter(self._compiled))
                del self._compiled[oldest]
                self._compiled_bytes -= len(oldest)
            constraints = [with_selector(c, selectors) for c in self._defaults]
            found = self._compiled[key] = _compiled(constraints, {})
        return found

    @staticmethod
    def _hard(pod: PodInfo) -> list[SpreadConstraint]:
        """The pod's own hard constraints; the default ones would need the cluster."""
        own = pod.pod.spec.topology_spread_constraints
        return [
            compile_constraint(c, pod.pod.metadata.labels)
            for c in own
            if c.when_unsatisfiable == "DoNotSchedule"
        ]

    @staticmethod
    def _counts_now(pod: PodInfo, event: ClusterEvent) -> bool:
        """A pod that counts came or went, or its labels began or ceased to match."""
        if _too_much(pod.pod.spec.topology_spread_constraints):
            return False
        constraints = PodTopologySpread._hard(pod)
        if event.pod is not None and event.pod.metadata.namespace != pod.pod.metadata.namespace:
            return False
        if event.pod is None or not constraints:
            return True
        after = event.pod.metadata.labels
        if event.pod_before is None:
            return any(c.selector.matches(after) for c in constraints)
        before = event.pod_before.metadata.labels
        return any(c.selector.matches(before) != c.selector.matches(after) for c in constraints)

    @staticmethod
    def _domains_changed(pod: PodInfo, event: ClusterEvent) -> bool:
        """A node with the topology keys was added or removed, or changed its domain or taints."""
        if _too_much(pod.pod.spec.topology_spread_constraints):
            return False
        constraints = PodTopologySpread._hard(pod)
        node, before = event.node, event.node_before
        if not constraints or (node is None and before is None):
            return True
        had = before is not None and node_has_all_keys(constraints, before)
        has = node is not None and node_has_all_keys(constraints, node)
        if node is None or before is None or had != has:
            return had or has
        labels, old = node.metadata.labels, before.metadata.labels
        moved = any(labels.get(c.key) != old.get(c.key) for c in constraints)
        return has and (moved or node.spec.taints != before.spec.taints)

    @staticmethod
    def _workload_changed(pod: PodInfo, event: ClusterEvent) -> bool:
        """A Service or controller of its namespace, by which constraints by default select."""
        changed = event.stored or event.stored_before
        own = pod.pod.spec.topology_spread_constraints
        here = changed is None or changed.metadata.namespace == pod.pod.metadata.namespace
        return not own and here

    queueing_hints = (
        QueueingHint(
            ActionType.POD_ADDED | ActionType.POD_REMOVED | ActionType.POD_LABELS, _counts_now
        ),
        QueueingHint(
            ActionType.NODE_ADDED
            | ActionType.NODE_REMOVED
            | ActionType.NODE_LABELS
            | ActionType.NODE_TAINTS,
            _domains_changed,
        ),
        QueueingHint(ActionType.OWN_UPDATE),
        QueueingHint(ActionType.OTHER, _workload_changed, _WORKLOADS),
    )


def _compiled(
    constraints: Sequence[TopologySpreadConstraint], labels: Mapping[str, str]
) -> _Compiled:
    """Those of them that are hard, and those that are soft, for a pod with these labels."""
    hard, soft = (
        [compile_constraint(c, labels) for c in constraints if c.when_unsatisfiable == when]
        for when in ("DoNotSchedule", "ScheduleAnyway")
    )
    return hard, soft


def _too_much(constraints: Sequence[TopologySpreadConstraint]) -> str:
    """What a pod's constraints have too much of; "" for nothing."""
    if len(constraints) > MAX_CONSTRAINTS:
        most = f"at most {MAX_CONSTRAINTS} are looked at"
        return f"pod has {len(constraints)} topology spread constraints, and {most}"
    selectors = (each.label_selector for each in constraints)
    size = sum(len(s.match_labels) + len(s.match_expressions) for s in selectors if s is not None)
    if size <= MAX_REQUIREMENTS:
        return ""
    most = f"at most {MAX_REQUIREMENTS} are looked at"
    return f"the selectors of topology spread constraints have {size} requirements, and {most}"


def _remaining_skew(
    constraint: SpreadConstraint, pod: Pod, cluster: Cluster, sums: TopologyCounts
) -> IntArray:
    """Domain → how many more pods it can take after this one; negative: not even this one.

    The last entry, that of nodes without the label, is negative.
    """
    pods = sums.sums_for(constraint.pods(cluster.selector_counts, pod.metadata.namespace).by_row())
    least = 0
    if len(sums.domains) and len(sums.domains) >= constraint.min_domains:
        least = int(pods[sums.domains].min())
    itself = int(constraint.selector.matches(pod.metadata.labels))
    room: IntArray = constraint.max_skew + least - itself - pods
    room[-1] = -1
    return room
