"""From watches to the caches of controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from arranger.controllers.runtime.barrier import InformerFaults
from arranger.controllers.runtime.controller import ControllerOptions, Tasks
from arranger.controllers.runtime.objects import UnstructuredObject
from arranger.controllers.runtime.trimming import identity_of
from arranger.kube.client.transport import Transport
from arranger.kube.watch.decoder import T
from arranger.kube.watch.informer import Informer, uid_of
from arranger.kube.watch.protobuf_decoder import decoder_of
from arranger.kube.watch.reflector import Reflector

T_contra = TypeVar("T_contra", contravariant=True)

#: Resource → the kind of its objects.
_KINDS: Final = {
    "commands": "Command",
    "configmaps": "ConfigMap",
    "gangs": "Gang",
    "jobs": "Job",
    "namespaces": "Namespace",
    "nodes": "Node",
    "podgroups": "PodGroup",
    "pods": "Pod",
    "queues": "Queue",
    "services": "Service",
    "tyjobs": "TYJob",
}


@dataclass(frozen=True)
class CacheHandler(Generic[T_contra]):
    """Passes objects on to methods of a cache, and enqueues the keys that they return."""

    updated: Callable[[T_contra], set[str]]
    deleted: Callable[[T_contra], set[str]]
    enqueue: Callable[[set[str]], None]
    #: Told of the objects of a full state, in place of ``updated``.
    listed: Callable[[T_contra], set[str]] | None = None

    def on_updated(self, obj: T_contra, /) -> None:
        """An object was added or modified."""
        self.enqueue(self.updated(obj))

    def on_listed(self, obj: T_contra, /) -> None:
        """A full state shows an object."""
        self.enqueue((self.listed or self.updated)(obj))

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
        other_versions: of the API, for a server that does not serve that one.
        trim: takes out of an object just decoded what nobody looks at.
        keep: what of an object the handlers are told when its deletion was missed.

    Attributes:
        definition: the name that the CustomResourceDefinition of the resource has, if it has one.
    """

    def __init__(
        self,
        transport: Transport,
        options: ControllerOptions,
        api: str,
        plural: str,
        kind: type[T],
        *handlers: CacheHandler[T],
        selector: str = "",
        other_versions: Sequence[str] = (),
        trim: Callable[[T], None] | None = None,
        keep: Callable[[T], T] = lambda obj: obj,
    ) -> None:
        group, _, _ = api.removeprefix("/apis/").partition("/")
        self.definition = f"{plural}.{group}"
        apis = [api, *(f"{api.rpartition('/')[0]}/{version}" for version in other_versions)]
        query = {"labelSelector": selector} if selector else {}
        fan_out = _FanOutHandler(handlers)
        faults = InformerFaults(
            options.barrier,
            api.removeprefix("/apis/").removeprefix("/api/"),
            _KINDS[plural],
            fan_out.on_listed,
        )
        self._informers: Mapping[str, Informer[T]] = {
            namespace: Informer(
                fan_out, key=uid_of, transform=keep, faults=faults, on_listed=fan_out.on_listed
            )
            for namespace in options.namespaces or ("",)
        }
        self._reflectors = [
            Reflector(
                transport,
                first,
                decoder_of(kind, trim),
                informer,
                rng=options.rng,
                other_paths=others,
                query=query,
                metrics=options.metrics,
                problems=options.problems,
            )
            for namespace, informer in self._informers.items()
            for first, *others in [[_collection(each, namespace, plural) for each in apis]]
        ]

    @property
    def synced(self) -> list[asyncio.Event]:
        """Come when everything has been listed once."""
        return [reflector.synced for reflector in self._reflectors]

    def tasks(self) -> Tasks:
        """What has to run, each until cancelled."""
        return [reflector.run() for reflector in self._reflectors]

    def on_definition_updated(self) -> None:
        """The definition was installed or changed: look at once whether the resource is served."""
        for reflector in self._reflectors:
            reflector.retry_absent()

    def record(self, obj: T) -> None:
        """Count an object with which the server answered a write of ours as existing.

        The handlers do not hear of it now, but do of its deletion, even if no watch has shown it.
        """
        informer = self._informers.get(obj.metadata.namespace) or self._informers.get("")
        if informer is not None:
            informer.record(obj)


def unstructured_informer(
    transport: Transport,
    options: ControllerOptions,
    api_version: str,
    plural: str,
    *handlers: CacheHandler[UnstructuredObject],
    other_versions: Sequence[str] = (),
) -> MultiNamespaceInformer[UnstructuredObject]:
    """An informer that believes nothing of its objects but their metadata, and keeps the names."""
    return MultiNamespaceInformer(
        transport,
        options,
        f"/apis/{api_version}",
        plural,
        UnstructuredObject,
        *handlers,
        other_versions=other_versions,
        keep=identity_of,
    )


def _collection(api: str, namespace: str, plural: str) -> str:
    return f"{api}/namespaces/{namespace}/{plural}" if namespace else f"{api}/{plural}"


@dataclass(frozen=True)
class _FanOutHandler(Generic[T_contra]):
    handlers: Sequence[CacheHandler[T_contra]]

    def on_updated(self, obj: T_contra, /) -> None:
        _tell_all([handler.on_updated for handler in self.handlers], obj)

    def on_listed(self, obj: T_contra, /) -> None:
        _tell_all([handler.on_listed for handler in self.handlers], obj)

    def on_deleted(self, obj: T_contra, /) -> None:
        _tell_all([handler.on_deleted for handler in self.handlers], obj)


def _tell_all(handlers: Iterable[Callable[[Any], None]], obj: object) -> None:
    """Tell all handlers of an object, whatever some of them raise.

    Raises:
        Exception: the first of what they raised.
    """
    errors: list[Exception] = []
    for handle in handlers:
        try:
            handle(obj)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
