"""What the API server does to pods beyond storing them: defaults, rules, bindings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from arranger.api.quantity import QuantityError, milli_value
from arranger.embedded import Object, copy_json
from arranger.embedded.errors import ApiError, bad_request, conflict, not_found

Cause = tuple[str, str, str]

SYSTEM_PRIORITY_CLASSES: Final = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
_TOLERATED_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def set_defaults(
    pod: Object, classes: Callable[[str], Object | None], global_default: Object | None
) -> None:
    """Fill in a new pod, in place.

    ``classes`` finds a PriorityClass by name; ``global_default`` is the one with ``globalDefault``.

    Raises:
        ApiError: 403 for a priority that admission does not allow.
    """
    spec = pod.setdefault("spec", {})
    for field, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("securityContext", {}),
        ("enableServiceLinks", True),
    ):
        spec.setdefault(field, value)
    for container in _containers(spec):
        _container_defaults(container)
    _admit_priority(pod, classes, global_default)
    tolerations = spec.get("tolerations") or []
    for key in _TOLERATED_TAINTS:
        if not any(t.get("key") in (key, None, "") for t in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )
    spec["tolerations"] = tolerations
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    if not spec.get("schedulingGates"):
        spec.pop("schedulingGates", None)


def gated_condition(now: str) -> Object:
    """The PodScheduled condition of a pod that is created with scheduling gates."""
    message = "Scheduling is blocked due to non-empty scheduling gates"
    return _pod_scheduled("False", now, reason="SchedulingGated", message=message)


def _pod_scheduled(status: str, now: str, **why: str) -> Object:
    times = {"lastProbeTime": None, "lastTransitionTime": now}
    return {"type": "PodScheduled", "status": status, **why, **times}


def quality_of_service(spec: Object) -> str:
    """BestEffort, Burstable or Guaranteed."""
    resources_of: list[Object] = [c.get("resources") or {} for c in _containers(spec)]
    relevant = ("cpu", "memory")
    stated = [r.get(part, {}) for r in resources_of for part in ("requests", "limits")]
    if not any(amounts.get(n) for amounts in stated for n in relevant):
        return "BestEffort"
    for resources in resources_of:
        limits, requests = resources.get("limits", {}), resources.get("requests", {})
        if any(n not in limits or limits[n] != requests.get(n) for n in relevant):
            return "Burstable"
    return "Guaranteed"


def violations(pod: Object) -> Iterator[Cause]:
    """What is wrong with a new pod.

    Raises:
        ApiError: 400 for an unreadable quantity.
    """
    spec = pod["spec"]
    if not spec.get("containers"):
        yield "FieldValueRequired", "spec.containers", "Required value"
    seen: set[str] = set()
    for part in ("containers", "initContainers"):
        for n, container in enumerate(spec.get(part) or []):
            yield from _container_violations(container, f"spec.{part}[{n}]", seen)
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        wrong = spec.get("restartPolicy")
        message = f'Unsupported value: "{wrong}": supported values: "Always", "Never", "OnFailure"'
        yield "FieldValueNotSupported", "spec.restartPolicy", message
    for n, toleration in enumerate(spec.get("tolerations") or []):
        if toleration.get("operator", "Equal") not in ("Equal", "Exists", ""):
            message = f'Unsupported value: "{toleration["operator"]}"'
            yield "FieldValueNotSupported", f"spec.tolerations[{n}].operator", message


def forbidden_change(before: Object, after: Object) -> str | None:
    """The field that an update of a pod may not change, or None."""
    if before["spec"] == after["spec"]:
        return None
    old, new = copy_json(before["spec"]), copy_json(after["spec"])
    if _gates(new) - _gates(old):
        return "spec.schedulingGates"
    for spec in (old, new):
        for container in _containers(spec):
            container.pop("image", None)
        for field in ("activeDeadlineSeconds", "schedulingGates"):
            spec.pop(field, None)
        if before["spec"].get("schedulingGates"):
            for field in ("nodeSelector", "affinity"):
                spec.pop(field, None)
    grace = "terminationGracePeriodSeconds"
    if old.get(grace, 0) < 0 and new.get(grace) == 1:
        del old[grace], new[grace]  # what older servers have let in may be mended
    kept, now = old.pop("tolerations", None) or [], new.pop("tolerations", None) or []
    if any(toleration not in now for toleration in kept):
        return "spec.tolerations"
    return None if old == new else "spec"


def bind(pod: Object | None, name: str, binding: Object, now: str) -> Object:
    """The pod with the Binding applied, as ``BindingREST`` does it.

    Raises:
        ApiError: 404, 409 or 400: the pod cannot be bound, or the Binding is not valid.
    """
    meta, target = binding.get("metadata") or {}, binding.get("target") or {}
    if meta.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if target.get("kind", "") not in ("", "Node"):
        raise ApiError(500, "", 'target.kind: Unsupported value: supported values: "Node"')
    if not target.get("name"):
        raise ApiError(500, "", "target.name: Required value")
    if pod is None:
        raise not_found("pods", name)

    def refuse(why: str) -> ApiError:
        return conflict("pods/binding", name, why)

    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted, actual = meta.get(field), pod["metadata"][field]
        if wanted and wanted != actual:
            raise refuse(
                f"Precondition failed: {label} in precondition: {wanted}, "
                f"{label} in object meta: {actual}"
            )
    if pod["metadata"].get("deletionTimestamp"):
        raise refuse(f"pod {name} is being deleted, cannot be assigned to a host")
    if assigned := pod["spec"].get("nodeName"):
        raise refuse(f'pod {name} is already assigned to node "{assigned}"')
    if pod["spec"].get("schedulingGates"):
        raise refuse(f"pod {name} has non-empty .spec.schedulingGates")
    known, status = dict(pod["metadata"]), dict(pod["status"])
    for field in ("annotations", "labels"):
        if meta.get(field):
            known[field] = {**(known.get(field) or {}), **meta[field]}
    status.pop("nominatedNodeName", None)
    others = [c for c in status.get("conditions", []) if c["type"] != "PodScheduled"]
    status["conditions"] = [*others, _pod_scheduled("True", now)]
    spec = {**pod["spec"], "nodeName": target["name"]}
    return {**pod, "metadata": known, "spec": spec, "status": status}


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def _container_defaults(container: Object) -> None:
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, amount in resources["limits"].items():
            requests.setdefault(name, amount)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image", "")
    latest = image.endswith(":latest") or image.rfind(":") <= image.rfind("/")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")


def _admit_priority(
    pod: Object, classes: Callable[[str], Object | None], global_default: Object | None
) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    chosen: Object | None
    if name in SYSTEM_PRIORITY_CLASSES:
        chosen = {"value": SYSTEM_PRIORITY_CLASSES[name]}
    elif name:
        chosen = classes(name)
        if chosen is None:
            raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    else:
        chosen = global_default
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    value = chosen["value"] if chosen else 0
    if spec.get("priority", value) != value:
        why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec"
        raise _forbidden(pod, f"{why}; priority admission controller computed {value}")
    spec["priority"] = value
    policy = (chosen or {}).get("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("preemptionPolicy", policy)


def _forbidden(pod: Object, why: str) -> ApiError:
    name = pod["metadata"].get("name", "")
    message = f'pods "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, details={"name": name, "kind": "pods"})


def _container_violations(container: Object, where: str, seen: set[str]) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield "FieldValueRequired", f"{where}.name", "Required value"
    elif not _DNS_LABEL.fullmatch(name):
        yield "FieldValueInvalid", f"{where}.name", f'Invalid value: "{name}"'
    elif name in seen:
        yield "FieldValueDuplicate", f"{where}.name", f'Duplicate value: "{name}"'
    seen.add(name)
    if not container.get("image"):
        yield "FieldValueRequired", f"{where}.image", "Required value"
    resources = container.get("resources") or {}
    amounts = {
        part: {n: _quantity(q) for n, q in (resources.get(part) or {}).items()}
        for part in ("requests", "limits")
    }
    for part, listed in amounts.items():
        for resource, amount in listed.items():
            if amount < 0:
                field = f"{where}.resources.{part}[{resource}]"
                message = "must be greater than or equal to 0"
                yield "FieldValueInvalid", field, f'Invalid value: "{amount}": {message}'
    for resource, limit in amounts["limits"].items():
        if amounts["requests"].get(resource, 0) > limit:
            message = f"must be less than or equal to {resource} limit"
            field = f"{where}.resources.requests"
            yield "FieldValueInvalid", field, f"Invalid value: {message}"


def _quantity(raw: Any) -> int:
    try:
        return milli_value(raw)
    except QuantityError as error:
        raise bad_request(f"quantities must match the regular expression: {error}") from error


def _gates(spec: Object) -> set[str]:
    return {gate["name"] for gate in spec.get("schedulingGates") or []}
