"""Jobs of ``examples/jobs`` on the real API server (docs/design/queues.md), with every right.

The scheduler and the controllers run as processes, with the service accounts of ``manifests/``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane.cluster import ClusterHarness
from tests.controlplane.daemon import manifests
from tests.controlplane.harness import a_node, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CARD = "NVIDIA-GeForce-RTX-4090"


class JobClusterHarness(ClusterHarness):
    """A cluster whose Volcano Jobs a test looks at."""

    async def until_phase(self, name: str, phase: str) -> Object:
        """Until a job is in a phase; its status."""
        status: Object = {}

        async def reached() -> bool:
            self.assert_alive()
            status.update((await self.plane.get(f"{JOBS}/{name}")).get("status") or {})
            return bool(status.get("state", {}).get("phase") == phase)

        try:
            await until(reached)
        except TimeoutError:
            raise AssertionError(f"{status}\n{self.controllers.log_lines()}") from None
        return status

    async def pods(self) -> dict[str, str]:
        """Pod → phase, with a dash for one without a node."""
        pods = (await self.plane.get(PODS))["items"]
        return {
            p["metadata"]["name"]: p["status"]["phase"] if "nodeName" in p["spec"] else "-"
            for p in pods
        }

    async def until_pods(self, expected: dict[str, str]) -> None:
        """Until there are these pods and no others."""
        found: dict[str, str] = {}

        async def reached() -> bool:
            self.assert_alive()
            found.clear()
            found.update(await self.pods())
            return found == expected

        try:
            await until(reached)
        except TimeoutError:
            raise AssertionError(f"{found}\n{self.log_lines()}") from None

    async def evict(self, pod: str) -> None:
        """As the scheduler does it: a condition that says why, and then a delete.

        That nobody may have its place is our doing, not the scheduler's.
        """
        assert self.plane.recorder is not None
        self.plane.recorder.premises.unjudged.add("it_may_be_evicted")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "for inference",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        change = {"status": {"conditions": [condition]}}
        strategic = "application/strategic-merge-patch+json"
        status, answer = await self.plane.request(
            "PATCH", f"{PODS}/{pod}/status", change, content_type=strategic
        )
        assert status == 200, answer
        await self.plane.request("DELETE", f"{PODS}/{pod}")

    async def told(self, name: str) -> dict[str, str]:
        """Events about a job: reason → note."""
        events = (await self.plane.get(EVENTS))["items"]
        about = [e for e in events if e["regarding"].get("name") == name]
        return {e["reason"]: e["note"] for e in about if e["regarding"]["kind"] == "Job"}


@pytest_asyncio.fixture
async def harness() -> AsyncIterator[JobClusterHarness]:
    """One node of eight cards."""
    async with JobClusterHarness.start([_node()], served=[JOBS, GROUPS]) as harness:
        yield harness


@pytest.mark.parametrize("action", ["AbortJob", "RestartJob"])
async def test_training_gives_way_whole(harness: JobClusterHarness, action: str) -> None:
    for manifest in _training(action):
        await harness.plane.apply([manifest])
    both = {"training-low-worker1-0": "Running", "training-low-worker2-0": "Running"}
    await harness.until_pods(both)
    await harness.until_phase("training-low", "Running")
    # It asks for four cards, and nobody takes them for it.
    await harness.plane.post(PODS, _inference())
    await harness.evict("training-low-worker1-0")
    if action == "AbortJob":
        status = await harness.until_phase("training-low", "Aborted")
        await harness.until_pods({"inference": "Running"})
        assert (await harness.plane.get(GROUPS))["items"] == []
        assert status["state"]["reason"] == "PodEvicted"
        assert (await harness.told("training-low"))["Aborting"] == (
            "pod training-low-worker1-0 was evicted: AbortJob"
        )
        return
    await harness.until_pods({"inference": "Running", **dict.fromkeys(both, "-")})
    await harness.until_phase("training-low", "Pending")
    await harness.plane.request("DELETE", f"{PODS}/inference")
    await harness.until_pods(both)
    status = await harness.until_phase("training-low", "Running")
    assert (status["version"], status["retryCount"]) == (1, 0)


async def test_servers_before_workers_and_all_of_it_goes_with_the_job(
    harness: JobClusterHarness,
) -> None:
    await harness.plane.apply(manifests("examples/jobs/parameter-server.yaml"))
    workers = {f"mnist-worker-{n}": "Running" for n in range(3)}
    await harness.until_pods({"mnist-ps-0": "Running", **workers})
    await harness.until_phase("mnist", "Running")
    (service,) = [s for s in await _items(harness, "services") if s["metadata"]["name"] == "mnist"]
    assert service["spec"]["clusterIP"] == "None"
    for name in workers:
        await harness.plane.merge(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})
    status = await harness.until_phase("mnist", "Completed")
    assert status["succeeded"] == 3
    await harness.until_pods(dict.fromkeys(workers, "Succeeded"))
    await harness.plane.request("DELETE", f"{JOBS}/mnist", {"propagationPolicy": "Foreground"})
    await harness.until_pods({})

    async def gone() -> bool:
        names = [o["metadata"]["name"] for o in await _items(harness, "services")]
        names += [o["metadata"]["name"] for o in await _items(harness, "configmaps")]
        names += [o["metadata"]["name"] for o in (await harness.plane.get(JOBS))["items"]]
        return not {"mnist", "mnist-svc"} & set(names)

    await until(gone, what="what belongs to the job")


async def _items(harness: JobClusterHarness, plural: str) -> list[Object]:
    return list((await harness.plane.get(f"/api/v1/namespaces/default/{plural}"))["items"])


def _training(action: str) -> list[Object]:
    """The example, with what it does when it is evicted."""
    objects = list(manifests("examples/jobs/training.yaml"))
    (policy,) = [p for p in objects[-1]["spec"]["policies"] if p["event"] == "PodEvicted"]
    policy["action"] = action
    return objects


def _node() -> Object:
    node = a_node("n1")
    product = {"product": CARD, "count": "8", "memory": "24564"}
    node["metadata"]["labels"] |= {f"nvidia.com/gpu.{k}": v for k, v in product.items()}
    for offered in (node["status"]["capacity"], node["status"]["allocatable"]):
        offered["nvidia.com/gpu"] = "8"
    return node


def _inference() -> Object:
    """Of the same priority, so that the scheduler takes nothing for it."""
    cards = {"nvidia.com/gpu": "4"}
    container = {"name": "c", "image": "pause", "resources": {"requests": cards, "limits": cards}}
    notes = {"volcano.sh/card.name": CARD, "scheduling.volcano.sh/queue-name": "queue-training"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "inference", "annotations": notes},
        "spec": {
            "schedulerName": "arranger",
            "priorityClassName": "pc-low",
            "containers": [container],
        },
    }
