"""Versioned objects and the history that watches replay.

One counter numbers every write, as in etcd. Stored objects are never changed in place, so lists and
watches share them, and their JSON is made once a version.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, Literal

import msgspec

from arranger.embedded import Object

Key = tuple[str, str]  # namespace ("" for cluster scope), name
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Listener = Callable[["Change"], None]

#: Writes that are kept, so that watches can resume.
HISTORY_LIMIT: Final = 100_000

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Change:
    """One write: what the object was and what it is. ``after`` of a delete is its last state."""

    version: int
    type: ChangeType
    resource: str
    before: Object | None
    after: Object


@dataclass(slots=True)
class _Table:
    """The objects of one resource, and their keys in the order of etcd's (``namespace/name``)."""

    objects: dict[Key, Object] = field(default_factory=dict)
    order: list[tuple[str, Key]] = field(default_factory=list)
    encoded: dict[Key, tuple[Object, bytes]] = field(default_factory=dict)


class Store:
    """Objects by resource (``group/plural``) and key.

    Args:
        history_limit: how many writes are kept; a watch from before the oldest is refused.

    Attributes:
        version: the version of the latest write.
        compacted: the latest version that cannot be watched from any more.
    """

    def __init__(self, *, history_limit: int = HISTORY_LIMIT) -> None:
        self.version = 1
        self.compacted = 0
        self._history_limit = history_limit
        self._tables: dict[str, _Table] = {}
        self._log: deque[Change] = deque()
        self._served_since: dict[str, int] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self._by_uid: dict[str, tuple[str, Key]] = {}
        self._dependents: dict[str, dict[tuple[str, Key], None]] = {}

    # --- reading ---------------------------------------------------------------------------

    def get(self, resource: str, key: Key) -> Object | None:
        """The object, or None."""
        table = self._tables.get(resource)
        return None if table is None else table.objects.get(key)

    def items(self, resource: str, namespace: str = "") -> list[Object]:
        """All objects of a resource, in the order of etcd's keys (``namespace/name``)."""
        table = self._tables.get(resource)
        if table is None:
            return []
        order = table.order
        if namespace:
            # "0" is the character after "/".
            start = bisect_left(order, (f"{namespace}/",))
            order = order[start : bisect_left(order, (f"{namespace}0",))]
        return [table.objects[key] for _, key in order]

    def resources(self) -> list[str]:
        """Resources that have objects."""
        return [resource for resource, table in self._tables.items() if table.objects]

    def find_by_uid(self, uid: str) -> tuple[str, Object] | None:
        """Resource and object of a uid, or None."""
        place = self._by_uid.get(uid)
        return None if place is None else (place[0], self._tables[place[0]].objects[place[1]])

    def owned_by(self, uid: str) -> list[tuple[str, Object]]:
        """Resource and object of everything that names the uid as an owner."""
        return [(r, self._tables[r].objects[key]) for r, key in self._dependents.get(uid, ())]

    def json(self, resource: str, obj: Object) -> bytes:
        """A stored object as JSON; made once while this is its latest version."""
        table, key = self._tables[resource], _key(obj)
        known = table.encoded.get(key)
        if known is not None and known[0] is obj:
            return known[1]
        encoded = _encode(obj)
        if table.objects.get(key) is obj:
            table.encoded[key] = (obj, encoded)
        return encoded

    # --- writing ---------------------------------------------------------------------------

    def put(self, resource: str, obj: Object) -> Object:
        """Write an object under a new version; returns it as stored.

        ``obj`` and its metadata must not be changed by the caller afterwards.
        """
        key = _key(obj)
        table = self._tables.setdefault(resource, _Table())
        before = table.objects.get(key)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if before is None:
            insort(table.order, (f"{key[0]}/{key[1]}", key))
        else:
            self._unindex(resource, key, before)
        table.objects[key] = obj
        table.encoded.pop(key, None)
        self._index(resource, key, obj)
        self._record("ADDED" if before is None else "MODIFIED", resource, before, obj)
        return obj

    def remove(self, resource: str, key: Key) -> Object:
        """Delete an object; its last state carries the version of the deletion.

        Raises:
            KeyError: it is not there.
        """
        table = self._tables[resource]
        before = table.objects.pop(key)
        del table.order[bisect_left(table.order, (f"{key[0]}/{key[1]}", key))]
        table.encoded.pop(key, None)
        self._unindex(resource, key, before)
        self.version += 1
        meta = {**before["metadata"], "resourceVersion": str(self.version)}
        last = {**before, "metadata": meta}
        self._record("DELETED", resource, before, last)
        return last

    # --- history ---------------------------------------------------------------------------

    def changes_since(self, version: int) -> Iterator[Change]:
        """The writes after ``version``, oldest first; the caller checks ``compacted``."""
        # Mostly the last few of a long log.
        later = list(takewhile(lambda change: change.version > version, reversed(self._log)))
        return reversed(later)

    def compact(self) -> None:
        """Forget the history, as etcd does every few minutes."""
        self._log.clear()
        self.compacted = self.version

    def start_resource(self, resource: str) -> None:
        """The resource is served from now on; no watch can start before."""
        self._served_since[resource] = self.version

    def oldest_watchable_version(self, resource: str) -> int:
        """The oldest version that a watch of the resource can go on from."""
        return max(self.compacted, self._served_since.get(resource, 0))

    def subscribe(self, listener: Listener, resource: str = "") -> Callable[[], None]:
        """Have ``listener`` called on every write to a resource; returns what ends that.

        Without a resource it is called on every write of all.
        """
        listeners = self._listeners.setdefault(resource, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    # --- inside ----------------------------------------------------------------------------

    def _record(
        self, kind: ChangeType, resource: str, before: Object | None, after: Object
    ) -> None:
        change = Change(self.version, kind, resource, before, after)
        self._log.append(change)
        if len(self._log) > self._history_limit:
            self.compacted = self._log.popleft().version
        for listeners in (self._listeners.get(resource), self._listeners.get("")):
            for listener in tuple(listeners or ()):
                listener(change)

    def _index(self, resource: str, key: Key, obj: Object) -> None:
        meta = obj["metadata"]
        self._by_uid[meta.get("uid", "")] = (resource, key)
        for owner in meta.get("ownerReferences") or ():
            self._dependents.setdefault(owner.get("uid", ""), {})[resource, key] = None

    def _unindex(self, resource: str, key: Key, obj: Object) -> None:
        meta = obj["metadata"]
        self._by_uid.pop(meta.get("uid", ""), None)
        for owner in meta.get("ownerReferences") or ():
            uid = owner.get("uid", "")
            dependents = self._dependents.get(uid, {})
            dependents.pop((resource, key), None)
            if not dependents:
                self._dependents.pop(uid, None)


def _key(obj: Object) -> Key:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]
