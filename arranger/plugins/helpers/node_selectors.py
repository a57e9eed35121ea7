"""Node selectors, over the whole table at once or one node object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from arranger.api.selectors import is_valid_requirement, requirement_matches
from arranger.api.types.core import Node, NodeSelector, NodeSelectorTerm, Pod, Requirement
from arranger.cluster import ABSENT, BoolArray, NodeView

#: Requirements and values that a pod's node selector and node affinity may have. Each costs a look
#: at all nodes, and all of them together must not keep other pods waiting.
MAX_SIZE: Final = 8192


class NodeTerm:
    """A compiled node selector term: requirements on labels, and on the node's name."""

    def __init__(self, expressions: Sequence[Requirement], fields: Sequence[Requirement]) -> None:
        self._expressions = expressions
        self._fields = fields

    def mask(self, nodes: NodeView) -> BoolArray:
        """Which nodes of the view it selects."""
        selected = nodes.full_mask()
        for field in self._fields:
            row = nodes.table.index.get(field.values[0], -1)
            named = nodes.row_numbers() == row
            selected &= named if field.operator == "In" else ~named
        for expression in self._expressions:
            selected &= _mask(expression, nodes)
            if not selected.any():
                break
        return selected

    def matches(self, node: Node) -> bool:
        """Whether it selects this node."""
        return all(requirement_matches(f, node.metadata.name) for f in self._fields) and all(
            requirement_matches(e, node.metadata.labels.get(e.key)) for e in self._expressions
        )


def compile_terms(terms: Iterable[NodeSelectorTerm]) -> list[NodeTerm]:
    """The terms that can match something.

    As upstream, terms that cannot be parsed are left out, and so are empty ones.
    """
    return [
        NodeTerm(term.match_expressions, term.match_fields)
        for term in terms
        if (term.match_expressions or term.match_fields)
        and all(map(is_valid_requirement, term.match_expressions))
        and all(map(_is_valid_field, term.match_fields))
    ]


class RequiredNodeAffinity:
    """Where a pod may run by its ``nodeSelector`` and its required node affinity."""

    def __init__(self, pod: Pod) -> None:
        self._labels = pod.spec.node_selector
        required = required_node_affinity(pod)
        self._terms = None if required is None else compile_terms(required.node_selector_terms)

    def mask(self, nodes: NodeView) -> BoolArray:
        """Which nodes of the view the pod may run on."""
        selected = nodes.full_mask()
        for key, value in self._labels.items():
            wanted = nodes.table.label_values(key).find(value)
            if wanted == ABSENT:
                return nodes.empty_mask()
            selected &= nodes.label(key) == wanted
        if self._terms is not None:
            selected &= matches_any(self._terms, nodes)
        return selected

    def matches(self, node: Node) -> bool:
        """Whether the pod may run on this node."""
        labels = node.metadata.labels
        if any(labels.get(key) != value for key, value in self._labels.items()):
            return False
        return self._terms is None or any(term.matches(node) for term in self._terms)


def required_node_affinity(pod: Pod) -> NodeSelector | None:
    """The pod's required node affinity, if it states one."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def selector_size(pod: Pod) -> int:
    """How many requirements and values a pod's node selector and node affinity have."""
    affinity = pod.spec.affinity
    size = len(pod.spec.node_selector)
    if affinity is None or affinity.node_affinity is None:
        return size
    required = required_node_affinity(pod)
    preferred = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    terms = [*(required.node_selector_terms if required is not None else ())]
    terms += [each.preference for each in preferred]
    for term in terms:
        size += 1 + sum(1 + len(each.values) for each in term.match_expressions)
        size += sum(1 + len(each.values) for each in term.match_fields)
    return size


def matches_any(terms: Iterable[NodeTerm], nodes: NodeView) -> BoolArray:
    """Which nodes of the view at least one term selects."""
    selected = nodes.empty_mask()
    for term in terms:
        selected |= term.mask(nodes)
    return selected


def _is_valid_field(field: Requirement) -> bool:
    one_name = field.operator in ("In", "NotIn") and len(field.values) == 1
    return field.key == "metadata.name" and one_name


def _mask(requirement: Requirement, nodes: NodeView) -> BoolArray:
    column, values = nodes.label(requirement.key), nodes.table.label_values(requirement.key)
    if requirement.operator == "Exists":
        present: BoolArray = column != ABSENT
        return present
    if requirement.operator == "DoesNotExist":
        absent: BoolArray = column == ABSENT
        return absent
    if requirement.operator in ("In", "NotIn"):
        if len(requirement.values) == 1:
            wanted = values.find(requirement.values[0])
            held = column == wanted if wanted != ABSENT else nodes.empty_mask()
        else:
            listed = np.zeros(len(values) + 1, dtype=np.bool_)
            listed[[values.find(value) for value in requirement.values]] = True
            listed[ABSENT] = False
            held = listed[column]
        return held if requirement.operator == "In" else ~held
    accepted = np.zeros(len(values) + 1, dtype=np.bool_)  # the last entry is ABSENT's
    for value in np.unique(column).tolist():
        accepted[value] = value != ABSENT and requirement_matches(requirement, values.values[value])
    return accepted[column]
