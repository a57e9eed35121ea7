"""What a person writes with kubectl, or a program with Python's client, takes effect at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from kubernetes import client, watch

from tests.controlplane.admin import PATIENCE, until
from tests.controlplane.clients.kubectl import WITHIN, Kubectl
from tests.controlplane.clients.python import connect
from tests.controlplane.clients.terminal import kubectl_path
from tests.controlplane.cluster import ClusterHarness, ContainerEndingKubelets
from tests.controlplane.harness import a_node, a_pod

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("controlplane"),
]

Object = dict[str, Any]

SERVED = (
    "/apis/arranger.io/v1alpha1/tyjobs",
    "/apis/batch.volcano.sh/v1alpha1/jobs",
    "/apis/bus.volcano.sh/v1alpha1/commands",
    "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
    "/apis/scheduling.volcano.sh/v1beta1/queues",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[ClusterHarness]:
    """A node of eight CPUs, and everything at work."""
    kubectl_path()
    nodes, kubelets = [a_node("n1", cpu="8")], ContainerEndingKubelets
    async with ClusterHarness.start(nodes, served=SERVED, kubelets=kubelets) as cluster:
        yield cluster


@pytest.fixture
def kubectl(cluster: ClusterHarness) -> Kubectl:
    return Kubectl(cluster.plane)


async def until_shown(kubectl: Kubectl, text: str, *words: str) -> None:
    """Until a command prints something."""

    printed = ""

    async def shown() -> bool:
        nonlocal printed
        printed = await kubectl(*words)
        return text in printed

    try:
        await until(shown)
    except TimeoutError:
        raise AssertionError(f"{words} do not show {text!r}:\n{printed}") from None


async def test_the_limit_and_the_state_of_a_queue(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", given=a_queue("small", cpu=1))
    pod = a_pod("big", cpu="2")
    pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "small"}
    await kubectl("create", "-f", "-", given=pod)
    await until_shown(kubectl, "InsufficientCPUQuota", "describe", "pod", "big")
    limit = {"spec": {"capability": {"cpu": 4}}}
    await kubectl("patch", "queue", "small", "--type=merge", "-p", json.dumps(limit))
    await kubectl("wait", "pod", "big", "--for=condition=PodScheduled", WITHIN)
    await kubectl("wait", "queue", "small", "--for=jsonpath={.status.usage.cpu}=2/4", WITHIN)

    state = ("wait", "queue", "small", WITHIN)
    await kubectl("annotate", "queue", "small", "arranger.io/queue-state=Closed")
    await kubectl(*state, "--for=jsonpath={.status.state}=Closing")
    await kubectl("delete", "pod", "big")
    await kubectl(*state, "--for=jsonpath={.status.state}=Closed")
    await kubectl("annotate", "queue", "small", "arranger.io/queue-state=Open", "--overwrite")
    await kubectl(*state, "--for=jsonpath={.status.state}=Open")
    await kubectl("delete", "queue", "small")


async def test_the_minimum_of_a_pod_group(kubectl: Kubectl) -> None:
    group = a_pod_group("pair", 3)
    resource = ("podgroups.scheduling.sigs.k8s.io", "pair")
    await kubectl("apply", "--server-side", "-f", "-", given=group)
    for name in ("pair-0", "pair-1"):
        pod = a_pod(name, cpu="1")
        pod["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": "pair"}
        await kubectl("create", "-f", "-", given=pod)
    await until_shown(
        kubectl, "default/pair waits for members: 2 of 3", "describe", "pod", "pair-0"
    )
    group["spec"] = {"minMember": 2}
    await kubectl("apply", "--server-side", "-f", "-", given=group)
    await kubectl("wait", *resource, "--for=jsonpath={.status.phase}=Running", WITHIN)
    await until_shown(kubectl, "Running", "get", "gangs", "pair")
    _, row = (await kubectl("get", *resource)).splitlines()
    assert row.split()[:4] == ["pair", "2", "2", "Running"]
    await kubectl("delete", "pods", "pair-0", "pair-1")
    await kubectl("delete", *resource)
    await kubectl("wait", "gang", "pair", "--for=delete", WITHIN)


async def test_the_size_and_the_end_of_a_volcano_job(kubectl: Kubectl) -> None:
    asked = {"requests": {"cpu": "1"}}
    container = {"name": "main", "image": "pause", "resources": asked}
    task = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "mnist"},
        "spec": {"schedulerName": "arranger", "minAvailable": 2, "tasks": [task]},
    }
    phase = ("wait", "vcjob", "mnist", WITHIN)
    await kubectl("apply", "-f", "-", given=job)
    await kubectl(*phase, "--for=jsonpath={.status.state.phase}=Running")
    task["replicas"] = 3
    await kubectl("apply", "-f", "-", given=job)
    await kubectl(*phase, "--for=jsonpath={.status.running}=3")
    uid = await kubectl("get", "vcjob", "mnist", "-o", "jsonpath={.metadata.uid}")
    # What `vcctl job suspend` creates.
    await kubectl("create", "-f", "-", given=a_command("AbortJob", "mnist", uid))
    await kubectl(*phase, "--for=jsonpath={.status.state.phase}=Aborted")
    assert "Aborting" in await kubectl("describe", "vcjob", "mnist")
    await kubectl("wait", "command", "abortjob", "--for=delete", WITHIN)
    await kubectl("annotate", "vcjob", "mnist", "arranger.io/action=ResumeJob")
    await kubectl(*phase, "--for=jsonpath={.status.running}=3")
    await kubectl("delete", "vcjob", "mnist")
    await kubectl("wait", "pods", "-l=volcano.sh/job-name=mnist", "--for=delete", WITHIN)


async def test_the_workers_and_the_end_of_a_tyjob(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", given=a_tyjob("typed", workers=1))
    job = ("tyjob", "typed")
    await kubectl("wait", *job, "--for=condition=Scheduled", WITHIN)
    # One more worker, by an editor.
    editor = {"KUBE_EDITOR": "sed -i -e 's/ counts: 1/ counts: 2/'"}
    await Kubectl(kubectl.plane, editor)("edit", *job)
    await kubectl("wait", *job, "--for=jsonpath={.status.readyWorkers}=2", WITHIN)
    assert "typed-actor-1" in await kubectl("get", "pods")
    end = {"spec": {"terminating": True}}
    await kubectl("patch", *job, "--type=merge", "-p", json.dumps(end))
    await kubectl("wait", *job, "--for=condition=Succeeded", WITHIN)
    await kubectl("wait", "pods", "-l=arranger.io/tyjob=typed", "--for=delete", WITHIN)
    described = await kubectl("describe", *job)
    assert "Succeeded" in described.partition("Events:")[2]
    await kubectl("delete", *job)


async def test_the_steps_by_which_kueue_admits_a_job_and_takes_it_back(kubectl: Kubectl) -> None:
    gate, where = "kueue.x-k8s.io/topology", {"kubernetes.io/hostname": "n1"}
    await kubectl("create", "-f", "-", given=a_pod_group("admitted", 2))
    await kubectl("create", "-f", "-", given=a_suspended_job("admitted", 2, gate))
    await kubectl("wait", "job", "admitted", "--for=condition=Suspended", WITHIN)
    assert "admitted" not in await kubectl("get", "pods")

    admitted = {"spec": {"suspend": False, "template": {"spec": {"nodeSelector": where}}}}
    await kubectl("patch", "job", "admitted", "--type=merge", "-p", json.dumps(admitted))
    names = ("get", "pods", "-l=batch.kubernetes.io/job-name=admitted", "-o", "name")
    await until_shown(kubectl, "SchedulingGated", "get", "pods")
    ungated = json.dumps({"spec": {"schedulingGates": None, "nodeSelector": where}})

    async def both_made() -> bool:
        return len((await kubectl(*names)).split()) == 2

    await until(both_made, what="two pods")
    first, second = (await kubectl(*names)).split()
    await kubectl("patch", first, "--type=merge", "-p", ungated)
    await until_shown(kubectl, "waits for members: 1 of 2", "get", first, "-o", "yaml")
    await kubectl("patch", second, "--type=merge", "-p", ungated)
    for pod in (first, second):
        await kubectl("wait", pod, "--for=jsonpath={.status.phase}=Running", WITHIN)

    await kubectl("patch", "job", "admitted", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    await kubectl("wait", first, second, "--for=delete", WITHIN)
    await kubectl("delete", "job", "admitted")
    await kubectl("delete", "podgroups.scheduling.sigs.k8s.io", "admitted")
    await kubectl("wait", "gang", "admitted", "--for=delete", WITHIN)


async def test_a_program_follows_a_tyjob_that_it_has_made(cluster: ClusterHarness) -> None:
    api = connect(cluster.plane)
    try:
        await asyncio.to_thread(_follow, client.CustomObjectsApi(api))
    finally:
        api.close()


def _follow(api: client.CustomObjectsApi) -> None:
    """Make a job, wait for what becomes of it, give it a worker more, and end it."""
    where = ("arranger.io", "v1alpha1", "default", "tyjobs")
    api.create_namespaced_custom_object(*where, a_tyjob("made", workers=1))
    seen: list[str] = []
    changes = watch.Watch()
    follow = changes.stream(
        api.list_namespaced_custom_object,
        *where,
        timeout_seconds=int(PATIENCE),
        field_selector="metadata.name=made",
    )
    for event in follow:
        status = event["object"].get("status") or {}
        now = (status.get("stage"), status.get("readyWorkers"))
        if now == ("Running", 1) and "one" not in seen:
            seen.append("one")
            sets = event["object"]["spec"]["workerSets"]
            sets[0]["counts"] = 2
            api.patch_namespaced_custom_object(*where, "made", {"spec": {"workerSets": sets}})
        if now == ("Running", 2) and "two" not in seen:
            seen.append("two")
            api.patch_namespaced_custom_object(*where, "made", {"spec": {"terminating": True}})
        if status.get("stage") == "Succeeded":
            seen.append("end")
            changes.stop()
    assert seen == ["one", "two", "end"]
    api.delete_namespaced_custom_object(*where, "made", propagation_policy="Foreground")


def a_command(action: str, job: str, uid: str) -> Object:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": uid}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": action.lower(), "ownerReferences": [target]},
        "action": action,
        "target": target,
    }


def a_queue(name: str, cpu: int) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"capability": {"cpu": cpu}},
    }


def a_pod_group(name: str, least: int) -> Object:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": least},
    }


def a_suspended_job(name: str, size: int, gate: str) -> Object:
    """A Job of one CPU a pod, whose pods have a gate and are a gang."""
    asked = {"requests": {"cpu": "1"}}
    pod = {
        "schedulerName": "arranger",
        "restartPolicy": "Never",
        "schedulingGates": [{"name": gate}],
        "containers": [{"name": "main", "image": "pause", "resources": asked}],
    }
    labels = {"pod-group.scheduling.sigs.k8s.io": name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "suspend": True,
            "completions": size,
            "parallelism": size,
            "template": template,
        },
    }


def a_tyjob(name: str, workers: int) -> Object:
    asked = {"requests": {"cpu": "100m"}}
    container = {"name": "main", "image": "pause", "resources": asked}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": "arranger.io/v1alpha1",
        "kind": "TYJob",
        "metadata": {"name": name},
        "spec": {
            "leader": {"name": "learner", "template": template},
            "workerSets": [{"name": "actor", "template": template, "counts": workers}],
        },
    }
