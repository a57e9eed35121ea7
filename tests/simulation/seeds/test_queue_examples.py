"""The examples of the design of queues do what is said of them, with the controllers of Jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from arranger.daemon.config.schema import Config, LeaderElectionConfig
from tests.builders import PodBuilder, a_pod
from tests.queueing import GPU, gpu_node
from tests.simulation.harnesses.jobs import JobHarness
from tests.simulation.harnesses.simulation import VIRTUAL_TIME
from tests.simulation.seeds.documents import Object, corrected, documents

pytestmark = VIRTUAL_TIME

LEASE = LeaderElectionConfig(resource_namespace="kube-system")


def scheduler_config() -> Config:
    """Our configuration of what Volcano's says: the plugin's arguments are ours by name.

    ``reclaim`` without ``preempt`` among the actions is ``preemptWithinQueue: false``; that of the
    plugins only capacity-card has reclaimable tasks is how it is here.
    """
    (volcano,) = documents("scheduler")
    plugins = [plugin for tier in volcano["tiers"] for plugin in tier["plugins"]]
    (card,) = [plugin for plugin in plugins if plugin["name"] == "capacity-card"]
    actions = volcano["actions"].split(", ")
    queues = {**card["arguments"], "preemptWithinQueue": "preempt" in actions}
    return Config.model_validate({"queues": queues, "leaderElection": LEASE})


@pytest.fixture
def sim() -> Iterator[JobHarness]:
    """The queues and priorities of the examples, and a node of eight cards."""
    sim = JobHarness()
    for queue in documents("queues"):
        sim.cluster.create(queue)
    (high,) = documents("priority")
    sim.cluster.create(high)
    for name, value in (("pc-medium", 60000), ("pc-normal", 40000), ("pc-low", 20000)):
        sim.cluster.create({**high, "metadata": {"name": name}, "value": value})
    sim.create(gpu_node("n1").offers(memory="512Gi", pods=110))
    yield sim
    sim.check()


def training(*, then: str = "AbortJob", card: str = "") -> Object:
    """The training job; its scheduler is ours, and its service type that of its kind."""
    (job,) = documents("training")
    job["spec"]["schedulerName"] = "arranger"
    for policy in job["spec"]["policies"]:
        if policy["event"] == "PodEvicted":
            policy["action"] = then
    return job


def inference(name: str = "serve", cards: int = 4) -> PodBuilder:
    """A pod as the ReplicaSet of the example's Deployment makes it."""
    (deployment,) = documents("inference")
    template = deployment["spec"]["template"]
    pod = a_pod(name).annotated(template["metadata"]["annotations"]).needs({GPU: cards})
    pod = pod.labelled(template["metadata"]["labels"])
    return pod.with_spec(priorityClassName=template["spec"]["priorityClassName"])


def of_replica_set(sim: JobHarness, pod: PodBuilder) -> None:
    """Create the pod with an owner, by which its service type is known."""
    head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {}}
    owner = sim.cluster.create({**head, "metadata": {"name": "rs", "namespace": "default"}})
    manifest = pod.manifest()
    del manifest["metadata"]["uid"]
    uid = owner["metadata"]["uid"]
    found = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": uid}
    manifest["metadata"]["ownerReferences"] = [{**found, "controller": True}]
    sim.cluster.create(manifest)


def test_the_arguments_of_the_plugin_are_ours() -> None:
    queues = scheduler_config().queues
    assert (queues.over_commit_factor, queues.card_unlimited_cpu_memory) == (2, True)
    assert queues.pod_owner_reference_to_service_type == {
        "ReplicaSet": "inference",
        "Deployment": "inference",
        "Job": "training",
    }
    assert not queues.preempt_within_queue


@pytest.mark.parametrize(
    ("then", "phase", "left"),
    [("AbortJob", "Aborted", 0), ("RestartJob", "Pending", 2)],
)
async def test_a_training_job_gives_way_as_a_whole(
    sim: JobHarness, then: str, phase: str, left: int
) -> None:
    """Four of its eight cards are wanted: it stops whole, or waits whole."""
    sim.may_repeat_pods.add("training-low")
    async with sim.kubelets(), sim.scheduler(config=scheduler_config()), sim.controllers():
        sim.cluster.create({**training(then=then)})
        await sim.until_phase("training-low", "Running")
        of_replica_set(sim, inference())
        await sim.until(lambda: sim.node_of("serve") == "n1")
        await sim.until_phase("training-low", phase)
        await asyncio.sleep(60)
        assert list(sim.pods_of_job("training-low").values()) == ["-"] * left


async def test_training_takes_from_nobody(sim: JobHarness) -> None:
    async with sim.kubelets(), sim.scheduler(config=scheduler_config()), sim.controllers():
        of_replica_set(sim, inference(cards=8))
        await sim.until(lambda: sim.node_of("serve") == "n1")
        sim.cluster.create(training())
        await asyncio.sleep(120)
        assert sim.phase("training-low") == "Pending"
        assert list(sim.pods_of_job("training-low").values()) == ["-", "-"]


def _group(sim: JobHarness) -> Object:
    (group,) = sim.cluster.objects("podgroups", "scheduling.volcano.sh")
    return dict(group["metadata"]["annotations"])


async def test_what_a_job_says_of_its_type_and_cards_is_said_by_its_podgroup(
    sim: JobHarness,
) -> None:
    """The second example of ``card-requests``, with the rest of the spec that it leaves out."""
    _, job = documents("card-requests")
    spec: dict[str, Any] = training()["spec"]
    async with sim.kubelets(), sim.scheduler(config=scheduler_config()), sim.controllers():
        sim.cluster.create({**corrected(job), "spec": spec})
        await sim.until(lambda: bool(sim.groups()))
        assert job["metadata"]["annotations"].items() <= _group(sim).items()
        await asyncio.sleep(30)
        # The queue of the examples has no quota of that card.
        assert list(sim.pods_of_job("ai-job").values()) == ["-", "-"]
