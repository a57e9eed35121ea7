"""What PodGroups have been promised and do not use yet, kept current by each of their changes.

It counts among PodGroups of one namespace only: see
:mod:`arranger.quota.min_resources_admission`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from arranger.api.listing import namespace_of
from arranger.api.resource_requests import Amounts, add_amounts

T = TypeVar("T")


@dataclass(slots=True)
class _Members:
    """The pods of a PodGroup: how many there are, and what those ask for that have nodes."""

    count: int = 0
    held: Counter[str] = field(default_factory=Counter)


class Promises:
    """What PodGroups are still to get of their ``minResources``, one by one, and by namespace and
    queue.

    All, while one is Inqueue and has no pods; and if it runs, what its bound pods do not ask for.

    Attributes:
        total: namespace → of all its PodGroups.
    """

    def __init__(self) -> None:
        self.total: dict[str, Counter[str]] = {}
        #: PodGroup → its queue, its phase and what it wants; and what it is promised.
        self._groups: dict[str, tuple[str, str, Amounts]] = {}
        self._promised: dict[str, Amounts] = {}
        self._members: dict[str, _Members] = {}
        #: (namespace, queue) → amounts.
        self._by_queue: dict[tuple[str, str], Counter[str]] = {}

    def of(self, group: str) -> Amounts:
        """What one PodGroup is promised."""
        return self._promised.get(group, {})

    def in_namespace(self, namespace: str, resource: str) -> int:
        """How much of a resource the PodGroups of a namespace are promised."""
        found = self.total.get(namespace)
        return 0 if found is None else found[resource]

    def in_queue(self, queue: str, namespace: str, resource: str) -> int:
        """How much of it those are promised that are in a queue."""
        found = self._by_queue.get((namespace, queue))
        return 0 if found is None else found[resource]

    def set_group(self, key: str, queue: str, phase: str, wanted: Amounts) -> None:
        """A PodGroup was added or edited; ``wanted``: its ``minResources``."""
        self._count(key, -1)
        self._groups[key] = queue, phase, wanted
        self._count(key, 1)

    def remove_group(self, key: str) -> None:
        """A PodGroup was deleted."""
        self._count(key, -1)
        self._groups.pop(key, None)

    def add_pod(self, key: str, bound: Amounts, sign: int = 1) -> None:
        """A pod of a PodGroup came, or with -1 went; ``bound``: what it asks for on its node."""
        self._count(key, -1)
        members = self._members.setdefault(key, _Members())
        members.count += sign
        add_amounts(members.held, bound, sign)
        if not members.count:
            del self._members[key]
        self._count(key, 1)

    def _count(self, key: str, sign: int) -> None:
        """Count what a PodGroup is promised now, or with -1 count it no more."""
        if key not in self._groups:
            return
        queue, phase, wanted = self._groups[key]
        amounts = self._work_out(key, phase, wanted) if sign > 0 else self._promised.pop(key, {})
        if not amounts:
            return
        if sign > 0:
            self._promised[key] = amounts
        namespace = namespace_of(key)
        _add(self.total, namespace, amounts, sign)
        _add(self._by_queue, (namespace, queue), amounts, sign)

    def _work_out(self, key: str, phase: str, wanted: Amounts) -> Amounts:
        members = self._members.get(key)
        if phase == "Inqueue" and members is None:
            return wanted
        if phase != "Running":
            return {}
        held: Counter[str] = Counter() if members is None else members.held
        return {name: max(0, n - held[name]) for name, n in wanted.items()}


def _add(sums: dict[T, Counter[str]], key: T, amounts: Amounts, sign: int) -> None:
    """Add amounts to one of some sums; one that comes to nothing is not kept."""
    add_amounts(sums.setdefault(key, Counter()), amounts, sign)
    if not sums[key]:
        del sums[key]
