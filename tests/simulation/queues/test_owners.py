"""Annotations of a Deployment count for its pods, as in the design's own examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from arranger.daemon.config.schema import Config, LeaderElectionConfig, QueueConfig
from tests.queueing import GPU, a_queue_manifest, gpu_node, priority_classes
from tests.simulation.harnesses.preemption import PreemptionHarness
from tests.simulation.harnesses.simulation import MERGE, VIRTUAL_TIME

pytestmark = VIRTUAL_TIME
CONFIG = Config(
    leader_election=LeaderElectionConfig(resource_namespace="kube-system"),
    queues=QueueConfig(pod_owner_reference_to_service_type={}),
)
PRIORITY = {"inference": "pc-80000", "training": "pc-20000"}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def sim() -> Iterator[PreemptionHarness]:
    """One node of 8 cards, and the two queues."""
    sim = PreemptionHarness()
    sim.create(gpu_node("n", 8))
    for manifest in priority_classes():
        sim.cluster.create(manifest)
    for name, reclaimable in (("inference", False), ("training", True)):
        sim.cluster.create(a_queue_manifest(name, reclaimable=reclaimable))
    yield sim
    sim.check()


def deploy(sim: PreemptionHarness, name: str, pods: int, **notes: str) -> None:
    """A Deployment of pods with 4 cards each, and what controllers make of it."""
    annotations = {f"volcano.sh/{key.replace('_', '.')}": text for key, text in notes.items()}
    selected = {"app": name}
    requests = {GPU: "4", "cpu": "1"}
    template: dict[str, Any] = {
        "metadata": {
            "labels": selected,
            "annotations": {"scheduling.volcano.sh/queue-name": name},
        },
        "spec": {
            "schedulerName": "arranger",
            "priorityClassName": PRIORITY[name],
            "containers": [
                {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}
            ],
        },
    }
    spec = {"replicas": pods, "selector": {"matchLabels": selected}, "template": template}
    owner: dict[str, Any] | None = None
    for kind, made in (("Deployment", name), ("ReplicaSet", f"{name}-5d")):
        body = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": made, "namespace": "default", "annotations": annotations},
            "spec": spec,
        }
        owner, annotations = sim.cluster.create(_owned(body, owner)), {}
    for n in range(pods):
        meta = {**template["metadata"], "name": f"{name}-5d-{n}", "namespace": "default"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        sim.cluster.create(_owned(pod, owner))


def _owned(body: dict[str, Any], owner: dict[str, Any] | None) -> dict[str, Any]:
    if owner is None:
        return body
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    metadata = {**body["metadata"], "ownerReferences": [{**reference, "controller": True}]}
    return {**body, "metadata": metadata}


async def test_a_deployment_of_a_service_takes_from_one_of_training(
    sim: PreemptionHarness,
) -> None:
    async with sim.scheduler(config=CONFIG), sim.kubelets():
        deploy(sim, "training", 2, service_type="training")
        await sim.until(lambda: sim.bound() == 2)
        deploy(sim, "inference", 1, service_type="inference", preemptable="false")
        await sim.until(lambda: sim.node_of("inference-5d-0") == "n")
        assert len(sim.cluster.objects("pods")) == 2, "one of training had to leave"


async def test_an_edit_of_the_deployment_counts_at_once(sim: PreemptionHarness) -> None:
    deploy(sim, "training", 2, service_type="training", preemptable="false")
    async with sim.scheduler(config=CONFIG), sim.kubelets():
        await sim.until(lambda: sim.bound() == 2)
        deploy(sim, "inference", 1, service_type="inference")
        await sim.until(lambda: bool(sim.message("inference-5d-0")))
        assert len(sim.cluster.objects("pods")) == 3
        change = {"metadata": {"annotations": {"volcano.sh/preemptable": None}}}
        sim.request("PATCH", f"{DEPLOYMENTS}/training", change, MERGE)
        await sim.until(lambda: sim.node_of("inference-5d-0") == "n", within=40)
