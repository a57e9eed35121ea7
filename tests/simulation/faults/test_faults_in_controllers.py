"""Faults of the controllers' code about one object: those of all others go on.

As :mod:`tests.simulation.faults.test_injected_faults`, with all controllers of a process in place
of the engine. ``ARRANGER_INJECTED_FAULTS`` says how many are tried; 0 for all.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from arranger.api import event_reasons
from arranger.controllers.assembly import Controllers
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.worker_thread import at_once
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from arranger.kube.client.metrics import NullMetricsRecorder
from arranger.kube.client.transport import Request
from tests.builders import PodBuilder, a_node, a_pod
from tests.faults.callables import Callee, Fault, recorded
from tests.faults.sampling import sample
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.jobs import JobHarness, task
from tests.simulation.harnesses.simulation import MERGE, VIRTUAL_TIME, Object
from tests.simulation.harnesses.status_judge import CONTROLLERS, SCHEDULER, status_faults
from tests.tyjobs import a_tyjob

pytestmark = VIRTUAL_TIME

COUNT = int(os.environ.get("ARRANGER_INJECTED_FAULTS", "4"))
PACKAGES = ("arranger.controllers",)
DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
#: Virtual seconds after which what was set aside has been tried again.
PATIENCE = 900.0


def a_group(name: str, **spec: object) -> Object:
    """A PodGroup of two."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": 2, **spec},
    }


@dataclass(frozen=True)
class Victim:
    """An object called ``victim``, and where it is."""

    create: Callable[[JobHarness], None]
    path: str


def _group(sim: JobHarness) -> None:
    sim.cluster.create(a_group("victim"))
    for n in range(2):
        sim.create(_member(f"of-victim-{n}", "victim"))


def _member(name: str, group: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).annotated({"scheduling.k8s.io/group-name": group})


def _pod(sim: JobHarness) -> None:
    sim.cluster.create(a_group("of-victim", minMember=1))
    sim.create(_member("victim", "of-victim"), _member("beside", "of-victim"))


def _queue(sim: JobHarness) -> None:
    sim.cluster.create(a_queue_manifest("victim", weight=1))
    sim.job("of-victim", task(), queue="victim")


def _command(sim: JobHarness) -> None:
    sim.job("of-victim", task())
    (job,) = (
        job
        for job in sim.cluster.objects("jobs", "batch.volcano.sh")
        if job["metadata"]["name"] == "of-victim"
    )
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "of-victim"}
    target["uid"] = job["metadata"]["uid"]
    sim.cluster.create(
        {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": "victim", "namespace": "default"},
            "action": "AbortJob",
            "target": target,
        }
    )


VOLCANO = "scheduling.volcano.sh/v1beta1"
VICTIMS = {
    "a job": Victim(
        lambda sim: sim.job("victim", task(), plugins={"svc": []}),
        "batch.volcano.sh/v1alpha1/namespaces/default/jobs",
    ),
    "a TYJob": Victim(
        lambda sim: sim.cluster.create(a_tyjob("victim")),
        "arranger.io/v1alpha1/namespaces/default/tyjobs",
    ),
    "a pod group": Victim(_group, f"{VOLCANO}/namespaces/default/podgroups"),
    "a pod of a pod group": Victim(_pod, "../api/v1/namespaces/default/pods"),
    "a queue": Victim(_queue, f"{VOLCANO}/queues"),
    "a command": Victim(_command, "bus.volcano.sh/v1alpha1/namespaces/default/commands"),
}


class Most(NullMetricsRecorder):
    """Which kinds of objects were ever quarantined."""

    def __init__(self) -> None:
        self.quarantined: set[str] = set()

    def set_gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Note a gauge that is above 0."""
        if name == "quarantined_objects" and value:
            self.quarantined.add(labels["kind"])


class World:
    """A small cluster with jobs, TYJobs, PodGroups, queues and Commands of several owners."""

    def __init__(self, victim: Victim) -> None:
        self.victim = victim
        self.path = f"/apis/{victim.path}/victim".replace("/apis/../", "/")
        self.sim = JobHarness()
        self.sim.trace.expect_faults()
        self.controllers: Controllers | None = None
        self.most = Most()

    async def run(self, fault: Fault | None) -> None:
        """Let it all happen, with the fault inside if given; then lift it and look at all."""
        sim = self.sim
        sim.create(*(a_node(f"n{n}").offers(cpu=8, pods=40) for n in range(4)))
        async with sim.kubelets(), sim.scheduler(), self._controlled() as running:
            self._create("early")
            if fault is None:
                await self._happen()
                await sim.until(self._others_are_done)
            else:
                with fault.injected():
                    await self._happen()
                    await sim.until(self._others_are_done, within=60)
                    if fault.met:
                        await sim.until(self._is_told, within=60)
            assert not running.done(), running
            self._touch()
            await sim.until_true(self._untrue, within=PATIENCE)
            assert self.controllers is not None
            barrier = self.controllers.barrier
            await sim.until(
                lambda: not barrier.unheard and not barrier.unreconciled, within=PATIENCE
            )

    async def _happen(self) -> None:
        await asyncio.sleep(1)
        self.victim.create(self.sim)
        await asyncio.sleep(2)
        self._touch()
        self._create("late")
        await asyncio.sleep(3)
        self.sim.command("AbortJob", "late-aborted")
        self.sim.command_queue("CloseQueue", "late-queue")

    def _create(self, name: str) -> None:
        sim = self.sim
        sim.cluster.create(a_queue_manifest(f"{name}-queue", weight=1))
        sim.job(f"{name}-job", task(runs=4), plugins={"svc": []})
        sim.job(f"{name}-aborted", task(), queue=f"{name}-queue")
        sim.cluster.create(a_tyjob(f"{name}-tyjob"))
        sim.cluster.create(a_group(f"{name}-group"))
        for n in range(2):
            sim.create(_member(f"{name}-pod-{n}", f"{name}-group"))

    def _others_are_done(self) -> bool:
        sim = self.sim
        stages = self._field("tyjobs", "arranger.io", "stage")
        groups = self._field("podgroups", "scheduling.volcano.sh", "phase")
        queues = self._field("queues", "scheduling.volcano.sh", "state")
        return (
            {sim.phase("early-job"), sim.phase("late-job")} == {"Completed"}
            and sim.phase("late-aborted") == "Aborted"
            and stages["early-tyjob"] == stages["late-tyjob"] == "Running"
            and groups["early-group"] == groups["late-group"] == "Running"
            and queues["late-queue"] in ("Closed", "Closing")
        )

    def _field(self, plural: str, group: str, field: str) -> dict[str, str]:
        objects = self.sim.cluster.objects(plural, group)
        return {o["metadata"]["name"]: (o.get("status") or {}).get(field, "") for o in objects}

    def _is_told(self) -> bool:
        """Whether something was counted as set aside, and each owner of such a thing was told."""
        events = self.sim.cluster.objects("events", "events.k8s.io")
        told = {e["regarding"]["kind"] for e in events if e["reason"] == event_reasons.QUARANTINED}
        return bool(self.most.quarantined) and self.most.quarantined <= told

    def _touch(self) -> None:
        """The victim's owner edits it, if it is there still."""
        change = {"metadata": {"labels": {"edited": f"{virtual_now():%M-%S}"}}}
        request = Request("PATCH", self.path, {}, json.dumps(change).encode(), MERGE)
        answer = self.sim.cluster.handle(request)
        assert answer.status in (200, 404), answer

    def _untrue(self) -> list[str]:
        return status_faults(self.sim.cluster, virtual_now(), {*CONTROLLERS, SCHEDULER})

    @asynccontextmanager
    async def _controlled(self) -> AsyncIterator[asyncio.Task[None]]:
        transport = InProcessTransport(self.sim.cluster, user="controllers")
        options = ControllerOptions(
            debounce=0.1,
            rng=random.Random(1),
            now=virtual_now,
            run_aside=at_once,
            metrics=self.most,
        )
        self.controllers = controllers = Controllers(transport, options)
        for definition in self.sim.cluster.store.items(DEFINITIONS):
            controllers.on_definition_event(definition, False)

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                for part in controllers.tasks():
                    group.create_task(part)

        running = asyncio.create_task(run())
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.wait({running})
            assert running.cancelled(), running.exception()


@pytest.mark.parametrize("name", VICTIMS)
async def test_whatever_raises_about_one_object_those_of_others_go_on(name: str) -> None:
    with recorded("victim", PACKAGES) as found:
        await World(VICTIMS[name]).run(None)
    assert len(found) > 5, "the victim was hardly looked at"
    rng = random.Random(zlib.crc32(name.encode()))
    for callee, after, times in sample(found, rng, COUNT):
        await inject_one(name, Fault(callee, "victim", after, times))


async def inject_one(name: str, fault: Fault) -> None:
    """Run the world of a victim with a fault."""
    world = World(VICTIMS[name])
    try:
        await world.run(fault)
    except BaseException as error:
        error.add_note(f"{name}: {fault}")
        raise


#: Faults whose victims were forgotten once: another informer of pods had taken them in.
FOUND = [
    ("a queue", Callee("arranger.controllers.queue.cache", "QueueCache", "_allowed"), after)
    for after in (False, True)
]


@pytest.mark.parametrize(("name", "callee", "after"), FOUND, ids=str)
async def test_so_it_is_where_it_was_not_once(name: str, callee: Callee, after: bool) -> None:
    fault = Fault(callee, "victim", after)
    await inject_one(name, fault)
    assert fault.met
