"""PodGroups of Kubernetes itself, in the version that this API server happens to serve."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import a_pod
from tests.controlplane.admin import until
from tests.controlplane.cluster import ClusterHarness
from tests.controlplane.harness import a_node

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]

PODS = "/api/v1/namespaces/default/pods"
#: Kubernetes 1.36 knows no later version.
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
FLAGS = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true")


def a_member(name: str) -> dict[str, Any]:
    """A pod of one CPU, of the group ``g``."""
    manifest = a_pod(name).needs(cpu=1).manifest()
    del manifest["metadata"]["uid"]
    manifest["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return manifest


async def test_a_gang_of_kubernetes_1_36_is_placed_as_a_whole() -> None:
    nodes = [a_node("n1", cpu="3")]
    async with ClusterHarness.start(nodes, served=[GROUPS], api_server_flags=FLAGS) as harness:
        plane = harness.plane
        group = {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        }
        await plane.post(GROUPS, group)
        for n in range(2):
            await plane.post(PODS, a_member(f"g-{n}"))

        async def said() -> set[str]:
            pods = (await plane.get(PODS))["items"]
            return {
                condition.get("message", "")
                for pod in pods
                for condition in pod["status"].get("conditions") or ()
                if condition["type"] == "PodScheduled"
            }

        async def waits_for_the_third() -> bool:
            return await said() == {"gang default/g waits for members: 2 of 3 arrived"}

        await until(waits_for_the_third, what="two that wait for a third")
        await plane.post(PODS, a_member("g-2"))

        async def all_placed() -> bool:
            pods = (await plane.get(PODS))["items"]
            return [pod["spec"].get("nodeName") for pod in pods] == ["n1"] * 3

        await until(all_placed, what="all three on the node")

        async def group_says_so() -> bool:
            conditions = (await plane.get(f"{GROUPS}/g")).get("status", {}).get("conditions") or ()
            return any(c["status"] == "True" for c in conditions)

        await until(group_says_so, what="the group to say so")
