"""Examples at work: an embedded cluster with all that acts in a real one, in virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest_asyncio

from arranger.cli.simulation.controllers import JobControllers
from arranger.cli.simulation.manifests import load_manifests, read_manifests
from arranger.daemon.config.schema import Config, LeaderElectionConfig, load_config
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from arranger.embedded.workloads.controllers import HollowControllers
from arranger.kube.client.transport import MERGE_PATCH, Request
from tests.faults.injector import FaultInjector
from tests.judged import JudgedTrace, loop_time
from tests.paths import REPO

Object = dict[str, Any]


class ExampleHarness:
    """A cluster to which examples are applied."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(1))
        self._writers = FaultInjector()
        self.trace = JudgedTrace(self._writers, now=loop_time)
        self.trace.follow(self.cluster.store)
        load_manifests(self.cluster, [])
        self.config = Config()
        #: Set by the first wait: until then the configuration may be another.
        self._begun = asyncio.Event()

    def node(self, name: str, *, cards: int = 0, card: str = "", **offers: str) -> None:
        """A node of 32 CPU, or what is said."""
        capacity = {"cpu": "32", "memory": "256Gi", "pods": "110", **offers}
        labels: dict[str, str] = {}
        if cards:
            capacity["nvidia.com/gpu"] = str(cards)
            labels = {"nvidia.com/gpu.product": card, "nvidia.com/gpu.count": str(cards)}
        meta = {"name": name, "labels": labels}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
        self.cluster.create({**node, "status": {"capacity": capacity}})

    def configure(self, file: str) -> None:
        """Take the scheduler's configuration from an example."""
        self.config = load_config(REPO / "examples" / file)

    def apply(self, *files: str) -> None:
        """Create the objects of examples."""
        for where, manifest in read_manifests([REPO / "examples" / file for file in files]):
            kind, version = manifest["kind"], manifest["apiVersion"]
            meta = manifest["metadata"]
            if namespace := meta.get("namespace"):
                known = {n["metadata"]["name"] for n in self.cluster.objects("namespaces")}
                assert namespace in known, where
            assert self.cluster.registry.by_kind(version, kind), where
            self.cluster.create(manifest)

    def edit(self, path: str, change: Object) -> None:
        """Merge a change into an object."""
        body = json.dumps(change).encode()
        answer = self.cluster.handle(Request("PATCH", path, {}, body, MERGE_PATCH))
        assert answer.status == 200, answer

    def scale(self, deployment: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/default/deployments/{deployment}"
        self.edit(path, {"spec": {"replicas": replicas}})

    def pods(self) -> list[Object]:
        return self.cluster.objects("pods")

    def running(self) -> dict[str, int]:
        """Workload → how many of its pods run and do not have to leave."""
        found: dict[str, int] = {}
        for pod in self.pods():
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
                found[_workload(pod)] = found.get(_workload(pod), 0) + 1
        return found

    def evicted(self) -> set[str]:
        """Pods that others have evicted, without what makes their names unique."""
        events = self.cluster.objects("events", "events.k8s.io")
        about = [e["regarding"]["name"] for e in events if e["reason"] == "Preempted"]
        return {name.rpartition("-")[0] for name in about}

    async def until(self, holds: Callable[[], bool], *, within: float = 900.0) -> None:
        """Let virtual time pass until something holds."""
        self._begun.set()
        deadline = asyncio.get_running_loop().time() + within
        while not holds():
            assert asyncio.get_running_loop().time() < deadline, self.running()
            await asyncio.sleep(1.0)

    async def until_running(self, expected: Mapping[str, int]) -> None:
        """Until these run and no others, and still do so a while later."""
        await self.until(lambda: self.running() == expected)
        await asyncio.sleep(400.0)
        assert self.running() == expected

    async def work(self) -> None:
        """Scheduler, kubelets and controllers, from the first wait until cancelled."""
        await self._begun.wait()
        election = LeaderElectionConfig(leader_elect=False)
        config = self.config.model_copy(update={"leader_election": election})
        self.trace.expect_scheduler("examples", config)
        scheduler = Scheduler(
            InProcessTransport(self.cluster, hook=self._writers, user="examples"),
            config,
            identity="examples",
            rng=random.Random(1),
            clock=lambda: virtual_now().timestamp(),
        )
        kubelets = HollowKubelets(InProcessTransport(self.cluster), now=virtual_now)
        controllers = HollowControllers(self.cluster, now=virtual_now)
        async with asyncio.TaskGroup() as group:
            group.create_task(scheduler.run())
            group.create_task(kubelets.run())
            group.create_task(controllers.run())
            group.create_task(JobControllers(self.cluster, Config(), random.Random(1)).run())


@pytest_asyncio.fixture
async def examples() -> AsyncIterator[ExampleHarness]:
    """A cluster without nodes; everything starts at the first wait."""
    harness = ExampleHarness()
    work = asyncio.create_task(harness.work())
    yield harness
    assert not work.done(), work
    work.cancel()
    await asyncio.wait({work})
    harness.trace.check()


def _workload(pod: Object) -> str:
    """The Deployment, Job or TYJob of a pod; of ReplicaSets without what makes them unique."""
    owners = pod["metadata"].get("ownerReferences")
    if not owners:
        return str(pod["metadata"]["name"])
    name = str(owners[0]["name"])
    return name.rpartition("-")[0] if owners[0]["kind"] == "ReplicaSet" else name
