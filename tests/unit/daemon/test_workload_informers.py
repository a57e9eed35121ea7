"""Owners whose pods are gangs: each resource is read once, and heard by all whom it concerns."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from arranger.daemon.config.schema import Config
from arranger.daemon.informers import Informers
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.kube.client.metrics import NULL_METRICS
from arranger.kube.client.problems import IGNORE_PROBLEMS
from arranger.plugins import default_profile
from tests.builders import a_node, a_queue
from tests.builders.workloads import an_owner, job_pods
from tests.unit.engine.harness import EngineHarness

CONFIG = Config.model_validate(
    {"gangs": {"workloads": [{"apiVersion": "batch/v1", "kind": "Job", "enabled": True}]}}
)
SERVICE = {"volcano.sh/service.type": "inference"}


def an_engine() -> tuple[EngineHarness, Informers]:
    harness = EngineHarness(default_profile(), workloads=CONFIG.workload_kinds())
    informers = Informers(
        harness.engine, lambda: harness.now, lambda: None, CONFIG.queues.owner_resources
    )
    return harness, informers


async def test_a_resource_that_tells_of_gangs_and_of_queues_is_read_once() -> None:
    _, informers = an_engine()
    reflectors = informers.reflectors(
        InProcessTransport(EmbeddedCluster()),
        rng=random.Random(1),
        metrics=NULL_METRICS,
        problems=IGNORE_PROBLEMS,
    )
    read = Counter(reflector.path for reflector in reflectors)
    assert set(read.values()) == {1}
    (jobs,) = [each for each in reflectors if each.path == "/apis/batch/v1/jobs"]
    assert not jobs.metadata_only
    (workflows,) = [each for each in reflectors if each.path.endswith("/workflows")]
    assert workflows.metadata_only, "nothing else of it is looked at"
    await asyncio.sleep(0)


def test_what_a_job_says_by_annotations_counts_for_its_pods_as_before() -> None:
    harness, informers = an_engine()
    job = an_owner("Job", parallelism=2, completions=2).annotated(SERVICE)
    (sink,) = [each for each in informers._workloads if each.kind.kind == "Job"]
    sink.replaced([job.build()], "1")
    assert sink.informer.synced
    harness.observe(a_queue("q"), a_node("n"), *job_pods(job, 2))
    harness.run()
    ledger, cluster = harness.engine.ledger, harness.engine.cluster
    services = [ledger.service_of(pod)[0] for pod, _ in cluster.placed_pods()]
    assert services == ["inference"] * 2
    assert harness.engine.registry.gangs.keys() == {"default/job-train-a0000000"}


def test_what_has_not_been_read_yet_is_named() -> None:
    _, informers = an_engine()
    before = informers.unread
    assert any("pytorchjobs" in each for each in before)
    for sink in informers._workloads:
        sink.replaced([], "1")
    assert not any("pytorchjobs" in each for each in informers.unread)
    assert informers.unread, "nor are pods and nodes"
