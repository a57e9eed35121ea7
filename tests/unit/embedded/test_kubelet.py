"""Hollow kubelets, in virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.kube.client.transport import MERGE_PATCH, Request, Response, TransportError

pytestmark = pytest.mark.looptime(noop_cycles=0)

PATH = "/api/v1/namespaces/default/pods/p"


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """A cluster with kubelets at work."""
    cluster = EmbeddedCluster(rng=random.Random(1))
    kubelets = asyncio.create_task(HollowKubelets(InProcessTransport(cluster)).run())
    yield cluster
    kubelets.cancel()
    await asyncio.wait({kubelets})


def a_bound_pod(cluster: EmbeddedCluster, name: str = "p", **annotations: str) -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "annotations": {
                    f"arranger.io/{k.replace('_', '-')}": v for k, v in annotations.items()
                },
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "pause"}]},
        }
    )


def phase(cluster: EmbeddedCluster) -> Any:
    pods = cluster.objects("pods")
    return pods[0]["status"]["phase"] if pods else None


async def test_a_bound_pod_runs_and_goes_on_for_ever(cluster: EmbeddedCluster) -> None:
    a_bound_pod(cluster)
    await asyncio.sleep(1)
    assert phase(cluster) == "Running"
    await asyncio.sleep(86400)
    assert phase(cluster) == "Running"


async def test_what_others_have_said_of_a_pod_stays_beside_its_own_conditions(
    cluster: EmbeddedCluster,
) -> None:
    a_bound_pod(cluster)
    said = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    body = json.dumps({"status": said}).encode()
    patch = Request("PATCH", f"{PATH}/status", body=body, content_type=MERGE_PATCH)
    assert cluster.handle(patch).status == 200
    await asyncio.sleep(1)
    types = {c["type"] for c in cluster.objects("pods")[0]["status"]["conditions"]}
    assert {"DisruptionTarget", "Ready"} <= types


@pytest.mark.parametrize(("code", "end"), [("0", "Succeeded"), ("3", "Failed")])
async def test_a_pod_ends_after_the_time_it_declares(
    cluster: EmbeddedCluster, code: str, end: str
) -> None:
    a_bound_pod(cluster, run_seconds="60", exit_code=code)
    await asyncio.sleep(59)
    assert phase(cluster) == "Running"
    await asyncio.sleep(2)
    assert phase(cluster) == end


async def test_a_pod_that_has_ended_ends_no_other_way(cluster: EmbeddedCluster) -> None:
    a_bound_pod(cluster, run_seconds="60")
    await asyncio.sleep(1)
    body = json.dumps({"status": {"phase": "Failed"}}).encode()
    patch = Request("PATCH", f"{PATH}/status", body=body, content_type=MERGE_PATCH)
    assert cluster.handle(patch).status == 200
    await asyncio.sleep(61)
    assert phase(cluster) == "Failed"


@pytest.mark.parametrize("odd", ["soon", "", "nan", "inf", "-1", "1e999"])
async def test_what_is_no_number_of_seconds_counts_as_not_said(
    cluster: EmbeddedCluster, odd: str
) -> None:
    a_bound_pod(cluster, run_seconds=odd, termination_seconds=odd, exit_code=odd)
    await asyncio.sleep(60)
    assert phase(cluster) == "Running"
    await InProcessTransport(cluster).send(Request("DELETE", PATH))
    await asyncio.sleep(2)
    assert phase(cluster) is None


async def test_a_deleted_pod_takes_its_time_to_go(cluster: EmbeddedCluster) -> None:
    a_bound_pod(cluster, termination_seconds="10")
    await asyncio.sleep(1)
    await InProcessTransport(cluster).send(Request("DELETE", PATH))
    await asyncio.sleep(9)
    assert phase(cluster) == "Running"
    await asyncio.sleep(2)
    assert phase(cluster) is None


async def test_running_pods_have_addresses_of_their_own(cluster: EmbeddedCluster) -> None:
    a_bound_pod(cluster)
    await asyncio.sleep(1)
    (pod,) = cluster.objects("pods")
    assert pod["status"]["podIP"] == "10.0.0.1"
    assert pod["status"]["podIPs"] == [{"ip": "10.0.0.1"}]


async def test_a_pod_whose_image_cannot_be_had(cluster: EmbeddedCluster) -> None:
    a_bound_pod(cluster, waiting_reason="ImagePullBackOff")
    await asyncio.sleep(60)
    (pod,) = cluster.objects("pods")
    assert pod["status"]["phase"] == "Pending"
    (container,) = pod["status"]["containerStatuses"]
    assert container["state"] == {"waiting": {"reason": "ImagePullBackOff"}}


async def test_a_pod_starts_when_the_keys_it_needs_are_there(cluster: EmbeddedCluster) -> None:
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "right"}}}
    optional = {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}
    env = [variable, {"name": "B", "valueFrom": optional}, {"name": "C", "value": "c"}]
    container = {"name": "main", "image": "pause", "env": env}
    spec = {"nodeName": "n1", "containers": [container]}
    head = {"apiVersion": "v1", "metadata": {"name": "p"}}
    cluster.create({**head, "kind": "Pod", "spec": spec})
    await asyncio.sleep(60)
    assert phase(cluster) == "Pending"
    head = {"apiVersion": "v1", "metadata": {"name": "m"}}
    cluster.create({**head, "kind": "ConfigMap", "data": {"wrong": ""}})
    await asyncio.sleep(60)
    assert phase(cluster) == "Pending"
    path, merge = "/api/v1/namespaces/default/configmaps/m", "application/merge-patch+json"
    change = b'{"data": {"right": ""}}'
    assert cluster.handle(Request("PATCH", path, {}, change, merge)).status == 200
    await asyncio.sleep(2)
    assert phase(cluster) == "Running"


async def test_a_pod_that_lacks_what_others_must_bring_keeps_nobody_busy_and_is_forgotten() -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    kubelets = HollowKubelets(InProcessTransport(cluster))
    running = asyncio.create_task(kubelets.run())
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}
    container = {"name": "main", "image": "pause", "env": [variable]}
    spec = {"nodeName": "n1", "containers": [container]}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    await asyncio.sleep(10)
    assert kubelets.idle
    assert cluster.handle(Request("DELETE", PATH, {})).status == 200
    await asyncio.sleep(10)
    assert phase(cluster) is None
    assert kubelets.idle
    running.cancel()
    await asyncio.wait({running})


class SlowTransport(InProcessTransport):
    """Writes take a while, and the first of each method do not come to what was asked for."""

    def __init__(self, cluster: EmbeddedCluster, fault: int | str = "", takes: float = 0.0) -> None:
        super().__init__(cluster)
        self._fault, self._takes = fault, takes
        self.written: list[str] = []

    async def send(self, request: Request) -> Response:
        if request.method == "GET":
            return await super().send(request)
        await asyncio.sleep(self._takes)
        self.written.append(request.method)
        if self._fault and self.written.count(request.method) <= 3:
            if isinstance(self._fault, int):
                return Response(self._fault, b"{}")
            if self._fault == "lost answer":
                await super().send(request)
            raise TransportError(self._fault)
        return await super().send(request)


@pytest.mark.parametrize("fault", [429, 500, 504, "no connection", "lost answer"])
async def test_what_the_server_could_not_take_is_written_again(fault: int | str) -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    transport = SlowTransport(cluster, fault)
    kubelets = HollowKubelets(transport)
    running = asyncio.create_task(kubelets.run())
    a_bound_pod(cluster)
    await asyncio.sleep(10)
    assert phase(cluster) == "Running"
    assert kubelets.idle
    assert cluster.handle(Request("DELETE", PATH, {})).status == 200
    await asyncio.sleep(10)
    assert phase(cluster) is None
    assert kubelets.idle
    tries = len(transport.written)
    await asyncio.sleep(60)
    assert len(transport.written) == tries, "what is done is not written again"
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.parametrize(("writers", "running_after_12"), [(1, 1), (3, 3)])
async def test_pods_do_not_wait_for_each_others_writes(writers: int, running_after_12: int) -> None:
    cluster = EmbeddedCluster(rng=random.Random(1))
    transport = SlowTransport(cluster, takes=10.0)
    running = asyncio.create_task(HollowKubelets(transport, writers=writers).run())
    for name in "pqr":
        a_bound_pod(cluster, name)
    await asyncio.sleep(12)
    phases = [pod["status"]["phase"] for pod in cluster.objects("pods")]
    assert phases.count("Running") == running_after_12
    running.cancel()
    await asyncio.wait({running})
