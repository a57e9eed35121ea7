"""Sums by domain that are kept current are those counted anew, whatever comes and goes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.topology_counts import TopologyCounts
from arranger.cluster.pod_info import PodInfo
from tests.builders import a_node, a_pod

ZONE = "topology.kubernetes.io/zone"


def a_cluster_of(nodes: int) -> Cluster:
    """Nodes over three zones, every fourth in none."""
    cluster = Cluster()
    for n in range(nodes):
        node = a_node(f"n{n}")
        cluster.set_node((node if n % 4 == 3 else node.in_zone(f"z{n % 3}")).build())
    return cluster


def by_hand(cluster: Cluster, among: set[int]) -> dict[str, int]:
    """Zone → pods on the rows ``among`` it has."""
    sums: dict[str, int] = {}
    for row in among:
        zone = cluster.table.node(row).metadata.labels.get(ZONE)
        if zone is not None:
            sums[zone] = sums.get(zone, 0) + len(cluster.table.pods[row])
    return sums


@pytest.mark.parametrize("as_mapping", [False, True])
def test_it_counts_what_is_there_now(as_mapping: bool) -> None:
    rng = random.Random(1)
    cluster = a_cluster_of(20)
    table = cluster.table
    among = np.arange(20) % 5 != 0
    sums = TopologyCounts(table, ZONE, among)
    placed: list[PodInfo] = []
    for number in range(300):
        for _ in range(rng.choice([1, 1, 3, 200])):  # a few changes, or more than are looked at
            if placed and rng.random() < 0.5:
                cluster.remove_pod(placed.pop(rng.randrange(len(placed))).uid)
            else:
                placed.append(a_pod().with_uid(f"{number}-{len(placed)}-{rng.random()}").info())
                cluster.assume_pod(placed[-1], f"n{rng.randrange(20)}")
        counts = [len(pods) for pods in table.pods]
        found = sums.sums_for(
            {row: n for row, n in enumerate(counts) if n} if as_mapping else np.array(counts)
        )
        values = table.label_values(ZONE).values
        names = {values[domain]: int(found[domain]) for domain in sums.domains}
        assert names == by_hand(cluster, set(np.flatnonzero(among).tolist()))
        assert found[-1] == 0


def test_it_is_void_when_a_node_changes_and_not_when_another_label_is_asked_for() -> None:
    cluster = a_cluster_of(4)
    sums = TopologyCounts(cluster.table, ZONE)
    cluster.assume_pod(a_pod().info(), "n0")
    cluster.table.label_column("kubernetes.io/hostname")
    assert sums.is_current
    cluster.set_node(a_node("n1").in_zone("z9").build())
    assert not sums.is_current
