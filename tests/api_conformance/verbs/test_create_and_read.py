"""Creating and reading: what the server sets, what it ignores, what every kind can do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.api_conformance.client import Api, Object
from tests.api_conformance.objects import (
    BUDGETS,
    EVENTS,
    LEASES,
    a_lease,
    a_node,
    a_pod,
    an_event,
    pods,
)

UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "pause"}]},
}
CLAIM: Object = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
VOLUME: Object = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/data"},
}
SELECTOR: Object = {"matchLabels": {"app": "web"}}

# kind: apiVersion, collection ({} is the namespace), the body beside its metadata
KINDS: dict[str, tuple[str, str, Object]] = {
    "Pod": ("v1", "/api/v1/namespaces/{}/pods", {"spec": TEMPLATE["spec"]}),
    "Service": ("v1", "/api/v1/namespaces/{}/services", {"spec": {"ports": [{"port": 80}]}}),
    "ConfigMap": ("v1", "/api/v1/namespaces/{}/configmaps", {"data": {"a": "b"}}),
    "PersistentVolumeClaim": (
        "v1",
        "/api/v1/namespaces/{}/persistentvolumeclaims",
        {"spec": CLAIM},
    ),
    "Node": ("v1", "/api/v1/nodes", {}),
    "PersistentVolume": ("v1", "/api/v1/persistentvolumes", {"spec": VOLUME}),
    "Lease": ("coordination.k8s.io/v1", LEASES, {"spec": {}}),
    "Event": ("events.k8s.io/v1", EVENTS, {}),
    "PodDisruptionBudget": ("policy/v1", BUDGETS, {"spec": {"selector": SELECTOR}}),
    "ReplicaSet": (
        "apps/v1",
        "/apis/apps/v1/namespaces/{}/replicasets",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    ),
    "PriorityClass": (
        "scheduling.k8s.io/v1",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"value": 7},
    ),
    "StorageClass": (
        "storage.k8s.io/v1",
        "/apis/storage.k8s.io/v1/storageclasses",
        {"provisioner": "arranger.io/none"},
    ),
    "CSINode": (
        "storage.k8s.io/v1",
        "/apis/storage.k8s.io/v1/csinodes",
        {"spec": {"drivers": []}},
    ),
}


def an_object(kind: str, name: str, namespace: str) -> Object:
    version, _, rest = KINDS[kind]
    if kind == "Event":
        rest = an_event(name, namespace)
    return {**rest, "apiVersion": version, "kind": kind, "metadata": {"name": name}}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_is_created_read_listed_and_changed(api: Api, ns: str, kind: str) -> None:
    version, collection, _ = KINDS[kind]
    path, name = collection.format(ns), f"{ns}-{kind.lower()}"
    made = await api.create(path, an_object(kind, name, ns))
    metadata = made["metadata"]
    assert (made["kind"], made["apiVersion"], metadata["name"]) == (kind, version, name)
    assert metadata.get("namespace") == (ns if "{}" in collection else None)
    assert UID.fullmatch(metadata["uid"])
    assert TIME.fullmatch(metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 0

    assert await api.get(f"{path}/{name}") == made
    listed = await api.get(path, fieldSelector=f"metadata.name={name}")
    assert (listed["kind"], listed["apiVersion"]) == (f"{kind}List", version)
    assert int(listed["metadata"]["resourceVersion"]) >= int(metadata["resourceVersion"])
    assert [item["metadata"]["uid"] for item in listed["items"]] == [metadata["uid"]]
    assert (await api.call("POST", path, an_object(kind, name, ns))).refusal == (
        409,
        "AlreadyExists",
    )
    changed = await api.patch(f"{path}/{name}", {"metadata": {"labels": {"suite": "yes"}}})
    assert changed["metadata"]["labels"]["suite"] == "yes"
    assert int(changed["metadata"]["resourceVersion"]) > int(metadata["resourceVersion"])
    assert changed["metadata"]["uid"] == metadata["uid"]


GENERATIONS = {"Pod": 1, "PodDisruptionBudget": 1, "ReplicaSet": 1, "Lease": None, "Node": None}


@pytest.mark.parametrize(("kind", "generation"), GENERATIONS.items())
async def test_only_some_kinds_count_generations(
    api: Api, ns: str, kind: str, generation: int | None
) -> None:
    path = KINDS[kind][1].format(ns)
    made = await api.create(path, an_object(kind, f"{ns}-counted", ns))
    assert made["metadata"].get("generation") == generation


async def test_a_pod_is_given_the_defaults_that_schedulers_read(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    spec, status = pod["spec"], pod["status"]
    assert (status["phase"], status["qosClass"]) == ("Pending", "BestEffort")
    assert "conditions" not in status
    expected: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "dnsPolicy": "ClusterFirst",
    }
    assert {field: spec.get(field) for field in expected} == expected
    assert "nodeName" not in spec


QUALITY = {
    "nothing asked": ({}, "BestEffort"),
    "limits only": ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    "requests below limits": (
        {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        "Burstable",
    ),
    "requests only": ({"requests": {"cpu": "1", "memory": "1Gi"}}, "Burstable"),
}


@pytest.mark.parametrize(("resources", "quality"), QUALITY.values(), ids=QUALITY)
async def test_a_pod_is_given_its_quality_of_service(
    api: Api, ns: str, resources: Object, quality: str
) -> None:
    container = {"name": "main", "image": "pause", "resources": resources}
    pod = await api.create(pods(ns), a_pod("web", containers=[container]))
    assert pod["status"]["qosClass"] == quality


async def test_limits_become_requests_that_are_not_given(api: Api, ns: str) -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    container = {"name": "main", "image": "pause", "resources": resources}
    pod = await api.create(pods(ns), a_pod("web", containers=[container]))
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "1", "memory": "1Gi"}


async def test_a_gated_pod_says_so_from_the_start(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web", schedulingGates=[{"name": "wait"}]))
    [condition] = pod["status"]["conditions"]
    del condition["lastTransitionTime"], condition["lastProbeTime"]
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


async def test_a_pod_is_given_the_priority_of_its_class(api: Api, ns: str) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    policy = {"value": 7000, "preemptionPolicy": "Never"}
    await api.create(path, {"metadata": {"name": ns}, **policy})
    pod = await api.create(pods(ns), a_pod("web", priorityClassName=ns))
    assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == (7000, "Never")


async def test_what_only_the_server_may_set_is_ignored(api: Api, ns: str) -> None:
    told = {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "generation": 9,
    }
    body = a_pod("web", metadata=told) | {"status": {"phase": "Running"}}
    made = await api.create(pods(ns), body)
    assert UID.fullmatch(made["metadata"]["uid"])
    assert made["metadata"]["creationTimestamp"] > "2001"
    assert "deletionTimestamp" not in made["metadata"]
    assert made["metadata"]["generation"] == 1
    assert made["status"]["phase"] == "Pending"


async def test_a_node_brings_its_status_and_offers_its_capacity(api: Api, ns: str) -> None:
    node = await api.create("/api/v1/nodes", a_node(ns, unschedulable=True))
    assert node["status"]["capacity"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert node["spec"]["unschedulable"] is True


async def test_names_are_generated_below_their_prefix(api: Api, ns: str) -> None:
    body = a_lease("unused")
    body["metadata"] = {"generateName": "copy-"}
    made = [await api.create(LEASES.format(ns), body) for _ in range(2)]
    names = {lease["metadata"]["name"] for lease in made}
    assert len(names) == 2
    assert all(re.fullmatch(r"copy-[a-z0-9]{5}", name) for name in names)
    assert {lease["metadata"]["generateName"] for lease in made} == {"copy-"}


async def test_a_name_given_wins_over_a_prefix(api: Api, ns: str) -> None:
    body = a_lease("mine", metadata={"generateName": "copy-"})
    assert (await api.create(LEASES.format(ns), body))["metadata"]["name"] == "mine"


async def test_a_namespace_is_active_and_labelled_with_its_name(api: Api, ns: str) -> None:
    namespace = await api.get(f"/api/v1/namespaces/{ns}")
    assert namespace["status"] == {"phase": "Active"}
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": ns}


async def test_reading_a_namespace_that_does_not_exist_finds_nothing(api: Api, ns: str) -> None:
    assert await api.names(pods(f"{ns}-not")) == []


async def test_the_same_name_may_live_in_two_namespaces(api: Api, ns: str) -> None:
    other = f"{ns}b"
    await api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    for namespace in (ns, other):
        await api.create(pods(namespace), a_pod("web", metadata={"labels": {"suite": ns}}))
    everywhere = await api.get("/api/v1/pods", labelSelector=f"suite={ns}")
    assert [item["metadata"]["namespace"] for item in everywhere["items"]] == [ns, other]
    assert await api.names(pods(ns)) == ["web"]


async def test_a_dry_run_leaves_nothing_behind(api: Api, ns: str) -> None:
    answer = await api.call("POST", pods(ns), a_pod("web"), query={"dryRun": "All"})
    assert answer.status == 201
    assert UID.fullmatch(answer.body["metadata"]["uid"])
    assert (await api.call("GET", f"{pods(ns)}/web")).refusal == (404, "NotFound")
