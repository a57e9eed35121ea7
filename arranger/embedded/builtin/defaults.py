"""Defaults of new objects, and how an update is merged into the stored object."""

from __future__ import annotations

from typing import Final

from arranger.embedded import Object, copy_json
from arranger.embedded.builtin import pods
from arranger.embedded.registry import Resource
from arranger.embedded.storage.store import Store

_PRIORITY_CLASSES: Final = "scheduling.k8s.io/priorityclasses"
#: Metadata that no update changes, whatever it says.
_IMMUTABLE_METADATA: Final = (
    *("uid", "creationTimestamp", "generation", "deletionTimestamp", "resourceVersion"),
    *("deletionGracePeriodSeconds", "namespace", "name", "generateName"),
)


def set_defaults(resource: Resource, obj: Object, store: Store, now: str) -> None:
    """Default an object that is to be created, in place.

    Raises:
        ApiError: 403 for a priority that admission does not allow.
    """
    obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
    if resource.storage_key == "/pods":
        classes = store.items(_PRIORITY_CLASSES)
        default = next((c for c in classes if c.get("globalDefault")), None)
        pods.set_defaults(obj, lambda name: store.get(_PRIORITY_CLASSES, ("", name)), default)
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [pods.gated_condition(now)]
    elif resource.kind == "Namespace":
        _label_namespace(obj)
        obj["status"] = {"phase": "Active"}
    elif resource.kind == "Node":
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if "capacity" in status:
            status.setdefault("allocatable", dict(status["capacity"]))
    elif resource.schema is not None:
        if resource.status:
            obj.pop("status", None)
        resource.schema.set_defaults(obj)


def apply_update(resource: Resource, before: Object, given: Object, *, status: bool) -> Object:
    """The object after an update: ``given``'s status alone, or everything but its status.

    ``given`` may be changed; ``before`` is not.

    Raises:
        ApiError: 403 for a priority that admission does not allow.
    """
    after = _new_status(before, given) if status else _all_but_status(resource, before, given)
    if resource.storage_key == "/pods":
        if status:
            quality = before["status"]["qosClass"]
            after["status"] = {"qosClass": quality, **(after.get("status") or {})}
        else:
            _keep_pod_defaults(before, after)
    elif resource.kind == "Namespace" and not status:
        _label_namespace(after)
    elif resource.schema is not None:
        after = copy_json(after)
        resource.schema.set_defaults(after)
    return after


def _new_status(before: Object, given: Object) -> Object:
    after = {**before, "metadata": dict(before["metadata"])}
    after.pop("status", None)
    if "status" in given:
        after["status"] = given["status"]
    return after


def _all_but_status(resource: Resource, before: Object, given: Object) -> Object:
    after = {**given, "kind": resource.kind, "apiVersion": resource.api_version}
    meta = after["metadata"] = dict(given.get("metadata") or {})
    for name in _IMMUTABLE_METADATA:
        meta.pop(name, None)
        if name in before["metadata"]:
            meta[name] = before["metadata"][name]
    if resource.status:
        after.pop("status", None)
        if "status" in before:
            after["status"] = before["status"]
    return after


def _keep_pod_defaults(before: Object, after: Object) -> None:
    """Default a pod as at its creation, so that a bare replacement compares equal."""
    status, old = after["status"], before["spec"]
    spec = after.setdefault("spec", {})
    if spec.setdefault("priority", old.get("priority", 0)) == old.get("priority"):
        spec.setdefault("preemptionPolicy", old.get("preemptionPolicy"))
        pods.set_defaults(after, lambda _: {"value": spec["priority"]}, None)
    after["status"] = status
    if not spec.get("schedulingGates"):
        spec.pop("schedulingGates", None)


def _label_namespace(namespace: Object) -> None:
    meta = namespace["metadata"]
    meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta.get("name", "")
