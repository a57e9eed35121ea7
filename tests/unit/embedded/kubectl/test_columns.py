"""Cells: ages as kubectl writes them, and what is shown of pods, nodes and custom kinds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from arranger.embedded.kubectl.columns import columns_of, human_duration
from arranger.embedded.registry import Registry, Resource

Object = dict[str, Any]
NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = 86400
# seconds: age
AGES = {
    -5: "0s",
    0: "0s",
    119: "119s",
    120: "2m",
    125: "2m5s",
    599: "9m59s",
    601: "10m",
    3 * 3600 - 1: "179m",
    3 * 3600: "3h",
    3 * 3600 + 60: "3h1m",
    8 * 3600 + 60: "8h",
    2 * DAY - 1: "47h",
    2 * DAY: "2d",
    2 * DAY + 3600: "2d1h",
    8 * DAY + 3600: "8d",
    729 * DAY: "729d",
    730 * DAY: "2y",
    735 * DAY: "2y5d",
    9 * 365 * DAY + DAY: "9y",
}


@pytest.mark.parametrize(("seconds", "text"), AGES.items())
def test_ages(seconds: int, text: str) -> None:
    stamp = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert human_duration(stamp, NOW) == text


@pytest.mark.parametrize("stamp", [None, ""])
def test_no_age(stamp: str | None) -> None:
    assert human_duration(stamp, NOW) == "<unknown>"


def cells(resource: Resource, obj: Object) -> Object:
    obj = {"metadata": {"name": "x"}, "spec": {}, "status": {}} | obj
    return {column.name: column.cell(obj, NOW) for column in columns_of(resource)}


def a_condition(kind: str, status: str, reason: str = "") -> Object:
    return {"type": kind, "status": status, "reason": reason}


# sentence: plural, object, column, cell
SHOWN: dict[str, tuple[str, Object, str, object]] = {
    "a pod that goes": (
        "pods",
        {"metadata": {"name": "x", "deletionTimestamp": "t"}, "status": {"phase": "Running"}},
        "Status",
        "Terminating",
    ),
    "a pod behind gates": (
        "pods",
        {
            "status": {
                "phase": "Pending",
                "conditions": [a_condition("PodScheduled", "False", "SchedulingGated")],
            }
        },
        "Status",
        "SchedulingGated",
    ),
    "a pod with a reason": (
        "pods",
        {"status": {"phase": "Failed", "reason": "Evicted"}},
        "Status",
        "Evicted",
    ),
    "restarts of all containers": (
        "pods",
        {
            "spec": {"containers": [{}, {}]},
            "status": {
                "phase": "Running",
                "containerStatuses": [{"restartCount": 2, "ready": True}, {"restartCount": 1}],
            },
        },
        "Restarts",
        "3",
    ),
    "a node that nobody has heard of": ("nodes", {}, "Status", "Unknown"),
    "a node that is not ready": (
        "nodes",
        {"status": {"conditions": [a_condition("Ready", "False")]}},
        "Status",
        "NotReady",
    ),
    "the roles of a node": (
        "nodes",
        {
            "metadata": {
                "name": "x",
                "labels": {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""},
            }
        },
        "Roles",
        "a,b",
    ),
    "the address of a node": (
        "nodes",
        {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}},
        "Internal-IP",
        "10.0.0.1",
    ),
    "a series of events": ("events", {"series": {"count": 7}, "count": 2}, "Count", 7),
    "an event once": ("events", {}, "Count", 1),
    "the source of an older event": (
        "events",
        {"source": {"component": "kubelet", "host": "n"}},
        "Source",
        "kubelet, n",
    ),
    "a deployment": (
        "deployments",
        {"spec": {"replicas": 3}, "status": {"readyReplicas": 1}},
        "Ready",
        "1/3",
    ),
}
GROUPS = {"deployments": "apps"}


@pytest.mark.parametrize(("plural", "obj", "column", "cell"), SHOWN.values(), ids=SHOWN)
def test_cells(plural: str, obj: Object, column: str, cell: object) -> None:
    obj = {"spec": {"containers": []}} | obj if plural == "pods" else obj
    resource = Registry().by_name(plural, GROUPS.get(plural, ""))
    assert cells(resource, obj)[column] == cell


# path: cell
PATHS: dict[str, object] = {
    ".spec.size": 3,
    ".spec.parts[1].name": "b",
    ".spec.parts[5].name": None,
    '.spec.parts[?(@.name=="b")].size': 7,
    ".spec.parts[?(@.name == 'a')].size": None,
    '.spec.parts[?(@.name=="c.d")].size': None,
    '.spec.size[?(@.name=="b")].size': None,
    ".spec.size.below": None,
    ".nowhere": None,
}


@pytest.mark.parametrize(("path", "cell"), PATHS.items())
def test_cells_of_custom_kinds(path: str, cell: object) -> None:
    columns = ({"name": "C", "type": "string", "jsonPath": path},)
    widget = Resource("a.io", "v1", "widgets", "Widget", custom=True, columns=columns)
    spec = {"size": 3, "parts": [{"name": "a"}, {"name": "b", "size": 7}]}
    assert cells(widget, {"spec": spec})["C"] == cell


def test_a_custom_kind_without_columns_has_name_and_age() -> None:
    widget = Resource("a.io", "v1", "widgets", "Widget", custom=True)
    assert list(cells(widget, {})) == ["Name", "Age"]
