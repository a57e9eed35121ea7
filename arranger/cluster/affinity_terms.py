"""The (anti-)affinity terms of the pods in the cluster, indexed by term.

Pods of one workload carry equal terms, so a new pod is matched against each distinct term once,
not against each pod; and only against those that name its namespace and one of its labels.

Of one pod only so many terms are looked at, that no pod makes all others wait: a pod with more is
not placed. Of one that has a node all the same, as another scheduler has placed it, the required
anti-affinity goes first. What is too much of that keeps away whatever it might keep away: a few
coarse terms stand for it. Of the rest the first ones count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from arranger.api.parsing.objects import decode_object
from arranger.api.selectors import Selector
from arranger.api.types.core import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm
from arranger.api.types.packed import unpacked

_encode: Final = msgspec.json.Encoder(enc_hook=unpacked).encode
#: Terms of one pod, and of these such as have a namespace selector.
MAX_TERMS: Final = 64
MAX_CROSS_NAMESPACE_TERMS: Final = 8
#: Requirements of all its terms, and values and namespaces that they name.
MAX_REQUIREMENTS: Final = 128
MAX_NAMES: Final = 4096
#: Topology keys of what is too much, each of which has a coarse term.
MAX_COARSE_KEYS: Final = 8
#: The key of one coarse term for all, where there are more: its domain is the whole cluster. No
#: label is so called.
ANYWHERE: Final = "*"
#: Compiled terms of larger affinities are not kept.
_MAX_KEPT: Final = 4096
#: With more namespaces or values a term is matched against all pods.
_MAX_KEYS: Final = 16


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One compiled pod (anti-)affinity term.

    Attributes:
        namespaces: names of the namespaces whose pods it selects from.
        topology_key: the node label whose values are the domains, or :data:`ANYWHERE`.
    """

    topology_key: str
    namespaces: frozenset[str]
    _selector_key: bytes | None
    _namespace_selector_key: bytes | None
    selector: Selector = field(compare=False, repr=False)
    namespace_selector: Selector = field(compare=False, repr=False)

    def index_keys(self) -> Iterator[_IndexKey]:
        """Of the keys of any pod that it selects one is among these."""
        namespaces: Iterable[str] = self.namespaces
        if not self.has_no_namespace_selector or len(self.namespaces) > _MAX_KEYS:
            namespaces = ("",)
        pairs = self.selector.some_label_of_each(_MAX_KEYS)
        for namespace in namespaces:
            for pair in pairs:
                yield namespace, pair

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
    """The terms of one pod.

    Attributes:
        too_much: what it has too much of, so that some are left out, or required anti-affinity is
            coarser than it says; "" for none.
    """

    required: Sequence[AffinityTerm] = ()
    required_anti: Sequence[AffinityTerm] = ()
    preferred: Sequence[tuple[int, AffinityTerm]] = ()
    preferred_anti: Sequence[tuple[int, AffinityTerm]] = ()
    too_much: str = ""


NO_TERMS: Final = PodAffinityTerms()


def affinity_terms_of(pod: Pod) -> PodAffinityTerms:
    """The pod's terms; :data:`NO_TERMS` itself if it has none."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    to_pods = Affinity(
        pod_affinity=affinity.pod_affinity, pod_anti_affinity=affinity.pod_anti_affinity
    )
    encoded = _encode(to_pods)
    if len(encoded) > _MAX_KEPT:
        return _compile(affinity, pod.metadata.namespace)
    return _compile_once(encoded, pod.metadata.namespace)


@lru_cache(maxsize=4096)
def _compile_once(encoded: bytes, namespace: str) -> PodAffinityTerms:
    return _compile(decode_object(encoded, Affinity), namespace)


def _compile(affinity: Affinity, namespace: str) -> PodAffinityTerms:
    near = affinity.pod_affinity or PodAffinity()
    apart = affinity.pod_anti_affinity or PodAffinity()
    limits = _Limits()

    def required(terms: Sequence[PodAffinityTerm]) -> list[AffinityTerm]:
        return [_compile_term(term, namespace) for term in terms]

    def preferred(side: PodAffinity) -> list[tuple[int, AffinityTerm]]:
        weights = side.preferred_during_scheduling_ignored_during_execution
        kept = limits.within([each.pod_affinity_term for each in weights])
        terms = [_compile_term(term, namespace) for term in kept]
        return [(each.weight, term) for each, term in zip(weights, terms, strict=False)]

    terms = apart.required_during_scheduling_ignored_during_execution
    within = limits.within(terms)
    required_anti = required([*within, *_coarse(terms[len(within) :], namespace)])
    terms = near.required_during_scheduling_ignored_during_execution
    sides = required(limits.within(terms)), required_anti, preferred(near), preferred(apart)
    return PodAffinityTerms(*sides, too_much=limits.too_much)


def _coarse(terms: Sequence[PodAffinityTerm], namespace: str) -> list[PodAffinityTerm]:
    """Few terms that select whatever one of ``terms`` selects, in the domains of all of them.

    They select from no namespace that none of ``terms`` can select from, so that nobody keeps away
    by them whom he may not keep away.
    """
    terms = [term for term in terms if term.label_selector is not None]  # others select nothing
    if not terms:
        return []
    keys = list({term.topology_key: None for term in terms})
    named = {name for term in terms for name in term.namespaces}
    everywhere = any(term.namespace_selector is not None for term in terms)
    if not all(term.namespaces or term.namespace_selector is not None for term in terms):
        named.add(namespace)
    everything = LabelSelector()
    return [
        PodAffinityTerm(
            topology_key=key,
            label_selector=everything,
            namespaces=[] if everywhere else sorted(named),
            namespace_selector=everything if everywhere else None,
        )
        for key in (keys if len(keys) <= MAX_COARSE_KEYS else [ANYWHERE])
    ]


@dataclass(slots=True)
class _Limits:
    """Counts what the terms of one pod have, and leaves out those with which it is too much."""

    terms: int = 0
    cross_namespace: int = 0
    requirements: int = 0
    names: int = 0
    too_much: str = ""

    def within(self, terms: Sequence[PodAffinityTerm]) -> Sequence[PodAffinityTerm]:
        """The first terms, as many as are looked at."""
        for place, term in enumerate(terms):
            self.terms += 1
            self.cross_namespace += term.namespace_selector is not None
            self.names += len(term.namespaces)
            for selector in (term.label_selector, term.namespace_selector):
                if selector is not None:
                    expressions = selector.match_expressions
                    self.requirements += len(selector.match_labels) + len(expressions)
                    self.names += sum(len(each.values) for each in expressions)
            if self.too_much or self._exceeded():
                return terms[:place]
        return terms

    def _exceeded(self) -> bool:
        counts = (
            ("terms", self.terms, MAX_TERMS),
            ("terms with a namespace selector", self.cross_namespace, MAX_CROSS_NAMESPACE_TERMS),
            ("requirements", self.requirements, MAX_REQUIREMENTS),
            ("values and namespaces", self.names, MAX_NAMES),
        )
        beyond = (f"more than {most} {what}" for what, count, most in counts if count > most)
        self.too_much = next(beyond, "")
        return bool(self.too_much)


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


#: A namespace, or "" for all, and a label, or None for any.
_IndexKey = tuple[str, tuple[str, str] | None]
#: Row → how many pods there carry a term (or the sum of their weights for it).
Rows = dict[int, int]


class TermRows:
    """The rows of the pods that carry each of some terms."""

    __slots__ = ("_by_key", "rows")

    def __init__(self) -> None:
        self.rows: dict[AffinityTerm, Rows] = {}
        self._by_key: dict[_IndexKey, dict[AffinityTerm, Rows]] = {}

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TermRows):
            return NotImplemented
        return self.rows == other.rows and self._by_key == other._by_key

    __hash__ = None  # type: ignore[assignment]

    def add(self, term: AffinityTerm, row: int, amount: int) -> None:
        """Count a term of a pod on its row."""
        rows = self.rows.get(term)
        if rows is None:
            rows = self.rows[term] = {}
            for key in term.index_keys():
                self._by_key.setdefault(key, {})[term] = rows
        left = rows.get(row, 0) + amount
        if left:
            rows[row] = left
            return
        rows.pop(row, None)
        if not rows:
            del self.rows[term]
            for key in term.index_keys():
                terms = self._by_key.get(key, {})
                terms.pop(term, None)
                if not terms:
                    self._by_key.pop(key, None)

    def matching(
        self, pod: Pod, namespace_labels: Mapping[str, str]
    ) -> Iterator[tuple[AffinityTerm, Rows]]:
        """The terms that select ``pod``, whose namespace has these labels."""
        found: dict[AffinityTerm, Rows] = {}
        labels = (None, *pod.metadata.labels.items())
        for namespace in (pod.metadata.namespace, ""):
            for label in labels:
                found.update(self._by_key.get((namespace, label), {}))
        for term, rows in found.items():
            if term.matches(pod, namespace_labels):
                yield term, rows


class AffinityIndex:
    """Which rows hold pods with which terms."""

    def __init__(self) -> None:
        self.required = TermRows()
        self.required_anti = TermRows()
        self.preferred = TermRows()
        self.preferred_anti = TermRows()

    def __bool__(self) -> bool:
        return bool(self.required or self.required_anti or self.preferred or self.preferred_anti)

    def add(self, terms: PodAffinityTerms, row: int, sign: int) -> None:
        """Count a pod's terms on its row: ``sign`` is 1 when it comes and -1 when it goes."""
        for term in terms.required:
            self.required.add(term, row, sign)
        for term in terms.required_anti:
            self.required_anti.add(term, row, sign)
        for weight, term in terms.preferred:
            self.preferred.add(term, row, sign * weight)
        for weight, term in terms.preferred_anti:
            self.preferred_anti.add(term, row, sign * weight)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffinityIndex) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
