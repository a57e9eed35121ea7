"""An API server restored from a backup: what our processes remember has not happened (F6).

etcd has two ways to restore: its revisions begin again at that of the backup, or far beyond all
that were ever given (``etcdutl snapshot restore --bump-revision --mark-compacted``). In both the
objects themselves have the resourceVersions that they had in the backup.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from arranger.controllers.assembly import Controllers
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.worker_thread import at_once
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from tests.builders import a_node, a_pod
from tests.faults.injector import WATCHES, ClientRequest, FaultInjector, for_resource
from tests.faults.kinds import WatchStall
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.controllers import native_pod_groups
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, Object, SimulationHarness
from tests.simulation.harnesses.status_judge import status_faults
from tests.tyjobs import a_tyjob

pytestmark = VIRTUAL_TIME

LABEL = "pod-group.scheduling.sigs.k8s.io"
VCJOB: Object = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "vc", "namespace": "default"},
    "spec": {
        "minAvailable": 2,
        "plugins": {"svc": []},
        "tasks": [
            {
                "name": "t",
                "replicas": 2,
                "template": {"spec": {"containers": [{"name": "main", "image": "img"}]}},
            }
        ],
    },
}


def asks_for_the_future(restored: int, lost: int) -> Callable[[ClientRequest], bool]:
    """A watch from a version that the backup has not reached: it waits, and tells of nothing."""
    return lambda call: (
        WATCHES(call) and restored < int(call.query.get("resourceVersion") or 0) <= lost
    )


def bump(backup: EmbeddedCluster) -> None:
    """As ``etcdutl snapshot restore --bump-revision --mark-compacted``."""
    backup.store.version += 1_000_000
    backup.store.compact()


class Restores:
    """Controllers at work on a server that is restored."""

    def __init__(self, sim: SimulationHarness) -> None:
        self.sim = sim
        self.faults = FaultInjector(rng=random.Random(1))
        self._transport = InProcessTransport(sim.cluster, hook=self.faults, user="controllers")

    @asynccontextmanager
    async def controllers(self) -> AsyncIterator[None]:
        for definition in (*bundled_crds(), native_pod_groups()):
            self.sim.cluster.create(definition)
        options = ControllerOptions(
            debounce=0.1, rng=random.Random(1), now=virtual_now, run_aside=at_once
        )
        controllers = Controllers(self._transport, options)
        for kind in self.sim.cluster.objects("customresourcedefinitions", "apiextensions.k8s.io"):
            controllers.on_definition_event(kind, False)
        tasks = [asyncio.create_task(part) for part in controllers.tasks()]
        try:
            yield
            assert not [task for task in tasks if task.done()]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def restore(self, backup: EmbeddedCluster) -> None:
        future = asks_for_the_future(backup.store.version, self.sim.cluster.store.version)
        for faults in (self.faults, self.sim.faults):
            faults.inject(future, WatchStall())
        self.sim.faults.log.clear()  # what it remembers of has not happened
        await self.sim.switch_server(backup)
        self._transport.switch_to(backup)
        await self._transport.close()

    def run(self, *pods: str) -> None:
        """Somebody binds pods, and they run."""
        for pod in pods:
            if not self.sim.node_of(pod):
                body = {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": pod},
                    "target": {"kind": "Node", "name": "n0"},
                }
                self.sim.request("POST", f"/api/v1/namespaces/default/pods/{pod}/binding", body)
            self.sim.patch("pod", pod, {"status": {"phase": "Running"}}, sub="/status")

    def untrue(self, *writers: str) -> list[str]:
        return status_faults(self.sim.cluster, virtual_now(), set(writers))


@pytest.fixture
def restores(sim: SimulationHarness) -> Restores:
    return Restores(sim)


def a_gang(sim: SimulationHarness) -> list[str]:
    sim.cluster.create(
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"minMember": 2},
        }
    )
    sim.create(*(a_pod(f"g-{n}").labelled({LABEL: "g"}) for n in range(2)))
    return ["g-0", "g-1"]


def a_queue(sim: SimulationHarness) -> list[str]:
    sim.cluster.create(a_queue_manifest("q"))
    sim.create(a_pod("q-0").needs(cpu=1).annotated({"scheduling.volcano.sh/queue-name": "q"}))
    return ["q-0"]


def a_vcjob(sim: SimulationHarness) -> list[str]:
    sim.cluster.create(VCJOB)
    return ["vc-t-0", "vc-t-1"]


def a_job(sim: SimulationHarness) -> list[str]:
    sim.cluster.create(a_tyjob("ty"))
    return ["ty-learner-0", "ty-actor-0", "ty-actor-1"]


KINDS = {"gang": a_gang, "queue": a_queue, "vcjob": a_vcjob, "tyjob": a_job}


RESTORED = pytest.mark.parametrize(
    "restored", [lambda _: None, bump], ids=["versions go back", "bumped"]
)


@RESTORED
@pytest.mark.parametrize("kind", KINDS)
async def test_a_status_that_a_backup_has_undone_is_written_again(
    sim: SimulationHarness,
    restores: Restores,
    kind: str,
    restored: Callable[[EmbeddedCluster], None],
) -> None:
    sim.create(a_node("n0").offers(cpu=100))
    async with restores.controllers():
        pods = KINDS[kind](sim)
        await asyncio.sleep(10)
        restores.run(*pods)
        assert restores.untrue(kind)  # they run, and nobody has said so yet
        backup = sim.copy_server()
        await sim.until_true(lambda: restores.untrue(kind))
        restored(backup)
        await restores.restore(backup)
        assert restores.untrue(kind)
        await sim.until_true(lambda: restores.untrue(kind), within=300)


@RESTORED
async def test_a_binding_that_a_backup_has_undone_before_a_watch_has_shown_it_is_made_again(
    sim: SimulationHarness,
    restores: Restores,
    restored: Callable[[EmbeddedCluster], None],
) -> None:
    sim.create_nodes_and_pods(nodes=1, pods=1)
    async with sim.scheduler() as scheduler:
        await sim.until_settled(1)
        sim.create_nodes_and_pods(pods=1)
        backup = sim.copy_server()
        sim.create(a_pod("too-big").needs(cpu=100))  # the last that the watch shows
        sim.faults.inject(WATCHES & for_resource("pods"), WatchStall(), skip=2, times=1)
        await sim.until(lambda: sim.bound() == 2)
        assert scheduler.engine.cluster.assumed
        restored(backup)
        await restores.restore(backup)
        await sim.until(lambda: sim.bound() == 2, within=600)
