"""InterPodAffinity: run near the pods that one's affinity selects, apart from others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from arranger.api.types.core import Namespace, Pod
from arranger.api.types.packed import labels_key
from arranger.cluster import Cluster, NodeView, PodInfo
from arranger.cluster.affinity_terms import (
    ANYWHERE,
    AffinityTerm,
    PodAffinityTerms,
    Rows,
    TermRows,
    affinity_terms_of,
)
from arranger.cluster.columns import ABSENT, BoolArray, IntArray, resized
from arranger.cluster.nodes.topology_counts import TopologyCounts, sum_by_label
from arranger.framework import ActionType, ClusterEvent, DependsOn, Plugin, QueueingHint
from arranger.framework.filter_result import FilterResult, GroupedRejections, Rejection
from arranger.framework.status import SKIP, Code, CycleState, Status
from arranger.plugins.helpers.args import PluginArgs

AFFINITY: Final = Rejection(("node(s) didn't match pod affinity rules",), Code.UNRESOLVABLE)
ANTI_AFFINITY: Final = Rejection(("node(s) didn't match pod anti-affinity rules",))
OTHERS_ANTI_AFFINITY: Final = Rejection(
    ("node(s) didn't satisfy existing pods anti-affinity rules",)
)


class InterPodAffinityArgs(PluginArgs):
    """The weight of other pods' required affinity, and whether their preferences count."""

    hard_pod_affinity_weight: Annotated[int, Field(ge=0, le=100)] = 1
    ignore_preferred_terms_of_existing_pods: bool = False


#: Terms of a class of pods, or of others that concern it, whose sums are kept current one by one.
_MAX_SUMS: Final = 8
#: Topology key → domain → a number of pods, or a sum of weights.
Domains = dict[str, IntArray]


@dataclass(slots=True)
class _PreFilterState:
    """What is worked out once for a class of pods, and what for its present attempt.

    Attributes:
        own: the pod's terms, with namespace selectors resolved.
        affinity_counts: for each key of required affinity, how many pods match.
        is_first_of_series: no pod matches the required affinity, but the pod itself does.
        anti_affinity_counts: how many pods match the pod's required anti-affinity.
        existing_anti_affinity_counts: how many pods have a required anti-affinity that matches it.
        topology_score: the sum of the weights of preferences.
    """

    cluster: Cluster
    own: PodAffinityTerms
    affinity_counts: Domains = field(default_factory=dict)
    is_first_of_series: bool = False
    anti_affinity_counts: Domains = field(default_factory=dict)
    existing_anti_affinity_counts: Domains = field(default_factory=dict)
    topology_score: Domains = field(default_factory=dict)
    _sums: dict[tuple[str, AffinityTerm], TopologyCounts] = field(default_factory=dict)

    def sums(self, role: str, term: AffinityTerm, counts: IntArray | Mapping[int, int]) -> IntArray:
        """Domain → sum of ``counts``; ``role`` says which of a term's counts these are."""
        found = self._sums.get((role, term))
        if found is None and len(self._sums) >= _MAX_SUMS:
            return sum_by_label(self.cluster.table, term.topology_key, counts)
        if found is None or not found.is_current:
            found = TopologyCounts(self.cluster.table, term.topology_key)
            self._sums[role, term] = found
        return found.sums_for(counts)


class InterPodAffinity(Plugin):
    """Enforce pod (anti-)affinity both ways; score by the preferred terms of both sides."""

    depends_on = DependsOn.CLUSTER
    Args = InterPodAffinityArgs

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        args = args or InterPodAffinityArgs()
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_others = args.ignore_preferred_terms_of_existing_pods

    def sign_pod(self, pod: PodInfo) -> Hashable:
        """Namespace and labels, by which other pods' terms select."""
        metadata = pod.pod.metadata
        return metadata.namespace, labels_key(metadata.labels)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> Status | None:
        """Count matching pods by domain; skip where no required term matters."""
        data: _PreFilterState | None = state.get(self.name)
        if data is None:
            own = _resolve_namespaces(pod.affinity_terms, cluster)
            data = state[self.name] = _PreFilterState(cluster, own)
        own, existing = data.own, Domains()
        if own.too_much:
            text = f"pod affinity and anti-affinity have {own.too_much}, which are not looked at"
            return self.reject(text, resolvable=False)
        others = cluster.table.affinity.required_anti
        _add_existing(existing, data, "anti", others, pod.pod)
        if not (existing or own.required or own.required_anti):
            return SKIP
        data.existing_anti_affinity_counts = existing
        data.anti_affinity_counts, data.affinity_counts = {}, {}
        for term in own.required_anti:
            there = data.sums("own anti", term, _matching_pod_counts(cluster, [term]))
            _add_counts(data.anti_affinity_counts, term.topology_key, there, always=True)
        if own.required:
            near = _matching_pod_counts(cluster, own.required)
            for term in own.required:
                data.affinity_counts[term.topology_key] = data.sums("own required", term, near)
        none_matches = not any(domains.any() for domains in data.affinity_counts.values())
        data.is_first_of_series = none_matches and _matches_all(own.required, pod.pod)
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes that satisfy the pod's terms and those of the pods that are there."""
        data: _PreFilterState = state[self.name]
        alone = nodes.empty_mask()
        for key, domains in data.affinity_counts.items():
            ids = nodes.label(key)
            alone |= ids == ABSENT
            if not data.is_first_of_series:
                alone |= domains.take(ids) <= 0
        too_near = _in_counted_domain(data.anti_affinity_counts, nodes)
        unwelcome = _in_counted_domain(data.existing_anti_affinity_counts, nodes)

        def explain() -> GroupedRejections:
            kinds = np.where(alone, 0, np.where(too_near, 1, np.where(unwelcome, 2, -1)))
            return (AFFINITY, ANTI_AFFINITY, OTHERS_ANTI_AFFINITY), kinds

        return FilterResult(~(alone | too_near | unwelcome), explain)

    def looks_at(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """At pods that its own required terms select."""
        data: _PreFilterState = state[self.name]
        terms = *data.own.required, *data.own.required_anti
        data.cluster.work.count(sum(1 + term.selector.size // 4 for term in terms))
        return any(_matcher(term)(other.pod) for term in terms)

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Add up preferences by domain; skip where none applies."""
        data: _PreFilterState = state[self.name]
        own, cluster = data.own, data.cluster
        index = cluster.table.affinity
        if not (own.preferred or own.preferred_anti) and (self._ignore_others or not index):
            return SKIP
        liked: Domains = {}
        for sign, preferences in ((1, own.preferred), (-1, own.preferred_anti)):
            for weight, term in preferences:
                there = data.sums("own preferred", term, _matching_pod_counts(cluster, [term]))
                _add_counts(liked, term.topology_key, there, sign * weight)
        for name, weight, terms in (
            ("required", self._hard_weight, index.required),
            ("preferred", 1, index.preferred),
            ("preferred anti", -1, index.preferred_anti),
        ):
            if weight:
                _add_existing(liked, data, name, terms, pod.pod, weight)
        data.topology_score = liked
        return None if liked else SKIP

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """Add up the preferences for the node's domains."""
        data: _PreFilterState = state[self.name]
        scores = np.zeros(nodes.length, dtype=np.int64)
        for key, domains in data.topology_score.items():
            scores += domains.take(nodes.label(key))
        return scores

    def normalize_score(self, scores: IntArray, feasible: BoolArray) -> IntArray:
        """From 0 for the lowest to 100 for the highest; 0 for all if they are equal."""
        liked = scores[feasible]
        if not len(liked) or liked.min() == liked.max():
            return np.zeros_like(scores)
        least = int(liked.min())
        share = (scores - least) / (int(liked.max()) - least)
        return (100 * share).astype(np.int64)

    @staticmethod
    def _affine_pod_changed(pod: PodInfo, event: ClusterEvent) -> bool:
        """A pod that affinity needs came, or one that anti-affinity avoids, either way, went."""
        other, before, own = event.pod, event.pod_before, pod.affinity_terms
        if other is None:
            return True
        if event.action_type is ActionType.POD_ADDED:
            return bool(own.required) and all(_might_match(term, other) for term in own.required)
        if event.action_type is ActionType.POD_LABELS and before is not None:
            return any(
                _might_match(term, before) != _might_match(term, other)
                for term in (*own.required, *own.required_anti)
            )
        return any(_might_match(term, other) for term in own.required_anti) or any(
            _might_match(term, pod.pod) for term in affinity_terms_of(other).required_anti
        )

    @staticmethod
    def _domain_changed(pod: PodInfo, event: ClusterEvent) -> bool:
        """A node came into a domain that required affinity needs, or left one to be avoided."""
        node, before, own = event.node, event.node_before, pod.affinity_terms
        if node is None:
            return True
        labels = node.metadata.labels
        if before is None:
            return bool(own.required_anti) or any(t.topology_key in labels for t in own.required)
        old = before.metadata.labels
        moved = {
            term: labels.get(term.topology_key) != old.get(term.topology_key)
            for term in (*own.required, *own.required_anti)
        }
        return any(moved[t] and t.topology_key in labels for t in own.required) or any(
            moved[t] and t.topology_key in old for t in own.required_anti
        )

    @staticmethod
    def _namespace_changed(pod: PodInfo, event: ClusterEvent) -> bool:
        """Its own, which the terms of others may select, or any that a term of its own may."""
        changed = event.stored or event.stored_before
        own = pod.affinity_terms
        if changed is None or changed.metadata.name == pod.pod.metadata.namespace:
            return True
        return any(
            not term.has_no_namespace_selector for term in (*own.required, *own.required_anti)
        )

    queueing_hints = (
        QueueingHint(
            ActionType.POD_ADDED | ActionType.POD_REMOVED | ActionType.POD_LABELS,
            _affine_pod_changed,
        ),
        QueueingHint(ActionType.NODE_ADDED | ActionType.NODE_LABELS, _domain_changed),
        QueueingHint(ActionType.OWN_UPDATE),
        QueueingHint(ActionType.OTHER, _namespace_changed, frozenset({"Namespace"})),
    )


def _resolve_namespaces(terms: PodAffinityTerms, cluster: Cluster) -> PodAffinityTerms:
    """A new pod's terms with their namespace selectors turned into names."""
    if terms.too_much:
        return terms
    namespaces = [n.metadata for n in cluster.objects.in_namespace(Namespace, "")]

    def resolve(term: AffinityTerm) -> AffinityTerm:
        if _in_all_namespaces(term):
            return term
        named = {n.name for n in namespaces if term.namespace_selector.matches(n.labels)}
        return replace(term, namespaces=term.namespaces | named)

    return PodAffinityTerms(
        required=[resolve(term) for term in terms.required],
        required_anti=[resolve(term) for term in terms.required_anti],
        preferred=[(weight, resolve(term)) for weight, term in terms.preferred],
        preferred_anti=[(weight, resolve(term)) for weight, term in terms.preferred_anti],
    )


def _matches_all(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Whether there are terms and all select ``pod``, whatever its namespace's labels."""
    return bool(terms) and all(_matcher(term)(pod) for term in terms)


def _in_all_namespaces(term: AffinityTerm) -> bool:
    """Whether a new pod's term selects from all namespaces.

    So does one whose selector only excludes labels (NotIn, DoesNotExist): upstream matches such a
    selector against no labels at all, after it has resolved it.
    """
    return term.namespace_selector.matches({})


def _matcher(term: AffinityTerm) -> Callable[[Pod], bool]:
    """A test for pods, of a term whose namespaces are resolved."""
    everywhere, namespaces, selector = _in_all_namespaces(term), term.namespaces, term.selector
    return lambda pod: (
        (everywhere or pod.metadata.namespace in namespaces)
        and selector.matches(pod.metadata.labels)
    )


def _might_match(term: AffinityTerm, pod: Pod) -> bool:
    """Whether the term selects ``pod`` if its namespace matches; hints cannot look that up."""
    somewhere = not term.has_no_namespace_selector or pod.metadata.namespace in term.namespaces
    return somewhere and term.selector.matches(pod.metadata.labels)


def _matching_pod_counts(cluster: Cluster, terms: Sequence[AffinityTerm]) -> IntArray:
    namespaces = None
    if not any(_in_all_namespaces(term) for term in terms):
        namespaces = frozenset.intersection(*(term.namespaces for term in terms))
    tests = [_matcher(term) for term in terms]
    counts = cluster.selector_counts.get(
        ("affinity", tuple(terms)),
        namespaces,
        lambda pod: all(test(pod.pod) for test in tests),
        lambda: sum(1 + term.selector.size // 4 for term in terms),
        lambda: [label for term in terms for label in term.selector.required_labels()],
    )
    return counts.by_row()


def _add_existing(
    domains: Domains, data: _PreFilterState, role: str, index: TermRows, pod: Pod, weight: int = 1
) -> None:
    """Add up the terms of pods that are there, as far as they select ``pod``."""
    if not index:
        return
    cluster = data.cluster
    labels = cluster.objects.namespace_labels(pod.metadata.namespace)
    by_key: dict[str, list[tuple[AffinityTerm, Rows]]] = {}
    for term, rows in index.matching(pod, labels):
        by_key.setdefault(term.topology_key, []).append((term, rows))
    for key, terms in by_key.items():
        if key == ANYWHERE:
            there = sum(sum(rows.values()) for _, rows in terms)
            _add_counts(domains, key, np.array([there, there]), weight)
            continue
        if len(terms) <= _MAX_SUMS:
            for term, rows in terms:
                _add_counts(domains, key, data.sums(role, term, rows), weight)
            continue
        together: Rows = {}
        for _, rows in terms:
            for row, amount in rows.items():
                together[row] = together.get(row, 0) + amount
        _add_counts(domains, key, sum_by_label(cluster.table, key, together), weight)


def _add_counts(
    domains: Domains, key: str, more: IntArray, weight: int = 1, *, always: bool = False
) -> None:
    if always or more.any():
        more = more if weight == 1 else weight * more
        if key in domains:
            # More labels may be numbered by now; nothing was counted for those.
            size = max(len(domains[key]), len(more))
            more = resized(domains[key], size, 0) + resized(more, size, 0)
        domains[key] = more


def _in_counted_domain(domains: Domains, nodes: NodeView) -> BoolArray:
    inside = nodes.empty_mask()
    for key, counts in domains.items():
        inside |= bool(counts.any()) if key == ANYWHERE else counts.take(nodes.label(key)) > 0
    return inside
