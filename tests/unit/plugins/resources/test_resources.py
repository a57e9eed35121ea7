"""NodeResourcesFit, NodeResourcesBalancedAllocation and ImageLocality."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from arranger.framework import ActionType, ClusterEvent
from arranger.framework.interface import Plugin
from arranger.framework.runtime.registry import Registry
from arranger.plugins.helpers.resource_scoring import percentages
from arranger.plugins.nodes.image_locality import ImageLocality, normalized_image_name
from arranger.plugins.resources.balanced_allocation import NodeResourcesBalancedAllocation
from arranger.plugins.resources.node_resources_fit import NodeResourcesFit
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.plugins.evaluation import evaluate_with, scores

GPU = "example.com/gpu"
SMALL = a_node("n").offers(cpu=4, memory="8Gi", pods=3)
LATER = "Unschedulable"
NEVER = "UnschedulableAndUnresolvable"

Members = list[NodeBuilder | PodBuilder]
FITS: dict[str, tuple[PodBuilder, Members, tuple[str, list[str]] | None]] = {
    "asks for nothing": (a_pod(), [SMALL], None),
    "fits exactly": (a_pod().needs(cpu=4, memory="8Gi"), [SMALL], None),
    "one millicore too many": (a_pod().needs(cpu="4001m"), [SMALL], (NEVER, ["Insufficient cpu"])),
    "the rest is taken": (
        a_pod().needs(cpu=3),
        [SMALL, a_pod("b").needs(cpu=2).on("n")],
        (LATER, ["Insufficient cpu"]),
    ),
    "one resource now and one never: never": (
        a_pod().needs(cpu=3, memory="9Gi"),
        [SMALL, a_pod("b").needs(cpu=2).on("n")],
        (NEVER, ["Insufficient cpu", "Insufficient memory"]),
    ),
    "no pod slot": (
        a_pod(),
        [SMALL, *(a_pod(f"b{n}").on("n") for n in range(3))],
        (LATER, ["Too many pods"]),
    ),
    "a node that takes no pods at all may yet": (
        a_pod(),
        [SMALL.offers(pods=0)],
        (LATER, ["Too many pods"]),
    ),
    "no slot and no room": (
        a_pod().needs(cpu=4),
        [SMALL, *(a_pod(f"b{n}").needs(cpu=1).on("n") for n in range(3))],
        (LATER, ["Insufficient cpu", "Too many pods"]),
    ),
    "an extended resource nobody offers": (
        a_pod().needs({GPU: 1}),
        [SMALL],
        (NEVER, [f"Insufficient {GPU}"]),
    ),
    "an extended resource is counted": (
        a_pod().needs({GPU: 1}),
        [SMALL.offers({GPU: 2}), a_pod("b").needs({GPU: 2}).on("n")],
        (LATER, [f"Insufficient {GPU}"]),
    ),
    "asking for zero of what nobody offers": (a_pod().needs({GPU: 0}), [SMALL], None),
    "an overcommitted node takes pods that ask for nothing": (
        a_pod().needs(memory="1Gi"),
        [SMALL, a_pod("b").needs(cpu=9).on("n")],
        None,
    ),
    "the largest init container decides": (
        a_pod().needs(cpu=1).init(cpu=5),
        [SMALL],
        (NEVER, ["Insufficient cpu"]),
    ),
    "sidecars run beside what follows": (
        a_pod().needs(cpu=1).sidecar(cpu=2).init(cpu=3),
        [SMALL],
        (NEVER, ["Insufficient cpu"]),
    ),
    "init containers run before later sidecars": (
        a_pod().needs(cpu=1).init(cpu=3).sidecar(cpu=2),
        [SMALL],
        None,
    ),
    "overhead counts": (
        a_pod().needs(cpu=4).with_overhead(cpu="1m"),
        [SMALL],
        (NEVER, ["Insufficient cpu"]),
    ),
    "the pod's own request replaces its containers'": (
        a_pod().needs(cpu=1).pod_level(cpu=5),
        [SMALL],
        (NEVER, ["Insufficient cpu"]),
    ),
    "hugepages": (
        a_pod().needs({"hugepages-2Mi": "4Mi"}),
        [SMALL.offers({"hugepages-2Mi": "2Mi"})],
        (NEVER, ["Insufficient hugepages-2Mi"]),
    ),
    "ephemeral storage": (
        a_pod().needs(ephemeral_storage="2Gi"),
        [SMALL.offers(ephemeral_storage="1Gi")],
        (NEVER, ["Insufficient ephemeral-storage"]),
    ),
}


@pytest.mark.parametrize("case", FITS.values(), ids=FITS.keys())
def test_fits(case: tuple[PodBuilder, Members, tuple[str, list[str]] | None]) -> None:
    pod, members, expected = case
    why = evaluate_with(NodeResourcesFit(), pod, *members)["rejected"].get("n")
    assert (why and (why["code"], why["reasons"])) == expected


IGNORED: dict[str, tuple[dict[str, Any], bool]] = {
    "by name": ({"ignoredResources": [GPU]}, True),
    "by group": ({"ignoredResourceGroups": ["example.com"]}, True),
    "another name": ({"ignoredResources": ["example.com/fpga"]}, False),
    "another group": ({"ignoredResourceGroups": ["example.org"]}, False),
}


@pytest.mark.parametrize("case", IGNORED.values(), ids=IGNORED.keys())
def test_extended_resources_can_be_left_to_others(case: tuple[dict[str, Any], bool]) -> None:
    args, fits = case
    plugin = Registry([NodeResourcesFit]).make("NodeResourcesFit", args)
    assert bool(evaluate_with(plugin, a_pod().needs({GPU: 1}), SMALL)["feasible"]) == fits


def test_cpu_is_not_ignored_even_if_named() -> None:
    plugin = Registry([NodeResourcesFit]).make("NodeResourcesFit", {"ignoredResources": ["cpu"]})
    assert not evaluate_with(plugin, a_pod().needs(cpu=9), SMALL)["feasible"]


def _fit(kind: str, *resources: tuple[str, int], **more: Any) -> Plugin:
    strategy: dict[str, Any] = {"type": kind, **more}
    if resources:
        strategy["resources"] = [{"name": name, "weight": weight} for name, weight in resources]
    return Registry([NodeResourcesFit]).make("NodeResourcesFit", {"scoringStrategy": strategy})


RISING = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
FALLING = {"shape": [{"utilization": 0, "score": 10}, {"utilization": 70, "score": 3}]}
#: A node of 4 CPU and 8 GiB with 1 CPU and 2 GiB in use; the pod wants 1 CPU and 4 GiB.
USED: Members = [SMALL, a_pod("b").needs(cpu=1, memory="2Gi").on("n")]
ASKING = a_pod().needs(cpu=1, memory="4Gi")
STRATEGIES: dict[str, tuple[Plugin, PodBuilder, int]] = {
    "least allocated: (50 + 25) / 2": (_fit("LeastAllocated"), ASKING, 37),
    "most allocated: (50 + 75) / 2": (_fit("MostAllocated"), ASKING, 62),
    "weights: (3 × 50 + 25) / 4": (
        _fit("LeastAllocated", ("cpu", 3), ("memory", 1)),
        ASKING,
        43,
    ),
    "a container that states nothing counts 100m and 200Mi": (
        _fit("LeastAllocated"),
        a_pod(),
        (100 * (4000 - 1100) // 4000 + 100 * (8192 - 2048 - 200) // 8192) // 2,
    ),
    "a resource the pod does not ask for does not count": (
        _fit("LeastAllocated", ("cpu", 1), (GPU, 100)),
        ASKING,
        50,
    ),
    "a resource the node does not offer does not count": (
        _fit("LeastAllocated", ("cpu", 1), ("ephemeral-storage", 100)),
        ASKING.needs(ephemeral_storage=0),
        50,
    ),
    "a ratio, linear between its points: (50 + 75) / 2 rounds half up": (
        _fit("RequestedToCapacityRatio", requestedToCapacityRatio=RISING),
        ASKING,
        63,
    ),
    "a falling ratio ends at its last point": (
        _fit("RequestedToCapacityRatio", ("memory", 1), requestedToCapacityRatio=FALLING),
        ASKING,
        30,
    ),
    "a falling ratio in between": (
        _fit("RequestedToCapacityRatio", ("cpu", 1), requestedToCapacityRatio=FALLING),
        ASKING,
        50,
    ),
}


@pytest.mark.parametrize("case", STRATEGIES.values(), ids=STRATEGIES.keys())
def test_scores_by_strategy(case: tuple[Plugin, PodBuilder, int]) -> None:
    plugin, pod, expected = case
    assert scores(plugin, pod, *USED) == {"n": expected}


def test_a_full_node_scores_nothing_and_not_less() -> None:
    crowd = [a_pod(f"b{n}").needs(cpu=3, memory="1Gi").on("n") for n in range(2)]
    pod = a_pod().needs(memory="1Gi")
    assert scores(_fit("LeastAllocated", ("cpu", 1)), pod, SMALL, *crowd) == {"n": 0}
    assert scores(_fit("MostAllocated", ("cpu", 1)), pod, SMALL, *crowd) == {"n": 100}


def _balance(*resources: str) -> Plugin:
    named = [{"name": name} for name in resources]
    return Registry([NodeResourcesBalancedAllocation]).make(
        "NodeResourcesBalancedAllocation", {"resources": named}
    )


BALANCE: dict[str, tuple[Plugin, PodBuilder, Members, int | None]] = {
    "a pod that asks for nothing is not scored": (_balance("cpu"), a_pod(), [SMALL], None),
    "an even pod on an empty node changes nothing": (
        _balance("cpu", "memory"),
        a_pod().needs(cpu=1, memory="2Gi"),
        [SMALL],
        75,
    ),
    "half the CPU and no memory: 25 % off balance": (
        _balance("cpu", "memory"),
        a_pod().needs(cpu=2),
        [SMALL],
        62,
    ),
    "making up for it": (
        _balance("cpu", "memory"),
        a_pod().needs(memory="4Gi"),
        [SMALL, a_pod("b").needs(cpu=2).on("n")],
        87,
    ),
    "more than all counts as all": (
        _balance("cpu", "memory"),
        a_pod().needs(memory="8Gi"),
        [SMALL, a_pod("b").needs(cpu=9).on("n")],
        100,
    ),
    "one resource alone is in balance": (_balance("cpu"), a_pod().needs(cpu=2), [SMALL], 75),
    "three resources: the standard deviation of 1/2, 0 and 0": (
        _balance("cpu", "memory", "ephemeral-storage"),
        a_pod().needs(cpu=2),
        [SMALL.offers(ephemeral_storage="1Gi")],
        # sqrt(((1/2 - 1/6)² + 2 (1/6)²) / 3) = 0.2357; 50 + (50 + 76 - 100) / 2
        63,
    ),
    "three resources of which the node lacks one": (
        _balance("cpu", "memory", "ephemeral-storage"),
        a_pod().needs(cpu=2),
        [SMALL],
        62,
    ),
    "devices count for pods that ask for them": (
        _balance("cpu", GPU),
        a_pod().needs({GPU: 1}),
        [SMALL.offers({GPU: 2})],
        62,
    ),
    "and not for others": (
        _balance("cpu", GPU),
        a_pod().needs(cpu=1),
        [SMALL.offers({GPU: 2})],
        75,
    ),
}


@pytest.mark.parametrize("case", BALANCE.values(), ids=BALANCE.keys())
def test_balances(case: tuple[Plugin, PodBuilder, Members, int | None]) -> None:
    plugin, pod, members, expected = case
    assert scores(plugin, pod, *members) == {"n": expected}


MIB = 2**20
IMAGES: dict[str, tuple[PodBuilder, dict[str, int | None]]] = {
    "an image that is nowhere": (a_pod().running("gone:1"), {"a": 0, "b": 0}),
    "an image on one node of two counts half: (500 - 23) / 977": (
        a_pod().running("big:1"),
        {"a": 48, "b": 0},
    ),
    "an image on both counts in full": (a_pod().running("both:1"), {"a": 28, "b": 28}),
    "a small image counts for nothing": (a_pod().running("small:1"), {"a": 0, "b": 0}),
    "the more containers, the more a full score takes": (
        a_pod().running("big:1", "gone:1"),
        {"a": 24, "b": 0},
    ),
    "init containers count": (
        a_pod().running("gone:1").with_spec(initContainers=[{"name": "i", "image": "big:1"}]),
        {"a": 24, "b": 0},
    ),
    "no tag means latest": (a_pod().running("tagged"), {"a": 48, "b": 0}),
}


@pytest.mark.parametrize("case", IMAGES.values(), ids=IMAGES.keys())
def test_image_locality(case: tuple[PodBuilder, dict[str, int | None]]) -> None:
    pod, expected = case
    a = a_node("a").holding("big:1", 1000 * MIB).holding("both:1", 300 * MIB)
    a = a.holding("small:1", 20 * MIB).holding("tagged:latest", 1000 * MIB)
    b = a_node("b").holding("both:1", 300 * MIB)
    assert scores(ImageLocality(), pod, a, b) == expected


def test_a_port_in_the_registry_is_not_a_tag() -> None:
    assert normalized_image_name("registry:5000/web") == "registry:5000/web:latest"
    assert normalized_image_name("registry:5000/web:v1") == "registry:5000/web:v1"


BIG = a_pod().needs(cpu=3)
HINTS: dict[str, tuple[PodBuilder, ClusterEvent, bool]] = {
    "a pod went": (BIG, ClusterEvent(ActionType.POD_REMOVED, pod=a_pod("b").build()), True),
    "a pod came": (BIG, ClusterEvent(ActionType.POD_ADDED, pod=a_pod("b").build()), False),
    "a node large enough came": (
        BIG,
        ClusterEvent(ActionType.NODE_ADDED, node=SMALL.build()),
        True,
    ),
    "a node too small came": (
        BIG,
        ClusterEvent(ActionType.NODE_ADDED, node=SMALL.offers(cpu=2).build()),
        False,
    ),
    "a node grew": (
        BIG,
        ClusterEvent(
            ActionType.NODE_ALLOCATABLE,
            node=SMALL.build(),
            node_before=SMALL.offers(cpu=3).build(),
        ),
        True,
    ),
    "a node grew in what the pod does not ask for": (
        BIG,
        ClusterEvent(
            ActionType.NODE_ALLOCATABLE,
            node=SMALL.build(),
            node_before=SMALL.offers(memory="1Gi").build(),
        ),
        False,
    ),
    "a node takes more pods": (
        BIG,
        ClusterEvent(
            ActionType.NODE_ALLOCATABLE,
            node=SMALL.build(),
            node_before=SMALL.offers(pods=2).build(),
        ),
        True,
    ),
    "a pod gave up CPU": (
        BIG,
        ClusterEvent(
            ActionType.POD_SCALED_DOWN,
            pod=a_pod("b").needs(cpu=1).on("n").build(),
            pod_before=a_pod("b").needs(cpu=2).on("n").build(),
        ),
        True,
    ),
    "a pod gave up memory": (
        BIG,
        ClusterEvent(
            ActionType.POD_SCALED_DOWN,
            pod=a_pod("b").needs(memory=1).on("n").build(),
            pod_before=a_pod("b").needs(memory=2).on("n").build(),
        ),
        False,
    ),
}


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_wakes(case: tuple[PodBuilder, ClusterEvent, bool]) -> None:
    pod, event, expected = case
    assert any(w.matches(pod.info(), event) for w in NodeResourcesFit.queueing_hints) == expected


def test_percentages_are_exact_whatever_the_amounts() -> None:
    random = Random(1)
    numbers = [0, 1, 2, 3, 7, 99, 100, 101, 2**31, 2**46, 2**52 - 1, 2**52]
    numbers += [random.randrange(2 ** random.randrange(1, 53)) for _ in range(300)]
    parts = np.array([[part for part in numbers for _ in numbers]], dtype=np.int64)
    wholes = np.array([[whole or 1 for _ in numbers for whole in numbers]], dtype=np.int64)
    # Quotients that lie just below an integer.
    near = parts * wholes
    near = np.where((near > 0) & (near < 2**52), near - 1, parts)
    small = wholes < 2**46
    for part, whole in ((parts, wholes), (near, wholes), (near[small][None], wholes[small][None])):
        expected = [100 * p // w for p, w in zip(part[0].tolist(), whole[0].tolist(), strict=True)]
        assert percentages(part, whole)[0].tolist() == expected
