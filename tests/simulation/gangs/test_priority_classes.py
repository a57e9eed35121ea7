"""Whose priority a gang has."""

from __future__ import annotations

import asyncio

from tests.builders import PodBuilder, a_node, a_pod
from tests.queueing import priority_classes
from tests.simulation.harnesses.gangs import GangHarness
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME


def _pods(group: str, *, priority: int) -> list[PodBuilder]:
    note = {"scheduling.k8s.io/group-name": group}
    pods = (a_pod(f"{group}-{n}").needs(cpu=1).annotated(note) for n in range(2))
    return [
        pod.with_priority(priority).with_spec(priorityClassName=f"pc-{priority}") for pod in pods
    ]


async def test_the_class_of_its_pods_counts_and_not_the_one_that_its_pod_group_names() -> None:
    sim = GangHarness()
    for manifest in priority_classes():
        sim.cluster.create(manifest)
    for name, named in (("lo", "pc-80000"), ("hi", "pc-20000")):
        sim.cluster.create(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"minMember": 2, "priorityClassName": named},
            }
        )
    sim.create(*_pods("lo", priority=20000))
    async with sim.scheduler():
        await asyncio.sleep(10)
        sim.create(*_pods("hi", priority=80000))
        await asyncio.sleep(10)
        sim.create(a_node("n").offers(cpu=2))
        await asyncio.sleep(30)
        assert [pod for pod in ("lo-0", "hi-0") if sim.node_of(pod)] == ["hi-0"]
