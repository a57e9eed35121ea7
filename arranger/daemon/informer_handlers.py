"""Carries what the reflectors see into the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from arranger.api.types.core import Node, ObjectMeta, Pod
from arranger.engine.engine import Engine


class _Named(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_Named)


class StateSink(Generic[T]):
    """Keeps one kind of object current in the engine, vanished ones included.

    After a relist, what the new list lacks has been deleted while nobody watched.

    Attributes:
        synced: whether a full state has been delivered.
    """

    def __init__(
        self,
        *,
        set_one: Callable[[T], None],
        gone: Callable[[str], None],
        wake: Callable[[], None],
    ) -> None:
        """``gone`` is called with ``namespace/name``, or ``name`` for what has no namespace."""
        self.synced = False
        self._known: set[str] = set()
        self._set_one = set_one
        self._gone = gone
        self._wake = wake

    def replaced(self, objects: Sequence[T], resource_version: str) -> None:
        """The full state, after a list."""
        present = {_key(obj) for obj in objects}
        for key in self._known - present:
            self._gone(key)
        # The oldest first: after a restart, who waited longest is still in front.
        for obj in sorted(objects, key=_created):
            self._set_one(obj)
        self._known = present
        self.synced = True
        self._wake()

    def applied(self, obj: T) -> None:
        """One object was added or edited."""
        self._known.add(_key(obj))
        self._set_one(obj)
        self._wake()

    def deleted(self, obj: T) -> None:
        """One object was deleted."""
        key = _key(obj)
        self._known.discard(key)
        self._gone(key)
        self._wake()


def node_sink(
    engine: Engine, now: Callable[[], float], wake: Callable[[], None]
) -> StateSink[Node]:
    """Feeds nodes."""
    return StateSink(
        set_one=lambda node: engine.on_node_updated(node, now()),
        gone=lambda name: engine.on_node_deleted(name, now()),
        wake=wake,
    )


def pod_sink(engine: Engine, now: Callable[[], float], wake: Callable[[], None]) -> StateSink[Pod]:
    """Feeds pods."""

    def set_one(pod: Pod) -> None:
        uid = pod.metadata.uid
        if not pod.spec.node_name and uid in engine.cluster and uid not in engine.cluster.assumed:
            # Nothing unbinds a pod: the API server has been restored from a backup, and what it
            # shows is no old news but the truth now.
            engine.on_pod_deleted(pod.key, now())
        engine.on_pod_updated(pod, now())

    return StateSink(
        set_one=set_one,
        gone=lambda key: engine.on_pod_deleted(key, now()),
        wake=wake,
    )


class ObjectSink(Generic[T]):
    """Keeps one kind of object current whose last state is wanted when it is gone.

    Attributes:
        synced: whether a full state has been delivered.
    """

    def __init__(
        self,
        set_one: Callable[[T, float], None],
        gone: Callable[[T, float], None],
        *,
        now: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self.synced = False
        self._known: dict[str, T] = {}
        self._set_one = set_one
        self._gone = gone
        self._now = now
        self._wake = wake

    def replaced(self, objects: Sequence[T], resource_version: str) -> None:
        """The full state, after a list."""
        present = {_key(obj) for obj in objects}
        for key in self._known.keys() - present:
            self._gone(self._known.pop(key), self._now())
        for obj in objects:
            self.applied(obj)
        self.synced = True
        self._wake()

    def applied(self, obj: T) -> None:
        """One object was added or edited."""
        self._known[_key(obj)] = obj
        self._set_one(obj, self._now())
        self._wake()

    def deleted(self, obj: T) -> None:
        """One object was deleted."""
        self._known.pop(_key(obj), None)
        self._gone(obj, self._now())
        self._wake()


def _created(obj: _Named) -> datetime:
    return obj.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)


def _key(obj: _Named) -> str:
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
