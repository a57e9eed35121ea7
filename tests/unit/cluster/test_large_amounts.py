"""Amounts near the end of 64 bits: no sum of them wraps around and makes room that is not there."""

from __future__ import annotations

import random

import pytest

from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import CPU, MEMORY
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_cluster, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, placements

#: As an API server takes and stores them.
LARGE_REQUESTS = ["9E", "9223372036854775807", "10e999999", "1e1000000", "4Pi", "9" * 1000]


def free(cluster: Cluster) -> list[int]:
    return cluster.table.free(cluster.table.index["n"], [CPU, MEMORY])


def large(name: str, rng: random.Random) -> PodBuilder:
    amount = rng.choice([*LARGE_REQUESTS, "3Pi", "5Ti", "1Gi"])
    return a_pod(name).needs(cpu=1, memory=amount).on("n")


def test_pods_without_measure_come_and_go_and_leave_no_trace() -> None:
    rng = random.Random(1)
    cluster = a_cluster(a_node("n").offers(cpu=4, memory="256Gi"))
    pods = [large(f"p-{n}", rng) for n in range(3000)]
    for pod in pods:
        cluster.observe_pod(pod.info())
        assert free(cluster)[1] < 256 * 2**30
    cluster.check_consistent()
    assert free(cluster)[1] < -(2**62), "more than 64 bits hold"
    rng.shuffle(pods)
    for pod in pods:
        cluster.remove_pod(pod.info().uid)
    cluster.check_consistent()
    assert free(cluster) == [4000, 256 * 2**30]


def test_a_node_that_goes_takes_them_along() -> None:
    rng = random.Random(2)
    cluster = a_cluster(a_node("n").offers(cpu=4, memory="256Gi"))
    for n in range(3000):
        cluster.observe_pod(large(f"p-{n}", rng).info())
    cluster.remove_node("n")
    cluster.set_node(a_node("n").offers(cpu=4, memory="1Gi").build())
    for n in range(3000):
        cluster.remove_pod(f"uid-default-p-{n}")
    cluster.check_consistent()
    assert free(cluster) == [4000, 2**30]


@pytest.mark.parametrize("amount", LARGE_REQUESTS, ids=lambda amount: amount[:20])
@pytest.mark.parametrize("offered", ["256Gi", "9E", "1e1000000"])
def test_a_pod_that_asks_for_more_than_there_can_be_fits_nowhere(amount: str, offered: str) -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=4, memory=offered))
    harness.observe(a_pod("greedy").needs(cpu=1, memory=amount))
    harness.observe(a_pod("modest").needs(cpu=1, memory="1Gi"))
    assert placements(harness.run()) == [("modest", "n")]


@pytest.mark.parametrize("amount", LARGE_REQUESTS, ids=lambda amount: amount[:20])
@pytest.mark.parametrize("count", [1, 2, 3, 1100, 2100])
def test_where_such_pods_run_there_is_no_room(amount: str, count: int) -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=4, memory="256Gi"))
    harness.observe(*(a_pod(f"g-{n}").needs(memory=amount).on("n") for n in range(count)))
    harness.observe(a_pod("tenant").needs(cpu=1, memory="1Gi"))
    assert placements(harness.run()) == []


@pytest.mark.parametrize("amount", LARGE_REQUESTS, ids=lambda amount: amount[:20])
def test_containers_together_ask_for_no_less_than_one(amount: str) -> None:
    pod = a_pod("p").needs(memory=amount)
    for _ in range(3):
        pod = pod.container(memory=amount)
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=4, memory="256Gi"), pod.on("n"))
    harness.observe(a_pod("tenant").needs(cpu=1, memory="1Gi"))
    assert placements(harness.run()) == []
