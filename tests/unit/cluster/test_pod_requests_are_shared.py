"""Pods that state the same amounts share what follows; whatever else counts tells them apart."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from arranger.api.resource_requests import nonzero_requests, pod_requests
from arranger.api.types.core import Pod
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from tests.builders import a_node

SPECS: dict[str, dict[str, Any]] = {
    "one container": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
    "of another name": {"containers": [{"name": "b", "resources": {"requests": {"cpu": "1"}}}]},
    "with memory": {
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    },
    "asking for nothing": {"containers": [{"name": "a"}]},
    "asking for none of it": {
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "0"}}}]
    },
    "with a device": {
        "containers": [{"name": "a", "resources": {"requests": {"example.com/gpu": 1}}}]
    },
    "with an init container": {
        "containers": [{"name": "a"}],
        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
    },
    "with a sidecar": {
        "containers": [{"name": "a"}],
        "initContainers": [
            {"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
        ],
    },
    "with overhead": {"containers": [{"name": "a"}], "overhead": {"cpu": "250m"}},
    "as a whole": {"containers": [{"name": "a"}], "resources": {"requests": {"cpu": "2"}}},
}
STATUSES: dict[str, dict[str, Any]] = {
    "none": {},
    "running": {"containerStatuses": [{"name": "a"}]},
    "resized": {
        "containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "3"}}}],
    },
    "another one resized": {
        "containerStatuses": [{"name": "b", "resources": {"requests": {"cpu": "3"}}}],
    },
    "allocated": {
        "containerStatuses": [
            {"name": "a", "resources": {}, "allocatedResources": {"cpu": "4"}},
        ],
    },
    "the sidecar resized": {
        "initContainerStatuses": [{"name": "i", "resources": {"requests": {"cpu": "5"}}}],
    },
    "resized as a whole": {
        "resources": {"requests": {"cpu": "6"}},
        "allocatedResources": {"cpu": "7"},
    },
    "resize infeasible": {
        "containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
    },
    "resize deferred": {
        "containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    },
}


@pytest.fixture(scope="module")
def pods() -> dict[tuple[str, str], Pod]:
    return {
        (spec, status): msgspec.convert(
            {
                "metadata": {"name": "p", "namespace": "default", "uid": f"{spec}/{status}"},
                "spec": {**SPECS[spec], "nodeName": "n"},
                "status": STATUSES[status],
            },
            Pod,
        )
        for spec, status in product(SPECS, STATUSES)
    }


def test_what_is_shared_is_what_each_pod_requests(pods: dict[tuple[str, str], Pod]) -> None:
    table = NodeTable()
    table.set_node(a_node("n").offers({"example.com/gpu": 8}).build())
    for _ in range(2):  # at first nothing is known, then everything
        for case, pod in pods.items():
            info, alone = PodInfo(pod), pod_requests(pod)
            assert info.requests == alone, case
            assert info.nonzero_requests == nonzero_requests(pod, alone), case
            wanted = {table.resource_column(name): n for name, n in alone.items() if n}
            vector = info.request_vector(table.resource_column)
            assert dict(zip(*vector, strict=True)) == {**wanted, 3: 1}, case
