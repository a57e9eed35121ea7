"""Validation of built-in objects: metadata of every kind, and a few kinds' own fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from arranger.embedded import Object
from arranger.embedded.builtin import pods
from arranger.embedded.builtin.pods import Cause
from arranger.embedded.errors import invalid
from arranger.embedded.registry import Resource

_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_NOTE_LIMIT: Final = 1024
#: Built-in kinds with ``metadata.generation``.
KINDS_WITH_GENERATION: Final = frozenset(
    {"Pod", "PodDisruptionBudget", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job"}
)


def raise_if_invalid(resource: Resource, obj: Object, causes: list[Cause]) -> None:
    """Refuse the object if there are causes.

    Raises:
        ApiError: 422, if there is a cause.
    """
    if causes:
        name = obj["metadata"].get("name") or ""
        raise invalid(resource.kind, resource.group, name, causes)


def validate_create(resource: Resource, obj: Object) -> None:
    """Check an object that is to be created.

    Raises:
        ApiError: 400 or 422.
    """
    raise_if_invalid(resource, obj, [*_metadata_violations(obj), *_kind_violations(resource, obj)])


def validate_update(resource: Resource, before: Object, after: Object) -> None:
    """Check an update of anything but the status.

    Raises:
        ApiError: 422.
    """
    causes = [*_metadata_violations(after), *_metadata_update_violations(before, after)]
    if resource.storage_key == "/pods":
        if field := pods.forbidden_change(before, after):
            why = "Forbidden: pod updates may not change fields other than those allowed"
            causes.append(("FieldValueForbidden", field, why))
    elif resource.api_version == "events.k8s.io/v1":
        causes += _event_update_violations(before, after)
    elif resource.kind == "PriorityClass":
        causes += _priority_class_update_violations(before, after)
    else:
        causes += _kind_violations(resource, after)
    raise_if_invalid(resource, after, causes)


def _priority_class_update_violations(before: Object, after: Object) -> Iterator[Cause]:
    if before["value"] != after["value"]:
        yield "FieldValueForbidden", "value", "Forbidden: may not be changed in an update."
    default = "PreemptLowerPriority"
    policy = after.get("preemptionPolicy", default)
    if before.get("preemptionPolicy", default) != policy:
        why = f'Invalid value: "{policy}": field is immutable'
        yield "FieldValueInvalid", "preemptionPolicy", why


def _metadata_violations(obj: Object) -> Iterator[Cause]:
    meta = obj["metadata"]
    name = meta.get("name", "")
    if not name:
        why = "Required value: name or generateName is required"
        yield "FieldValueRequired", "metadata.name", why
    elif len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        yield "FieldValueInvalid", "metadata.name", f'Invalid value: "{name}"'
    for value in (meta.get("labels") or {}).values():
        if not isinstance(value, str) or len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
            yield "FieldValueInvalid", "metadata.labels", f'Invalid value: "{value}"'


def _metadata_update_violations(before: Object, after: Object) -> Iterator[Cause]:
    if before["metadata"].get("deletionTimestamp"):
        old = set(before["metadata"].get("finalizers") or ())
        if set(after["metadata"].get("finalizers") or ()) - old:
            why = "Forbidden: no new finalizers can be added if the object is being deleted"
            yield "FieldValueForbidden", "metadata.finalizers", why


def _kind_violations(resource: Resource, obj: Object) -> Iterator[Cause]:
    if resource.storage_key == "/pods":
        yield from pods.violations(obj)
    elif resource.kind == "CustomResourceDefinition":
        spec = obj.get("spec") or {}
        yield from _definition_violations(spec)
        wanted = f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}"
        if obj["metadata"].get("name") != wanted:
            why = f'Invalid value: must be spec.names.plural+"."+spec.group: {wanted}'
            yield "FieldValueInvalid", "metadata.name", why
    elif resource.kind == "Lease":
        seconds = (obj.get("spec") or {}).get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            why = f"Invalid value: {seconds}: must be greater than 0"
            yield "FieldValueInvalid", "spec.leaseDurationSeconds", why
    elif resource.api_version == "events.k8s.io/v1":
        yield from _event_violations(obj)
    elif resource.kind == "Event":
        yield from _core_event_violations(obj)


def _definition_violations(spec: Object) -> Iterator[Cause]:
    names = spec.get("names") or {}
    required = {field: spec.get(field) for field in ("group", "scope", "versions")}
    required |= {f"names.{field}": names.get(field) for field in ("plural", "kind")}
    for field, value in required.items():
        if not value:
            yield "FieldValueRequired", f"spec.{field}", "Required value"
    for n, version in enumerate(spec.get("versions") or []):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield "FieldValueRequired", f"spec.versions[{n}].schema", "Required value"


def _event_violations(event: Object) -> Iterator[Cause]:
    for field in ("eventTime", "reportingController", "reportingInstance", "action", "reason"):
        if not event.get(field):
            yield "FieldValueRequired", field, "Required value"
    if len((event.get("note") or "").encode()) > _NOTE_LIMIT:
        # The server validates the core/v1 form, so it names that form's field.
        yield "FieldValueInvalid", "message", "Invalid value: can have at most 1024 characters"
    if event.get("type") not in ("Normal", "Warning"):
        yield "FieldValueInvalid", "type", f'Invalid value: "{event.get("type", "")}"'
    if len(event.get("reportingInstance") or "") > 128:
        yield "FieldValueInvalid", "reportingInstance", "Invalid value: at most 128 characters"
    for field in ("reason", "action"):
        if len(event.get(field) or "") > 128:
            yield "FieldValueInvalid", field, "Invalid value: can have at most 128 characters"


def _core_event_violations(event: Object) -> Iterator[Cause]:
    """core/v1 Events: fewer fields are required, and hardly any without an ``eventTime``."""
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace", "")
    timed = bool(event.get("eventTime"))
    somewhere = ("default", "kube-system") if timed else ("default",)
    fits = namespace in somewhere if not about else timed or about == namespace
    if not fits:
        why = f'Invalid value: "{about}": does not match event.namespace'
        yield "FieldValueInvalid", "involvedObject.namespace", why
    if not timed:
        return
    for field in ("reportingComponent", "reportingInstance", "action", "reason"):
        if not event.get(field):
            yield "FieldValueRequired", field, "Required value"
    if len((event.get("message") or "").encode()) > _NOTE_LIMIT:
        yield "FieldValueInvalid", "message", "Invalid value: can have at most 1024 characters"


def _event_update_violations(before: Object, after: Object) -> Iterator[Cause]:
    for name in sorted({*before, *after} - {"series", "metadata"}):
        if before.get(name) != after.get(name):
            field = "message" if name == "note" else name
            yield "FieldValueInvalid", field, "Invalid value: field is immutable"
    if (after.get("series") or {"count": 2})["count"] < 2:
        yield "FieldValueInvalid", "series.count", "Invalid value: should be at least 2"
