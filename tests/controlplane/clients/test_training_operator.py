"""Jobs of Kubeflow's training-operator run as gangs, whichever way the operator tells of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane.admin import until
from tests.controlplane.clients.training_operator import required, training_operator
from tests.controlplane.cluster import ClusterHarness
from tests.controlplane.harness import a_node, a_pod

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("controlplane"),
]

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
KUBEFLOW = "/apis/kubeflow.org/v1/namespaces/default"
COMMUNITY = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
KINDS = ("pytorchjobs", "mpijobs", "tfjobs", "xgboostjobs", "paddlejobs")
ROLE = "training.kubeflow.org/replica-type"
JOB = "training.kubeflow.org/job-name"


@dataclass(frozen=True)
class Way:
    """How the operator is told who schedules its jobs.

    Attributes:
        scheduler: whom pods are for.
        flags: of the operator.
        groups: where it makes PodGroups; "" if it makes none, and pods say themselves who
            schedules them.
    """

    scheduler: str
    flags: tuple[str, ...]
    groups: str


WAYS = {
    "PodGroups of scheduler-plugins": Way(
        "arranger", ("--gang-scheduler-name=arranger",), COMMUNITY
    ),
    "PodGroups of Volcano": Way("volcano", ("--gang-scheduler-name=volcano",), VOLCANO),
    "no PodGroups": Way("arranger", (), ""),
}


@dataclass
class KubeflowHarness(ClusterHarness):
    """A cluster with the operator, without nodes."""

    way: Way = WAYS["no PodGroups"]

    async def add_node(self, name: str, cpu: int) -> None:
        node = a_node(name, cpu=str(cpu))
        for offered in (node["status"]["capacity"], node["status"]["allocatable"]):
            offered["ephemeral-storage"] = "100Gi"
        await self.plane.post("/api/v1/nodes", node)

    async def create(self, job: Object) -> None:
        if not self.way.groups:
            for role in _roles(job).values():
                role["template"]["spec"]["schedulerName"] = self.way.scheduler
        await self.plane.post(f"{KUBEFLOW}/{job['kind'].lower()}s", job)

    async def pods(self, job: str) -> list[Object]:
        found = await self.plane.get(f"{PODS}?labelSelector={JOB}={job}")
        return list(found["items"])

    async def running(self, job: str) -> dict[str, int]:
        """Role → how many pods of a job run."""
        pods = [p for p in await self.pods(job) if p["status"]["phase"] == "Running"]
        return dict(Counter(pod["metadata"]["labels"][ROLE] for pod in pods if not _leaves(pod)))

    async def until_running(self, job: str, **roles: int) -> None:
        """Until so many pods of each role run and no others."""
        found: dict[str, int] = {}

        async def reached() -> bool:
            self.assert_alive()
            found.clear()
            found.update(await self.running(job))
            return found == roles

        try:
            await until(reached)
        except TimeoutError:
            raise AssertionError(f"{job} runs {found}\n{await self._told()}") from None

    async def until_waiting(self, job: Object, *why: str, pods: int = 0) -> None:
        """Until all pods of a job say why their gang waits, or so many of them by themselves."""
        name, kind = job["metadata"]["name"], job["kind"].lower()
        count = pods or sum(role["replicas"] for role in _roles(job).values())
        gang = f"gang default/{name}: " if self.way.groups else f"gang default/{kind}-{name}-"
        told: list[str] = []

        async def reached() -> bool:
            self.assert_alive()
            told[:] = [_why(p) for p in await self.pods(name) if "nodeName" not in p["spec"]]
            whole = pods or all(gang in each for each in told)
            return bool(
                len(told) == count and whole and all(w in each for w in why for each in told)
            )

        try:
            await until(reached)
        except TimeoutError:
            raise AssertionError(f"{name} waits: {told}\n{await self._told()}") from None

    async def until_condition(self, kind: str, name: str, condition: str) -> None:
        """Until the operator says something of a job."""

        async def reached() -> bool:
            job = await self.plane.get(f"{KUBEFLOW}/{kind}/{name}")
            conditions = (job.get("status") or {}).get("conditions") or []
            return any((c["type"], c["status"]) == (condition, "True") for c in conditions)

        await until(reached, what=f"{condition} of {name}")

    async def end(self, job: str, role: str) -> None:
        """The containers of the pods of a role end well."""
        for pod in await self.pods(job):
            if pod["metadata"]["labels"][ROLE] == role:
                change = {"metadata": {"annotations": {"arranger.io/run-seconds": "0"}}}
                await self.plane.merge(f"{PODS}/{pod['metadata']['name']}", change)

    async def groups(self) -> dict[str, int]:
        """PodGroup → its minimum."""
        if not self.way.groups:
            return {}
        items = (await self.plane.get(self.way.groups))["items"]
        return {each["metadata"]["name"]: each["spec"]["minMember"] for each in items}

    async def has_groups(self, **expected: int) -> bool:
        """Whether there are these PodGroups and no others, or none if none are made."""
        return await self.groups() == (expected if self.way.groups else {})

    async def clear(self) -> None:
        """Take away all jobs and nodes; what the scheduler holds must go with them."""
        for kind in KINDS:
            await self.plane.request("DELETE", f"{KUBEFLOW}/{kind}")
        await self.plane.request("DELETE", f"{PODS}/beside")

        async def gone() -> bool:
            return not (await self.plane.get(PODS))["items"] and not await self.groups()

        try:
            await until(gone, what="the end of all pods and PodGroups")
        finally:
            await self.plane.request("DELETE", "/api/v1/nodes")
        held = await self.scheduler.examined()
        assert (held["placed"], held["gangs"], held["nominations"]) == (0, 0, 0), held

    async def _told(self) -> str:
        operator = (self.plane.folder / "training-operator.log").read_text()[-4000:]
        pods = [[p["metadata"]["name"], _why(p)] for p in (await self.plane.get(PODS))["items"]]
        return f"{pods}\n{self.log_lines()[-4000:]}\n{operator}"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=WAYS.values(), ids=WAYS.keys())
async def at_work(request: pytest.FixtureRequest) -> AsyncIterator[KubeflowHarness]:
    required()
    way: Way = request.param
    config: dict[str, object] = {"profiles": [{"schedulerName": way.scheduler}]}
    async with KubeflowHarness.start([], served=[COMMUNITY, VOLCANO], config=config) as harness:
        harness.way = way
        classes = {"high": 1000, "low": 10}
        for name, value in classes.items():
            head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            await harness.plane.apply([{**head, "metadata": {"name": name}, "value": value}])
        async with training_operator(harness.plane, *way.flags):
            yield harness


@pytest_asyncio.fixture(loop_scope="module")
async def harness(at_work: KubeflowHarness) -> AsyncIterator[KubeflowHarness]:
    """Without jobs before and after, and with no node for them.

    The operator says in PodGroups what its jobs need at least. The cluster as a whole has that, so
    that it is the room on nodes that they wait for.
    """
    taint = {"key": "other", "effect": "NoSchedule"}
    await at_work.plane.post(
        "/api/v1/nodes", a_node("others", cpu="64") | {"spec": {"taints": [taint]}}
    )
    yield at_work
    await at_work.clear()


async def test_a_job_runs_whole_to_its_end_and_the_next_waits_whole_for_its_room(
    harness: KubeflowHarness,
) -> None:
    await harness.add_node("n1", cpu=7)
    await harness.create(a_pytorch_job("first", workers=3))
    await harness.until_running("first", master=1, worker=3)
    await harness.until_condition("pytorchjobs", "first", "Running")
    second = a_pytorch_job("second", workers=3)
    await harness.create(second)
    await harness.until_waiting(second, "4 of 4 arrived", "3 placeable")
    assert await harness.has_groups(first=4, second=4)

    await harness.end("first", "master")
    await harness.until_condition("pytorchjobs", "first", "Succeeded")
    await harness.until_running("second", master=1, worker=3)
    await harness.until_running("first")

    await until(lambda: harness.has_groups(second=4), what="the end of the first job's PodGroup")
    # Three of the node's CPUs are free and no more.
    await harness.plane.post(PODS, a_pod("beside", cpu="3", scheduler=harness.way.scheduler))
    await until(lambda: _is_bound(harness, "beside"), what="the pod beside the second job")


async def test_a_minimum_that_is_less_than_the_whole_is_enough(harness: KubeflowHarness) -> None:
    await harness.add_node("n1", cpu=1)
    job = a_pytorch_job("elastic", workers=3, minimum=2)
    await harness.create(job)
    await harness.until_waiting(job, "0/2 nodes are available")
    assert await harness.has_groups(elastic=2)
    await harness.add_node("n2", cpu=2)

    async def three_run() -> bool:
        return sum((await harness.running("elastic")).values()) == 3

    await until(three_run, what="three of four pods")
    await harness.until_waiting(job, "0/3 nodes are available", pods=1)


async def test_the_launcher_of_an_mpi_job_waits_for_its_workers(harness: KubeflowHarness) -> None:
    await harness.add_node("n1", cpu=2)
    job = a_mpi_job("mpi", workers=2)
    await harness.create(job)
    await harness.until_waiting(job, "3 of 3 arrived", "2 placeable")
    assert await harness.has_groups(mpi=3)
    await harness.add_node("n2", cpu=1)
    await harness.until_running("mpi", launcher=1, worker=2)
    await harness.until_condition("mpijobs", "mpi", "Running")
    await harness.end("mpi", "launcher")
    await harness.until_condition("mpijobs", "mpi", "Succeeded")
    await harness.until_running("mpi")


async def test_jobs_of_other_frameworks_start_whole_too(harness: KubeflowHarness) -> None:
    await harness.add_node("n1", cpu=2)
    two_roles = {"Master": 1, "Worker": 2}
    jobs = [
        _job("TFJob", "tf", "tensorflow", {"PS": 1, "Worker": 2}),
        _job("XGBoostJob", "xgb", "xgboost", two_roles),
        _job("PaddleJob", "paddle", "paddle", two_roles),
    ]
    for job in jobs:
        await harness.create(job)
    for job in jobs:
        await harness.until_waiting(job, "3 of 3 arrived", "2 placeable")
    assert await harness.has_groups(tf=3, xgb=3, paddle=3)
    await harness.add_node("n2", cpu=7)
    await harness.until_running("tf", ps=1, worker=2)
    for name in ("xgb", "paddle"):
        await harness.until_running(name, master=1, worker=2)


async def test_a_job_that_is_preempted_comes_back_whole(harness: KubeflowHarness) -> None:
    await harness.add_node("n1", cpu=4)
    low = a_pytorch_job("low", workers=3, priority="low")
    await harness.create(low)
    await harness.until_running("low", master=1, worker=3)
    await harness.create(a_pytorch_job("high", workers=1, priority="high"))
    await harness.until_running("high", master=1, worker=1)
    # The operator has made its pods anew; two of them would fit, and the gang does not.
    await harness.until_waiting(low, "4 of 4 arrived", "2 placeable")
    await harness.end("high", "master")
    await harness.until_condition("pytorchjobs", "high", "Succeeded")
    await harness.until_running("low", master=1, worker=3)
    await harness.until_condition("pytorchjobs", "low", "Running")


def a_pytorch_job(
    name: str, *, workers: int, minimum: int | None = None, priority: str = ""
) -> Object:
    """A master and workers, each of one CPU."""
    job = _job("PyTorchJob", name, "pytorch", {"Master": 1, "Worker": workers}, priority)
    if minimum is not None:
        job["spec"]["runPolicy"]["schedulingPolicy"] = {"minAvailable": minimum}
    return job


def a_mpi_job(name: str, *, workers: int) -> Object:
    """A launcher and workers, each of one CPU."""
    return _job("MPIJob", name, "mpi", {"Launcher": 1, "Worker": workers})


#: Container → the prefix of the field that has the roles, where it is another.
PREFIXES = {"tensorflow": "tf", "xgboost": "xgb"}


def _job(kind: str, name: str, container: str, roles: dict[str, int], priority: str = "") -> Object:
    asked = {"requests": {"cpu": "1", "memory": "64Mi"}}
    pod = {"containers": [{"name": container, "image": "x", "resources": asked}]}
    template = {"spec": pod | ({"priorityClassName": priority} if priority else {})}
    specs = {
        role: {"replicas": count, "template": deepcopy(template)} for role, count in roles.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            f"{PREFIXES.get(container, container)}ReplicaSpecs": specs,
            "runPolicy": {"cleanPodPolicy": "Running"},
        },
    }


def _roles(job: Object) -> Object:
    """Role → how many pods it has, and what they are made from."""
    (field,) = (name for name in job["spec"] if name.endswith("ReplicaSpecs"))
    return dict(job["spec"][field])


async def _is_bound(harness: KubeflowHarness, pod: str) -> bool:
    return "nodeName" in (await harness.plane.get(f"{PODS}/{pod}"))["spec"]


def _why(pod: Object) -> str:
    conditions = pod["status"].get("conditions") or []
    return " ".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")


def _leaves(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]
