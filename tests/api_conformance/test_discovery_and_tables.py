"""What kubectl asks for: which kinds there are, and rows to print."""

from __future__ import annotations

import json
import re

import pytest

from tests.api_conformance.client import TABLE, Api, Object
from tests.api_conformance.objects import (
    BUDGETS,
    CRDS,
    EVENTS,
    GROUP,
    LEASES,
    a_node,
    a_pod,
    a_widget,
    an_event,
    new_namespace,
    pods,
)
from tests.controlplane.harness import until

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
VERBS = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

# path of the group's version: resource → (kind, namespaced, short names)
SERVED: dict[str, dict[str, tuple[str, bool, list[str]]]] = {
    "/api/v1": {
        "pods": ("Pod", True, ["po"]),
        "nodes": ("Node", False, ["no"]),
        "namespaces": ("Namespace", False, ["ns"]),
        "services": ("Service", True, ["svc"]),
        "persistentvolumeclaims": ("PersistentVolumeClaim", True, ["pvc"]),
        "persistentvolumes": ("PersistentVolume", False, ["pv"]),
    },
    "/apis/events.k8s.io/v1": {"events": ("Event", True, ["ev"])},
    "/apis/coordination.k8s.io/v1": {"leases": ("Lease", True, [])},
    "/apis/policy/v1": {"poddisruptionbudgets": ("PodDisruptionBudget", True, ["pdb"])},
    "/apis/scheduling.k8s.io/v1": {"priorityclasses": ("PriorityClass", False, ["pc"])},
    "/apis/storage.k8s.io/v1": {
        "storageclasses": ("StorageClass", False, ["sc"]),
        "csinodes": ("CSINode", False, []),
    },
}


async def test_the_core_group_has_version_one(api: Api) -> None:
    found = await api.get("/api")
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


async def test_the_groups_are_listed_with_what_they_prefer(api: Api) -> None:
    found = await api.get("/apis")
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    preferred = {g["name"]: g["preferredVersion"]["groupVersion"] for g in found["groups"]}
    for path in SERVED:
        if path != "/api/v1":
            version = path.removeprefix("/apis/")
            assert preferred[version.split("/")[0]] == version


async def test_one_group_describes_itself(api: Api) -> None:
    found = await api.get("/apis/coordination.k8s.io")
    assert (found["kind"], found["name"]) == ("APIGroup", "coordination.k8s.io")
    assert found["preferredVersion"] == {
        "groupVersion": "coordination.k8s.io/v1",
        "version": "v1",
    }


@pytest.mark.parametrize("path", SERVED)
async def test_resources_are_described(api: Api, path: str) -> None:
    found = await api.get(path)
    assert found["kind"] == "APIResourceList"
    assert found["groupVersion"] == path.removeprefix("/apis/").removeprefix("/api/")
    resources = {resource["name"]: resource for resource in found["resources"]}
    for name, (kind, namespaced, short) in SERVED[path].items():
        resource = resources[name]
        assert (resource["kind"], resource["namespaced"]) == (kind, namespaced)
        assert resource.get("shortNames", []) == short
        assert resource["singularName"] == kind.lower()
        expected = VERBS - {"deletecollection"} if name == "namespaces" else VERBS
        assert set(resource["verbs"]) == expected


ALL = {
    "/api/v1": {"pods", "services", "replicationcontrollers"},
    "/apis/apps/v1": {"daemonsets", "deployments", "replicasets", "statefulsets"},
    "/apis/coordination.k8s.io/v1": set(),
}


@pytest.mark.parametrize("path", ALL)
async def test_some_kinds_are_all(api: Api, path: str) -> None:
    found = (await api.get(path))["resources"]
    assert {r["name"] for r in found if "all" in r.get("categories", [])} == ALL[path]


SUBRESOURCES = {
    "pods/status": ("Pod", {"get", "patch", "update"}),
    "pods/binding": ("Binding", {"create"}),
    "pods/eviction": ("Eviction", {"create"}),
    "nodes/status": ("Node", {"get", "patch", "update"}),
}


@pytest.mark.parametrize("name", SUBRESOURCES)
async def test_subresources_are_described(api: Api, name: str) -> None:
    found = {r["name"]: r for r in (await api.get("/api/v1"))["resources"]}
    kind, verbs = SUBRESOURCES[name]
    assert (found[name]["kind"], set(found[name]["verbs"])) == (kind, verbs)


async def test_a_custom_kind_is_discovered(api: Api, widgets: str) -> None:
    found: list[Object] = []

    async def discovered() -> bool:
        answer = await api.call("GET", f"/apis/{GROUP}/v1")
        found[:] = answer.body["resources"] if answer.status == 200 else []
        return {"widgets", "widgets/status"} <= {resource["name"] for resource in found}

    await until(discovered, what="discovery of widgets")
    [widget] = [resource for resource in found if resource["name"] == "widgets"]
    assert (widget["kind"], widget["namespaced"], widget["shortNames"]) == ("Widget", True, ["wi"])
    assert set(widget["verbs"]) == VERBS


@pytest.mark.parametrize(("root", "group"), [("/api", ""), ("/apis", "coordination.k8s.io")])
async def test_discovery_comes_in_one_answer_when_asked(api: Api, root: str, group: str) -> None:
    answer = await api.call("GET", root, accept=AGGREGATED)
    # Clients that take several forms tell them apart by the type of the answer.
    assert answer.headers["content-type"] == (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    assert answer.body["kind"] == "APIGroupDiscoveryList"
    assert answer.body["apiVersion"] == "apidiscovery.k8s.io/v2"
    [item] = [i for i in answer.body["items"] if i["metadata"].get("name", "") == group]
    version = item["versions"][0]
    assert version["version"] == "v1"
    resources = {resource["resource"]: resource for resource in version["resources"]}
    name, scope = ("pods", "Namespaced") if root == "/api" else ("leases", "Namespaced")
    assert resources[name]["scope"] == scope
    assert resources[name]["responseKind"]["kind"] in ("Pod", "Lease")
    assert set(resources[name]["verbs"]) == VERBS


async def test_the_version_is_told(api: Api) -> None:
    version = await api.get("/version")
    assert version["major"] == "1"
    assert re.match(r"\d+", version["minor"])
    assert version["gitVersion"].startswith("v")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
async def test_it_says_that_it_is_well(api: Api, path: str) -> None:
    answer = await api.call("GET", path)
    assert (answer.status, answer.body) == (200, "ok")


async def columns_of(api: Api, path: str, **query: str) -> tuple[Object, dict[str, int]]:
    answer = await api.call("GET", path, query=query, accept=TABLE)
    table = answer.body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    priorities = {c["name"]: c["priority"] for c in table["columnDefinitions"]}
    return table, priorities


async def test_pods_as_rows(api: Api, ns: str) -> None:
    for name in ("a", "b"):
        await api.create(pods(ns), a_pod(name))
    table, columns = await columns_of(api, pods(ns))
    assert columns == {
        "Name": 0,
        "Ready": 0,
        "Status": 0,
        "Restarts": 0,
        "Age": 0,
        "IP": 1,
        "Node": 1,
        "Nominated Node": 1,
        "Readiness Gates": 1,
    }
    row = table["rows"][0]
    shown = dict(zip(columns, row["cells"], strict=True))
    assert (shown["Name"], shown["Ready"], shown["Status"]) == ("a", "0/1", "Pending")
    assert (shown["Node"], shown["Restarts"]) == ("<none>", "0")
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "a"
    assert "spec" not in row["object"]
    assert len(table["rows"]) == 2


async def test_one_pod_as_a_row_with_the_whole_object(api: Api, ns: str) -> None:
    await api.create(pods(ns), a_pod("web"))
    table, _ = await columns_of(api, f"{pods(ns)}/web", includeObject="Object")
    [row] = table["rows"]
    assert row["object"]["kind"] == "Pod"
    assert row["object"]["spec"]["containers"][0]["name"] == "main"


async def test_nodes_as_rows(api: Api, ns: str) -> None:
    await api.create("/api/v1/nodes", a_node(ns, unschedulable=True))
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await api.patch(f"/api/v1/nodes/{ns}/status", {"status": ready})
    table, columns = await columns_of(api, "/api/v1/nodes", fieldSelector=f"metadata.name={ns}")
    assert [name for name, priority in columns.items() if priority == 0] == [
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
    ]
    [row] = table["rows"]
    assert row["cells"][:3] == [ns, "Ready,SchedulingDisabled", "<none>"]


async def test_widgets_as_rows_of_their_own_columns(api: Api, widgets: str) -> None:
    await api.create(widgets, a_widget("w", size=3))
    await api.patch(f"{widgets}/w/status", {"status": {"phase": "Done"}})
    table, columns = await columns_of(api, widgets)
    assert columns == {"Name": 0, "Size": 0, "Phase": 0, "Colour": 1, "Age": 0}
    [row] = table["rows"]
    assert row["cells"][:4] == ["w", 3, "Done", "red"]
    assert re.fullmatch(r"\d+s", row["cells"][4])


async def test_a_watch_sends_tables_when_asked(api_over_http: Api) -> None:
    api = api_over_http
    path = pods(await new_namespace(api))
    for name in ("web", "db"):
        await api.create(path, a_pod(name))
    answer = await api.call("GET", path, query={"watch": "1", "timeoutSeconds": "1"}, accept=TABLE)
    events = [json.loads(line) for line in answer.body.splitlines()]
    assert [(e["type"], e["object"]["kind"]) for e in events] == [("ADDED", "Table")] * 2
    tables = [event["object"] for event in events]
    assert sorted(table["rows"][0]["cells"][0] for table in tables) == ["db", "web"]
    assert [c["name"] for c in tables[0]["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert tables[1]["columnDefinitions"] is None
    row = tables[0]["rows"][0]["object"]
    assert row["kind"] == "PartialObjectMetadata"
    assert tables[0]["metadata"]["resourceVersion"] == row["metadata"]["resourceVersion"]


# path ({} is the namespace): the columns, of which those in capitals are for ``-o wide``
COLUMNS: dict[str, str] = {
    "/api/v1/namespaces": "Name Status Age",
    "/api/v1/namespaces/{}/events": (
        "Last-Seen Type Reason Object SUBOBJECT SOURCE Message FIRST-SEEN COUNT NAME"
    ),
    "/apis/events.k8s.io/v1/namespaces/{}/events": (
        "Last-Seen Type Reason Object SUBOBJECT SOURCE Message FIRST-SEEN COUNT NAME"
    ),
    "/api/v1/nodes": (
        "Name Status Roles Age Version"
        " INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME"
    ),
    LEASES: "Name Holder Age",
    BUDGETS: "Name Min-Available Max-Unavailable Allowed-Disruptions Age",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "Name Value Global-Default Age PreemptionPolicy",
    CRDS: "Name Created-At",
}


@pytest.mark.parametrize("path", COLUMNS)
async def test_kinds_have_their_columns(api: Api, ns: str, path: str) -> None:
    _, columns = await columns_of(api, path.format(ns))
    shown = [
        (name.upper() if priority else name).replace(" ", "-") for name, priority in columns.items()
    ]
    assert " ".join(shown) == COLUMNS[path]


async def test_events_as_rows(api: Api, ns: str) -> None:
    await api.create(EVENTS.format(ns), an_event("e", ns))
    for path in (EVENTS, "/api/v1/namespaces/{}/events"):
        table, columns = await columns_of(api, path.format(ns))
        shown = dict(zip(columns, table["rows"][0]["cells"], strict=True))
        del shown["Last Seen"], shown["First Seen"]
        assert shown == {
            "Type": "Normal",
            "Reason": "Scheduled",
            "Object": "pod/web",
            "Subobject": "",
            "Source": "arranger.io/scheduler, arranger-1",
            "Message": "Successfully assigned it",
            "Count": 1,
            "Name": "e",
        }


async def test_classes_of_priority_as_rows(api: Api, ns: str) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.create(path, {"metadata": {"name": ns}, "value": 7, "preemptionPolicy": "Never"})
    table, _ = await columns_of(api, path, fieldSelector=f"metadata.name={ns}")
    [row] = table["rows"]
    assert [*row["cells"][:3], row["cells"][4]] == [ns, 7, False, "Never"]
