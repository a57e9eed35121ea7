"""Versioned objects and the history that watches replay.

One counter numbers every write, as in etcd. Stored objects are never changed in place, so lists and
watches share them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

Object = dict[str, Any]
Key = tuple[str, str]  # namespace ("" for cluster scope), name

#: Writes that watches can be resumed across.
WINDOW: Final = 200_000


@dataclass(frozen=True, slots=True)
class Change:
    """One write: what the object was and what it is. ``after`` of a delete is its last state."""

    version: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    resource: str
    before: Object | None
    after: Object


class Store:
    """Objects by resource (``group/plural``) and key.

    Attributes:
        version: the version of the latest write.
        compacted: the latest version that cannot be watched from any more.
    """

    def __init__(self) -> None:
        self.version = 1
        self.compacted = 0
        self._objects: dict[str, dict[Key, Object]] = {}
        self._log: deque[Change] = deque()
        self._began: dict[str, int] = {}
        self._listeners: list[Callable[[Change], None]] = []

    def get(self, resource: str, key: Key) -> Object | None:
        """The object, or None."""
        return self._objects.get(resource, {}).get(key)

    def items(self, resource: str, namespace: str = "") -> list[Object]:
        """All objects of a resource, in the order of etcd's keys (``namespace/name``)."""
        of_resource = self._objects.get(resource, {})
        keys = sorted(of_resource, key=lambda key: f"{key[0]}/{key[1]}")
        return [of_resource[key] for key in keys if not namespace or key[0] == namespace]

    def resources(self) -> list[str]:
        """Resources that have objects."""
        return [resource for resource, objects in self._objects.items() if objects]

    def put(self, resource: str, obj: Object) -> Object:
        """Write an object under a new version; returns it as stored.

        ``obj`` must not be changed by the caller afterwards.
        """
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        before = self.get(resource, key)
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        self._objects.setdefault(resource, {})[key] = obj
        self._record("ADDED" if before is None else "MODIFIED", resource, before, obj)
        return obj

    def remove(self, resource: str, key: Key) -> Object:
        """Delete an object; its last state carries the version of the deletion.

        Raises:
            KeyError: it is not there.
        """
        before = self._objects[resource].pop(key)
        self.version += 1
        meta = {**before["metadata"], "resourceVersion": str(self.version)}
        last = {**before, "metadata": meta}
        self._record("DELETED", resource, before, last)
        return last

    def since(self, version: int) -> Iterator[Change]:
        """The writes after ``version``, oldest first; the caller checks ``compacted``."""
        return (change for change in self._log if change.version > version)

    def compact(self) -> None:
        """Forget the history, as etcd does every few minutes."""
        self._log.clear()
        self.compacted = self.version

    def begin(self, resource: str) -> None:
        """From now on the resource exists; nothing can be watched from before."""
        self._began[resource] = self.version

    def oldest(self, resource: str) -> int:
        """The oldest version that a watch of the resource can go on from."""
        return max(self.compacted, self._began.get(resource, 0))

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Have ``listener`` called on every write; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _record(
        self,
        kind: Literal["ADDED", "MODIFIED", "DELETED"],
        resource: str,
        before: Object | None,
        after: Object,
    ) -> None:
        change = Change(self.version, kind, resource, before, after)
        self._log.append(change)
        if len(self._log) > WINDOW:
            self.compacted = self._log.popleft().version
        for listener in list(self._listeners):
            listener(change)
