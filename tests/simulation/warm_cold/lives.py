"""A scheduler that lives in a random world for a while, and what the API has when it is killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from arranger.api.types.workloads import Owner
from arranger.daemon.config.schema import QueueConfig
from arranger.daemon.informers import COLLECTION_PATHS
from arranger.embedded.server import EmbeddedCluster
from arranger.engine.engine import Engine
from arranger.kube.client.transport import Request
from tests.builders import a_node
from tests.simulation.harnesses.controllers import native_pod_groups
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.preemption import PreemptionHarness
from tests.simulation.harnesses.simulation import MERGE, Object
from tests.simulation.harnesses.tyjobs import TYJobHarness
from tests.simulation.harnesses.volumes import VolumeHarness
from tests.simulation.harnesses.workloads import SHIPPED, definition_of
from tests.simulation.warm_cold.engines import CONFIG, WORKLOADS, Shown, shown
from tests.simulation.warm_cold.worlds import WorldBuilder

VOLCANO = "scheduling.volcano.sh"
#: Seconds from the last creation to the restart.
WAITS = (0.01, 0.05, 0.3, 1.1, 4.3, 60.3)
#: Seconds in which Gang objects and the nodes that are held are written.
WRITTEN_AFTER = 4.0


class _Harness(PreemptionHarness, JobHarness, TYJobHarness):  # type: ignore[misc]
    """Evictions, and the controllers of Jobs, TYJobs, gangs and queues."""


class Lives:
    """A world that goes on, and what there is in it.

    Attributes:
        killed_soon: whether the scheduler was killed before it could write all that it knew.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._sim = _Harness(seed)
        self._sim.cluster.create(native_pod_groups())
        for kind in WORKLOADS:
            self._sim.cluster.create(definition_of(kind))
        builder = WorldBuilder(seed, past=False)
        self._world = builder.build()
        self._important = builder.important_pods(3)
        #: uid in the world → that in the cluster.
        self._uids: dict[str, str] = {}
        self._next_node = 0
        self.killed_soon = False

    @property
    def cluster(self) -> EmbeddedCluster:
        """Where it happens."""
        return self._sim.cluster

    async def live(
        self, look: Callable[[], Awaitable[None]] | None = None
    ) -> tuple[Engine, list[Shown], float]:
        """Let a scheduler live for a random time; returns it, what the API has, and the time.

        ``look``: called from time to time, when something has happened.
        """
        sim, rng = self._sim, self._rng
        for manifest in self._world.early:
            self._create(manifest)
        async with AsyncExitStack() as stack:
            scheduler = await stack.enter_async_context(sim.scheduler(config=CONFIG))
            await stack.enter_async_context(sim.kubelets())
            await stack.enter_async_context(VolumeHarness(sim).loop.running())
            if rng.random() < 0.4:
                await stack.enter_async_context(sim.controllers(judged=False))
                await stack.enter_async_context(sim.controller(judged=False))
                await self._submit_jobs()
            await asyncio.sleep(1)
            for manifest in self._world.late[: rng.randint(2, len(self._world.late))]:
                self._create(manifest)
                await asyncio.sleep(rng.choice([1.0, 2.0, 5.0, 30.0]))
                self._something_happens()
                if look is not None:
                    await look()
            for manifest in self._important:
                self._create(manifest)
                await asyncio.sleep(1.0)
            wait = rng.choice(WAITS)
            self.killed_soon = wait < WRITTEN_AFTER
            await asyncio.sleep(wait)
            sim.crash()
            scheduler.engine.check_consistent()
            sim.trace.check()
            now = asyncio.get_running_loop().time()
            return scheduler.engine, self._present(), now

    # --- what happens ------------------------------------------------------------------------

    def _create(self, manifest: Object) -> None:
        meta = manifest["metadata"]
        uid = meta.pop("uid", "")
        for key in ("resourceVersion", "creationTimestamp"):
            meta.pop(key, None)
        for owner in meta.get("ownerReferences", []):
            owner["uid"] = self._uids.get(owner["uid"], owner["uid"])
        self._uids[uid] = self._sim.cluster.create(manifest)["metadata"]["uid"]

    async def _submit_jobs(self) -> None:
        """A Volcano Job and a TYJob, whose controllers make pods and PodGroups."""
        rng = self._rng
        workers = rng.randint(1, 3)
        tasks = [task("ps", 1), task("worker", workers)]
        self._sim.cluster.create(
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "metadata": {"name": "vj"},
                "spec": {"tasks": tasks, "minAvailable": rng.randint(1, workers + 1)},
            }
        )
        await asyncio.sleep(2)  # of pods of one second only memory knows which came first
        self._sim.submit("ty", workers=rng.randint(1, 3))

    def _something_happens(self) -> None:
        events: list[tuple[float, Callable[[], None]]] = [
            (0.15, self._a_pod_goes),
            (0.1, self._a_pod_ends),
            (0.05, self._a_queue_changes),
            (0.05, self._a_pod_is_edited),
            (0.05, self._a_node_changes),
            (0.05, self._an_owner_is_edited),
            (0.05, self._a_workload_is_edited),
        ]
        chance = self._rng.random()
        for share, happens in events:
            chance -= share
            if chance < 0:
                happens()
                return

    def _a_pod_goes(self) -> None:
        if pods := self._pods():
            grace = self._rng.choice([0, 3])
            self._sim.delete("pod", self._rng.choice(pods)["metadata"]["name"], grace=grace)

    def _a_pod_ends(self) -> None:
        if running := [pod for pod in self._pods() if pod["spec"].get("nodeName")]:
            ended = {"status": {"phase": self._rng.choice(["Succeeded", "Failed"])}}
            self._sim.patch("pod", _name(self._rng.choice(running)), ended, sub="/status")

    def _a_queue_changes(self) -> None:
        if not (queues := self._sim.cluster.objects("queues", VOLCANO)):
            return
        path = f"/apis/{VOLCANO}/v1beta1/queues/{_name(self._rng.choice(queues))}"
        if self._rng.random() < 0.2:
            self._sim.request("DELETE", path)
        else:
            edit = {"spec": {"priority": self._rng.choice([20000, 90000])}}
            self._sim.request("PATCH", path, edit, MERGE)

    def _a_pod_is_edited(self) -> None:
        if pods := self._pods():
            said = self._rng.choice(
                [
                    {"scheduling.volcano.sh/queue-name": "q0"},
                    {"volcano.sh/preemptable": "false"},
                    {"volcano.sh/service.type": "training"},
                ]
            )
            edit = {"metadata": {"annotations": said}}
            self._sim.patch("pod", _name(self._rng.choice(pods)), edit)

    def _a_node_changes(self) -> None:
        """One is cordoned, goes, or comes."""
        rng, nodes = self._rng, self._sim.cluster.objects("nodes")
        chance = rng.random()
        if chance < 0.3:
            self._next_node += 1
            self._sim.create(a_node(f"x{self._next_node}").in_zone("a").offers(cpu=2))
        elif chance < 0.5 and len(nodes) > 1:
            self._sim.delete("node", _name(rng.choice(nodes)))
        else:
            self._sim.patch("node", _name(rng.choice(nodes)), {"spec": {"unschedulable": True}})

    def _an_owner_is_edited(self) -> None:
        if self._sim.cluster.objects("deployments", "apps"):
            edit = {"metadata": {"annotations": {"volcano.sh/preemptable": "false"}}}
            path = "/apis/apps/v1/namespaces/default/deployments/web"
            self._sim.request("PATCH", path, edit, MERGE)

    def _a_workload_is_edited(self) -> None:
        if not (owners := self._workloads("PyTorchJob")):
            return
        entry, owner = SHIPPED["PyTorchJob"], self._rng.choice(owners)
        edits: list[Object] = [
            {"spec": {"runPolicy": {"schedulingPolicy": {"minAvailable": 1}}}},
            {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "q0"}}}},
            {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}},
            {"metadata": {"annotations": {"arranger.io/gang-by-owner": "false"}}},
        ]
        path = f"/apis/{entry.api_version}/namespaces/default/{entry.resource}/{_name(owner)}"
        self._sim.request("PATCH", path, self._rng.choice(edits), MERGE)

    # --- looking -----------------------------------------------------------------------------

    def _pods(self) -> list[Object]:
        pods = self._sim.cluster.objects("pods")
        return [pod for pod in pods if not _leaves(pod) and not _is_a_bundle(pod)]

    def _present(self) -> list[Shown]:
        paths: list[tuple[type[Any], str]] = list(COLLECTION_PATHS.items())
        paths += [(Owner, f"/apis/{resource}") for resource in QueueConfig().owner_resources]
        found: list[Shown] = []
        for kind, path in paths:
            answer = self._sim.cluster.handle(Request("GET", path))
            if answer.status == 200:
                found += [msgspec.convert(item, kind) for item in answer.body["items"]]
        for workload in WORKLOADS:
            found += [shown({**each, "kind": workload}) for each in self._workloads(workload)]
        return found

    def _workloads(self, kind: str) -> list[Object]:
        entry = SHIPPED[kind]
        path = f"/apis/{entry.api_version}/{entry.resource}"
        items: list[Object] = self._sim.cluster.handle(Request("GET", path)).body["items"]
        return items


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _is_a_bundle(pod: Object) -> bool:
    """Whether no other pod says what its bundle needs."""
    return pod["metadata"].get("annotations", {}).get("gang.koordinater.io/bundleName") == "ps"


def _leaves(pod: Object) -> bool:
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return ended or "deletionTimestamp" in pod["metadata"]
