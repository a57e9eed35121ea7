"""The (anti-)affinity terms of the pods in the cluster, indexed by term.

Pods of one workload carry equal terms, so a new pod is matched against each distinct term once,
not against each pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from arranger.api.parsing.objects import decode_object
from arranger.api.selectors import Selector
from arranger.api.types.core import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One compiled pod (anti-)affinity term.

    Attributes:
        namespaces: names of the namespaces whose pods it selects from.
        topology_key: the node label whose values are the domains.
    """

    topology_key: str
    namespaces: frozenset[str]
    _selector_key: bytes | None
    _namespace_selector_key: bytes | None
    selector: Selector = field(compare=False, repr=False)
    namespace_selector: Selector = field(compare=False, repr=False)

    @property
    def has_no_namespace_selector(self) -> bool:
        """Whether the term selects from namespaces by name only."""
        return self._namespace_selector_key is None

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term selects ``pod``, whose namespace has these labels."""
        here = pod.metadata.namespace in self.namespaces
        return (
            here or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(pod.metadata.labels)


@dataclass(frozen=True, slots=True)
class PodAffinityTerms:
    """The terms of one pod."""

    required: Sequence[AffinityTerm] = ()
    required_anti: Sequence[AffinityTerm] = ()
    preferred: Sequence[tuple[int, AffinityTerm]] = ()
    preferred_anti: Sequence[tuple[int, AffinityTerm]] = ()


NO_TERMS: Final = PodAffinityTerms()


def affinity_terms_of(pod: Pod) -> PodAffinityTerms:
    """The pod's terms; :data:`NO_TERMS` itself if it has none."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    return _compile(_encode(affinity), pod.metadata.namespace)


@lru_cache(maxsize=4096)
def _compile(encoded: bytes, namespace: str) -> PodAffinityTerms:
    affinity = decode_object(encoded, Affinity)
    near = affinity.pod_affinity or PodAffinity()
    apart = affinity.pod_anti_affinity or PodAffinity()

    def required(side: PodAffinity) -> list[AffinityTerm]:
        terms = side.required_during_scheduling_ignored_during_execution
        return [_compile_term(term, namespace) for term in terms]

    def preferred(side: PodAffinity) -> list[tuple[int, AffinityTerm]]:
        terms = side.preferred_during_scheduling_ignored_during_execution
        return [(term.weight, _compile_term(term.pod_affinity_term, namespace)) for term in terms]

    return PodAffinityTerms(required(near), required(apart), preferred(near), preferred(apart))


def _compile_term(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    named = term.namespaces
    if not named and term.namespace_selector is None:
        named = [namespace]
    return AffinityTerm(
        topology_key=term.topology_key,
        namespaces=frozenset(named),
        _selector_key=_selector_key(term.label_selector),
        _namespace_selector_key=_selector_key(term.namespace_selector),
        selector=Selector(term.label_selector),
        namespace_selector=Selector(term.namespace_selector),
    )


def _selector_key(selector: LabelSelector | None) -> bytes | None:
    return None if selector is None else _encode(selector)


#: Term → row → how many pods there carry it (or the sum of their weights for it).
TermRows = dict[AffinityTerm, dict[int, int]]


class AffinityIndex:
    """Which rows hold pods with which terms."""

    def __init__(self) -> None:
        self.required: TermRows = {}
        self.required_anti: TermRows = {}
        self.preferred: TermRows = {}
        self.preferred_anti: TermRows = {}

    def __bool__(self) -> bool:
        return bool(self.required or self.required_anti or self.preferred or self.preferred_anti)

    def add(self, terms: PodAffinityTerms, row: int, sign: int) -> None:
        """Count a pod's terms on its row: ``sign`` is 1 when it comes and -1 when it goes."""
        for term in terms.required:
            _add_term(self.required, term, row, sign)
        for term in terms.required_anti:
            _add_term(self.required_anti, term, row, sign)
        for weight, term in terms.preferred:
            _add_term(self.preferred, term, row, sign * weight)
        for weight, term in terms.preferred_anti:
            _add_term(self.preferred_anti, term, row, sign * weight)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffinityIndex) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _add_term(index: TermRows, term: AffinityTerm, row: int, amount: int) -> None:
    rows = index.setdefault(term, {})
    left = rows.get(row, 0) + amount
    if left:
        rows[row] = left
    else:
        rows.pop(row, None)
        if not rows:
            del index[term]
