"""The three kinds of patch, on the objects and lists that a scheduler patches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_conformance.client import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Api,
    Object,
)
from tests.api_conformance.objects import LEASES, a_lease, a_node, a_pod, pods


def a_condition(kind: str, status: str, **more: str) -> Object:
    return {"type": kind, "status": status, **more}


BEFORE: Object = {
    "phase": "Running",
    "nominatedNodeName": "n",
    "conditions": [
        a_condition("PodScheduled", "False", reason="Unschedulable", message="no node"),
        a_condition("Ready", "False"),
    ],
}

# sentence: content type, patch of the status, then fields: phase, nominated node, and conditions
# as type → (status, reason)
STATUS: dict[str, tuple[str, Object, Object]] = {
    "a strategic patch merges conditions by type": (
        STRATEGIC_PATCH,
        {"conditions": [a_condition("PodScheduled", "True")]},
        {"PodScheduled": ("True", "Unschedulable"), "Ready": ("False", None)},
    ),
    "a strategic patch adds a condition of a new type": (
        STRATEGIC_PATCH,
        {"conditions": [a_condition("DisruptionTarget", "True")]},
        {
            "PodScheduled": ("False", "Unschedulable"),
            "Ready": ("False", None),
            "DisruptionTarget": ("True", None),
        },
    ),
    "a strategic patch deletes a condition by type": (
        STRATEGIC_PATCH,
        {"conditions": [{"type": "Ready", "$patch": "delete"}]},
        {"PodScheduled": ("False", "Unschedulable")},
    ),
    "a strategic patch clears one field of a condition": (
        STRATEGIC_PATCH,
        {"conditions": [{"type": "PodScheduled", "reason": None}]},
        {"PodScheduled": ("False", None), "Ready": ("False", None)},
    ),
    "a strategic patch replaces the list when told to": (
        STRATEGIC_PATCH,
        {"conditions": [{"$patch": "replace"}, a_condition("Initialized", "True")]},
        {"Initialized": ("True", None)},
    ),
    "a strategic patch with an empty list changes nothing": (
        STRATEGIC_PATCH,
        {"conditions": []},
        {"PodScheduled": ("False", "Unschedulable"), "Ready": ("False", None)},
    ),
    "a strategic patch with null clears the list": (STRATEGIC_PATCH, {"conditions": None}, {}),
    "a merge patch replaces the list": (
        MERGE_PATCH,
        {"conditions": [a_condition("Ready", "True")]},
        {"Ready": ("True", None)},
    ),
    "a merge patch with an empty list clears it": (MERGE_PATCH, {"conditions": []}, {}),
}


async def a_running_pod(api: Api, ns: str) -> str:
    path = f"{pods(ns)}/web"
    await api.create(pods(ns), a_pod("web"))
    await api.patch(f"{path}/status", {"status": BEFORE})
    return path


@pytest.mark.parametrize(("content_type", "patch", "conditions"), STATUS.values(), ids=STATUS)
async def test_conditions(
    api: Api, ns: str, content_type: str, patch: Object, conditions: Object
) -> None:
    path = await a_running_pod(api, ns)
    after = await api.patch(f"{path}/status", {"status": patch}, content_type)
    found = after["status"].get("conditions", [])
    assert {c["type"]: (c["status"], c.get("reason")) for c in found} == conditions
    assert after["status"]["phase"] == "Running"


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
async def test_null_clears_the_nomination(api: Api, ns: str, content_type: str) -> None:
    path = await a_running_pod(api, ns)
    after = await api.patch(f"{path}/status", {"status": {"nominatedNodeName": None}}, content_type)
    assert "nominatedNodeName" not in after["status"]
    assert len(after["status"]["conditions"]) == 2


async def test_replacing_the_whole_status_keeps_what_the_server_sets(api: Api, ns: str) -> None:
    path = await a_running_pod(api, ns)
    body = {"status": {"$patch": "replace", "phase": "Failed"}}
    after = await api.patch(f"{path}/status", body, STRATEGIC_PATCH)
    assert after["status"] == {"phase": "Failed", "qosClass": "BestEffort"}


async def test_a_status_patch_changes_no_spec_and_a_plain_patch_no_status(
    api: Api, ns: str
) -> None:
    path = await a_running_pod(api, ns)
    both = {
        "spec": {"containers": [{"name": "main", "image": "other"}]},
        "status": {"phase": "Failed"},
    }
    after = await api.patch(f"{path}/status", both, STRATEGIC_PATCH)
    assert (after["spec"]["containers"][0]["image"], after["status"]["phase"]) == (
        "pause",
        "Failed",
    )
    both["status"] = {"phase": "Succeeded"}
    after = await api.patch(path, both, STRATEGIC_PATCH)
    assert (after["spec"]["containers"][0]["image"], after["status"]["phase"]) == (
        "other",
        "Failed",
    )


async def test_a_status_patch_cannot_bind(api: Api, ns: str) -> None:
    path = await a_running_pod(api, ns)
    body = {"spec": {"nodeName": "n"}, "status": {"message": "tried"}}
    after = await api.patch(f"{path}/status", body, STRATEGIC_PATCH)
    assert "nodeName" not in after["spec"]
    assert after["status"]["message"] == "tried"


async def test_containers_are_merged_by_name(api: Api, ns: str) -> None:
    two = [{"name": name, "image": "pause"} for name in ("one", "two")]
    await api.create(pods(ns), a_pod("web", containers=two))
    body = {"spec": {"containers": [{"name": "two", "image": "other"}]}}
    after = await api.patch(f"{pods(ns)}/web", body, STRATEGIC_PATCH)
    images = {c["name"]: c["image"] for c in after["spec"]["containers"]}
    assert images == {"one": "pause", "two": "other"}
    assert after["metadata"]["generation"] == 2


async def test_tolerations_are_replaced_as_a_whole(api: Api, ns: str) -> None:
    # Replacing drops one that is there, and that is not allowed.
    await api.create(pods(ns), a_pod("web", tolerations=[{"key": "a", "operator": "Exists"}]))
    body = {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}
    answer = await api.call("PATCH", f"{pods(ns)}/web", body, content_type=STRATEGIC_PATCH)
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [("FieldValueForbidden", "spec.tolerations")]


async def test_taints_are_replaced_as_a_whole(api: Api, ns: str) -> None:
    await api.create("/api/v1/nodes", a_node(ns, taints=[{"key": "a", "effect": "NoSchedule"}]))
    body = {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}
    after = await api.patch(f"/api/v1/nodes/{ns}", body, STRATEGIC_PATCH)
    assert [taint["key"] for taint in after["spec"]["taints"]] == ["b"]


async def test_node_conditions_are_merged_by_type(api: Api, ns: str) -> None:
    await api.create("/api/v1/nodes", a_node(ns))
    for kind in ("Ready", "DiskPressure"):
        body = {"status": {"conditions": [a_condition(kind, "True")]}}
        after = await api.patch(f"/api/v1/nodes/{ns}/status", body, STRATEGIC_PATCH)
    assert {c["type"] for c in after["status"]["conditions"]} == {"Ready", "DiskPressure"}


async def test_finalizers_are_merged_one_by_one(api: Api, ns: str) -> None:
    path = f"{LEASES.format(ns)}/kept"
    await api.create(LEASES.format(ns), a_lease("kept", metadata={"finalizers": ["a.io/one"]}))
    body: dict[str, Any] = {"metadata": {"finalizers": ["a.io/two"]}}
    after = await api.patch(path, body, STRATEGIC_PATCH)
    assert sorted(after["metadata"]["finalizers"]) == ["a.io/one", "a.io/two"]
    body = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/one"]}}
    after = await api.patch(path, body, STRATEGIC_PATCH)
    assert after["metadata"]["finalizers"] == ["a.io/two"]
    after = await api.patch(path, {"metadata": {"finalizers": ["a.io/three"]}}, MERGE_PATCH)
    assert after["metadata"]["finalizers"] == ["a.io/three"]


async def test_owners_are_merged_by_uid(api: Api, ns: str) -> None:
    path = LEASES.format(ns)
    one, two = [
        {
            "apiVersion": made["apiVersion"],
            "kind": "Lease",
            "name": name,
            "uid": made["metadata"]["uid"],
        }
        for name in ("one", "two")
        for made in [await api.create(path, a_lease(name))]
    ]
    await api.create(path, a_lease("child"))
    for owner in (one, two, {**one, "controller": True}):
        body = {"metadata": {"ownerReferences": [owner]}}
        after = await api.patch(f"{path}/child", body, STRATEGIC_PATCH)
    owners = {o["name"]: o.get("controller") for o in after["metadata"]["ownerReferences"]}
    assert owners == {"one": True, "two": None}


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
async def test_labels_are_merged_and_null_removes_one(api: Api, ns: str, content_type: str) -> None:
    await api.create(pods(ns), a_pod("web", metadata={"labels": {"a": "1", "b": "2"}}))
    body = {"metadata": {"labels": {"a": None, "c": "3"}}}
    after = await api.patch(f"{pods(ns)}/web", body, content_type)
    assert after["metadata"]["labels"] == {"b": "2", "c": "3"}


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
async def test_a_patch_without_change_writes_nothing(api: Api, ns: str, content_type: str) -> None:
    made = await api.create(pods(ns), a_pod("web", metadata={"labels": {"a": "1"}}))
    body = {"metadata": {"labels": {"a": "1", "b": None}}}
    assert await api.patch(f"{pods(ns)}/web", body, content_type) == made


async def test_a_patch_that_names_the_version_read_applies(api: Api, ns: str) -> None:
    made = await api.create(pods(ns), a_pod("web"))
    version = made["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}
    assert (await api.patch(f"{pods(ns)}/web", body))["metadata"]["labels"] == {"a": "b"}
    answer = await api.call("PATCH", f"{pods(ns)}/web", body, content_type=MERGE_PATCH)
    assert answer.refusal == (409, "Conflict")


async def test_a_patch_that_names_the_right_uid_applies(api: Api, ns: str) -> None:
    made = await api.create(pods(ns), a_pod("web"))
    body = {"metadata": {"uid": made["metadata"]["uid"]}, "status": {"nominatedNodeName": "n"}}
    after = await api.patch(f"{pods(ns)}/web/status", body, STRATEGIC_PATCH)
    assert after["status"]["nominatedNodeName"] == "n"


JSON_PATCHES: dict[str, tuple[list[Object], Object]] = {
    "adds and replaces, with a slash in the key": (
        [
            {"op": "add", "path": "/metadata/annotations", "value": {"a.io/b": "1"}},
            {"op": "replace", "path": "/metadata/annotations/a.io~1b", "value": "2"},
        ],
        {"annotations": {"a.io/b": "2"}, "labels": {"a": "1"}},
    ),
    "removes": ([{"op": "remove", "path": "/metadata/labels/a"}], {}),
    "tests first": (
        [
            {"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/a", "value": "2"},
        ],
        {"labels": {"a": "2"}},
    ),
    "moves": (
        [{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}],
        {"labels": {"b": "1"}},
    ),
    "copies": (
        [{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}],
        {"labels": {"a": "1", "b": "1"}},
    ),
}


@pytest.mark.parametrize(("patch", "expected"), JSON_PATCHES.values(), ids=JSON_PATCHES)
async def test_a_json_patch(api: Api, ns: str, patch: list[Object], expected: Object) -> None:
    await api.create(pods(ns), a_pod("web", metadata={"labels": {"a": "1"}}))
    after = await api.patch(f"{pods(ns)}/web", patch, JSON_PATCH)
    found = {
        field: after["metadata"][field]
        for field in ("annotations", "labels")
        if field in after["metadata"]
    }
    assert found == expected


async def test_a_json_patch_adds_at_the_end_of_a_list(api: Api, ns: str) -> None:
    path = await a_running_pod(api, ns)
    patch = [
        {"op": "add", "path": "/status/conditions/-", "value": a_condition("Initialized", "True")}
    ]
    after = await api.patch(f"{path}/status", patch, JSON_PATCH)
    kinds = [c["type"] for c in after["status"]["conditions"]]
    assert kinds == ["PodScheduled", "Ready", "Initialized"]
