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
from operator import itemgetter
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


class FaultHandler(Protocol[T_contra]):
    """Answers for objects that make a handler raise; what it raises itself ends the process."""

    def on_update_fault(self, obj: T_contra, before: T_contra | None, error: Exception) -> None:
        """The handler raised about an object, of which the last state was ``before``.

        It has heard half of it, perhaps. What it is told now is not told again by the informer.
        """

    def on_delete_fault(self, obj: T_contra, error: Exception) -> None:
        """The handler raised about an object that is gone."""

    def on_undecodable(self, obj: UndecodableObject, *, known: bool) -> None:
        """An object cannot be decoded; the handler goes by its last state, if one is ``known``."""

    def on_heard(self, obj: T_contra) -> None:
        """The handler has heard of an object, and did not raise."""

    def on_gone(self, obj: T_contra | UndecodableObject) -> None:
        """An object is gone, whether or not a handler has heard of it."""


class RaiseFaults(Generic[T]):
    """For those whose handlers are not to raise: the exception goes on."""

    def on_update_fault(self, obj: T, before: T | None, error: Exception) -> None:
        """See :class:`FaultHandler`."""
        raise error

    def on_delete_fault(self, obj: T, error: Exception) -> None:
        """See :class:`FaultHandler`."""
        raise error

    def on_undecodable(self, obj: UndecodableObject, *, known: bool) -> None:
        """See :class:`FaultHandler`."""

    def on_heard(self, obj: T) -> None:
        """See :class:`FaultHandler`."""

    def on_gone(self, obj: T | UndecodableObject) -> None:
        """See :class:`FaultHandler`."""


@dataclass(slots=True, eq=False)
class Informer(Generic[T]):
    """A reflector's sink that turns full states into changes for one handler.

    Args:
        handler: told of every change; for a full state first of the deletions.
        key: what makes two states the same object: :func:`namespaced_name` or :func:`uid_of`.
        sort_by: the order in which the handler hears of a full state; as listed without it.
        transform: what is kept of an object, to be handed over when its deletion was missed; by
            default all of it. To save memory, it may leave out what the handler does not need.
        faults: answers for objects about which the handler raises.
        notify: called after each delivery, once the handler has heard of everything in it.
        on_listing: called when a full state is asked for.
        on_listed: told of the objects of a full state, in place of the handler's ``on_updated``.

    Attributes:
        synced: whether a full state has been delivered.
    """

    handler: ResourceEventHandler[T]
    _: KW_ONLY
    key: Callable[[T | UndecodableObject], str] = namespaced_name
    sort_by: Callable[[T], Any] | None = None
    transform: Callable[[T], T] = lambda obj: obj
    faults: FaultHandler[T] = field(default_factory=RaiseFaults)
    notify: Callable[[], None] = lambda: None
    on_listing: Callable[[], None] = lambda: None
    on_listed: Callable[[T], None] | None = None
    synced: bool = field(default=False, init=False)
    _objects: dict[str, T] = field(default_factory=dict, init=False)
    _undecodable: dict[str, UndecodableObject] = field(default_factory=dict, init=False)
    #: Whether a full state is awaited, and what has been recorded since: it may lack that.
    _awaits_list: bool = field(default=True, init=False)
    _recorded: set[str] = field(default_factory=set, init=False)

    def record(self, obj: T) -> None:
        """Count ``obj``, with which the server answered a write of ours, as existing.

        If it is deleted before a watch has shown it, the next full state tells (client-go's
        ``MutationCache``). The handler hears nothing of it now.
        """
        key = self.key(obj)
        self._objects.setdefault(key, self.transform(obj))
        if self._awaits_list:
            self._recorded.add(key)

    def listing(self) -> None:
        """What is recorded from now on may be later than the full state that comes."""
        self._awaits_list = True
        self._recorded.clear()
        self.on_listing()

    def replaced(
        self,
        objects: list[T],
        resource_version: str,
        undecodable: Sequence[UndecodableObject] = (),
    ) -> None:
        """These are all objects there are; of the undecodable ones the last known state stays."""
        present = set[str]()
        if self._objects or self._undecodable:  # else nothing can be gone
            present = {*map(self.key, objects), *map(self.key, undecodable), *self._recorded}
        self._awaits_list = False
        self._recorded.clear()
        for key in [key for key in self._objects if key not in present]:
            self._delete(self._objects.pop(key))
        for key in [key for key in self._undecodable if key not in present]:
            self.faults.on_gone(self._undecodable.pop(key))
        for bad in undecodable:
            self._skip(bad)
        objects, failed = self._in_order(objects)
        hear = self.on_listed or self.handler.on_updated
        for obj in objects:
            self._update(obj, hear)
        for obj, error in failed:
            before = self._objects.get(self.key(obj))
            self._objects[self.key(obj)] = obj
            self.faults.on_update_fault(obj, before, error)
        self.synced = True
        self.notify()

    def _in_order(self, objects: list[T]) -> tuple[list[T], list[tuple[T, Exception]]]:
        """The objects of a full state, and those whose place among them cannot be worked out."""
        if self.sort_by is None:
            return objects, []
        placed, failed = [], []
        for obj in objects:
            try:
                placed.append((self.sort_by(obj), obj))
            except Exception as error:
                failed.append((obj, error))
        placed.sort(key=itemgetter(0))
        return [obj for _, obj in placed], failed

    def applied(self, obj: T | UndecodableObject) -> None:
        """An object was added or modified; of an undecodable one the last known state stays."""
        if isinstance(obj, UndecodableObject):
            self._skip(obj)
        else:
            self._update(obj, self.handler.on_updated)
        self.notify()

    def deleted(self, obj: T | UndecodableObject) -> None:
        """An object was deleted; of an undecodable one the handler gets the last known state."""
        known = self._objects.pop(self.key(obj), None)
        self._undecodable.pop(self.key(obj), None)
        last = known if isinstance(obj, UndecodableObject) else obj
        if last is not None:
            self._delete(last)
        else:
            self.faults.on_gone(obj)
        self.notify()

    def _skip(self, obj: UndecodableObject) -> None:
        key = self.key(obj)
        self._undecodable[key] = obj
        self.faults.on_undecodable(obj, known=key in self._objects)

    def _update(self, obj: T, hear: Callable[[T], None]) -> None:
        key = self.key(obj)
        if self._undecodable:
            self._undecodable.pop(key, None)
        before = self._objects.get(key)
        self._objects[key] = obj
        try:
            self._objects[key] = self.transform(obj)
            hear(obj)
        except Exception as error:
            self.faults.on_update_fault(obj, before, error)
        else:
            self.faults.on_heard(obj)

    def _delete(self, obj: T) -> None:
        try:
            self.handler.on_deleted(obj)
        except Exception as error:
            self.faults.on_delete_fault(obj, error)
        self.faults.on_gone(obj)
