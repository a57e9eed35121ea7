"""Tells a handler of every object that appears, changes or goes, missed deletions included.

A :class:`~arranger.kube.watch.reflector.Reflector` hands over full states and single changes. The
informer remembers which objects exist, so that a full state that lacks some of them (they were
deleted while no watch was open) becomes the deletions that it implies. client-go:
``tools/cache/shared_informer.go``, with one handler for additions and modifications because none
of ours tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from arranger.kube.watch.decoder import KubeObject, T, UndecodableObject

T_contra = TypeVar("T_contra", contravariant=True)


class ResourceEventHandler(Protocol[T_contra]):
    """Hears of the objects of one resource, synchronously and in order."""

    def on_updated(self, obj: T_contra, /) -> None:
        """An object was added or modified."""

    def on_deleted(self, obj: T_contra, /) -> None:
        """An object is gone; ``obj`` is its last known state."""


def namespaced_name(obj: KubeObject) -> str:
    """``namespace/name``, or ``name`` for what has no namespace: a re-created object keeps it."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)


def uid_of(obj: KubeObject) -> str:
    """The uid: a re-created object has another, so the earlier one is reported as deleted."""
    return str(obj.metadata.uid)


@dataclass(slots=True, eq=False)
class Informer(Generic[T]):
    """A reflector's sink that turns full states into changes for one handler.

    Args:
        handler: told of every change; for a full state first of the deletions.
        key: what makes two states the same object: :func:`namespaced_name` or :func:`uid_of`.
        sort_by: the order in which the handler hears of a full state; as listed without it.
        transform: what is kept of an object, to be handed over when its deletion was missed; by
            default all of it. To save memory, it may leave out what the handler does not need.
        notify: called after each delivery, once the handler has heard of everything in it.

    Attributes:
        synced: whether a full state has been delivered.
    """

    handler: ResourceEventHandler[T]
    _: KW_ONLY
    key: Callable[[T | UndecodableObject], str] = namespaced_name
    sort_by: Callable[[T], Any] | None = None
    transform: Callable[[T], T] = lambda obj: obj
    notify: Callable[[], None] = lambda: None
    synced: bool = field(default=False, init=False)
    _objects: dict[str, T] = field(default_factory=dict, init=False)

    def record(self, obj: T) -> None:
        """Count ``obj``, with which the server answered a write of ours, as existing.

        If it is deleted before a watch has shown it, the next full state tells (client-go's
        ``MutationCache``). The handler hears nothing of it now.
        """
        self._objects.setdefault(self.key(obj), self.transform(obj))

    def replaced(
        self,
        objects: list[T],
        resource_version: str,
        undecodable: Sequence[UndecodableObject] = (),
    ) -> None:
        """These are all objects there are; of the undecodable ones the last known state stays."""
        present = {*map(self.key, objects), *map(self.key, undecodable)}
        for key in [key for key in self._objects if key not in present]:
            self.handler.on_deleted(self._objects.pop(key))
        if self.sort_by is not None:
            objects = sorted(objects, key=self.sort_by)
        for obj in objects:
            self._objects[self.key(obj)] = self.transform(obj)
            self.handler.on_updated(obj)
        self.synced = True
        self.notify()

    def applied(self, obj: T) -> None:
        """An object was added or modified."""
        self._objects[self.key(obj)] = self.transform(obj)
        self.handler.on_updated(obj)
        self.notify()

    def deleted(self, obj: T | UndecodableObject) -> None:
        """An object was deleted; of an undecodable one the handler gets the last known state."""
        known = self._objects.pop(self.key(obj), None)
        last = known if isinstance(obj, UndecodableObject) else obj
        if last is not None:
            self.handler.on_deleted(last)
        self.notify()
