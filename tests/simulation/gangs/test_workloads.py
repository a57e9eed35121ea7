"""Pods that are gangs because of their owner: any order, edits, restarts, and stages."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.builders import PodBuilder, a_node, a_pod
from tests.builders.workloads import (
    WorkloadBuilder,
    an_owner,
    job_set_pods,
    kubeflow_pods,
    lws_pods,
    mpi_pods,
    replicas,
    spark_pods,
)
from tests.faults.injector import BINDINGS, WRITES, RequestMatcher, from_user
from tests.faults.kinds import DropConnection, Reply
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.harnesses.workloads import WorkloadHarness

pytestmark = VIRTUAL_TIME

TRAIN = replicas("PyTorchJob", Master=1, Worker=3)
PODS = kubeflow_pods(TRAIN, Master=1, Worker=3)
#: Seconds within which a kind is found that is served now, and not found that is not.
ASKED_AGAIN = 35.0


@pytest.fixture
def sim() -> Iterator[WorkloadHarness]:
    sim = WorkloadHarness()
    sim.define("PyTorchJob", "JobSet", "LeaderWorkerSet", "MPIJob", "SparkApplication")
    yield sim
    sim.check()


def room(sim: WorkloadHarness, name: str, cpus: int) -> None:
    sim.create(a_node(name).offers(cpu=cpus))


@asynccontextmanager
async def training(sim: WorkloadHarness, *, cpus: int) -> AsyncIterator[None]:
    """The job and its four pods are there, one node, and a scheduler at work."""
    room(sim, "n0", cpus)
    async with sim.scheduler():
        sim.submit(TRAIN)
        sim.make(PODS)
        yield


async def test_all_go_or_none_and_nothing_is_written_for_that(sim: WorkloadHarness) -> None:
    async with training(sim, cpus=3):
        await asyncio.sleep(60)
        assert sim.bound() == 0
        assert "gang default/pytorchjob-train-" in sim.message("train-master-0")
        room(sim, "n1", 1)
        await sim.until_settled(4)
    about = {call.request.path.split("/")[-2] for call in sim.faults.applied(WRITES)}
    assert "podgroups" not in about


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_owner_pods_and_nodes_may_come_in_any_order(
    order: tuple[int, ...], sim: WorkloadHarness
) -> None:
    steps: list[Callable[[], None]] = [
        lambda: sim.submit(TRAIN),
        lambda: sim.make(PODS),
        lambda: room(sim, "n0", 4),
    ]
    if order.index(1) < order.index(0):
        # The server deletes pods whose owner it does not know: the scheduler hears of it later.
        late = RequestMatcher(lambda call: call.path.endswith("/pytorchjobs"))
        steps[0], steps[1] = lambda: None, lambda: (sim.submit(TRAIN), sim.make(PODS))[0]
        sim.faults.inject(late, DropConnection.BEFORE, times=3)
    async with sim.scheduler():
        for step in order:
            steps[step]()
            await asyncio.sleep(20)
        await sim.until_settled(4)


async def test_a_pod_whose_owner_is_not_read_yet_waits_and_says_so(sim: WorkloadHarness) -> None:
    room(sim, "n0", 8)
    stale = TRAIN.with_uid("99999999-0000-4000-8000-000000000000")
    async with sim.scheduler():
        sim.submit(TRAIN)
        sim.submit(an_owner("PyTorchJob", "other").with_uid(stale.uid))
        # It names "train" with the uid of another: of an owner that has not been seen.
        sim.make(kubeflow_pods(stale, Worker=1))
        await asyncio.sleep(60)
        assert sim.bound() == 0
        assert "its owner PyTorchJob train has not been read" in sim.message("train-worker-0")


# --- stages ----------------------------------------------------------------------------------

IN_ORDER = an_owner(
    "JobSet",
    startupPolicy={"startupPolicyOrder": "InOrder"},
    replicatedJobs=[
        {"name": "driver", "replicas": 1, "template": {"spec": {"parallelism": 1}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 2}}},
    ],
)
LEADER_READY = an_owner(
    "LeaderWorkerSet", startupPolicy="LeaderReady", leaderWorkerTemplate={"size": 4}
)
MPI = replicas("MPIJob", Launcher=1, Worker=4).with_spec(
    launcherCreationPolicy="WaitForWorkersReady"
)
SPARK = an_owner("SparkApplication", executor={"instances": 4})
LWS = lws_pods(LEADER_READY, 0, 4)
MPI_PODS = mpi_pods(MPI, 4)
SPARK_PODS = spark_pods(SPARK, 4)

#: The owner, and its pods in the stages in which they are made: each when the last one runs.
STAGED: dict[str, tuple[WorkloadBuilder, Sequence[Sequence[PodBuilder]]]] = {
    "a JobSet in order": (
        IN_ORDER,
        [job_set_pods(IN_ORDER, "driver", 1, 1), job_set_pods(IN_ORDER, "workers", 2, 2)],
    ),
    "workers that wait for their leader": (LEADER_READY, [LWS[:1], LWS[1:]]),
    "a launcher that waits for its workers": (MPI, [MPI_PODS[1:], MPI_PODS[:1]]),
    "a driver that makes its executors": (SPARK, [SPARK_PODS[:1], SPARK_PODS[1:]]),
}


@pytest.mark.parametrize(("owner", "stages"), STAGED.values(), ids=STAGED.keys())
async def test_no_stage_waits_for_a_later_one_and_each_is_whole(
    owner: WorkloadBuilder, stages: Sequence[Sequence[PodBuilder]], sim: WorkloadHarness
) -> None:
    async with sim.scheduler():
        sim.submit(owner)
        before = 0
        for number, stage in enumerate(stages):
            sim.make(stage)
            await asyncio.sleep(20)
            assert sim.bound() == before, "there is no room yet"
            if len(stage) > 1:
                room(sim, f"less-{number}", len(stage) - 1)
                await asyncio.sleep(20)
                assert sim.bound() == before, "there is room for a part only"
            room(sim, f"rest-{number}", 1)
            before += len(stage)
            await sim.until_settled(before)


# --- edits -----------------------------------------------------------------------------------


async def test_a_minimum_that_is_edited_while_pods_wait_counts(sim: WorkloadHarness) -> None:
    async with training(sim, cpus=3):
        await asyncio.sleep(30)
        assert sim.bound() == 0
        sim.edit(TRAIN, runPolicy={"schedulingPolicy": {"minAvailable": 3}})
        await sim.until(lambda: sim.bound() == 3)


async def test_an_owner_that_switches_it_off_lets_its_pods_go_by_themselves(
    sim: WorkloadHarness,
) -> None:
    async with training(sim, cpus=3):
        await asyncio.sleep(30)
        off = {"metadata": {"annotations": {"arranger.io/gang-by-owner": "false"}}}
        sim.request("PATCH", sim._path(TRAIN), off, "application/merge-patch+json")
        await sim.until(lambda: sim.bound() == 3)


async def test_one_that_is_replaced_goes_by_itself_and_the_whole_comes_back_whole(
    sim: WorkloadHarness,
) -> None:
    async with training(sim, cpus=4):
        await sim.until_settled(4)
        sim.delete("pod", "train-worker-2")
        sim.make(PODS[3:])
        await sim.until_settled(4)
        for pod in PODS:
            sim.delete("pod", pod.manifest()["metadata"]["name"])
        sim.make(PODS[:3])
        await asyncio.sleep(60)
        assert sim.bound() == 0
        sim.make(PODS[3:])
        await sim.until_settled(4)


async def test_its_gang_object_is_made_and_goes_with_its_last_pod(sim: WorkloadHarness) -> None:
    async with training(sim, cpus=4):
        await sim.until_settled(4)
        await asyncio.sleep(10)
        (gang,) = sim.cluster.objects("gangs", "arranger.io")
        assert gang["spec"]["source"] == "workload"
        assert gang["status"]["resourceSatisfied"] is True
        sim.request("DELETE", sim._path(TRAIN))
        for pod in sim.cluster.objects("pods"):
            sim.delete("pod", pod["metadata"]["name"])
        await sim.until(lambda: not sim.cluster.objects("gangs", "arranger.io"))


# --- restarts --------------------------------------------------------------------------------


@pytest.mark.parametrize("writes", range(6))
async def test_a_scheduler_that_dies_between_two_bindings_leaves_no_half_of_it(
    writes: int, sim: WorkloadHarness
) -> None:
    room(sim, "n0", 4)
    sim.max_bind_seconds = sim.trace.premises.bind_seconds = 60.0
    async with sim.scheduler():
        sim.submit(TRAIN)
        sim.faults.inject(BINDINGS & from_user("one"), DropConnection.BEFORE, skip=writes)
        sim.make(PODS)
        await asyncio.sleep(1)
        sim.kill()
        async with sim.scheduler("two"):
            await sim.until_settled(4)


async def test_after_a_restart_a_member_is_replaced_by_itself(sim: WorkloadHarness) -> None:
    async with training(sim, cpus=4):
        await sim.until_settled(4)
        await asyncio.sleep(10)
        sim.kill()
    sim.delete("pod", "train-worker-2")
    async with sim.scheduler("two"):
        sim.make(PODS[3:])
        await sim.until_settled(4)


# --- kinds that are served later -------------------------------------------------------------


async def test_pods_of_a_kind_that_is_not_served_go_by_themselves_once_that_is_sure() -> None:
    sim = WorkloadHarness()
    sim.define("JobSet")
    room(sim, "n0", 4)
    owner = an_owner("JobSet", "odd")
    async with sim.scheduler():
        sim.submit(owner)
        await asyncio.sleep(5)
        stray = kubeflow_pods(TRAIN.with_uid(owner.uid), Worker=2)
        sim.make(stray)
        await asyncio.sleep(1)
        assert sim.bound() == 0, "it may be served since we asked"
        await sim.until_settled(2, within=ASKED_AGAIN)
    sim.check()


async def test_a_kind_that_is_served_later_makes_a_gang_of_what_waits() -> None:
    sim = WorkloadHarness()
    room(sim, "n0", 3)
    async with sim.scheduler():
        await asyncio.sleep(5)
        sim.define("PyTorchJob")
        sim.submit(TRAIN)
        sim.make(PODS)
        await asyncio.sleep(2 * ASKED_AGAIN)
        assert sim.bound() == 0
        room(sim, "n1", 1)
        await sim.until_settled(4)
    sim.check()


# --- what nobody meant -----------------------------------------------------------------------


async def test_an_owner_that_makes_no_sense_is_told_so_and_the_rest_goes_on(
    sim: WorkloadHarness,
) -> None:
    room(sim, "n0", 8)
    odd = replicas("PyTorchJob", "odd", Master=1, Worker=2)
    specs = odd.manifest()["spec"]["pytorchReplicaSpecs"]
    specs["Worker"]["replicas"] = 10**12
    async with sim.scheduler():
        sim.submit(odd.with_spec(pytorchReplicaSpecs=specs))
        sim.make(kubeflow_pods(odd, Master=1, Worker=2))
        sim.submit(TRAIN)
        sim.make(PODS)
        await sim.until_settled(7)
        (note,) = sim.event_notes("odd", "InvalidGang")
        assert note == "Ignored: minimum of role worker: the number is larger than 1000000000"


async def test_without_the_right_to_read_a_kind_only_its_pods_wait(sim: WorkloadHarness) -> None:
    room(sim, "n0", 5)
    forbidden = RequestMatcher(lambda call: call.path.endswith("/pytorchjobs"))
    sim.faults.inject(forbidden, Reply(403, "Forbidden"))
    async with sim.scheduler():
        sim.submit(TRAIN)
        sim.make([*PODS, a_pod("lone").needs(cpu=1)])
        await asyncio.sleep(60)
        assert sim.node_of("lone") == "n0"
        assert "has not been read" in sim.message("train-master-0")
        sim.faults.clear()
        await sim.until_settled(5)


#: What an owner may say of its gang that cannot be read: it counts as absent.
UNREADABLE = {
    "a minimum": {"gang.scheduling.koordinator.sh/min-available": "all"},
    "a mode": {"gang.scheduling.koordinator.sh/mode": "Stricct"},
    "a wait time": {"gang.scheduling.koordinator.sh/waiting-time": "ten minutes"},
    "a topology": {"arranger.io/topology": "zone"},
}


@pytest.mark.parametrize("said", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("first", ["owner", "pods"])
async def test_what_cannot_be_read_of_an_owner_is_told_and_its_pods_stay_a_gang(
    sim: WorkloadHarness, said: dict[str, str], first: str
) -> None:
    sim.create(a_node("n").offers(cpu=3))
    async with sim.scheduler():
        sim.submit(TRAIN.annotated(said))
        if first == "owner":
            await asyncio.sleep(5)
        sim.make(PODS)
        await asyncio.sleep(30)
        assert sim.bound() == 0
        assert len(sim.event_notes("train", "InvalidGang")) == 1
