"""What the informers of the scheduler call: each hands an object on to the engine, with the time.

The way of a pod: ``Reflector._handle_line`` → ``Informer.applied`` →
:meth:`PodHandler.on_updated` → ``EventHandlers.on_pod_updated``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

from arranger.api.types.core import Node, ObjectMeta, Pod, PodSpec, PodStatus
from arranger.cluster.cluster import Cluster
from arranger.engine.event_handlers import EventHandlers

T = TypeVar("T")

_NO_SPEC: Final = PodSpec()
_NO_STATUS: Final = PodStatus()


class PodHandler:
    """Hands pods on.

    Args:
        handlers: the engine's.
        cluster: the engine's, to recognize pods that are bound no more.
        now: the engine's clock, seconds.
    """

    def __init__(self, handlers: EventHandlers, cluster: Cluster, now: Callable[[], float]) -> None:
        self._handlers = handlers
        self._cluster = cluster
        self._now = now

    def on_updated(self, pod: Pod) -> None:
        """A pod was added or modified."""
        uid, cluster = pod.metadata.uid, self._cluster
        if not pod.spec.node_name and uid in cluster and uid not in cluster.assumed:
            # Nothing unbinds a pod: the API server has been restored from a backup, so what it
            # shows is not an old state but the present one.
            self._handlers.on_pod_deleted(pod.key, self._now())
        self._handlers.on_pod_updated(pod, self._now())

    def on_deleted(self, pod: Pod) -> None:
        """A pod is gone."""
        self._handlers.on_pod_deleted(pod.key, self._now())


class TimedHandler(Generic[T]):
    """Hands objects of one kind on to two functions, with the time."""

    def __init__(
        self,
        on_updated: Callable[[T, float], None],
        on_deleted: Callable[[T, float], None],
        now: Callable[[], float],
    ) -> None:
        self._on_updated = on_updated
        self._on_deleted = on_deleted
        self._now = now

    def on_updated(self, obj: T) -> None:
        """An object was added or modified."""
        self._on_updated(obj, self._now())

    def on_deleted(self, obj: T) -> None:
        """An object is gone."""
        self._on_deleted(obj, self._now())


def creation_time(obj: Node | Pod) -> datetime:
    """When the object was created: after a restart, the pod that waited longest is still first."""
    return obj.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)


def trim_ended_pod(pod: Pod) -> Pod:
    """What an informer keeps of a pod: of one that has ended, which the engine does not keep
    either, nothing but its name."""
    if not pod.terminal:
        return pod
    meta = pod.metadata
    name = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    return Pod(name, _NO_SPEC, _NO_STATUS)
