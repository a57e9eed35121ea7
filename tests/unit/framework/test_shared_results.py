"""What classes of pods share about nodes equals what each would find out alone."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_results import NodeResults
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins import default_profile
from arranger.plugins.nodes.node_declared_features import USERS_ON_HOST_NETWORK
from tests.builders import NodeBuilder, PodBuilder, a_cluster, a_node, a_pod, expr

PROFILE = default_profile()
PODS: dict[str, PodBuilder] = {
    "plain": a_pod(),
    "other requests and labels": a_pod().labelled(app="a").needs(cpu=1),
    "selecting": a_pod().selects(pool="a"),
    "selecting others": a_pod().selects(pool="b"),
    "by affinity": a_pod().requires(expr("pool", "In", "a")),
    "by name": a_pod().requires(fields=[expr("metadata.name", "NotIn", "n1")]),
    "preferring": a_pod().prefers(5, expr("pool", "In", "a")),
    "preferring others": a_pod().prefers(5, expr("pool", "In", "b")),
    "tolerating": a_pod().tolerates("gpu"),
    "tolerating the cordon": a_pod().tolerates("node.kubernetes.io/unschedulable"),
    "tolerating softly": a_pod().tolerates("old", effect="PreferNoSchedule"),
    "on a node": a_pod().on("n2"),
    "with an image": a_pod().running("nginx:1"),
    "with two of them": a_pod().running("nginx:1", "redis:7"),
    "on the network of the host": a_pod().with_spec(hostNetwork=True, hostUsers=False),
}


def a_random_node(n: int, random: Random) -> NodeBuilder:
    node = a_node(f"n{n}").labelled(pool=random.choice("ab"))
    changes: list[Callable[[NodeBuilder], NodeBuilder]] = [
        lambda node: node.cordoned(),
        lambda node: node.tainted("gpu"),
        lambda node: node.tainted("old", effect="PreferNoSchedule"),
        lambda node: node.holding("nginx:1", random.randrange(10**8, 10**9)),
        lambda node: node.holding("redis:7", 10**9),
        lambda node: node.declaring(USERS_ON_HOST_NETWORK),
    ]
    for change in changes:
        if random.random() < 0.3:
            node = change(node)
    return node


def assert_as_alone(cluster: Cluster) -> None:
    for name, pod in PODS.items():
        shared = Evaluation(PROFILE, cluster, pod.info())
        kept, cluster.node_results = cluster.node_results, NodeResults(cluster.table)
        alone = Evaluation(PROFILE, cluster, pod.info())
        cluster.node_results = kept
        assert np.array_equal(shared.feasible, alone.feasible), name
        assert np.array_equal(shared.total_scores, alone.total_scores), name


@pytest.mark.parametrize("seed", range(8))
def test_shared_results_are_those_of_each_class_alone(seed: int) -> None:
    random = Random(seed)
    cluster = a_cluster(*(a_random_node(n, random) for n in range(12)))
    for _ in range(12):
        assert_as_alone(cluster)
        n = random.randrange(14)
        if random.random() < 0.2 and f"n{n}" in cluster.table.index:
            cluster.remove_node(f"n{n}")
        else:
            cluster.set_node(a_random_node(n, random).build())


def test_results_that_are_not_used_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arranger.cluster.nodes.node_results._MAX_KEPT", 2)
    results = NodeResults(a_cluster(a_node("n1")).table)
    asked: list[str] = []

    def ask(key: str) -> None:
        results.mask(key, lambda: (asked.append(key), np.ones(1, dtype=np.bool_))[1])
        results.scores(key, lambda: (asked.append(key), np.ones(1, dtype=np.int64))[1])

    for key in "abacab":
        ask(key)
    assert "".join(asked) == "aabbccbb", "the one not used longest goes"
