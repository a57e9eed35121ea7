"""From watches to the caches of controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from arranger.controllers.runtime.controller import ControllerOptions, Tasks
from arranger.kube.client.transport import Transport
from arranger.kube.watch.decoder import Decoder, T
from arranger.kube.watch.informer import Informer, ResourceEventHandler, uid_of
from arranger.kube.watch.reflector import Reflector

T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True)
class CacheHandler(Generic[T_contra]):
    """Passes objects on to methods of a cache, and enqueues the keys that they return."""

    updated: Callable[[T_contra], set[str]]
    deleted: Callable[[T_contra], set[str]]
    enqueue: Callable[[set[str]], None]

    def on_updated(self, obj: T_contra, /) -> None:
        """An object was added or modified."""
        self.enqueue(self.updated(obj))

    def on_deleted(self, obj: T_contra, /) -> None:
        """An object is gone."""
        self.enqueue(self.deleted(obj))


class MultiNamespaceInformer(Generic[T]):
    """Watches one resource, everywhere or in some namespaces.

    Args:
        api: where it is served: ``/api/v1``, ``/apis/<group>/<version>``.
        kind: what its objects are decoded as.
        handlers: hear of every change.
        selector: a label that the objects must have; empty for none.
    """

    def __init__(
        self,
        transport: Transport,
        options: ControllerOptions,
        api: str,
        plural: str,
        kind: type[T],
        *handlers: ResourceEventHandler[T],
        selector: str = "",
    ) -> None:
        query = {"labelSelector": selector} if selector else {}
        self._informers: Mapping[str, Informer[T]] = {
            namespace: Informer(_FanOutHandler(handlers), key=uid_of)
            for namespace in options.namespaces or ("",)
        }
        self._reflectors = [
            Reflector(
                transport,
                f"{api}/namespaces/{namespace}/{plural}" if namespace else f"{api}/{plural}",
                Decoder(kind),
                informer,
                rng=options.rng,
                query=query,
                problems=options.problems,
            )
            for namespace, informer in self._informers.items()
        ]

    @property
    def synced(self) -> list[asyncio.Event]:
        """Come when everything has been listed once."""
        return [reflector.synced for reflector in self._reflectors]

    def tasks(self) -> Tasks:
        """What has to run, each until cancelled."""
        return [reflector.run() for reflector in self._reflectors]

    def record(self, obj: T) -> None:
        """Count an object with which the server answered a write of ours as existing.

        The handlers do not hear of it now, but do of its deletion, even if no watch has shown it.
        """
        informer = self._informers.get(obj.metadata.namespace) or self._informers.get("")
        if informer is not None:
            informer.record(obj)


@dataclass(frozen=True)
class _FanOutHandler(Generic[T_contra]):
    handlers: Sequence[ResourceEventHandler[T_contra]]

    def on_updated(self, obj: T_contra, /) -> None:
        for handler in self.handlers:
            handler.on_updated(obj)

    def on_deleted(self, obj: T_contra, /) -> None:
        for handler in self.handlers:
            handler.on_deleted(obj)
