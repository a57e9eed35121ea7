"""Who may use a queue, and what of what pods claim is believed there.

A queue and those above it may each say so, and what all of them allow holds. Where they are silent
everybody may use a queue, and everything is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from arranger.api.parsing.errors import shown
from arranger.api.selectors import Selector, is_valid_requirement
from arranger.api.types.core import LabelSelector, Namespace
from arranger.api.types.queue import QueueSpec

SERVICE_TYPES: Final = ("inference", "training")


#: Labels that the definition lets a selector name, and how long the value of a label may be.
_MAX_LABELS: Final = 64
_LABEL_LENGTH: Final = 63


@dataclass(frozen=True, slots=True)
class QueueRights:
    """What one Queue says; None where it is silent.

    Attributes:
        namespaces: whose pods may use it.
        service_types: those that are believed.
        max_priority: a higher one counts as this.
    """

    namespaces: LabelSelector | None = None
    service_types: frozenset[str] | None = None
    max_priority: int | None = None

    def problems(self) -> list[str]:
        """What is wrong with them, as sentences for the queue's owner."""
        requirements = self.namespaces.match_expressions if self.namespaces is not None else ()
        found = [
            f"spec.namespaceSelector: {each.key} {each.operator} {', '.join(each.values)}: "
            "matches nothing"
            for each in requirements
            if not is_valid_requirement(each)
        ]
        labels = self.namespaces.match_labels if self.namespaces is not None else {}
        if len(labels) > _MAX_LABELS:
            why = f"{len(labels)} labels, and at most {_MAX_LABELS} are allowed"
            found.append(f"spec.namespaceSelector: {why}")
        long = (name for name, each in labels.items() if len(each) > _LABEL_LENGTH)
        found += [f"spec.namespaceSelector: {shown(name)}: matches nothing" for name in long]
        if self.max_priority is not None and not -(2**31) <= self.max_priority < 2**31:
            found.append("spec.maxPriority: beyond the priorities that pods have")
        unknown = (self.service_types or frozenset()).difference(SERVICE_TYPES)
        found += [f"spec.serviceTypes: {each} is unknown" for each in sorted(unknown)]
        return found


#: Of a queue that says nothing.
SILENT: Final = QueueRights()


def read_rights(spec: QueueSpec) -> QueueRights:
    """What a Queue says about who may use it."""
    types = spec.service_types
    believed = None if types is None else frozenset(types)
    return QueueRights(spec.namespace_selector, believed, spec.max_priority)


class _Limits(NamedTuple):
    """Whether there is anything to be asked about each of these."""

    namespaces: bool = False
    services: bool = False
    priority: bool = False


class TenantRights:
    """What namespaces may in which queues.

    Args:
        all_rights: what all queues say.
        rights_along: the rights that count in a queue: its own, and those of the queues above it.

    Attributes:
        version: how often may have changed who may use which queue.
    """

    def __init__(
        self,
        all_rights: Callable[[], Iterable[QueueRights]],
        rights_along: Callable[[str], Iterable[QueueRights]],
    ) -> None:
        self._all_rights, self._rights_along = all_rights, rights_along
        self.version = 0
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selectors: dict[str, list[Selector]] = {}
        #: (queue, namespace) → whether it may use the queue.
        self._may_use: dict[tuple[str, str], bool] = {}
        #: What is said by any queue at all; None until that is asked for.
        self._limits: _Limits | None = _Limits()

    def _said(self) -> _Limits:
        if self._limits is None:
            said = list(self._all_rights())
            self._limits = _Limits(
                any(each.namespaces is not None for each in said),
                any(each.service_types is not None for each in said),
                any(each.max_priority is not None for each in said),
            )
        return self._limits

    @property
    def limited(self) -> bool:
        """Whether any queue says anything."""
        return any(self._said())

    @property
    def limits_services(self) -> bool:
        """Whether any queue says which service types are believed."""
        return self._said().services

    @property
    def limits_priority(self) -> bool:
        """Whether any queue says which priorities are believed."""
        return self._said().priority

    def on_queues_changed(self) -> None:
        """There are other queues, or they say otherwise."""
        self._limits = None
        self.version += 1
        self._selectors.clear()
        self._may_use.clear()

    def set_namespace(self, namespace: Namespace) -> bool:
        """A namespace appeared or was edited; whether its pods may use other queues."""
        name, labels = namespace.metadata.name, namespace.metadata.labels
        if self._labels.get(name) == labels:
            return False
        self._labels[name] = labels
        return self._changes(name)

    def remove_namespace(self, name: str) -> bool:
        """A namespace was deleted; whether its pods may use other queues."""
        return self._labels.pop(name, None) is not None and self._changes(name)

    def _changes(self, namespace: str) -> bool:
        """Whether an answer about a namespace is another than it was."""
        self.version += 1
        before = {key: known for key, known in self._may_use.items() if key[1] == namespace}
        for key in before:
            del self._may_use[key]
        return any(self.may_use(*key) != known for key, known in before.items())

    def may_use(self, queue: str, namespace: str) -> bool:
        """Whether the pods of a namespace may use a queue.

        Not where a selector is to be asked and the namespace has not been seen.
        """
        limits = self._limits  # asked several times for every pod
        if limits is None:
            limits = self._said()
        if not limits.namespaces:
            return True
        known = self._may_use.get((queue, namespace))
        if known is None:
            known = self._may_use[queue, namespace] = self._selected(queue, namespace)
        return known

    def _selected(self, queue: str, namespace: str) -> bool:
        selectors = self._selectors.get(queue)
        if selectors is None:
            said = (rights.namespaces for rights in self._rights_along(queue))
            selectors = [Selector(each) for each in said if each is not None]
            self._selectors[queue] = selectors
        labels = self._labels.get(namespace)
        if labels is None:
            return not selectors
        return all(selector.matches(labels) for selector in selectors)

    def service_types(self, queue: str) -> frozenset[str] | None:
        """The service types that are believed in a queue; None for all."""
        if not self._said().services:
            return None
        said = (rights.service_types for rights in self._rights_along(queue))
        limits = [each for each in said if each is not None]
        return frozenset.intersection(*limits) if limits else None

    def max_priority(self, queue: str) -> int | None:
        """The highest priority that is believed in a queue; None for any."""
        if not self._said().priority:
            return None
        said = (rights.max_priority for rights in self._rights_along(queue))
        return min((each for each in said if each is not None), default=None)

    def believed_priority(self, queue: str, stated: int) -> int:
        """What a priority counts as in a queue."""
        most = self.max_priority(queue)
        return stated if most is None else min(stated, most)


def not_for_namespace(queue: str, namespace: str) -> str:
    """Said to pods that name a queue which their namespace may not use."""
    return f"Queue <{queue}> is not for namespace <{namespace}>"
