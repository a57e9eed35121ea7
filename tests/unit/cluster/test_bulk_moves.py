"""Many pods that move at once leave the same behind as pods that move one by one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.bulk_moves import add_pods, remove_pods
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from tests.builders import a_cluster, a_node, a_pod
from tests.builders.pods import PodBuilder

HOST = "kubernetes.io/hostname"


def a_world(seed: int) -> tuple[Cluster, list[tuple[PodInfo, int]]]:
    """A cluster of some nodes, and pods of all kinds for it."""
    rng = random.Random(seed)
    cluster = a_cluster(*(a_node(f"n{n}") for n in range(10)))
    placed = []
    for n in range(rng.randrange(1, 120)):
        pod = a_pod(f"p{n}").in_namespace(rng.choice("ab"))
        match rng.randrange(8):
            case 0:
                pod = pod.apart(HOST, {"app": "x"})
            case 1:
                pod = pod.host_port(80 + n)
            case 2:
                pod = pod.with_claim(f"claim-{n % 3}")
            case 3:
                pod = pod.needs({"example.com/nobody-has-it": 1})
            case 4:
                pod = pod.needs(memory="8000Ti")
            case kind:
                pod = pod.needs(cpu=kind)
        placed.append((pod.info(), rng.randrange(10)))
    return cluster, placed


@pytest.mark.parametrize("seed", range(30))
def test_the_sums_are_those_of_pods_that_move_one_by_one(seed: int) -> None:
    together, placed = a_world(seed)
    apart, same = a_world(seed)
    add_pods(together.table, placed)
    for pod, row in same:
        apart.table.add_pod(pod, row)
    for some in (placed, placed[: len(placed) // 2]):
        assert (together.table.requested == apart.table.requested).all()
        assert (together.table.nonzero_requested == apart.table.nonzero_requested).all()
        together.table.check_consistent()
        remove_pods(together.table, some)
        for pod, row in same[: len(some)]:
            apart.table.remove_pod(pod, row)
        add_pods(together.table, some)
        for pod, row in same[: len(some)]:
            apart.table.add_pod(pod, row)
    for row in range(10):
        assert set(together.table.pods[row]) == set(apart.table.pods[row])


def test_every_row_that_changes_is_logged() -> None:
    cluster, placed = a_world(1)
    version = cluster.table.version
    add_pods(cluster.table, placed)
    changes = cluster.table.changed_since(version)
    assert changes is not None
    assert {row for _, row in changes} == {row for _, row in placed}


def test_a_pod_is_not_added_twice() -> None:
    cluster, _ = a_world(1)
    pod = a_pod("p").info()
    add_pods(cluster.table, [(pod, 0)])
    with pytest.raises(ValueError, match="already"):
        add_pods(cluster.table, [(pod, 0)])


KINDS: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "with terms": lambda pod: pod.apart(HOST, {"app": "x"}),
    "with ports": lambda pod: pod.host_port(80),
    "with claims": lambda pod: pod.with_claim("claim"),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_else_is_counted_of_pods_does_not_make_their_sums_dear(
    kind: Callable[[PodBuilder], PodBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster(*(a_node(f"n{n}") for n in range(10)))
    placed = [(kind(a_pod(f"p{n}")).info(), n % 10) for n in range(100)]
    one_by_one = list[PodInfo]()
    monkeypatch.setattr(NodeTable, "add_pod", lambda table, pod, row: one_by_one.append(pod))
    add_pods(cluster.table, placed)
    assert not one_by_one
    cluster.table.check_consistent()
