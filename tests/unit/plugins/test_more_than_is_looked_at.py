"""Pods that ask for more than is looked at are told so, and cost nobody else anything."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.cluster.exclusive_uses import MAX_DISK_USES
from arranger.framework import ActionType, ClusterEvent
from arranger.framework.interface import Plugin
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins.helpers.node_selectors import MAX_REQUIREMENTS, MAX_VALUES
from arranger.plugins.nodes.image_locality import MAX_IMAGES, ImageLocality
from arranger.plugins.nodes.node_affinity import NodeAffinity
from arranger.plugins.nodes.node_ports import MAX_PORTS, NodePorts
from arranger.plugins.topology.pod_topology_spread import PodTopologySpread
from arranger.plugins.volumes.volume_restrictions import VolumeRestrictions
from tests.builders import PodBuilder, a_cluster, a_node, a_pod, expr
from tests.unit.plugins.evaluation import scores, single_plugin_profile


def with_requirements(count: int) -> PodBuilder:
    """With the term itself."""
    return a_pod().requires(*(expr(f"k{n}", "DoesNotExist") for n in range(count - 1)))


def with_values(count: int) -> PodBuilder:
    return a_pod().requires(expr("disk", "NotIn", *(f"v{n}" for n in range(count))))


def with_ports(count: int) -> PodBuilder:
    pod = a_pod()
    for n in range(count):
        pod = pod.host_port(n + 1)
    return pod


def with_disks(count: int) -> PodBuilder:
    volumes: list[Any] = [{"name": f"d{n}", "iscsi": {"iqn": f"q{n}"}} for n in range(count)]
    return a_pod().with_spec(volumes=volumes)


def spread(pod: PodBuilder) -> PodBuilder:
    return pod.spreads("zone", over={"app": "a"})


JUST_ENOUGH: dict[str, tuple[type[Plugin], PodBuilder]] = {
    "requirements on nodes": (NodeAffinity, with_requirements(MAX_REQUIREMENTS)),
    "values of requirements": (NodeAffinity, with_values(MAX_VALUES)),
    "host ports": (NodePorts, with_ports(MAX_PORTS)),
    "disks": (VolumeRestrictions, with_disks(MAX_DISK_USES - 1)),
}
TOO_MUCH: dict[str, tuple[type[Plugin], PodBuilder, str]] = {
    "requirements on nodes": (
        NodeAffinity,
        with_requirements(MAX_REQUIREMENTS + 1),
        "node selector and affinity have 1025 requirements, and at most 1024 are looked at",
    ),
    "values of requirements": (
        NodeAffinity,
        with_values(MAX_VALUES + 1),
        "node selector and affinity have 8193 values, and at most 8192 are looked at",
    ),
    "requirements on nodes, where spreading asks them": (
        PodTopologySpread,
        spread(with_requirements(MAX_REQUIREMENTS + 1)),
        "node selector and affinity have 1025 requirements, and at most 1024 are looked at",
    ),
    "host ports": (
        NodePorts,
        with_ports(MAX_PORTS + 1),
        "pod has 513 host ports, and at most 512 are looked at",
    ),
    "disks": (
        VolumeRestrictions,
        with_disks(MAX_DISK_USES + 9),
        "pod uses 256 disks or more by name, which are too many to look at",
    ),
}


@pytest.mark.parametrize("name", JUST_ENOUGH)
def test_as_much_as_is_looked_at_is_placed(name: str) -> None:
    plugin, pod = JUST_ENOUGH[name]
    cluster = a_cluster(a_node("n1").labelled(zone="a"))
    evaluation = Evaluation(single_plugin_profile(plugin()), cluster, pod.info())
    assert evaluation.feasible.tolist() == [True]


@pytest.mark.parametrize("name", TOO_MUCH)
def test_who_asks_for_more_is_told(name: str) -> None:
    plugin, pod, told = TOO_MUCH[name]
    cluster = a_cluster(a_node("n1").labelled(zone="a"))
    evaluation = Evaluation(single_plugin_profile(plugin()), cluster, pod.info())
    assert evaluation.pre_filter_status is not None
    assert evaluation.pre_filter_status.reasons == (told,)


#: (Disks of a pod on the node, disk of the pod that comes, whether the node is free.)
OF_THOSE_THERE: dict[str, tuple[int, str, bool]] = {
    "one of few": (MAX_DISK_USES, "q3", False),
    "the last of as many as are looked at": (MAX_DISK_USES, f"q{MAX_DISK_USES - 1}", False),
    "one that is not there": (MAX_DISK_USES, "other", True),
    "one of many": (MAX_DISK_USES + 9, "q3", False),
    "the last of many": (MAX_DISK_USES + 9, f"q{MAX_DISK_USES + 8}", False),
    "any, where it is not known which are there": (MAX_DISK_USES + 9, "other", False),
}


@pytest.mark.parametrize("case", OF_THOSE_THERE.values(), ids=OF_THOSE_THERE)
def test_what_is_not_looked_at_of_a_pod_on_a_node_may_be_any_disk(
    case: tuple[int, str, bool],
) -> None:
    count, wanted, free = case
    there = with_disks(count).on("n1")
    cluster = a_cluster(a_node("n1"), there)
    profile = single_plugin_profile(VolumeRestrictions())
    pod = a_pod("other").with_spec(volumes=[{"name": "d", "iscsi": {"iqn": wanted}}])
    assert Evaluation(profile, cluster, pod.info()).feasible.tolist() == [free]
    went = ClusterEvent(ActionType.POD_REMOVED, pod=there.build())
    wakes = any(hint.matches(pod.info(), went) for hint in VolumeRestrictions.queueing_hints)
    assert wakes is not free
    bare = a_pod("bare")
    assert Evaluation(profile, cluster, bare.info()).feasible.tolist() == [True]


def test_an_image_counts_for_each_of_its_containers_and_the_first_images_only() -> None:
    node = a_node("n1").holding("large:1", 10 * 1024**3).holding("other:1", 10 * 1024**3)
    small = [f"small-{n}:1" for n in range(MAX_IMAGES)]
    for image in small:
        node = node.holding(image, 1)

    def score_of(*images: str) -> int | None:
        containers = [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]
        pod = a_pod().with_spec(containers=containers)
        return scores(ImageLocality(), pod, node, a_node("n2"))["n1"]

    assert score_of("large:1", "large:1") == score_of("large:1", "other:1") == 100
    unknown = [f"unknown-{n}:1" for n in range(MAX_IMAGES)]
    assert score_of(*unknown, "large:1") == score_of(*small[1:], "large:1", "unknown:1") == 15
    assert score_of(*small, "large:1") == 0
