"""Nothing is decided before all has been read, and kinds that are served later count from then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from arranger.daemon.config.schema import Config, QueueConfig
from arranger.daemon.informers import COLLECTION_PATHS
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group
from tests.faults.injector import RequestMatcher
from tests.faults.kinds import Delay
from tests.queueing import a_queue_manifest
from tests.simulation.harnesses.controllers import native_pod_groups
from tests.simulation.harnesses.gangs import DEFINITIONS, GangHarness
from tests.simulation.harnesses.simulation import VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME

#: Everything that decisions may depend on.
READ = [
    *COLLECTION_PATHS.values(),
    *(f"/apis/{each}" for each in QueueConfig().owner_resources),
    *(kind.paths[0] for kind in Config().workload_kinds()),
]
#: Seconds within which a kind is found that is served now.
FOUND_WITHIN = 400.0


@pytest.mark.parametrize("path", READ)
async def test_no_decision_is_made_before_this_has_been_read(path: str) -> None:
    sim = GangHarness()
    sim.create_nodes_and_pods(nodes=1, pods=1)
    sim.faults.inject(RequestMatcher(lambda call: call.path == path), Delay(10), times=1)
    async with sim.scheduler():
        await asyncio.sleep(9)
        assert sim.bound() == 0
        await sim.until_settled(1, within=5)
    sim.check()


# --- kinds that are served later -------------------------------------------------------------


def define(sim: SimulationHarness, group: str, plural: str) -> None:
    """The server begins to serve a kind of ours."""
    names = {d["metadata"]["name"]: d for d in DEFINITIONS}
    sim.cluster.create(names[f"{plural}.{group}"])


@pytest.fixture
def bare() -> Iterator[SimulationHarness]:
    """A server that serves none of our kinds, with a node of four CPUs that is full."""
    sim = SimulationHarness()
    sim.create(a_node("n0").offers(cpu=4), a_pod("old").needs(cpu=4).on("n0"))
    yield sim
    sim.check()


async def bound_when_there_is_room(sim: SimulationHarness) -> list[str]:
    """The pods that get the node's four CPUs when these are free."""
    await asyncio.sleep(FOUND_WITHIN)
    sim.delete("pod", "old")
    await asyncio.sleep(60)
    pods = sim.cluster.objects("pods")
    return sorted(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName"))


def workers(*, of: str = "scheduling.sigs.k8s.io") -> list[PodBuilder]:
    """Five pods of the PodGroup ``g`` of an API group, of which four fit."""
    pods = [a_pod(f"g-{n}").needs(cpu=1) for n in range(5)]
    if of == "scheduling.k8s.io":
        return [pod.with_spec(schedulingGroup={"podGroupName": "g"}) for pod in pods]
    if of == "scheduling.volcano.sh":
        return [pod.annotated({"scheduling.k8s.io/group-name": "g"}) for pod in pods]
    label = "pod-group.scheduling.sigs.k8s.io"
    if of == "scheduling.x-k8s.io":
        label = "scheduling.x-k8s.io/pod-group"
    return [pod.in_pod_group("g", label=label) for pod in pods]


def group_of(api_version: str, least: int) -> dict[str, Any]:
    """The PodGroup of those workers."""
    manifest = a_pod_group("g", least=least).manifest()
    del manifest["metadata"]["uid"]
    if api_version == "scheduling.k8s.io/v1beta1":
        manifest["spec"] = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return {**manifest, "apiVersion": api_version}


@pytest.mark.parametrize("least", [4, 5])
@pytest.mark.parametrize(
    "api_version",
    [
        "scheduling.sigs.k8s.io/v1alpha1",
        "scheduling.x-k8s.io/v1alpha1",
        "scheduling.volcano.sh/v1beta1",
        "scheduling.k8s.io/v1beta1",
    ],
)
async def test_a_pod_group_whose_kind_is_served_later_makes_waiting_pods_a_gang(
    api_version: str, least: int, bare: SimulationHarness
) -> None:
    group = api_version.partition("/")[0]
    async with bare.scheduler():
        bare.create(*workers(of=group))
        await asyncio.sleep(30)
        if group == "scheduling.k8s.io":
            bare.cluster.create(native_pod_groups())
        else:
            define(bare, group, "podgroups")
        bare.cluster.create(group_of(api_version, least))
        assert len(await bound_when_there_is_room(bare)) == (4 if least == 4 else 0)


async def test_queues_that_are_served_later_order_and_limit_what_waits(
    bare: SimulationHarness,
) -> None:
    async with bare.scheduler():
        for name in ("low", "mid", "high"):
            pods = [a_pod(f"{name}-{n}").needs(cpu=1).in_queue(name) for n in range(3)]
            bare.create(*pods)
            await asyncio.sleep(5)
        define(bare, "scheduling.volcano.sh", "queues")
        bare.cluster.create(a_queue_manifest("low", priority=10000))
        bare.cluster.create(a_queue_manifest("mid", priority=20000))
        bare.cluster.create(a_queue_manifest("high", priority=30000, capability={"cpu": "2"}))
        got = await bound_when_there_is_room(bare)
        assert got == ["high-0", "high-1", "mid-0", "mid-1"]
