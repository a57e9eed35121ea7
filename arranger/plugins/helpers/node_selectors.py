"""Node selectors, over the whole table at once or one node object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from arranger.api.selectors import is_valid_requirement, parse_int64, requirement_matches
from arranger.api.types.core import Node, NodeSelector, NodeSelectorTerm, Pod, Requirement
from arranger.cluster import ABSENT, BoolArray, NodeTable, NodeView

#: Requirements, terms included, that a pod's node selector and node affinity may have: each costs a
#: look at all nodes, and all of them together must not keep other pods waiting.
MAX_REQUIREMENTS: Final = 1024
#: Values of all requirements.
MAX_VALUES: Final = 8192


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
    """Where a pod may run by its ``nodeSelector`` and its required node affinity.

    What it says of all nodes is remembered until one changes.
    """

    def __init__(self, pod: Pod) -> None:
        #: The table, how often nodes had changed, and what held of all of them then.
        self._known: tuple[NodeTable, int, BoolArray] | None = None
        self._labels = pod.spec.node_selector
        required = required_node_affinity(pod)
        self._terms = None if required is None else compile_terms(required.node_selector_terms)

    def mask(self, nodes: NodeView) -> BoolArray:
        """Which nodes of the view the pod may run on; read only."""
        table = nodes.table
        if nodes.length != table.size or not isinstance(nodes.rows, slice):
            return self._mask(nodes)
        known = self._known
        if known is None or known[0] is not table or known[1] != table.nodes_version:
            known = self._known = table, table.nodes_version, self._mask(nodes)
        return known[2]

    def _mask(self, nodes: NodeView) -> BoolArray:
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


def too_large(pod: Pod) -> str:
    """What a pod's node selector and node affinity have too much of; "" for nothing."""
    affinity = pod.spec.affinity
    requirements, values = len(pod.spec.node_selector), 0
    if affinity is None or affinity.node_affinity is None:
        return _beyond(requirements, values)
    required = required_node_affinity(pod)
    preferred = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    terms = [*(required.node_selector_terms if required is not None else ())]
    terms += [each.preference for each in preferred]
    for term in terms:
        both = (*term.match_expressions, *term.match_fields)
        requirements += 1 + len(both)
        values += sum(len(each.values) for each in both)
    return _beyond(requirements, values)


def _beyond(requirements: int, values: int) -> str:
    counts = (("requirements", requirements, MAX_REQUIREMENTS), ("values", values, MAX_VALUES))
    for what, count, most in counts:
        if count > most:
            have = f"node selector and affinity have {count} {what}"
            return f"{have}, and at most {most} are looked at"
    return ""


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
    bound = parse_int64(requirement.values[0])
    if bound is None:
        return nodes.empty_mask()
    numbers, spelt = nodes.table.label_numbers(requirement.key)
    accepted = np.zeros(len(values) + 1, dtype=np.bool_)  # the last entry is ABSENT's
    accepted[:-1] = spelt & (numbers > bound if requirement.operator == "Gt" else numbers < bound)
    return accepted[column]
