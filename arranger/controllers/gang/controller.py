"""The kopf handlers: Gangs, PodGroups of every dialect, and the definitions that are installed.

Only ``on.event`` handlers, which keep nothing on the objects they see: no annotation, no finalizer.
kopf finds out by itself which of the resources are served, and notices those installed later.
Pods do not come through kopf (see :class:`PodSink`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import kopf
import msgspec
import structlog

from arranger.api.types.core import Pod
from arranger.controllers.gang.cache import (
    GANG_GROUP,
    GANG_VERSION,
    NATIVE_GROUP,
    POD_GROUP_KINDS,
    GangCache,
    GangObjectKey,
)

log = structlog.get_logger(__name__)

Enqueue = Callable[[set[str]], None]

#: The definitions we write to. Those of scheduling.k8s.io are the API server's own.
_DEFINITIONS: Final = {
    f"gangs.{GANG_GROUP}": GANG_GROUP,
    **{f"podgroups.{group}": group for group in POD_GROUP_KINDS if group != NATIVE_GROUP},
}
#: By its name alone kopf finds a resource only in its group's preferred version, and that of
#: scheduling.k8s.io is the one of PriorityClass. 1.36 serves v1alpha2, 1.37 the others.
_WATCHED_VERSIONS: Final = {
    GANG_GROUP: (GANG_VERSION,),
    **{group: (kind.api_version.rpartition("/")[2],) for group, kind in POD_GROUP_KINDS.items()},
    NATIVE_GROUP: ("v1beta1", "v1alpha3", "v1alpha2"),
}


def register(registry: kopf.OperatorRegistry, cache: GangCache, enqueue: Enqueue) -> None:
    """Add the handlers that keep the ledger true and have gangs looked at."""

    @kopf.on.event("apiextensions.k8s.io", "v1", "customresourcedefinitions", registry=registry)
    async def on_definition_event(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        group = _DEFINITIONS.get(body["metadata"]["name"])
        if group is None:
            return
        if type == "DELETED":
            cache.on_definition_deleted(group)
        else:
            enqueue(cache.on_definition_updated(group, status_fields(body)))

    def watch(group: str, version: str, plural: str) -> None:
        @kopf.on.event(group, version, plural, registry=registry)
        async def on_object_event(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
            meta = body["metadata"]
            if type == "DELETED":
                enqueue(
                    cache.on_object_deleted(
                        GangObjectKey(group, f"{meta['namespace']}/{meta['name']}")
                    )
                )
                return
            try:
                enqueue(cache.on_object_updated(group, body))
            except msgspec.ValidationError as error:
                log.warning("gang.bad_object", group=group, name=meta["name"], error=str(error))

    for group, versions in _WATCHED_VERSIONS.items():
        for version in versions:
            watch(group, version, "gangs" if group == GANG_GROUP else "podgroups")


def status_fields(definition: Mapping[str, Any]) -> frozenset[str] | None:
    """The fields that a definition's ``status`` has; None where it keeps whatever is written."""
    fields: set[str] = set()
    for version in definition["spec"]["versions"]:
        schema = version.get("schema", {}).get("openAPIV3Schema", {})
        status = schema.get("properties", {}).get("status", {})
        if any(part.get("x-kubernetes-preserve-unknown-fields") for part in (schema, status)):
            return None
        if version.get("served"):
            fields |= status.get("properties", {}).keys()
    return frozenset(fields)


class PodSink:
    """Passes pods on to the ledger; the sink of a reflector.

    Pods come in by thousands a second. kopf spends a third of a millisecond on each event, has a
    task for each object, and after a watch that had to start over does not say which pods are gone.
    """

    def __init__(self, cache: GangCache, enqueue: Enqueue, *, namespace: str = "") -> None:
        self._cache = cache
        self._enqueue = enqueue
        self._namespace = namespace

    def replaced(self, objects: list[Pod], resource_version: str) -> None:
        """These are all pods."""
        self._enqueue(self._cache.on_pods_replaced(objects, namespace=self._namespace))

    def applied(self, obj: Pod) -> None:
        """A pod was added or modified."""
        self._enqueue(self._cache.on_pod_updated(obj))

    def deleted(self, obj: Pod) -> None:
        """A pod is gone."""
        self._enqueue(self._cache.on_pod_deleted(obj.metadata.uid))
