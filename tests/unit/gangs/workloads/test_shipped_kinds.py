"""Each shipped kind, with owners and pods as their operators make them: which gangs they are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from arranger.api.types.workloads import Workload
from arranger.daemon.config.schema import Config
from arranger.gangs.workloads.index import WorkloadIndex
from tests.builders import PodBuilder
from tests.builders.workloads import (
    WorkloadBuilder,
    a_job_set,
    an_owner,
    job_pods,
    job_set_pods,
    kubeflow_pods,
    lws_pods,
    mpi_pods,
    owned,
    ray_pods,
    replicas,
    spark_pods,
)
from tests.odd_values import spoil

#: The shipped ones, and plain Jobs.
KINDS = Config.model_validate(
    {"gangs": {"workloads": [{"apiVersion": "batch/v1", "kind": "Job", "enabled": True}]}}
).workload_kinds()


@dataclass(frozen=True)
class Expected:
    """One gang: how many of the pods are in it, and what its owner says of it."""

    members: int
    minimum: int
    roles: dict[str, int] = field(default_factory=dict)
    queue: str = ""
    wait: int = 0


Case = tuple[WorkloadBuilder, Sequence[PodBuilder], dict[str, Expected]]

POLICY = {"minAvailable": 3, "queue": "research", "scheduleTimeoutSeconds": 90}


def with_policy(owner: WorkloadBuilder, **policy: object) -> WorkloadBuilder:
    return owner.with_spec(runPolicy={"schedulingPolicy": policy})


def a_ray_cluster(*groups: dict[str, object], **spec: object) -> WorkloadBuilder:
    return an_owner("RayCluster", headGroupSpec={}, workerGroupSpecs=list(groups), **spec)


def _depending(owner: WorkloadBuilder) -> WorkloadBuilder:
    jobs = owner.manifest()["spec"]["replicatedJobs"]
    jobs[1]["dependsOn"] = [{"name": jobs[0]["name"], "status": "Complete"}]
    return owner.with_spec(replicatedJobs=jobs)


PYTORCH = replicas("PyTorchJob", Master=1, Worker=3)
ELASTIC = replicas("PyTorchJob", Worker=4).with_spec(elasticPolicy={"minReplicas": 2})
MPI = replicas("MPIJob", Launcher=1, Worker=2)
WAITING_MPI = MPI.with_spec(launcherCreationPolicy="WaitForWorkersReady")
JOB_SET = a_job_set(driver=(1, 1), workers=(2, 3))
JOB_SET_PODS = [*job_set_pods(JOB_SET, "driver", 1, 1), *job_set_pods(JOB_SET, "workers", 2, 3)]
IN_ORDER = a_job_set(order="InOrder", driver=(1, 1), workers=(2, 3))
LWS = an_owner("LeaderWorkerSet", replicas=2, leaderWorkerTemplate={"size": 3})
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
RAY = a_ray_cluster({"groupName": "small", "replicas": 2, "minReplicas": 1, "maxReplicas": 5})
SPARK = an_owner("SparkApplication", executor={"instances": 4})

CASES: dict[str, Case] = {
    "a Job of three pods at once": (
        job := an_owner("Job", parallelism=3, completions=3, completionMode="Indexed"),
        job_pods(job, 3),
        {"job-train-a0000000": Expected(3, 3)},
    ),
    "a Job that runs three of its ten pods at once": (
        job := an_owner("Job", parallelism=3, completions=10),
        job_pods(job, 3),
        {"job-train-a0000000": Expected(3, 3)},
    ),
    "a Job of which all but one pod have succeeded needs that one": (
        job := an_owner("Job", parallelism=3, completions=3).with_status(succeeded=2),
        job_pods(job, 1),
        {"job-train-a0000000": Expected(1, 1)},
    ),
    "a Job that works off a queue needs no number of pods": (
        job := an_owner("Job", parallelism=3),
        job_pods(job, 3),
        {},
    ),
    "a PyTorchJob": (
        PYTORCH,
        kubeflow_pods(PYTORCH, Master=1, Worker=3),
        {"pytorchjob-train-a0000000": Expected(4, 4, {"master": 1, "worker": 3})},
    ),
    "replicas that are silent are one": (
        one := replicas("PyTorchJob", Master=None, Worker=1),
        kubeflow_pods(one, Master=1, Worker=1),
        {"pytorchjob-train-a0000000": Expected(2, 2, {"master": 1, "worker": 1})},
    ),
    "a PyTorchJob with a scheduling policy": (
        with_policy(PYTORCH, **POLICY),
        kubeflow_pods(PYTORCH, Master=1, Worker=3),
        {"pytorchjob-train-a0000000": Expected(4, 3, queue="research", wait=90)},
    ),
    "an elastic PyTorchJob": (
        ELASTIC,
        kubeflow_pods(ELASTIC, Worker=4),
        {"pytorchjob-train-a0000000": Expected(4, 2, {"worker": 2})},
    ),
    "a queue named by an annotation of the owner": (
        PYTORCH.annotated({"scheduling.volcano.sh/queue-name": "spare"}),
        kubeflow_pods(PYTORCH, Master=1),
        {"pytorchjob-train-a0000000": Expected(1, 4, {"master": 1, "worker": 3}, "spare")},
    ),
    "a minimum named by an annotation of the owner": (
        PYTORCH.annotated({"gang.scheduling.koordinator.sh/min-available": "2"}),
        kubeflow_pods(PYTORCH, Master=1, Worker=3),
        {"pytorchjob-train-a0000000": Expected(4, 0)},
    ),
    "a TFJob": (
        tf := replicas("TFJob", PS=2, Worker=3, Chief=1),
        kubeflow_pods(tf, PS=2, Worker=3, Chief=1),
        {"tfjob-train-a0000000": Expected(6, 6, {"ps": 2, "worker": 3, "chief": 1})},
    ),
    "an XGBoostJob": (
        xgb := replicas("XGBoostJob", Master=1, Worker=2),
        kubeflow_pods(xgb, Master=1, Worker=2),
        {"xgboostjob-train-a0000000": Expected(3, 3, {"master": 1, "worker": 2})},
    ),
    "a PaddleJob": (
        paddle := replicas("PaddleJob", Worker=2),
        kubeflow_pods(paddle, Worker=2),
        {"paddlejob-train-a0000000": Expected(2, 2, {"worker": 2})},
    ),
    "a JAXJob": (
        jax := replicas("JAXJob", Worker=2),
        kubeflow_pods(jax, Worker=2),
        {"jaxjob-train-a0000000": Expected(2, 2, {"worker": 2})},
    ),
    "an MPIJob, whose launcher is the pod of a Job": (
        MPI,
        mpi_pods(MPI, 2),
        {"mpijob-train-a0000000": Expected(3, 3, {"launcher": 1, "worker": 2})},
    ),
    "an MPIJob of the training operator": (
        MPI,
        kubeflow_pods(MPI, Launcher=1, Worker=2),
        {"mpijob-train-a0000000": Expected(3, 3, {"launcher": 1, "worker": 2})},
    ),
    "an MPIJob whose launcher is made when the workers run": (
        WAITING_MPI,
        mpi_pods(WAITING_MPI, 2, launchers=0),
        {"mpijob-train-a0000000": Expected(2, 2, {"worker": 2})},
    ),
    "the same with a minimum that counts the launcher": (
        waiting := with_policy(WAITING_MPI, minAvailable=3),
        mpi_pods(waiting, 2, launchers=0),
        {"mpijob-train-a0000000": Expected(2, 2)},
    ),
    "a JobSet is one gang": (
        JOB_SET,
        JOB_SET_PODS,
        {"jobset-train-0-a0000000": Expected(7, 7, {"driver": 1, "workers": 6})},
    ),
    "a JobSet begun anew is another gang": (
        JOB_SET,
        [*JOB_SET_PODS[:1], *job_set_pods(JOB_SET, "driver", 1, 1, attempt=1)],
        {
            "jobset-train-0-a0000000": Expected(1, 7, {"driver": 1, "workers": 6}),
            "jobset-train-1-a0000000": Expected(1, 7, {"driver": 1, "workers": 6}),
        },
    ),
    "a JobSet that starts in order is a gang for each of its Jobs": (
        IN_ORDER,
        JOB_SET_PODS,
        {
            "jobset-train-0-driver-a0000000": Expected(1, 1),
            "jobset-train-0-workers-a0000000": Expected(6, 6),
        },
    ),
    "so is one of which a Job depends on another": (
        depending := _depending(JOB_SET),
        JOB_SET_PODS,
        {
            "jobset-train-0-driver-a0000000": Expected(1, 1),
            "jobset-train-0-workers-a0000000": Expected(6, 6),
        },
    ),
    "pods of a JobSet with a topology of their own follow their Job's first pod": (
        JOB_SET.annotated(EXCLUSIVE),
        [pod.annotated(EXCLUSIVE) for pod in JOB_SET_PODS],
        {},
    ),
    "each group of a LeaderWorkerSet": (
        LWS,
        [*lws_pods(LWS, 0, 3), *lws_pods(LWS, 1, 3)],
        {
            "leaderworkerset-train-0-r1-a0000000": Expected(3, 3, {"leader": 1, "worker": 2}),
            "leaderworkerset-train-1-r1-a0000000": Expected(3, 3, {"leader": 1, "worker": 2}),
        },
    ),
    "groups of a LeaderWorkerSet that is being given another size": (
        LWS,
        [*lws_pods(LWS, 0, 2, revision="r0"), *lws_pods(LWS, 1, 3)],
        {
            "leaderworkerset-train-0-r0-a0000000": Expected(2, 2, {"leader": 1, "worker": 1}),
            "leaderworkerset-train-1-r1-a0000000": Expected(3, 3, {"leader": 1, "worker": 2}),
        },
    ),
    "a LeaderWorkerSet whose workers are made when the leader is ready": (
        LWS.with_spec(startupPolicy="LeaderReady"),
        lws_pods(LWS, 0, 3),
        {
            "leaderworkerset-train-0-r1-leader-a0000000": Expected(1, 1),
            "leaderworkerset-train-0-r1-worker-a0000000": Expected(2, 2),
        },
    ),
    "a LeaderWorkerSet whose workers are made when the leader has a node": (
        LWS.annotated({"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}),
        lws_pods(LWS, 0, 3),
        {
            "leaderworkerset-train-0-r1-leader-a0000000": Expected(1, 1),
            "leaderworkerset-train-0-r1-worker-a0000000": Expected(2, 2),
        },
    ),
    "a RayCluster": (
        RAY,
        ray_pods(RAY, small=2),
        {"raycluster-train-a0000000": Expected(3, 3, {"headgroup": 1, "small": 2})},
    ),
    "a RayCluster that scales itself": (
        RAY.with_spec(enableInTreeAutoscaling=True),
        ray_pods(RAY, small=2),
        {"raycluster-train-a0000000": Expected(3, 2, {"headgroup": 1, "small": 1})},
    ),
    "a RayCluster with a group of several hosts, and one that is suspended": (
        hosts := a_ray_cluster(
            {"groupName": "Big", "replicas": 2, "numOfHosts": 4},
            {"groupName": "off", "replicas": 3, "suspend": True},
        ).labelled({"volcano.sh/queue-name": "ray"}),
        ray_pods(hosts, Big=8),
        {"raycluster-train-a0000000": Expected(9, 9, {"headgroup": 1, "big": 8}, "ray")},
    ),
    "a SparkApplication: its driver goes first, and its executors together": (
        SPARK,
        spark_pods(SPARK, 4),
        {"sparkapplication-train-spark-train-a0000000": Expected(4, 4, {"executor": 4})},
    ),
    "a SparkApplication with more executors than its driver makes at once": (
        many := an_owner(
            "SparkApplication",
            executor={"instances": 30},
            sparkConf={"spark.kubernetes.allocation.batch.size": "12"},
            batchSchedulerOptions={"queue": "etl"},
        ),
        spark_pods(many, 12),
        {"sparkapplication-train-spark-train-a0000000": Expected(12, 12, {"executor": 12}, "etl")},
    ),
    "a SparkApplication that scales itself from none": (
        scaled := an_owner(
            "SparkApplication",
            executor={"instances": 4},
            dynamicAllocation={"enabled": True, "initialExecutors": 4},
        ),
        spark_pods(scaled, 4),
        {},
    ),
    "a Workflow, whose steps come one after another": (
        workflow := an_owner("Workflow"),
        [owned(workflow, "a", {"workflows.argoproj.io/workflow": "train"})],
        {},
    ),
    "a Workflow that says how many pods come at once": (
        asking := an_owner("Workflow").annotated(
            {"gang.scheduling.koordinator.sh/min-available": "4"}
        ),
        [owned(asking, str(n)) for n in range(4)],
        {"workflow-train-a0000000": Expected(4, 0)},
    ),
    "an owner that switches it off": (
        PYTORCH.annotated({"arranger.io/gang-by-owner": "false"}),
        kubeflow_pods(PYTORCH, Master=1, Worker=3),
        {},
    ),
    "pods that switch it off": (
        PYTORCH,
        [
            pod.annotated({"arranger.io/gang-by-owner": "false"})
            for pod in kubeflow_pods(PYTORCH, Master=1, Worker=3)
        ],
        {},
    ),
}


def an_index() -> WorkloadIndex:
    return WorkloadIndex(KINDS)


def take_in(index: WorkloadIndex, owner: WorkloadBuilder, built: Workload | None = None) -> None:
    kind = next(kind for kind in index.kinds if kind.kind == owner.kind)
    for pod in index.set_owner(kind, built or owner.build()):
        index.membership_of(pod)


def gangs_of(index: WorkloadIndex, pods: Sequence[PodBuilder]) -> dict[str, Expected]:
    members: dict[str, int] = {}
    for pod in pods:
        if (found := index.membership_of(pod.build())) is not None:
            members[found.gang] = members.get(found.gang, 0) + 1
    index.check_consistent()
    result = {}
    for gang, count in members.items():
        group = index.group_of(gang)
        assert group is not None, f"nothing is known of {gang}"
        spec = group.spec
        result[gang.removeprefix("default/")] = Expected(
            count,
            spec.min_member or 0,
            dict(spec.min_task_member),
            spec.queue,
            spec.schedule_timeout_seconds or 0,
        )
    return result


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_gangs_of_an_owner(case: Case) -> None:
    owner, pods, expected = case
    index = an_index()
    take_in(index, owner)
    assert gangs_of(index, pods) == expected
    for pod in pods:
        index.forget_pod(pod.build().metadata.uid)
    index.check_consistent()
    assert len(index) == 0, "something is kept of pods that are gone"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_it_makes_no_difference_that_the_owner_comes_last(case: Case) -> None:
    owner, pods, expected = case
    index = an_index()
    for pod in pods:
        index.membership_of(pod.build())
    take_in(index, owner)
    index.check_consistent()
    assert gangs_of(index, pods) == expected


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_no_owner_however_odd_ends_anything(case: Case) -> None:
    owner, pods, _ = case
    rng = random.Random(owner.kind)
    for _ in range(40):
        manifest = owner.manifest()
        odd = WorkloadBuilder({**manifest, "spec": spoil(manifest["spec"], rng)})
        index = an_index()
        take_in(index, owner, odd.build())
        for pod in pods:
            index.membership_of(pod.build())
            index.problems_of(pod.build().metadata.uid)
        index.check_consistent()
