"""The columns of each kind, as the API server's printers have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from arranger.embedded.registry import Resource

Object = dict[str, Any]
Cell = Callable[[Object, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: how its cells are computed; priority 1 is shown with ``-o wide`` only."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0


def columns_of(resource: Resource) -> list[Column]:
    """The columns of a kind; of one that has none of its own, name and age."""
    if resource.custom and resource.columns:
        return [_NAME, *(_json_path_column(column) for column in resource.columns)]
    return [*_COLUMNS.get(resource.kind, (_NAME, _AGE))]


def human_duration(stamp: str | None, now: datetime) -> str:
    """Time since ``stamp``, as kubectl writes it: ``5s``, ``2m3s``, ``4h``, ``3d``."""
    if not stamp:
        return "<unknown>"
    then = datetime.fromisoformat(stamp)
    seconds = max(0, int((now - then).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        years, left = divmod(days, 365)
        return f"{years}y{left}d" if left else f"{years}y"
    return f"{days // 365}y"


# --- cells ------------------------------------------------------------------------------------


#: The steps of a JSONPath: a field, an index, or the first item with a field of some value.
_STEP: Final = re.compile(r"""[^.\[\]]+|\[\d+\]|\[\?\(@\.\w+ *== *["'][^"']*["']\)\]""")
_FILTER_STEP: Final = re.compile(r"""\[\?\(@\.(\w+) *== *["']([^"']*)["']\)\]""")


def _lookup(obj: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(obj, list) and (whose := _FILTER_STEP.fullmatch(part)):
            name, value = whose.groups()
            obj = next((each for each in obj if each.get(name) == value), None)
        elif isinstance(obj, list) and part.isdigit():
            obj = obj[int(part)] if int(part) < len(obj) else None
        else:
            obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _field(path: str, default: Any = "") -> Cell:
    parts = path.split(".")

    def cell(obj: Object, _: datetime) -> Any:
        value = _lookup(obj, parts)
        return default if value in (None, "") else value

    return cell


def _age_of(*paths: str) -> Cell:
    """Age of the first time that is given."""
    places = [path.split(".") for path in paths]

    def cell(obj: Object, now: datetime) -> str:
        return human_duration(
            next((at for place in places if (at := _lookup(obj, place))), None), now
        )

    return cell


def _json_path_column(column: Object) -> Column:
    steps = _STEP.findall(column["jsonPath"])
    path = [step if _FILTER_STEP.fullmatch(step) else step.strip("[]") for step in steps]
    dated = column["type"] == "date"

    def cell(obj: Object, now: datetime) -> Any:
        value = _lookup(obj, path)
        return human_duration(value, now) if dated else value

    return Column(column["name"], cell, column["type"], column.get("priority", 0))


# --- pods and nodes -----------------------------------------------------------------------------


def _statuses(pod: Object) -> list[Object]:
    return pod["status"].get("containerStatuses") or []


def _ready(pod: Object, _: datetime) -> str:
    ready = sum(bool(s.get("ready")) for s in _statuses(pod))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _restarts(pod: Object, _: datetime) -> str:
    return str(sum(s.get("restartCount", 0) for s in _statuses(pod)))


def _pod_status(pod: Object, _: datetime) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    reasons = [c.get("reason") for c in pod["status"].get("conditions") or []]
    if "SchedulingGated" in reasons:
        return "SchedulingGated"
    return str(pod["status"].get("reason") or pod["status"]["phase"])


def _node_status(node: Object, _: datetime) -> str:
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or []}
    words = {"True": "Ready", "False": "NotReady"}
    status = words.get(conditions.get("Ready", ""), "Unknown")
    return f"{status},SchedulingDisabled" if node["spec"].get("unschedulable") else status


def _roles(node: Object, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = [label.removeprefix(prefix) for label in labels if label.startswith(prefix)]
    return ",".join(sorted(roles)) or "<none>"


def _address(kind: str) -> Cell:
    def cell(node: Object, _: datetime) -> str:
        addresses = node.get("status", {}).get("addresses") or []
        return next((a["address"] for a in addresses if a["type"] == kind), "<none>")

    return cell


# --- events --------------------------------------------------------------------------------------


#: Prefix in events.k8s.io/v1 of the fields that only core/v1 Events should have.
_DEPRECATED_PREFIX: Final = "deprecated"


def _involved_object(event: Object, _: datetime) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _first_of(*paths: str) -> Cell:
    """The first of several fields that is there."""
    places = [path.split(".") for path in paths]

    def cell(obj: Object, _: datetime) -> Any:
        return next((value for place in places if (value := _lookup(obj, place))), "")

    return cell


def _source(event: Object, _: datetime) -> str:
    source = event.get("source") or event.get(f"{_DEPRECATED_PREFIX}Source") or {}
    component = source.get("component") or event.get("reportingComponent")
    parts = (
        component or event.get("reportingController"),
        source.get("host") or event.get("reportingInstance"),
    )
    return ", ".join(part for part in parts if part)


def _event_count(event: Object, _: datetime) -> int:
    series = event.get("series") or {}
    counts = (series.get("count"), event.get("count"), event.get("deprecatedCount"))
    return next((int(count) for count in counts if count), 1)


# --- all kinds ----------------------------------------------------------------------------------


def _ready_replicas(obj: Object, _: datetime) -> str:
    wanted, ready = _lookup(obj, ["spec", "replicas"]), _lookup(obj, ["status", "readyReplicas"])
    return f"{ready or 0}/{wanted or 0}"


_NAME: Final = Column("Name", _field("metadata.name"))
_AGE: Final = Column("Age", _age_of("metadata.creationTimestamp"))
_COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "Pod": (
        _NAME,
        Column("Ready", _ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts),
        _AGE,
        Column("IP", _field("status.podIP", "<none>"), priority=1),
        Column("Node", _field("spec.nodeName", "<none>"), priority=1),
        Column("Nominated Node", _field("status.nominatedNodeName", "<none>"), priority=1),
        Column("Readiness Gates", lambda *_: "<none>", priority=1),
    ),
    "Node": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _roles),
        _AGE,
        Column("Version", _field("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), priority=1),
        Column("External-IP", _address("ExternalIP"), priority=1),
        Column("OS-Image", _field("status.nodeInfo.osImage", "<unknown>"), priority=1),
        Column("Kernel-Version", _field("status.nodeInfo.kernelVersion", "<unknown>"), priority=1),
        Column(
            "Container-Runtime",
            _field("status.nodeInfo.containerRuntimeVersion", "<unknown>"),
            priority=1,
        ),
    ),
    "Namespace": (_NAME, Column("Status", _field("status.phase")), _AGE),
    "Event": (
        Column(
            "Last Seen",
            _age_of(
                "series.lastObservedTime",
                "lastTimestamp",
                f"{_DEPRECATED_PREFIX}LastTimestamp",
                "firstTimestamp",
                f"{_DEPRECATED_PREFIX}FirstTimestamp",
                "eventTime",
            ),
        ),
        Column("Type", _field("type")),
        Column("Reason", _field("reason")),
        Column("Object", _involved_object),
        Column(
            "Subobject", _first_of("involvedObject.fieldPath", "regarding.fieldPath"), priority=1
        ),
        Column("Source", _source, priority=1),
        Column("Message", _first_of("message", "note")),
        Column(
            "First Seen",
            _age_of("firstTimestamp", f"{_DEPRECATED_PREFIX}FirstTimestamp", "eventTime"),
            priority=1,
        ),
        Column("Count", _event_count, priority=1),
        Column("Name", _field("metadata.name"), priority=1),
    ),
    "Lease": (_NAME, Column("Holder", _field("spec.holderIdentity")), _AGE),
    "PodDisruptionBudget": (
        _NAME,
        Column("Min Available", _field("spec.minAvailable", "N/A")),
        Column("Max Unavailable", _field("spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", _field("status.disruptionsAllowed", 0), "integer"),
        _AGE,
    ),
    "PriorityClass": (
        _NAME,
        Column("Value", _field("value", 0), "integer"),
        Column("Global-Default", _field("globalDefault", False), "boolean"),
        _AGE,
        Column("PreemptionPolicy", _field("preemptionPolicy", "PreemptLowerPriority")),
    ),
    "ReplicaSet": (
        _NAME,
        Column("Desired", _field("spec.replicas", 0), "integer"),
        Column("Current", _field("status.replicas", 0), "integer"),
        Column("Ready", _field("status.readyReplicas", 0), "integer"),
        _AGE,
    ),
    "Deployment": (
        _NAME,
        Column("Ready", _ready_replicas),
        Column("Up-to-date", _field("status.updatedReplicas", 0)),
        Column("Available", _field("status.availableReplicas", 0)),
        _AGE,
    ),
    "CustomResourceDefinition": (
        _NAME,
        Column("Created At", _field("metadata.creationTimestamp"), "date"),
    ),
}
