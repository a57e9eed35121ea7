"""What the first lists show, kept until all kinds have been read, and then handed on in one order.

A decision depends on objects of many kinds, and informers deliver their first lists in any order.
So that a start decides as a scheduler would that has seen everything happen, nothing is made of an
object before the others are known, and the order of delivery decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final

from arranger.api.types.core import Node, Pod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.pod_groups import AnyPodGroup, GangObject, NativePodGroup, PodGroup
from arranger.api.types.queue import Queue
from arranger.cluster.object_store import StoredObject

WatchedObject = Node | StoredObject | PodDisruptionBudget | Queue | AnyPodGroup | GangObject | Pod

_UNKNOWN_TIME: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True, eq=False)
class InitialObjects:
    """The last state of each object, until :meth:`take`; empty ever after.

    Attributes:
        being_handed_on: whether they have been taken, but not each of them has been looked at.
    """

    being_handed_on: bool = field(default=False, init=False)

    _objects: dict[tuple[type[Any], str], WatchedObject] | None = field(
        default_factory=dict, init=False
    )

    @property
    def taken(self) -> bool:
        """Whether they have been handed on."""
        return self._objects is None

    def keep(self, obj: WatchedObject) -> bool:
        """Keep an object that appeared or was edited; False once all have been taken."""
        if self._objects is None:
            return False
        self._objects[type(obj), key_of(obj)] = obj
        return True

    def drop(self, kind: type[Any], key: str) -> bool:
        """Drop an object that was deleted; False once all have been taken."""
        if self._objects is None:
            return False
        self._objects.pop((kind, key), None)
        return True

    def take(self) -> tuple[list[WatchedObject], list[tuple[WatchedObject, Exception]]] | None:
        """All objects, those first that others depend on; None at later calls.

        Nodes; what plugins look up; budgets, Queues, PodGroups and Gangs; pods that have a node,
        those that are nominated for one, and the others; each the oldest first. Then those that
        have no place in this order, as working it out raised.
        """
        if self._objects is None:
            return None
        objects, self._objects = self._objects, None
        self.being_handed_on = True
        placed, failed = [], []
        for (kind, key), obj in objects.items():
            try:
                created = obj.metadata.creation_timestamp or _UNKNOWN_TIME
                placed.append(((_rank(obj), created, kind.__name__, key), obj))
            except Exception as error:
                failed.append((obj, error))
        placed.sort(key=itemgetter(0))
        return [obj for _, obj in placed], failed

    def end_handing_on(self) -> None:
        """Each of the objects has been looked at."""
        self.being_handed_on = False


def key_of(obj: WatchedObject) -> str:
    """``namespace/name``; ``/name`` for what has no namespace."""
    return f"{obj.metadata.namespace}/{obj.metadata.name}"


def _rank(obj: WatchedObject) -> int:
    match obj:
        case Pod():  # first, as of these there are most
            if obj.spec.node_name:
                return 6
            return 7 if obj.status.nominated_node_name else 8
        case Node():
            return 0
        case PodDisruptionBudget():
            return 2
        case Queue():
            return 3
        case PodGroup() | NativePodGroup():
            return 4
        case GangObject():
            return 5
        case _:
            return 1
