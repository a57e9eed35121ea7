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
from arranger.controllers.gang.cache import GANG_VERSION, GANGS, KINDS, NATIVE, Key, Ledger

log = structlog.get_logger(__name__)

LookAt = Callable[[set[str]], None]

#: The definitions we write to. Those of scheduling.k8s.io are the API server's own.
_DEFINITIONS: Final = {
    f"gangs.{GANGS}": GANGS,
    **{f"podgroups.{group}": group for group in KINDS if group != NATIVE},
}
#: By its name alone kopf finds a resource only in its group's preferred version, and that of
#: scheduling.k8s.io is the one of PriorityClass. 1.36 serves v1alpha2, 1.37 the others.
_VERSIONS: Final = {
    GANGS: (GANG_VERSION,),
    **{group: (kind.api_version.rpartition("/")[2],) for group, kind in KINDS.items()},
    NATIVE: ("v1beta1", "v1alpha3", "v1alpha2"),
}


def register(registry: kopf.OperatorRegistry, ledger: Ledger, look_at: LookAt) -> None:
    """Add the handlers that keep the ledger true and have gangs looked at."""

    @kopf.on.event("apiextensions.k8s.io", "v1", "customresourcedefinitions", registry=registry)
    async def definition(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        group = _DEFINITIONS.get(body["metadata"]["name"])
        if group is None:
            return
        if type == "DELETED":
            ledger.not_served(group)
        else:
            look_at(ledger.served(group, status_fields(body)))

    def watch(group: str, version: str, plural: str) -> None:
        @kopf.on.event(group, version, plural, registry=registry)
        async def changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
            meta = body["metadata"]
            if type == "DELETED":
                look_at(ledger.object_gone(Key(group, f"{meta['namespace']}/{meta['name']}")))
                return
            try:
                look_at(ledger.object_set(group, body))
            except msgspec.ValidationError as error:
                log.warning("gang.bad_object", group=group, name=meta["name"], error=str(error))

    for group, versions in _VERSIONS.items():
        for version in versions:
            watch(group, version, "gangs" if group == GANGS else "podgroups")


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

    def __init__(self, ledger: Ledger, look_at: LookAt, *, namespace: str = "") -> None:
        self._ledger = ledger
        self._look_at = look_at
        self._namespace = namespace

    def replaced(self, objects: list[Pod], resource_version: str) -> None:
        """These are all pods."""
        self._look_at(self._ledger.pods_replaced(objects, namespace=self._namespace))

    def applied(self, obj: Pod) -> None:
        """A pod was added or modified."""
        self._look_at(self._ledger.pod_set(obj))

    def deleted(self, obj: Pod) -> None:
        """A pod is gone."""
        self._look_at(self._ledger.pod_gone(obj.metadata.uid))
