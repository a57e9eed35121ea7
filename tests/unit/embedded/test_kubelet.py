"""Hollow kubelets, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from arranger.embedded.direct import DirectTransport
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import EmbeddedCluster

pytestmark = pytest.mark.looptime

PATH = "/api/v1/namespaces/default/pods/p"


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """A cluster with kubelets at work."""
    cluster = EmbeddedCluster(rng=random.Random(1))
    kubelets = asyncio.create_task(HollowKubelets(DirectTransport(cluster)).run())
    yield cluster
    kubelets.cancel()
    await asyncio.wait({kubelets})


def a_bound_pod(cluster: EmbeddedCluster, **annotations: str) -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "annotations": {
                    f"arranger.io/{k.replace('_', '-')}": v for k, v in annotations.items()
                },
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "pause"}]},
        }
    )


def phase(cluster: EmbeddedCluster) -> Any:
    pods = cluster.objects("pods")
    return pods[0]["status"]["phase"] if pods else None


async def test_a_bound_pod_runs_and_goes_on_for_ever(cluster: EmbeddedCluster) -> None:
    a_bound_pod(cluster)
    await asyncio.sleep(1)
    assert phase(cluster) == "Running"
    await asyncio.sleep(86400)
    assert phase(cluster) == "Running"


@pytest.mark.parametrize(("code", "end"), [("0", "Succeeded"), ("3", "Failed")])
async def test_a_pod_ends_after_the_time_it_declares(
    cluster: EmbeddedCluster, code: str, end: str
) -> None:
    a_bound_pod(cluster, run_seconds="60", exit_code=code)
    await asyncio.sleep(59)
    assert phase(cluster) == "Running"
    await asyncio.sleep(2)
    assert phase(cluster) == end


async def test_a_deleted_pod_takes_its_time_to_go(cluster: EmbeddedCluster) -> None:
    a_bound_pod(cluster, termination_seconds="10")
    await asyncio.sleep(1)
    await DirectTransport(cluster).request("DELETE", PATH)
    await asyncio.sleep(9)
    assert phase(cluster) == "Running"
    await asyncio.sleep(2)
    assert phase(cluster) is None
