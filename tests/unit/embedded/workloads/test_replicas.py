"""Deployments, ReplicaSets, StatefulSets and DaemonSets by hollow controllers, in virtual time."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.embedded.workloads.harness import WorkloadHarness, a_workload

pytestmark = pytest.mark.looptime(noop_cycles=0)


def a_node(name: str, *, taint: str = "", **labels: str) -> dict[str, Any]:
    """A node; the taint keeps pods off it."""
    taints = {"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": taints}


async def test_a_deployment_has_its_pods_by_a_replica_set(at_work: WorkloadHarness) -> None:
    at_work.apply(a_workload("Deployment", "web", replicas=2))
    await at_work.after(5)
    for pod in at_work.pods():
        meta = pod["metadata"]
        (owner,) = meta["ownerReferences"]
        assert owner["kind"] == "ReplicaSet"
        assert re.fullmatch(r"web-[0-9a-z]+", owner["name"])
        assert meta["name"].startswith(f"{owner['name']}-")
        assert meta["labels"] == {
            "app": "web",
            "pod-template-hash": owner["name"].removeprefix("web-"),
        }
        assert pod["status"]["phase"] == "Running"
    counts = {k: v for k, v in at_work.status("Deployment", "web").items() if v == 2}
    assert list(counts) == ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas"]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "ReplicationController"])
async def test_so_many_pods_as_are_wanted_and_one_by_default(
    at_work: WorkloadHarness, kind: str
) -> None:
    at_work.apply(a_workload(kind))
    await at_work.after(5)
    assert len(at_work.names()) == 1
    at_work.edit(kind, replicas=3)
    await at_work.after(5)
    before = at_work.names()
    assert len(before) == 3
    at_work.edit(kind, replicas=1)
    await at_work.after(5)
    assert set(at_work.names()) < set(before)
    assert len(at_work.names()) == 1
    at_work.delete(kind)
    await at_work.after(5)
    assert at_work.names() == []
    assert at_work.controllers.idle


async def test_an_evicted_pod_is_made_again_at_once(at_work: WorkloadHarness) -> None:
    at_work.apply(a_workload("Deployment"))
    await at_work.after(5)
    (first,) = at_work.names()
    at_work.evict(first)
    await at_work.after(0.5)
    assert len(set(at_work.names()) - {first}) == 1


async def test_another_template_means_other_pods(at_work: WorkloadHarness) -> None:
    at_work.apply(a_workload("Deployment", replicas=2))
    await at_work.after(5)
    before = set(at_work.names())
    at_work.edit("Deployment", template={"metadata": {"labels": {"app": "w", "version": "2"}}})
    await at_work.after(5)
    assert len(at_work.names()) == 2
    assert not before & set(at_work.names())


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
async def test_a_pod_that_ends_again_and_again_is_made_again_ever_more_slowly(
    at_work: WorkloadHarness, kind: str
) -> None:
    if kind == "DaemonSet":
        at_work.apply(a_node("n1"))
    made: list[float] = []
    at_work.cluster.store.subscribe(
        lambda change: made.append(1.0) if change.type == "ADDED" else None, "/pods"
    )
    pod = {"nodeName": "n1"}
    at_work.apply(a_workload(kind, runs=0, exits=1, pod=pod))
    await at_work.after(100)
    early = len(made)
    await at_work.after(6000)
    # One every five minutes, as a kubelet's CrashLoopBackOff ends up with.
    assert 3 <= early <= 5
    assert 15 <= len(made) - early <= 25
    assert len(at_work.names()) <= 11


async def test_a_stateful_set_has_its_pods_in_order_each_after_the_one_before_is_ready(
    at_work: WorkloadHarness,
) -> None:
    never_ready = {"nodeName": ""}
    at_work.apply(
        a_workload("StatefulSet", "db", replicas=3, serviceName="peers"),
        a_workload("StatefulSet", "stuck", replicas=3, pod=never_ready),
        a_workload(
            "StatefulSet", "all", replicas=2, pod=never_ready, podManagementPolicy="Parallel"
        ),
    )
    await at_work.after(5)
    assert at_work.names() == ["all-0", "all-1", "db-0", "db-1", "db-2", "stuck-0"]
    pod = next(p for p in at_work.pods() if p["metadata"]["name"] == "db-1")
    labels = pod["metadata"]["labels"]
    assert labels.pop("controller-revision-hash").startswith("db-")
    assert labels == {
        "app": "db",
        "statefulset.kubernetes.io/pod-name": "db-1",
        "apps.kubernetes.io/pod-index": "1",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "peers")
    at_work.edit("StatefulSet", "db", replicas=1)
    at_work.evict("db-0")
    await at_work.after(10)
    assert at_work.names("Running") == ["db-0"]


async def test_a_stateful_set_brings_claims_that_outlive_its_pods(at_work: WorkloadHarness) -> None:
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    at_work.apply(a_workload("StatefulSet", volumeClaimTemplates=[template]))
    await at_work.after(5)
    (pod,) = at_work.pods()
    assert pod["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}
    ]
    at_work.evict("w-0")
    await at_work.after(5)
    assert at_work.names() == ["w-0"]
    claims = at_work.cluster.objects("persistentvolumeclaims")
    assert [claim["metadata"]["name"] for claim in claims] == ["data-w-0"]


async def test_a_daemon_set_has_a_pod_for_each_node_that_it_may_run_on(
    at_work: WorkloadHarness,
) -> None:
    at_work.apply(
        a_node("plain", disk="ssd"),
        a_node("tainted", taint="gpu", disk="ssd"),
        a_node("cordoned", taint="node.kubernetes.io/unschedulable", disk="ssd"),
        a_node("other"),
        a_workload("DaemonSet", pod={"nodeSelector": {"disk": "ssd"}}),
    )
    await at_work.after(5)
    assert sorted(map(_target, at_work.pods())) == ["cordoned", "plain"]
    assert at_work.status("DaemonSet")["desiredNumberScheduled"] == 2
    at_work.apply(a_node("late", disk="ssd"))
    await at_work.after(5)
    assert sorted(map(_target, at_work.pods())) == ["cordoned", "late", "plain"]


def _target(pod: dict[str, Any]) -> str:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    return str(field["values"][0])


async def test_a_pod_that_cannot_be_made_is_told_of(at_work: WorkloadHarness) -> None:
    bare = {"name": "w-0"}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    at_work.apply({"apiVersion": "v1", "kind": "Pod", "metadata": bare, "spec": spec})
    at_work.apply(a_workload("StatefulSet"))
    await at_work.after(5)
    (event,) = at_work.cluster.objects("events", "events.k8s.io")
    assert (event["reason"], event["regarding"]["name"]) == ("FailedCreate", "w")
    assert event["note"] == 'pods "w-0" already exists'
