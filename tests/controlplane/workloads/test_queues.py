"""Tidal scheduling (docs/design/queues.md) on the real control plane: ``examples/queues``.

Deployments and Jobs by kube-controller-manager, scheduler and controllers as processes with the
rights of ``manifests/``, one node of eight cards with a hollow kubelet.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.controlplane.cluster import ClusterHarness, ContainerEndingKubelets
from tests.controlplane.daemon import REPO, manifests
from tests.controlplane.harness import a_node, until

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

Object = dict[str, Any]

CARD = "NVIDIA-GeForce-RTX-4090"
PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class QueueClusterHarness(ClusterHarness):
    """A cluster whose queues a test looks at."""

    async def apply(self, file: str) -> None:
        """Create the objects of an example."""
        await self.plane.apply(manifests(f"examples/{file}"))

    async def scale(self, deployment: str, replicas: int) -> None:
        change = {"spec": {"replicas": replicas}}
        await self.plane.merge(f"{DEPLOYMENTS}/{deployment}", change)

    async def running(self) -> dict[str, int]:
        """Owner → pods of it that run and do not have to leave."""
        found: dict[str, int] = {}
        for pod in (await self.plane.get(PODS))["items"]:
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
                found[_owner(pod)] = found.get(_owner(pod), 0) + 1
        return found

    async def until_running(self, **expected: int) -> None:
        """Until these run and no others; ``_`` for ``-``."""
        wanted = {name.replace("_", "-"): n for name, n in expected.items()}
        found: dict[str, int] = {}

        async def reached() -> bool:
            self.assert_alive()
            found.clear()
            found.update(await self.running())
            return found == wanted

        await self._until(reached, found)

    async def until_printed(self, queue: str, **expected: object) -> None:
        """Until ``kubectl get queues`` prints this of a queue."""
        found: dict[str, object] = {}

        async def reached() -> bool:
            self.assert_alive()
            found.clear()
            found.update((await self._rows())[queue])
            return {name: found[name] for name in expected} == expected

        await self._until(reached, found)

    async def _until(self, reached: Any, found: Mapping[str, object]) -> None:
        try:
            await until(reached)
        except TimeoutError:
            raise AssertionError(f"{found}\n{self.log_lines()}") from None

    async def _rows(self) -> dict[str, dict[str, object]]:
        connector = aiohttp.TCPConnector(ssl=self.plane.ssl_context())
        headers = {"Authorization": f"Bearer {self.plane.token}", "Accept": TABLE}
        async with (
            aiohttp.ClientSession(connector=connector, headers=headers) as http,
            http.get(self.plane.url + QUEUES) as answer,
        ):
            table = await answer.json()
        names = [column["name"] for column in table["columnDefinitions"]]
        rows = [dict(zip(names, row["cells"], strict=True)) for row in table["rows"]]
        return {str(row["Name"]): row for row in rows}

    async def told(self, owner: str, reason: str) -> list[str]:
        """What events of a reason say about pods of an owner."""
        events = (await self.plane.get(EVENTS))["items"]
        about = [e for e in events if e["regarding"].get("name", "").startswith(f"{owner}-")]
        return [e["note"] for e in about if e["reason"] == reason]

    async def until_told(self, owner: str, reason: str, note: str) -> None:
        """Until such an event is there."""
        found: dict[str, object] = {}

        async def reached() -> bool:
            found[owner] = notes = await self.told(owner, reason)
            return any(note in each for each in notes)

        await self._until(reached, found)

    async def queue_command(self, *args: str) -> str:
        """What ``arranger queue`` prints."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "arranger.cli.main",
            "queue",
            f"--kubeconfig={self.plane.kubeconfig('viewer')}",
            *args,
            stdout=asyncio.subprocess.PIPE,
            cwd=REPO,
            env={"PYTHONPATH": str(REPO), "COLUMNS": "200"},
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        return out.decode()


@pytest_asyncio.fixture
async def harness() -> AsyncIterator[QueueClusterHarness]:
    """One node of eight cards, and the queues of the example."""
    (config,) = manifests("examples/queues/config.yaml")
    async with QueueClusterHarness.start(
        [_node()], served=[QUEUES], config=config, kubelets=ContainerEndingKubelets
    ) as harness:
        await harness.apply("queues/queues.yaml")
        yield harness


async def test_by_day_inference_takes_and_by_night_training_comes_back(
    harness: QueueClusterHarness,
) -> None:
    await harness.until_printed("training", State="Open", Cards=f"{CARD}: 0/8", Reclaimable=True)
    await harness.apply("queues/training.yaml")
    await harness.until_running(training_high=1, training_medium=1, training_low=1)
    await harness.until_printed(
        "training", Priority=20000, CPU="300m/4", Memory="300Mi/4Gi", Cards=f"{CARD}: 8/8"
    )

    # The high one takes from the lowest; the low one from nobody, for all that run are higher.
    await harness.apply("queues/inference.yaml")
    await harness.until_running(inference_high=1, training_high=1, training_medium=1)
    await harness.until_told("training-low", "Preempted", ") of queue inference on node")
    await harness.until_told("inference-low", "FailedScheduling", "No preemption victims found")
    await harness.until_printed("inference", Cards=f"{CARD}: 4/8", Pending=1, Reclaimable=False)
    await harness.until_printed("training", Cards=f"{CARD}: 4/8", Pending=1)
    shown = await harness.queue_command()
    assert f"{CARD} {'█' * 10}{'░' * 10} 4/8" in shown
    assert "default/inference-low-" in shown
    assert "default/training-low-" in shown

    # More of it is beyond the quota: what runs of inference stays, and of training too.
    await harness.scale("inference-high", 3)
    await harness.until_running(inference_high=1, training_high=1, training_medium=1)
    assert await harness.told("training-medium", "Preempted") == []
    await harness.scale("inference-high", 1)

    # By night the cards are free again, inference first and then by priority.
    await harness.scale("inference-high", 0)
    await harness.until_running(inference_low=1, training_high=1, training_medium=1)
    await harness.scale("inference-low", 0)
    await harness.until_running(training_high=1, training_medium=1, training_low=1)
    await harness.until_printed("inference", Cards=f"{CARD}: 0/8", Pending=0)
    assert await harness.told("training-high", "Preempted") == []


async def test_a_queue_that_is_closed_lets_its_work_end_and_takes_no_more(
    harness: QueueClusterHarness,
) -> None:
    await harness.apply("queues/training.yaml")
    await harness.until_running(training_high=1, training_medium=1, training_low=1)
    closed = {"metadata": {"annotations": {"arranger.io/queue-state": "Closed"}}}
    await harness.plane.merge(f"{QUEUES}/training", closed)
    await harness.until_printed("training", State="Closing")
    await harness.apply("queues/hierarchy.yaml")
    await harness.until_printed("production", State="Open", Parent="team", CPU="0/-")
    for name in ("high", "medium", "low"):
        path = f"/apis/batch/v1/namespaces/default/jobs/training-{name}"
        await harness.plane.request("DELETE", path, {"propagationPolicy": "Background"})
    await harness.until_printed("training", State="Closed", Cards=f"{CARD}: 0/8")

    await harness.apply("queues/training.yaml")
    await harness.until_told("training-low", "FailedScheduling", "Queue <training> is not open")
    opened = {"metadata": {"annotations": {"arranger.io/queue-state": "Open"}}}
    await harness.plane.merge(f"{QUEUES}/training", opened)
    await harness.until_running(training_high=1, training_medium=1, training_low=1)
    await harness.until_printed("training", State="Open")


@pytest.mark.parametrize(
    ("action", "left"), [("AbortJob", {}), ("RestartJob", {"training-low": 2})]
)
async def test_a_job_of_two_that_gives_way_does_so_whole(
    harness: QueueClusterHarness, action: str, left: dict[str, int]
) -> None:
    objects = list(manifests("examples/jobs/training.yaml"))
    job = objects[-1]
    (policy,) = [p for p in job["spec"]["policies"] if p["event"] == "PodEvicted"]
    policy["action"] = action
    job["spec"] |= {"queue": "training", "priorityClassName": "tide-low"}
    await harness.plane.apply([job])
    await harness.until_running(training_low=2)
    await harness.apply("queues/inference.yaml")
    await harness.scale("inference-low", 0)
    await harness.until_running(inference_high=1)
    await harness.scale("inference-high", 0)
    await harness.until_running(**{name.replace("-", "_"): n for name, n in left.items()})


def _node() -> Object:
    node = a_node("n1")
    product = {"product": CARD, "count": "8", "memory": "24564"}
    node["metadata"]["labels"] |= {f"nvidia.com/gpu.{k}": v for k, v in product.items()}
    for offered in (node["status"]["capacity"], node["status"]["allocatable"]):
        offered["nvidia.com/gpu"] = "8"
    return node


def _owner(pod: Object) -> str:
    """The Deployment or Job of a pod."""
    (owner,) = pod["metadata"]["ownerReferences"]
    name = str(owner["name"])
    return name.rpartition("-")[0] if owner["kind"] == "ReplicaSet" else name
