"""PodDisruptionBudgets, and which pods they cover.

A cluster has thousands of them, and a tenant may make any number. So a pod is compared only with
those of its namespace that ask for one of its labels, or for none, and with so many at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from arranger.api.selectors import Selector
from arranger.api.types.core import LabelSelector, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.change_log import ChangeLog

#: Requirements that a pod is compared with: of all budgets that may cover it. The API server evicts
#: no pod that more than one covers.
MAX_REQUIREMENTS: Final = 128
#: Requirements and values of one budget.
MAX_SELECTOR_SIZE: Final = 8192
#: Changes that are remembered.
_LOG_LIMIT: Final = 4096
#: Labels that a budget is found by, at most.
_MAX_LABELS: Final = 16
#: Pods for which it is remembered who covers them: those with so many labels at most that were
#: compared with so many requirements at least.
_MAX_REMEMBERED: Final = 1024
_FEW_LABELS: Final = 32
_WORTH_REMEMBERING: Final = 16
#: Units of work to find the budgets of a pod, and requirements that one is enough for.
_ASKING: Final = 2
_REQUIREMENTS_PER_UNIT: Final = 2

#: A label that all have that a budget covers, or None where it may cover pods without any such.
_Label = tuple[str, str] | None
#: The budgets that cover a pod; None where there are too many to tell.
Covering = Sequence[PodDisruptionBudget] | None


class _Compiled(NamedTuple):
    """What a budget asks for; of a selector that is too large nothing.

    Attributes:
        size: how many requirements there are.
        labels: those that it is found by; none where it covers nothing.
    """

    selector: Selector | None
    size: int
    labels: tuple[_Label, ...]


class _Remembered(NamedTuple):
    labels: Mapping[str, str]
    version: int
    covering: Covering


@dataclass(slots=True, eq=False)
class DisruptionBudgets:
    """The PodDisruptionBudgets of a cluster.

    Args:
        work: counts what comparing takes.
    """

    work: AttemptWork
    _budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    _compiled: dict[str, _Compiled] = field(default_factory=dict)
    #: The namespaces of what has changed.
    _log: ChangeLog[str] = field(default_factory=lambda: ChangeLog(_LOG_LIMIT))
    #: Namespace → label → the keys of the budgets that are found by it.
    _by_label: dict[str, dict[_Label, dict[str, None]]] = field(default_factory=dict)
    #: uid of a pod → who covers it.
    _remembered: dict[str, _Remembered] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._budgets)

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return self._log.version

    def changed_since(self, version: int) -> Set[str] | None:
        """The namespaces whose budgets changed after ``version``; None if that is too long ago."""
        changed = self._log.since(version)
        return None if changed is None else frozenset(changed)

    def get(self, key: str) -> PodDisruptionBudget | None:
        """The budget ``namespace/name``; None if there is none."""
        return self._budgets.get(key)

    def set(self, budget: PodDisruptionBudget) -> None:
        """Add or update one."""
        before, compiled = self._budgets.get(budget.key), self._compiled.get(budget.key)
        if before is None or compiled is None or before.spec != budget.spec:
            found_by = self._by_label.get(budget.metadata.namespace, {})
            compiled = _compile(budget, found_by)
            self._remove(budget.key)
            for label in compiled.labels:
                of_namespace = self._by_label.setdefault(budget.metadata.namespace, {})
                of_namespace.setdefault(label, {})[budget.key] = None
        self._budgets[budget.key], self._compiled[budget.key] = budget, compiled
        self._log.append(budget.metadata.namespace)

    def remove(self, budget: PodDisruptionBudget) -> None:
        """Drop one."""
        self._remove(budget.key)
        self._log.append(budget.metadata.namespace)

    def covering(self, pod: Pod) -> Covering:
        """Those whose selectors match a pod; None where too many would have to be asked.

        One without a selector, or with an empty one, covers nothing.
        """
        meta = pod.metadata
        if meta.namespace not in self._by_label:
            return ()
        known = self._remembered.get(meta.uid)
        if known is not None and known.labels is meta.labels and known.version == self.version:
            self.work.count(len(known.covering or ()) // _REQUIREMENTS_PER_UNIT)
            return known.covering
        covering, size = self._compare(pod)
        self.work.count(_ASKING + size // _REQUIREMENTS_PER_UNIT)
        if size >= _WORTH_REMEMBERING and len(meta.labels) <= _FEW_LABELS:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[meta.uid] = _Remembered(meta.labels, self.version, covering)
        return covering

    def _compare(self, pod: Pod) -> tuple[Covering, int]:
        """Who covers a pod, and how many requirements it was compared with."""
        labels, size, found = pod.metadata.labels, 0, list[PodDisruptionBudget]()
        for key in self._asking_for(pod):
            compiled = self._compiled[key]
            size += compiled.size
            if compiled.selector is None or size > MAX_REQUIREMENTS:
                return None, min(size, MAX_REQUIREMENTS)
            if compiled.selector.matches(labels):
                found.append(self._budgets[key])
        return found, size

    def _asking_for(self, pod: Pod) -> Iterator[str]:
        """The budgets that ask for one of a pod's labels, or for none."""
        labels, by_label = pod.metadata.labels, self._by_label[pod.metadata.namespace]
        if len(labels) > len(by_label):
            for label, keys in by_label.items():
                if label is None or labels.get(label[0]) == label[1]:
                    yield from keys
            return
        yield from by_label.get(None, ())
        for label in labels.items():
            yield from by_label.get(label, ())

    def _remove(self, key: str) -> None:
        budget, compiled = self._budgets.pop(key, None), self._compiled.pop(key, None)
        if budget is None or compiled is None:
            return
        for label in compiled.labels:
            by_label = self._by_label[budget.metadata.namespace]
            del by_label[label][key]
            if not by_label[label]:
                del by_label[label]
            if not by_label:
                del self._by_label[budget.metadata.namespace]

    def check_consistent(self) -> None:
        """Check that each budget is found where it belongs, and nothing else is.

        Raises:
            AssertionError: it is not so.
        """
        found: dict[str, dict[_Label, dict[str, None]]] = {}
        for key, compiled in self._compiled.items():
            namespace, required = self._budgets[key].metadata.namespace, set[_Label]()
            if compiled.selector is not None:
                required.update(compiled.selector.required_labels())
                required.update(compiled.selector.some_label_of_each(_MAX_LABELS))
            assert compiled.selector is None or required >= set(compiled.labels), "wrong labels"
            for label in compiled.labels:
                found.setdefault(namespace, {}).setdefault(label, {})[key] = None
        assert self._by_label == found, "budgets are found by what they do not ask for"


def _compile(budget: PodDisruptionBudget, found_by: Mapping[_Label, Collection[str]]) -> _Compiled:
    """What a budget asks for; it is found by the label that the fewest others are found by."""
    selector = budget.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return _Compiled(None, 0, ())
    size = _size(selector)
    if size > MAX_SELECTOR_SIZE:
        return _Compiled(None, size, (None,))
    compiled = Selector(selector)
    if equal := selector.match_labels.items():
        fewest = min(equal, key=lambda label: len(found_by.get(label, ())))
        return _Compiled(compiled, compiled.size, (fewest,))
    labels = dict.fromkeys(compiled.some_label_of_each(_MAX_LABELS))
    return _Compiled(compiled, compiled.size, tuple(labels))


def _size(selector: LabelSelector) -> int:
    expressions = selector.match_expressions
    listed = sum(len(each.values) for each in expressions)
    return len(selector.match_labels) + len(expressions) + listed
