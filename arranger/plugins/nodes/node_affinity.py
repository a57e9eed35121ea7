"""NodeAffinity: node selectors and node affinity, required and preferred."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from pydantic import Field, model_validator

from arranger.api.types.core import NodeAffinity as NodeAffinitySpec
from arranger.api.types.core import PreferredSchedulingTerm
from arranger.cluster import BoolArray, Cluster, IntArray, NodeView, PodInfo
from arranger.framework.cluster_event import ActionType, ClusterEvent, QueueingHint
from arranger.framework.filter_result import FilterResult, GroupedRejections, Rejection
from arranger.framework.interface import DependsOn, PreFilterResult, SpecOnlyPlugin
from arranger.framework.status import SKIP, Code, CycleState, Status
from arranger.plugins.helpers.args import ArgsSection, PluginArgs
from arranger.plugins.helpers.node_selectors import (
    NodeTerm,
    RequiredNodeAffinity,
    compile_terms,
    matches_any,
    required_node_affinity,
    too_large,
)
from arranger.plugins.helpers.node_signatures import signature_of
from arranger.plugins.helpers.normalize_score import default_normalize_score

OWN: Final = Rejection(("node(s) didn't match Pod's node affinity/selector",), Code.UNRESOLVABLE)
ENFORCED: Final = Rejection(
    ("node(s) didn't match scheduler-enforced node affinity",), Code.UNRESOLVABLE
)


class RequirementArg(ArgsSection):
    """A requirement on a label or field."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _values_of_the_operator(self) -> RequirementArg:
        count = len(self.values)
        wrong = {
            "In": count == 0 and "needs values",
            "NotIn": count == 0 and "needs values",
            "Exists": count > 0 and "takes no values",
            "DoesNotExist": count > 0 and "takes no values",
            "Gt": count != 1 and "needs one value",
            "Lt": count != 1 and "needs one value",
        }[self.operator]
        if wrong:
            raise ValueError(f"operator {self.operator} {wrong}")
        return self


class TermArg(ArgsSection):
    """A node selector term."""

    match_expressions: tuple[RequirementArg, ...] = ()
    match_fields: tuple[RequirementArg, ...] = ()


class SelectorArg(ArgsSection):
    """A node selector."""

    node_selector_terms: Annotated[tuple[TermArg, ...], Field(min_length=1)]


class PreferredArg(ArgsSection):
    """A preferred node selector term."""

    weight: Annotated[int, Field(ge=1, le=100)]
    preference: TermArg


class AffinityArg(ArgsSection):
    """A node affinity."""

    required_during_scheduling_ignored_during_execution: SelectorArg | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredArg, ...] = ()


class NodeAffinityArgs(PluginArgs):
    """``addedAffinity`` holds for every pod of the profile, beside its own."""

    added_affinity: AffinityArg | None = None


WeightedTerms = list[tuple[int, NodeTerm]]


class NodeAffinity(SpecOnlyPlugin):
    """Reject nodes the pod does not select; favour those it prefers."""

    depends_on = DependsOn.NODE
    score_of_zeros = 0
    Args = NodeAffinityArgs

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        added = NodeAffinitySpec()
        if args is not None and args.added_affinity is not None:
            fields: dict[str, Any] = args.added_affinity.model_dump(by_alias=True)
            added = msgspec.convert(fields, NodeAffinitySpec)
        required = added.required_during_scheduling_ignored_during_execution
        self._added = None if required is None else compile_terms(required.node_selector_terms)
        preferred = added.preferred_during_scheduling_ignored_during_execution
        self._added_preferred = _weighted_terms(preferred)
        self.queueing_hints = (  # type: ignore[misc]
            QueueingHint(ActionType.NODE_ADDED | ActionType.NODE_LABELS, self._now_matches),
            QueueingHint(ActionType.OWN_UPDATE),
        )

    def pre_filter(
        self, state: CycleState, pod: PodInfo, cluster: Cluster
    ) -> PreFilterResult | Status | None:
        """Skip pods that select nothing; name the nodes if every term names some."""
        if why := too_large(pod.pod):
            return self.reject(why, resolvable=False)
        required = required_node_affinity(pod.pod)
        if required is None and self._added is None and not pod.pod.spec.node_selector:
            return SKIP
        names: frozenset[str] = frozenset()
        for term in required.node_selector_terms if required is not None else ():
            named = [
                frozenset(field.values)
                for field in term.match_fields
                if field.key == "metadata.name" and field.operator == "In"
            ]
            if not named:
                return None
            names |= frozenset.intersection(*named)
        if required is None or not required.node_selector_terms:
            return None
        if not names:
            return self.reject("pod affinity terms conflict", resolvable=False)
        return PreFilterResult(names)

    def sign_pod_for_nodes(self, pod: PodInfo) -> Hashable | None:
        """The pod's node selector and node affinity."""
        spec = pod.pod.spec
        affinity = None if spec.affinity is None else spec.affinity.node_affinity
        return signature_of((spec.node_selector, affinity))

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        """Pass nodes that the added affinity and the pod's own both select."""
        own = self._required(state, pod).mask(nodes)
        if self._added is None:
            return FilterResult(own, OWN)
        added = matches_any(self._added, nodes)

        def explain() -> GroupedRejections:
            return (ENFORCED, OWN), np.where(added, np.where(own, -1, 1), 0)

        return FilterResult(added & own, explain)

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> Status | None:
        """Skip pods that prefer nothing."""
        affinity = pod.pod.spec.affinity
        own: Sequence[PreferredSchedulingTerm] = []
        if affinity is not None and affinity.node_affinity is not None:
            own = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
        if not own and not self._added_preferred:
            return SKIP
        state["NodeAffinity/preferred"] = [*self._added_preferred, *_weighted_terms(own)]
        return None

    def score(
        self, state: CycleState, pod: PodInfo, nodes: NodeView, feasible: BoolArray
    ) -> IntArray:
        """Add up the weights of the preferred terms that match."""
        preferred: WeightedTerms = state["NodeAffinity/preferred"]
        scores = np.zeros(nodes.length, dtype=np.int64)
        for weight, term in preferred:
            scores += weight * term.mask(nodes)
        return scores

    def normalize_score(self, scores: IntArray, feasible: BoolArray) -> IntArray:
        """The best gets 100."""
        return default_normalize_score(scores, feasible)

    def _required(self, state: CycleState, pod: PodInfo) -> RequiredNodeAffinity:
        required: RequiredNodeAffinity | None = state.get("NodeAffinity/required")
        if required is None:
            required = state["NodeAffinity/required"] = RequiredNodeAffinity(pod.pod)
        return required

    def _now_matches(self, pod: PodInfo, event: ClusterEvent) -> bool:
        if event.node is None or too_large(pod.pod):
            return False
        if self._added is not None and not any(term.matches(event.node) for term in self._added):
            return False
        required = RequiredNodeAffinity(pod.pod)
        if not required.matches(event.node):
            return False
        return event.node_before is None or not required.matches(event.node_before)


def _weighted_terms(preferred: Sequence[PreferredSchedulingTerm]) -> WeightedTerms:
    return [(p.weight, t) for p in preferred for t in compile_terms([p.preference]) if p.weight]
