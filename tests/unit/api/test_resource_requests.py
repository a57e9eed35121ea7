"""What a pod asks of its node."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.resource_requests import NONZERO_DEFAULTS, pod_requests
from tests.builders import PodBuilder, a_pod

MIB = 2**20


def _running(wanted: str, actuated: str, allocated: str, **more: Any) -> PodBuilder:
    """A pod that asks for ``wanted`` CPU and runs with other amounts."""
    status = {
        "name": "c0",
        "resources": {"requests": {"cpu": actuated}},
        "allocatedResources": {"cpu": allocated},
    }
    return a_pod().needs(cpu=wanted).with_status(containerStatuses=[status], **more)


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
CASES: dict[str, tuple[PodBuilder, dict[str, int]]] = {
    "nothing": (a_pod(), {}),
    "containers add up": (a_pod().needs(cpu=1).container(cpu="500m"), {"cpu": 1500}),
    "resources only some containers mention": (
        a_pod().needs(cpu=1).container(memory="1Mi"),
        {"cpu": 1000, "memory": MIB},
    ),
    "a small init container hides behind the containers": (
        a_pod().needs(cpu=2).init(cpu=1),
        {"cpu": 2000},
    ),
    "a large one shows": (a_pod().needs(cpu=2).init(cpu=3), {"cpu": 3000}),
    "init containers run one after the other": (a_pod().init(cpu=1).init(cpu=2), {"cpu": 2000}),
    "a sidecar adds to the containers": (a_pod().needs(cpu=1).sidecar(cpu=1), {"cpu": 2000}),
    "and to the init containers after it": (
        a_pod().needs(cpu=1).sidecar(cpu=1).init(cpu=3),
        {"cpu": 4000},
    ),
    "but not to those before it": (
        a_pod().needs(cpu=1).init(cpu=3).sidecar(cpu=1),
        {"cpu": 3000},
    ),
    "sidecars add up": (
        a_pod().sidecar(cpu=1).sidecar(cpu=2).init(cpu=1),
        {"cpu": 4000},
    ),
    "overhead comes on top": (
        a_pod().needs(cpu=1).init(cpu=2).with_overhead(cpu="100m", memory="1Mi"),
        {"cpu": 2100, "memory": MIB},
    ),
    "the pod's own request replaces the sum": (
        a_pod().needs(cpu=1, memory="1Mi").pod_level(cpu=3),
        {"cpu": 3000, "memory": MIB},
    ),
    "and may be smaller than an init container's": (
        a_pod().init(cpu=4).pod_level(cpu=3),
        {"cpu": 3000},
    ),
    "overhead comes on top of that, too": (
        a_pod().pod_level(cpu=3).with_overhead(cpu=1),
        {"cpu": 4000},
    ),
    "devices are no business of the pod as a whole": (
        a_pod().needs({"a.b/c": 2}).pod_level({"a.b/c": 5, "cpu": 1}),
        {"a.b/c": 2, "cpu": 1000},
    ),
    "shrinking: what is actuated still counts": (_running("1", "2", "1"), {"cpu": 2000}),
    "growing: what is asked for counts already": (_running("3", "2", "2"), {"cpu": 3000}),
    "a deferred resize counts": (_running("3", "2", "2", conditions=DEFERRED), {"cpu": 3000}),
    "an infeasible one does not": (_running("9", "2", "1", conditions=INFEASIBLE), {"cpu": 2000}),
    "an init container that has ended is not resized": (
        a_pod()
        .needs(cpu=1)
        .init(cpu=2)
        .with_status(
            initContainerStatuses=[{"name": "i0", "resources": {"requests": {"cpu": "9"}}}]
        ),
        {"cpu": 2000},
    ),
    "a sidecar is": (
        a_pod()
        .needs(cpu=1)
        .sidecar(cpu=2)
        .with_status(
            initContainerStatuses=[{"name": "i0", "resources": {"requests": {"cpu": "9"}}}]
        ),
        {"cpu": 10000},
    ),
    "a pod resized as a whole": (
        a_pod().pod_level(cpu=2).with_status(resources={"requests": {"cpu": "3"}}),
        {"cpu": 3000},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_requests(case: tuple[PodBuilder, dict[str, int]]) -> None:
    pod, expected = case
    assert pod_requests(pod.build()) == expected


SCORED: dict[str, tuple[PodBuilder, tuple[int, int]]] = {
    "a container that states nothing": (a_pod(), (100, 200 * MIB)),
    "one that states CPU only": (a_pod().needs(cpu=1), (1000, 200 * MIB)),
    "stating zero is stating": (a_pod().needs(cpu=0), (0, 200 * MIB)),
    "each container": (a_pod().container(cpu=1), (1100, 400 * MIB)),
    "init containers, too": (a_pod().needs(cpu="50m").init(), (100, 200 * MIB)),
    "overhead comes on top": (a_pod().with_overhead(cpu=1), (1100, 200 * MIB)),
    "a pod-level request leaves nothing open": (a_pod().pod_level(cpu=1), (1000, 200 * MIB)),
    "nor does one container's, beside a pod-level request": (
        a_pod().needs(memory="1Mi").container().pod_level(cpu=1),
        (1000, MIB),
    ),
}


@pytest.mark.parametrize("case", SCORED.values(), ids=SCORED.keys())
def test_what_a_running_pod_counts_in_scores(case: tuple[PodBuilder, tuple[int, int]]) -> None:
    pod, expected = case
    assert pod.info().nonzero_requests == expected


def test_what_a_waiting_pod_counts_in_scores_ignores_pod_level_requests() -> None:
    pod = a_pod().needs(memory="1Mi").container().pod_level(cpu=1).build()
    counted = pod_requests(pod, defaults=NONZERO_DEFAULTS)
    assert counted == {"cpu": 1000, "memory": 201 * MIB}
