"""The hollow controllers make the pods that kube-controller-manager makes of the same workloads."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.workloads.controllers import HollowControllers
from tests.controlplane.admin import until
from tests.controlplane.harness import ControlPlane, a_node

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("controlplane"),
    pytest.mark.asyncio(loop_scope="session"),
]

Object = dict[str, Any]

TEMPLATE = {
    "metadata": {"labels": {"app": "w"}, "annotations": {"note": "kept"}},
    "spec": {
        "schedulerName": "arranger",
        "nodeSelector": {"kubernetes.io/hostname": "n1"},
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "a"}]}],
    },
}
#: Labels that name what differs from one cluster to another.
UIDS = ("controller-uid", "batch.kubernetes.io/controller-uid")
HASHES = ("pod-template-hash", "controller-revision-hash")


def a_workload(group: str, kind: str, /, **spec: Any) -> Object:
    selector = {} if group == "batch/v1" else {"selector": {"matchLabels": {"app": "w"}}}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"]}}
    if group == "batch/v1":
        template["spec"]["restartPolicy"] = "Never"
    meta = {"name": f"w-{kind.lower()}", "namespace": "default"}
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": meta,
        "spec": {"template": template, **selector, **spec},
    }


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
WORKLOADS = {
    "a Deployment": (a_workload("apps/v1", "Deployment", replicas=2), 2),
    "a ReplicaSet": (a_workload("apps/v1", "ReplicaSet"), 1),
    "a StatefulSet waits for its first": (
        a_workload("apps/v1", "StatefulSet", replicas=3, serviceName="peers"),
        1,
    ),
    "a parallel StatefulSet with claims": (
        a_workload(
            "apps/v1",
            "StatefulSet",
            replicas=2,
            podManagementPolicy="Parallel",
            volumeClaimTemplates=[CLAIM],
            ordinals={"start": 5},
        ),
        2,
    ),
    "a DaemonSet": (a_workload("apps/v1", "DaemonSet"), 1),
    "a Job": (a_workload("batch/v1", "Job", completions=3, parallelism=2), 2),
    "an Indexed Job": (
        a_workload("batch/v1", "Job", completions=3, parallelism=3, completionMode="Indexed"),
        3,
    ),
    "a Job that is suspended": (a_workload("batch/v1", "Job", suspend=True), 0),
}


@pytest.mark.parametrize(("workload", "count"), WORKLOADS.values(), ids=WORKLOADS.keys())
async def test_pods_of(
    control_plane_with_controllers: ControlPlane, workload: Object, count: int
) -> None:
    plane = control_plane_with_controllers
    nodes = [a_node("n1"), a_node("n2")]
    for node in nodes:
        status, answer = await plane.request("POST", "/api/v1/nodes", node)
        assert status in (201, 409), answer
    path = await plane.collection(workload)
    await plane.post(path, workload)
    pods = "/api/v1/namespaces/default/pods"

    async def its_pods() -> list[Object]:
        items: list[Object] = (await plane.get(pods))["items"]
        return [pod for pod in items if pod["metadata"]["name"].startswith("w-")]

    try:

        async def made() -> bool:
            return len(await its_pods()) >= count

        await until(made, what="the pods")
        await asyncio.sleep(1.0)
        real = await its_pods()
    finally:
        options = {"propagationPolicy": "Background"}
        await plane.request("DELETE", f"{path}/{workload['metadata']['name']}", options)

        async def gone() -> bool:
            for pod in await its_pods():
                name = f"{pods}/{pod['metadata']['name']}"
                await plane.request(
                    "PATCH", name, {"metadata": {"finalizers": []}}, content_type=MERGE
                )
                await plane.request("DELETE", name, {"gracePeriodSeconds": 0})
            status, _ = await plane.request("GET", f"{path}/{workload['metadata']['name']}")
            return status == 404 and not await its_pods()

        await until(gone, what="the end of the pods")
    assert list(described(real)) == list(described(await hollow(workload, nodes, count)))
    assert len(real) == count


MERGE = "application/merge-patch+json"


async def hollow(workload: Object, nodes: list[Object], count: int) -> list[Object]:
    """The pods that hollow controllers make of a workload."""
    cluster = EmbeddedCluster(rng=random.Random(1))
    for node in nodes:
        cluster.create(node)
    cluster.create(workload)
    controllers = asyncio.create_task(HollowControllers(cluster).run())

    async def made() -> bool:
        return len(cluster.objects("pods")) >= count

    await until(made, what="the hollow pods")
    await asyncio.sleep(1.0)
    controllers.cancel()
    with suppress(asyncio.CancelledError):
        await controllers
    return cluster.objects("pods")


def described(pods: list[Object]) -> Iterator[Object]:
    """What a scheduler and its users see of pods, without what is random."""
    for pod in sorted(pods, key=lambda pod: pod["metadata"]["name"]):
        meta, spec = pod["metadata"], pod["spec"]
        labels = {key: "" if key in UIDS + HASHES else v for key, v in meta["labels"].items()}
        (owner,) = meta["ownerReferences"]
        yield {
            "name": _shape(meta["name"]),
            "labels": labels,
            "annotations": meta["annotations"],
            "owner": (owner["kind"], _shape(owner["name"]), owner["controller"]),
            "hostname": spec.get("hostname"),
            "subdomain": spec.get("subdomain"),
            "claims": [
                (volume["name"], volume["persistentVolumeClaim"]["claimName"])
                for volume in spec.get("volumes") or ()
                if "persistentVolumeClaim" in volume
            ],
            "affinity": spec.get("affinity"),
            "selector": spec.get("nodeSelector"),
            "env": [v["name"] for v in spec["containers"][0]["env"]],
            "scheduler": spec["schedulerName"],
            "tolerations": sorted(
                (t["key"], t["effect"], t.get("tolerationSeconds")) for t in spec["tolerations"]
            ),
        }


def _shape(name: str) -> str:
    """A name with its random parts as a star."""
    return re.sub(r"-(?=[a-z]*[0-9a-z])[0-9a-z]{5,10}(?=-|$)", "-*", name.removeprefix("w-"))
