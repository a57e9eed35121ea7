"""The columns of each kind, as the API server's printers have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from arranger.embedded import Object
from arranger.embedded.registry import Resource

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


_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
#: The units that a duration is written in while it is shorter than so many of one unit.
_DURATION_UNITS: Final = (
    *((2, "m", "s"), (10, "m", "ms"), (3, "h", "m"), (8, "h", "hm"), (48, "h", "h")),
    *((8, "d", "dh"), (2, "y", "d"), (8, "y", "yd")),
)


def human_duration(stamp: str | None, now: datetime) -> str:
    """Time since ``stamp``, as kubectl writes it: ``5s``, ``2m3s``, ``4h``, ``3d``."""
    if not stamp:
        return "<unknown>"
    seconds = max(0, int((now - datetime.fromisoformat(stamp)).total_seconds()))
    shorter = (units for n, unit, units in _DURATION_UNITS if seconds < n * _SECONDS[unit])
    text = ""
    for unit in next(shorter, "y"):
        count, seconds = divmod(seconds, _SECONDS[unit])
        if count or not text:
            text += f"{count}{unit}"
    return text


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


def _field(*paths: str, default: Any = "") -> Cell:
    """The first of several fields that is there."""
    places = [path.split(".") for path in paths]

    def cell(obj: Object, _: datetime) -> Any:
        values = (_lookup(obj, place) for place in places)
        return next((value for value in values if value not in (None, "")), default)

    return cell


def _age_of(*paths: str) -> Cell:
    """Age of the first time that is given."""
    stamp_of = _field(*paths)
    return lambda obj, now: human_duration(stamp_of(obj, now), now)


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


def _involved_object(event: Object, _: datetime) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _source(event: Object, _: datetime) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
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


def _last_schedule(cron_job: Object, now: datetime) -> str:
    stamp = _lookup(cron_job, ["status", "lastScheduleTime"])
    return human_duration(stamp, now) if stamp else "<none>"


def _wide(name: str, *paths: str, default: Any = "") -> Column:
    """A column that only ``-o wide`` shows."""
    return Column(name, _field(*paths, default=default), priority=1)


def _count(name: str, path: str) -> Column:
    return Column(name, _field(path, default=0), "integer")


_NAME: Final = Column("Name", _field("metadata.name"))
_AGE: Final = Column("Age", _age_of("metadata.creationTimestamp"))
_FIRST_SEEN: Final = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
_LAST_SEEN: Final = ("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp")
_COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "Pod": (
        _NAME,
        Column("Ready", _ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts),
        _AGE,
        _wide("IP", "status.podIP", default="<none>"),
        _wide("Node", "spec.nodeName", default="<none>"),
        _wide("Nominated Node", "status.nominatedNodeName", default="<none>"),
        _wide("Readiness Gates", default="<none>"),
    ),
    "Node": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _roles),
        _AGE,
        Column("Version", _field("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), priority=1),
        Column("External-IP", _address("ExternalIP"), priority=1),
        _wide("OS-Image", "status.nodeInfo.osImage", default="<unknown>"),
        _wide("Kernel-Version", "status.nodeInfo.kernelVersion", default="<unknown>"),
        _wide("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", default="<unknown>"),
    ),
    "Namespace": (_NAME, Column("Status", _field("status.phase")), _AGE),
    "Event": (
        Column("Last Seen", _age_of(*_LAST_SEEN, *_FIRST_SEEN)),
        Column("Type", _field("type")),
        Column("Reason", _field("reason")),
        Column("Object", _involved_object),
        _wide("Subobject", "involvedObject.fieldPath", "regarding.fieldPath"),
        Column("Source", _source, priority=1),
        Column("Message", _field("message", "note")),
        Column("First Seen", _age_of(*_FIRST_SEEN), priority=1),
        Column("Count", _event_count, priority=1),
        _wide("Name", "metadata.name"),
    ),
    "Lease": (_NAME, Column("Holder", _field("spec.holderIdentity")), _AGE),
    "PodDisruptionBudget": (
        _NAME,
        Column("Min Available", _field("spec.minAvailable", default="N/A")),
        Column("Max Unavailable", _field("spec.maxUnavailable", default="N/A")),
        _count("Allowed Disruptions", "status.disruptionsAllowed"),
        _AGE,
    ),
    "PriorityClass": (
        _NAME,
        _count("Value", "value"),
        Column("Global-Default", _field("globalDefault", default=False), "boolean"),
        _AGE,
        Column("PreemptionPolicy", _field("preemptionPolicy", default="PreemptLowerPriority")),
    ),
    "ReplicaSet": (
        _NAME,
        _count("Desired", "spec.replicas"),
        _count("Current", "status.replicas"),
        _count("Ready", "status.readyReplicas"),
        _AGE,
    ),
    "Deployment": (
        _NAME,
        Column("Ready", _ready_replicas),
        Column("Up-to-date", _field("status.updatedReplicas", default=0)),
        Column("Available", _field("status.availableReplicas", default=0)),
        _AGE,
    ),
    "CronJob": (
        _NAME,
        Column("Schedule", _field("spec.schedule")),
        Column("Timezone", _field("spec.timeZone", default="<none>")),
        Column("Suspend", lambda obj, _: str(bool(obj["spec"].get("suspend")))),
        Column("Active", lambda obj, _: len(_lookup(obj, ["status", "active"]) or ()), "integer"),
        Column("Last Schedule", _last_schedule),
        _AGE,
    ),
    "CustomResourceDefinition": (
        _NAME,
        Column("Created At", _field("metadata.creationTimestamp"), "date"),
    ),
}
