"""Rows to print, for ``kubectl get``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from arranger.embedded.resources import Resource

Object = dict[str, Any]
Cell = Callable[[Object, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: how its cells are found, and from which ``-o wide`` on it is shown."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0


def wants_table(accept: str) -> bool:
    """Whether the client prefers rows to objects."""
    first = accept.split(",")[0]
    return "as=Table" in first and "g=meta.k8s.io" in first


def as_table(resource: Resource, found: Object, *, now: datetime, include: str) -> Object:
    """An object or a list as a ``meta.k8s.io/v1`` Table."""
    is_list = found["kind"] == f"{resource.kind}List" and "items" in found
    objects = found["items"] if is_list else [found]
    columns = _columns(resource)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": found["metadata"] if is_list else {},
        "columnDefinitions": [
            {
                "name": c.name,
                "type": c.type,
                "format": "",
                "description": "",
                "priority": c.priority,
            }
            for c in columns
        ],
        "rows": [
            {
                "cells": [column.cell(obj, now) for column in columns],
                "object": _included(obj, include),
            }
            for obj in objects
        ],
    }


def age(stamp: str | None, now: datetime) -> str:
    """Time since ``stamp``, as kubectl writes it: ``5s``, ``2m3s``, ``4h``, ``3d``."""
    if not stamp:
        return "<unknown>"
    then = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    seconds = max(0, int((now - then).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d"


def _included(obj: Object, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {**head, "metadata": obj["metadata"]}


def _columns(resource: Resource) -> list[Column]:
    name = Column("Name", lambda obj, _: obj["metadata"]["name"])
    ages = Column("Age", lambda obj, now: age(obj["metadata"].get("creationTimestamp"), now))
    if resource.custom and resource.columns:
        return [name, *(_custom(column) for column in resource.columns)]
    if resource.key == "/pods":
        return [name, *_POD, ages, *_POD_WIDE]
    if resource.key == "/nodes":
        return [name, *_NODE, ages, Column("Version", lambda *_: "")]
    return [name, ages]


def _custom(column: Object) -> Column:
    path = [part for part in re.split(r"\.|\[(\d+)\]", column["jsonPath"]) if part]

    def cell(obj: Object, now: datetime) -> Any:
        value: Any = obj
        for part in path:
            if isinstance(value, list) and part.isdigit():
                value = value[int(part)] if int(part) < len(value) else None
            else:
                value = value.get(part) if isinstance(value, dict) else None
        if column["type"] == "date":
            return age(value, now)
        return value

    return Column(column["name"], cell, column["type"], column.get("priority", 0))


def _statuses(pod: Object) -> list[Object]:
    return pod["status"].get("containerStatuses") or []


def _ready(pod: Object, _: datetime) -> str:
    ready = sum(bool(s.get("ready")) for s in _statuses(pod))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _pod_status(pod: Object, _: datetime) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    gated = [
        c for c in pod["status"].get("conditions") or [] if c.get("reason") == "SchedulingGated"
    ]
    return (
        "SchedulingGated" if gated else str(pod["status"].get("reason") or pod["status"]["phase"])
    )


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


def _or_none(value: Any) -> str:
    return str(value) if value else "<none>"


_POD = (
    Column("Ready", _ready),
    Column("Status", _pod_status),
    Column("Restarts", lambda pod, _: str(sum(s.get("restartCount", 0) for s in _statuses(pod)))),
)
_POD_WIDE = (
    Column("IP", lambda pod, _: _or_none(pod["status"].get("podIP")), priority=1),
    Column("Node", lambda pod, _: _or_none(pod["spec"].get("nodeName")), priority=1),
    Column(
        "Nominated Node", lambda p, _: _or_none(p["status"].get("nominatedNodeName")), priority=1
    ),
    Column("Readiness Gates", lambda *_: "<none>", priority=1),
)
_NODE = (Column("Status", _node_status), Column("Roles", _roles))
