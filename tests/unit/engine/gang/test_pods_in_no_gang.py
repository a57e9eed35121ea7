"""What the owner of a gang says of those of its pods that are in none."""

from __future__ import annotations

from typing import Final

import pytest

from arranger.api.annotations import CARD_NAME, PREEMPTABLE, SERVICE_TYPE
from tests.builders import PodBuilder, a_node, a_queue
from tests.builders.workloads import (
    WorkloadBuilder,
    a_job_set,
    an_owner,
    job_pods,
    job_set_pods,
    kubeflow_pods,
    replicas,
    spark_pods,
)
from tests.unit.engine.gang.workload_engine import WITH_JOBS, WorkloadEngine
from tests.unit.engine.harness import placements

QUEUE: Final = "scheduling.volcano.sh/queue-name"
OFF: Final = {"arranger.io/gang-by-owner": "false"}
EXCLUSIVE: Final = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
TRAIN = replicas("PyTorchJob", Worker=2)
JOB_SET = a_job_set(workers=(1, 2))
SPARK = an_owner("SparkApplication", executor={"instances": 2})
QUEUE_JOB = an_owner("Job", parallelism=2)

# sentence: owner, one of its pods that is in no gang
CASES: dict[str, tuple[WorkloadBuilder, PodBuilder]] = {
    "the driver of a SparkApplication": (SPARK, spark_pods(SPARK, 0)[0]),
    "a pod of a Job that works off a queue": (QUEUE_JOB, job_pods(QUEUE_JOB, 1)[0]),
    "a pod of a JobSet with a rack for each Job": (
        JOB_SET,
        job_set_pods(JOB_SET, "workers", 1, 2)[0].annotated(EXCLUSIVE),
    ),
    "a pod that switches gangs off": (TRAIN, kubeflow_pods(TRAIN, Worker=1)[0].annotated(OFF)),
    "a pod whose owner switches gangs off": (
        TRAIN.annotated(OFF),
        kubeflow_pods(TRAIN, Worker=1)[0],
    ),
}
each_case = pytest.mark.parametrize(("owner", "pod"), CASES.values(), ids=CASES)


@pytest.fixture
def known() -> WorkloadEngine:
    """A node of eight CPUs, a queue of one CPU, and one without limits."""
    engine = WorkloadEngine(WITH_JOBS)
    engine.observe(a_node("n").offers(cpu=8))
    engine.observe(a_queue("small", capability={"cpu": "1"}), a_queue("large"))
    engine.run()
    return engine


def used(known: WorkloadEngine, *queues: str) -> list[int]:
    known.run()
    return [known.engine.ledger.queues[name].used["cpu"] for name in queues]


@each_case
def test_it_is_of_the_queue_of_its_owner_while_it_waits(
    known: WorkloadEngine, owner: WorkloadBuilder, pod: PodBuilder
) -> None:
    known.see(owner.annotated({QUEUE: "small"}))
    known.observe(pod.needs(cpu=2))
    assert not placements(known.run())
    assert not known.engine.registry.gangs
    known.see(owner.annotated({QUEUE: "large"}))
    assert len(placements(known.run())) == 1
    assert used(known, "small", "large") == [0, 2000]


@each_case
def test_it_is_charged_anew_when_its_owner_names_another_queue(
    known: WorkloadEngine, owner: WorkloadBuilder, pod: PodBuilder
) -> None:
    known.see(owner.annotated({QUEUE: "large"}))
    known.observe(pod.needs(cpu=1).on("n"))
    assert used(known, "small", "large") == [0, 1000]
    known.see(owner.annotated({QUEUE: "small"}))
    assert used(known, "small", "large") == [1000, 0]
    known.see_gone(owner)
    assert used(known, "small", "large") == [0, 0]
    known.see(owner.annotated({QUEUE: "large"}))
    assert used(known, "small", "large") == [0, 1000]


@each_case
def test_it_makes_no_difference_that_the_owner_comes_last(
    known: WorkloadEngine, owner: WorkloadBuilder, pod: PodBuilder
) -> None:
    known.observe(pod.needs(cpu=1).on("n"))
    known.see(owner.annotated({QUEUE: "small"}))
    assert used(known, "small") == [1000]


@each_case
def test_its_own_word_goes_before_that_of_its_owner(
    known: WorkloadEngine, owner: WorkloadBuilder, pod: PodBuilder
) -> None:
    known.see(owner.annotated({QUEUE: "small", PREEMPTABLE: "false"}))
    known.observe(pod.needs(cpu=1).annotated({QUEUE: "large", PREEMPTABLE: "true"}).on("n"))
    assert used(known, "small", "large") == [0, 1000]
    charge = known.engine.ledger.charge_of(pod.build().metadata.uid)
    assert charge is not None
    assert charge.preemptable


@each_case
def test_what_its_owner_says_by_annotations_counts_and_edits_of_it_do(
    known: WorkloadEngine, owner: WorkloadBuilder, pod: PodBuilder
) -> None:
    known.see(owner.annotated({PREEMPTABLE: "false", SERVICE_TYPE: "inference"}))
    known.observe(pod.needs(cpu=1).on("n"))
    known.run()
    uid = pod.build().metadata.uid
    charge = known.engine.ledger.charge_of(uid)
    assert charge is not None
    assert (charge.preemptable, charge.service, charge.says_service) == (False, "inference", True)
    known.see(owner)
    known.run()
    charge = known.engine.ledger.charge_of(uid)
    assert charge is not None
    assert charge.preemptable
    assert charge.service != "inference"


@each_case
def test_the_card_that_its_owner_names_is_the_one_it_gets(
    known: WorkloadEngine, owner: WorkloadBuilder, pod: PodBuilder
) -> None:
    for name, card in (("a", "A100"), ("b", "B200")):
        labels = {"nvidia.com/gpu.product": card, "nvidia.com/gpu.count": "1"}
        known.observe(a_node(name).offers(cpu=8, **{"nvidia.com/gpu": 1}).labelled(labels))
    known.see(owner.annotated({CARD_NAME: "B200"}))
    known.observe(pod.needs(cpu=1, **{"nvidia.com/gpu": 1}))
    assert [node for _, node in placements(known.run())] == ["b"]


def test_pods_that_only_their_owners_tell_apart_are_not_judged_as_one(
    known: WorkloadEngine,
) -> None:
    for name, queue in (("one", "small"), ("two", "large"), ("three", "small")):
        owner = an_owner("SparkApplication", name).annotated({QUEUE: queue})
        known.see(owner)
        known.observe(spark_pods(owner, 0)[0].needs(cpu=2))
    known.run()
    assert used(known, "small", "large") == [0, 2000]


def test_a_pod_that_joins_a_gang_of_its_own_word_leaves_its_owners_queue(
    known: WorkloadEngine,
) -> None:
    owner, pod = CASES["the driver of a SparkApplication"]
    known.see(owner.annotated({QUEUE: "small"}))
    known.observe(pod.needs(cpu=1).on("n"))
    assert used(known, "small") == [1000]
    known.observe(pod.needs(cpu=1).on("n").in_gang("own", 1))
    assert used(known, "small") == [0]


def test_a_pod_that_says_who_owns_it_otherwise_is_of_the_other_ones_queue(
    known: WorkloadEngine,
) -> None:
    pods = []
    for name, queue in (("train", "small"), ("other", "large")):
        jobs = JOB_SET.manifest()["spec"]["replicatedJobs"]
        owner = an_owner("JobSet", name, replicatedJobs=jobs).annotated({QUEUE: queue})
        known.see(owner)
        pods.append(job_set_pods(owner, "workers", 1, 2)[0].annotated(EXCLUSIVE))
    first = pods[0].needs(cpu=1).on("n")
    known.observe(first)
    assert used(known, "small", "large") == [1000, 0]
    labels = pods[1].manifest()["metadata"]["labels"]
    known.observe(first.labelled(labels))
    assert used(known, "small", "large") == [0, 1000]
