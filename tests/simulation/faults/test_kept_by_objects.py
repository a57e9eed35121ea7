"""What an object that is no pod keeps from others stays kept while the object is set aside.

Each callable that is given the object raises, always, for many minutes, while pods wait that would
take what it keeps, and the scheduler is killed. What the API server was asked to write is judged,
and that nothing stays set aside once nothing raises. ``ARRANGER_INJECTED_FAULTS`` says how many
faults are tried; 0 for all.
"""

from __future__ import annotations

import asyncio
import os
import random
import zlib
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count

import pytest

from arranger.api.annotations import PREEMPTABLE
from tests.builders import PodBuilder, a_node, a_pod
from tests.builders.workloads import an_owner, kubeflow_pods, owned, replicas
from tests.faults.callables import Callee, Fault, recorded
from tests.faults.sampling import sample
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.gangs import DEFINITIONS, members
from tests.simulation.harnesses.preemption import with_priority
from tests.simulation.harnesses.simulation import MERGE, VIRTUAL_TIME, Object, SimulationHarness
from tests.simulation.harnesses.workloads import definition_of

pytestmark = VIRTUAL_TIME

COUNT = int(os.environ.get("ARRANGER_INJECTED_FAULTS", "4"))
#: Seconds between two things that happen, how many do, and after how many the scheduler is killed.
STEP, STEPS, KILLED = 15, 24, 10
#: Seconds until nothing is set aside any more, once nothing raises.
RECOVERED = 700

_GROUP = {"scheduling.k8s.io/group-name": "victim"}
_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/victim"


@dataclass(frozen=True)
class Keeping:
    """Something that an object keeps, and others want.

    Attributes:
        path: where the object is.
        objects: what there is, the object among it.
        first: the pods that are there from the start.
        other: somebody who wants it, once it is named.
        wrong: what is wrong with the pods of the cluster; "" for nothing.
    """

    path: str
    objects: Sequence[Object]
    first: Sequence[PodBuilder]
    other: Callable[[str], PodBuilder]
    wrong: Callable[[Sequence[Object]], str]


def _reservation(**nodes: object) -> Object:
    spec = {
        "nodes": {"names": ["n0"], **nodes},
        "window": {"start": "2025-12-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"},
        "users": {"queues": ["q"]},
    }
    head = {"apiVersion": "arranger.io/v1alpha1", "kind": "Reservation"}
    return {**head, "metadata": {"name": "victim"}, "spec": spec}


def _group(least: int, **spec: object) -> Object:
    meta = {"name": "victim", "namespace": "default"}
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta}
    return {**head, "spec": {"minMember": least, **spec}}


def _on(pods: Sequence[Object], node: str) -> list[str]:
    names = [p["metadata"]["name"] for p in pods if p["spec"].get("nodeName", "") == node]
    return [name for name in names if name.startswith("p")]


def _more_on_n0_than(most: int) -> Callable[[Sequence[Object]], str]:
    def wrong(pods: Sequence[Object]) -> str:
        found = _on(pods, "n0")
        return f"{found} are on n0" if len(found) > most else ""

    return wrong


def _half_a_gang(pods: Sequence[Object]) -> str:
    of_gang = [p for p in pods if p["metadata"]["name"].startswith("victim-")]
    bound = [p for p in of_gang if "nodeName" in p["spec"]]
    return f"{len(bound)} of 3 are bound" if 0 < len(bound) < 3 else ""


def _any_of_the_others(pods: Sequence[Object]) -> str:
    found = [name for n in range(3) for name in _on(pods, f"n{n}")]
    return f"{found} are bound" if found else ""


def _who_is_gone(pods: Sequence[Object]) -> str:
    there = [p["metadata"]["name"] for p in pods if "deletionTimestamp" not in p["metadata"]]
    left = [name for name in there if name.startswith("victim-")]
    return "" if len(left) == 3 else f"only {left} are left"


def _not_preemptable() -> Object:
    group = _group(3)
    group["metadata"]["annotations"] = {PREEMPTABLE: "false"}
    return group


_IMPORTANT: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "p9"},
    "value": 9,
}

_TRAINING = replicas("PyTorchJob", "victim", Worker=3)
_TRAINING_PATH = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/victim"
_STAYS = {PREEMPTABLE: "false"}
_JOB = an_owner(
    "Job",
    "victim",
    suspend=True,
    template={"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}},
).annotated(_STAYS)


def _on_a_node_each(pods: Sequence[PodBuilder]) -> list[PodBuilder]:
    return [pod.needs(cpu=3).on(f"n{n}") for n, pod in enumerate(pods)]


def _important(name: str) -> PodBuilder:
    return with_priority(9, a_pod(name).needs(cpu=4))[0]


#: With it there is room for two members of a gang only.
_BLOCKER = a_pod("blocker").needs(cpu=3).on("n2")

KEEPINGS = {
    "nodes of a Reservation": Keeping(
        "/apis/arranger.io/v1alpha1/reservations/victim",
        [_reservation()],
        [],
        lambda name: a_pod(name).needs(cpu=3),
        _more_on_n0_than(0),
    ),
    "a part of nodes of a Reservation": Keeping(
        "/apis/arranger.io/v1alpha1/reservations/victim",
        [_reservation(perNode={"cpu": "2"})],
        [],
        lambda name: a_pod(name).needs(cpu=2),
        _more_on_n0_than(1),
    ),
    "what the queue of a PodGroup uses": Keeping(
        _GROUPS,
        [a_queue_manifest("q", capability={"cpu": "2"}), _group(2, queue="q")],
        [a_pod(f"v{n}").needs(cpu=1).annotated(_GROUP).on("n0") for n in range(2)],
        lambda name: a_pod(name).needs(cpu=1).in_queue("q"),
        _any_of_the_others,
    ),
    "the minimum of a PodGroup": Keeping(
        _GROUPS,
        [_group(3)],
        [*(a_pod(f"victim-{n}").needs(cpu=3).annotated(_GROUP) for n in range(3)), _BLOCKER],
        lambda name: a_pod(name).needs(cpu=4),
        _half_a_gang,
    ),
    "that a PodGroup is not preemptable": Keeping(
        _GROUPS,
        [_IMPORTANT, a_queue_manifest("q"), _not_preemptable()],
        _on_a_node_each([a_pod(f"victim-{n}").annotated(_GROUP) for n in range(3)]),
        _important,
        _who_is_gone,
    ),
    "that an owner of a gang is not preemptable": Keeping(
        _TRAINING_PATH,
        [_IMPORTANT, a_queue_manifest("q"), _TRAINING.annotated(_STAYS).manifest()],
        _on_a_node_each(kubeflow_pods(_TRAINING, Worker=3)),
        _important,
        _who_is_gone,
    ),
    "that a Job is not preemptable": Keeping(
        "/apis/batch/v1/namespaces/default/jobs/victim",
        [_IMPORTANT, a_queue_manifest("q"), _JOB.manifest()],
        _on_a_node_each([owned(_JOB, str(n)) for n in range(3)]),
        _important,
        _who_is_gone,
    ),
    "the minimum of an owner": Keeping(
        _TRAINING_PATH,
        [_TRAINING.manifest()],
        [*(pod.needs(cpu=3) for pod in kubeflow_pods(_TRAINING, Worker=3)), _BLOCKER],
        lambda name: a_pod(name).needs(cpu=4),
        _half_a_gang,
    ),
    "what the queue of an owner uses": Keeping(
        _TRAINING_PATH,
        [
            a_queue_manifest("q", capability={"cpu": "2"}),
            _TRAINING.labelled({"scheduling.volcano.sh/queue-name": "q"}).manifest(),
        ],
        [pod.needs(cpu=1).on("n0") for pod in kubeflow_pods(_TRAINING, Worker=2)],
        lambda name: a_pod(name).needs(cpu=1).in_queue("q"),
        _any_of_the_others,
    ),
    "the minimum of a gang of annotations": Keeping(
        "/apis/arranger.io/v1alpha1/namespaces/default/gangs/victim",
        [
            {
                "apiVersion": "arranger.io/v1alpha1",
                "kind": "Gang",
                "metadata": {"name": "victim", "namespace": "default"},
                "spec": {},
            }
        ],
        [*(each.needs(cpu=3) for each in members("victim", 3)), _BLOCKER],
        lambda name: a_pod(name).needs(cpu=4),
        _half_a_gang,
    ),
}


class World:
    """Three nodes, what keeps something, and those who want it."""

    def __init__(self, keeping: Keeping) -> None:
        self.sim = SimulationHarness()
        self.sim.trace.expect_faults()
        self.sim.writes_per_pod = 120  # how often a pod is told is judged elsewhere
        self.keeping = keeping
        self.found = ""
        self._numbers = count()
        self._uid = ""

    async def run(self, fault: Fault | None) -> None:
        """Let it all happen with the fault inside, if given; then lift it and edit the object."""
        sim = self.sim
        for each in (*DEFINITIONS, definition_of("PyTorchJob")):
            sim.cluster.create(each)
        sim.create(*(a_node(f"n{n}").offers(cpu=4, pods=20) for n in range(3)))
        for each in self.keeping.objects:
            self._create(each)
        sim.create(*map(self._of_victim, self.keeping.first))
        async with AsyncExitStack() as schedulers:
            scheduler = await schedulers.enter_async_context(sim.scheduler())
            if fault is None:
                for step in range(5):
                    await self._happen(step)
                assert not self.found
                return
            with fault.injected():
                for step in range(STEPS):
                    await self._happen(step)
                    if step == KILLED:
                        sim.kill()
                        scheduler = await schedulers.enter_async_context(sim.scheduler("two"))
            change = {"metadata": {"labels": {"edited": "again"}}}
            sim.request("PATCH", self.keeping.path, change, MERGE)
            await asyncio.sleep(STEP)
            await sim.until(lambda: not scheduler.engine.barrier.quarantine, within=RECOVERED)
            scheduler.engine.check_consistent()
        assert not self.found

    def _create(self, manifest: Object) -> None:
        meta = {k: v for k, v in manifest["metadata"].items() if k != "uid"}
        made = self.sim.cluster.create({**manifest, "metadata": meta})
        if meta["name"] == "victim":
            self._uid = made["metadata"]["uid"]

    def _of_victim(self, pod: PodBuilder) -> PodBuilder:
        """A pod of an owner that the server has given its uid."""
        owners = pod.manifest()["metadata"].get("ownerReferences")
        if not owners:
            return pod
        return pod._set("metadata", ownerReferences=[{**owners[0], "uid": self._uid}])

    async def _happen(self, step: int) -> None:
        sim = self.sim
        sim.create(self.keeping.other(f"p{next(self._numbers)}"))
        if step % 4 == 3:
            change = {"metadata": {"labels": {"edited": str(step)}}}
            sim.request("PATCH", self.keeping.path, change, MERGE)
            sim.patch("node", "n0", {"metadata": {"labels": {"edited": str(step)}}})
        await asyncio.sleep(STEP)
        self.found = self.found or self.keeping.wrong(sim.cluster.objects("pods"))


@pytest.mark.parametrize("name", KEEPINGS)
async def test_what_it_keeps_stays_kept(name: str) -> None:
    with recorded("victim") as found:
        await World(KEEPINGS[name]).run(None)
    assert len(found) > 2, "the victim was hardly looked at"
    rng = random.Random(zlib.crc32(name.encode()))
    for callee, after, times in sample(found, rng, COUNT):
        await inject(name, Fault(callee, "victim", after, times))


#: Faults with which others took what was kept; after a restart pods were charged as they said
#: themselves, for the PodGroups had not been read yet.
FOUND = [
    ("nodes of a Reservation", "engine.context.pending_effects", "PendingEffects", "send"),
    ("nodes of a Reservation", "engine.reservations.entry", "", "read_entry"),
    ("a part of nodes of a Reservation", "cluster.object_store", "ObjectStore", "set"),
    ("what the queue of a PodGroup uses", "gangs.registry", "GangRegistry", "_reset_if_over"),
    ("what the queue of a PodGroup uses", "engine.handlers.initial_objects", "", "key_of"),
    ("what the queue of a PodGroup uses", "gangs.gang_object", "", "gang_path"),
    ("what the queue of a PodGroup uses", "gangs.gang", "Gang", "set_pod_group"),
    ("what the queue of a PodGroup uses", "gangs.registry", "GangRegistry", "_progress_of"),
    ("what the queue of a PodGroup uses", "quota.pod_annotations", "", "queue_named_by"),
    # After the core had begun anew its stand-in was taken for the PodGroup that was left out.
    ("what the queue of a PodGroup uses", "gangs.gang", "Gang", "_set_member_state"),
    # What stood for a pod that was set aside said no more that it was not to be evicted.
    ("that a PodGroup is not preemptable", "gangs.registry", "GangRegistry", "_get_or_create"),
    # What is left in our books of somebody who is set aside raised on, until the process ended.
    *(
        (name, module, owner, method)
        for name in ("the minimum of a PodGroup", "the minimum of a gang of annotations")
        for module, owner, method in (
            ("engine.context.deadlines", "DeadlineSet", "schedule"),
            ("engine.gang.state.gang_objects", "GangObjects", "_is_outdated"),
            ("engine.gang.state.gang_objects", "GangObjects", "_reconcile"),
            ("engine.gang.entities", "GangEntityIndex", "by_key"),
        )
    ),
    # So did what is about a gang of which none waits.
    ("what the queue of a PodGroup uses", "engine.context.deadlines", "DeadlineSet", "schedule"),
    (
        "that a PodGroup is not preemptable",
        "engine.gang.state.gang_objects",
        "GangObjects",
        "_is_outdated",
    ),
    # A queue that an owner names whose spec cannot be read was not closed.
    ("what the queue of an owner uses", "gangs.workloads.definitions", "", "owner_scope"),
    # Nor was it where it was known, and its pods could not be taken in.
    ("what the queue of an owner uses", "gangs.workloads.known_owner", "", "gang_name"),
    # After a fault about an edit an owner counted as if it said nothing.
    ("that an owner of a gang is not preemptable", "gangs.workloads.known_owner", "", "read_owner"),
    ("that a Job is not preemptable", "daemon.informer_handlers", "TimedHandler", "on_updated"),
]
#: The same of faults after the work.
FOUND_AFTER = [
    ("what the queue of a PodGroup uses", "gangs.registry", "GangRegistry", "_get_or_create"),
]
FAULTS = [(*each, False) for each in FOUND] + [(*each, True) for each in FOUND_AFTER]


@pytest.mark.parametrize(("name", "module", "owner", "method", "after"), FAULTS, ids=str)
async def test_so_it_does_where_it_did_not(
    name: str, module: str, owner: str, method: str, after: bool
) -> None:
    fault = Fault(Callee(f"arranger.{module}", owner, method), "victim", after)
    await inject(name, fault)
    assert fault.met


async def inject(name: str, fault: Fault) -> None:
    """Run the world of an object with a fault."""
    world = World(KEEPINGS[name])
    try:
        await world.run(fault)
    except BaseException as error:
        error.add_note(f"{name}: {fault}")
        raise
