"""Pods that are gangs by their owner, on the real API server with its controller-manager."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.builders.workloads import kubeflow_pods, replicas
from tests.controlplane.daemon import Daemon, install_rbac
from tests.controlplane.fixtures import skip_without_binary
from tests.controlplane.harness import ControlPlane, a_node, until
from tests.simulation.harnesses.workloads import definition_of

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PYTORCH_JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
JOBS_ON: dict[str, object] = {
    "gangs": {"workloads": [{"apiVersion": "batch/v1", "kind": "Job", "enabled": True}]}
}


@pytest_asyncio.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A control plane with controllers, and none of our definitions."""
    skip_without_binary()
    async with ControlPlane(controllers=True) as running:
        await install_rbac(running)
        yield running


async def _pods(plane: ControlPlane) -> list[Object]:
    return list((await plane.get(PODS))["items"])


def _message(pod: Object) -> str:
    conditions = pod["status"].get("conditions") or []
    return "".join(c["message"] for c in conditions if c["type"] == "PodScheduled")


async def _wait_whole_and_start_whole(plane: ControlPlane, daemon: Daemon, gang: str) -> None:
    """Four pods of 100m where 350m are, and then more."""

    async def all_wait() -> bool:
        assert daemon.process.returncode is None, daemon.log_lines()
        pods = await _pods(plane)
        told = [pod for pod in pods if f"gang default/{gang}-" in _message(pod)]
        assert not [pod for pod in pods if "nodeName" in pod["spec"]]
        return len(told) == 4

    async def all_run() -> bool:
        return len([pod for pod in await _pods(plane) if "nodeName" in pod["spec"]]) == 4

    await until(all_wait, what="four pods that say which gang they wait with")
    await plane.post_all(NODES, [a_node("more", cpu="100m")])
    await until(all_run, what="four pods with a node")


async def test_a_job_is_a_gang_by_what_it_says_itself(plane: ControlPlane) -> None:
    await plane.post_all(NODES, [a_node("n0", cpu="350m")])
    daemon = await Daemon.start(plane, config=JOBS_ON)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"schedulerName": "arranger", "restartPolicy": "Never", "containers": [container]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"completions": 4, "parallelism": 4, "template": {"spec": spec}},
    }
    await plane.post_all(JOBS, [job])
    await _wait_whole_and_start_whole(plane, daemon, "job-train")


async def test_a_kind_that_is_installed_while_the_scheduler_runs_is_read(
    plane: ControlPlane,
) -> None:
    await plane.post_all(NODES, [a_node("n0", cpu="350m")])
    daemon = await Daemon.start(plane)
    await plane.apply([definition_of("PyTorchJob")])
    await plane.until_served(PYTORCH_JOBS)
    owner = replicas("PyTorchJob", Master=1, Worker=3)
    manifest = owner.manifest()
    for key in ("uid", "creationTimestamp"):
        del manifest["metadata"][key]
    await plane.post_all(PYTORCH_JOBS, [manifest])
    (made,) = (await plane.get(PYTORCH_JOBS))["items"]
    pods = [pod.needs(cpu="100m").manifest() for pod in kubeflow_pods(owner, Master=1, Worker=3)]
    for pod in pods:
        meta = pod["metadata"]
        for key in ("uid", "creationTimestamp"):
            meta.pop(key, None)
        meta["ownerReferences"][0]["uid"] = made["metadata"]["uid"]
        del pod["status"]
    await plane.post_all(PODS, pods)
    await _wait_whole_and_start_whole(plane, daemon, "pytorchjob-train")
