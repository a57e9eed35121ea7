"""Objects other than pods that an exception may be about: those that the code was busy with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from arranger.api.quarantine import QuarantineKey, frames_of
from arranger.api.types.core import Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import POD_GROUPS, GangObject
from arranger.api.types.queue import Queue
from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_view import NodeInfo
from arranger.cluster.object_store import STORED_KINDS
from arranger.engine.handlers.closed_nodes import ClosedNodes
from arranger.engine.handlers.watched_kinds import WatchedKind, WatchedKinds
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup
from arranger.gangs.registry import GangRegistry
from arranger.quota.ledger import QuotaLedger
from arranger.quota.queue_spec import QueueQuota

#: Type, namespace and name.
_Found = tuple[type[Any], str, str]

#: What is often named by a mere string: ``name``, or ``namespace/name``.
_NAMED: Final = (Node, Queue)
_NAMED_WITHIN: Final = (PodDisruptionBudget, *POD_GROUPS, GangObject)
#: Of one frame, and of all of them.
_MAX_STRINGS: Final = 8
_MAX_OBJECTS: Final = 32


class SavedGangs(Protocol):
    """The Gang objects of the cluster."""

    def saved(self, name: str) -> GangObject | None:
        """The object of a gang as it was last seen."""


@dataclass(frozen=True, slots=True)
class KnownObjects:
    """Finds the objects that the engine knows.

    Args:
        kinds: what the engine is told of.
    """

    kinds: WatchedKinds
    _cluster: Cluster
    _registry: GangRegistry
    _ledger: QuotaLedger
    _gangs: SavedGangs
    _closed: ClosedNodes

    def find(self, key: QuarantineKey) -> tuple[WatchedKind[Any], Any] | None:
        """An object that counts now, with its kind."""
        kind, namespace, name = key
        for of, watched in self.kinds.items():
            if watched.kind == kind and (obj := self._get((of, namespace, name))) is not None:
                return watched, self._closed.as_stated(obj) if of is Node else obj
        return None

    def accused(self, error: BaseException) -> list[QuarantineKey]:
        """The known objects in the frames that an exception came through, the innermost first."""
        found: dict[QuarantineKey, None] = {}
        each: BaseException | None = error
        errors: list[BaseException] = []
        while each is not None and len(errors) < 4:
            errors.append(each)
            each = each.__cause__
        for one in reversed(errors):
            if isinstance(one, PluginFailureError):
                found |= dict.fromkeys(self._keys(self._if_known([(Node, "", one.node)])))
            for frame in frames_of(one):
                found |= dict.fromkeys(self._keys(self._in_frame(frame.tb_frame.f_locals)))
                if len(found) >= _MAX_OBJECTS:
                    break
        return list(found)

    def _keys(self, found: Iterable[_Found]) -> Iterator[QuarantineKey]:
        return ((self.kinds[of].kind, namespace, name) for of, namespace, name in found)

    def _in_frame(self, values: Mapping[str, Any]) -> Iterator[_Found]:
        parts = list(_flat(values.values()))
        for part in parts:
            yield from self._objects_of(part)
        row = values.get("row")
        if type(row) is int and 0 <= row < len(nodes := self._cluster.table.nodes):
            yield from self._objects_of(nodes[row])
        strings = [part for part in parts if type(part) is str][:_MAX_STRINGS]
        for text in strings:
            yield from self._if_known((of, "", text) for of in _NAMED)
            namespace, _, name = text.partition("/")
            if name:
                yield from self._if_known((of, namespace, name) for of in _NAMED_WITHIN)
        for of in parts:
            if isinstance(of, type) and of in self.kinds:
                spaces = ("", *strings)
                yield from self._if_known((of, space, name) for space in spaces for name in strings)

    def _objects_of(self, value: Any) -> Iterable[_Found]:
        match value:
            case NodeInfo():
                return self._objects_of(value.table.nodes[value.row])
            case QueueQuota():
                return self._if_known([(Queue, "", value.name)])
            case Gang():
                return self._objects_of(value.pod_group)
            case GangGroup():
                return [each for gang in value.gangs for each in self._objects_of(gang)]
            case Pod():
                return ()
        of = type(value)
        if of in self.kinds:
            meta = value.metadata
            return self._if_known([(of, meta.namespace, meta.name)])
        return ()

    def _if_known(self, objects: Iterable[_Found]) -> Iterable[_Found]:
        return [each for each in objects if self._get(each) is not None]

    def _get(self, wanted: _Found) -> Any:
        with suppress(Exception):  # the fault may be here
            return self._look_up(*wanted)
        return None

    def _look_up(self, of: type[Any], namespace: str, name: str) -> Any:
        if of is Node:
            row = self._cluster.table.index.get(name)
            return None if row is None else self._cluster.table.nodes[row]
        if of is PodDisruptionBudget:
            return self._cluster.budgets.get(f"{namespace}/{name}")
        if of is Queue:
            queue = self._ledger.queues.get(name)
            return None if queue is None else queue.stated
        if of in POD_GROUPS:
            return self._registry.pod_group(of, f"{namespace}/{name}")
        if of is GangObject:
            return self._gangs.saved(f"{namespace}/{name}")
        if of in _STORED:
            return self._cluster.objects.shown(of, namespace, name)
        return None


_STORED: Final = frozenset(STORED_KINDS.values())


def _flat(values: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """Values, and those in small tuples."""
    for value in values:
        if type(value) is tuple and depth < 3:
            yield from _flat(value[:8], depth + 1)
        else:
            yield value
