"""A row that is judged alone, as after each placement, is judged as among all others.

And all of them as one after the other, by what the table keeps about them and without it.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_view import NodeView
from arranger.framework.interface import Plugin
from arranger.framework.status import CycleState
from arranger.plugins.helpers.args import ResourceSpec
from arranger.plugins.resources.balanced_allocation import NodeResourcesBalancedAllocation
from arranger.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from tests.builders import PodBuilder, a_cluster, a_node, a_pod

AMOUNTS = {
    "any amounts": (0, 1, 3, 7, 100, 999, 4000, 2**31, 2**46 - 1, 2**52),
    "usual amounts, on every node": (1, 3, 7, 100, 999, 4000, 2**31, 2**42 - 1),
}


def _fit(kind: str, **more: Any) -> Plugin:
    strategy = {"type": kind, **more}
    return NodeResourcesFit(NodeResourcesFitArgs.model_validate({"scoringStrategy": strategy}))


def _weighted(cpu: int, memory: int) -> list[dict[str, Any]]:
    specs = ResourceSpec(name="cpu", weight=cpu), ResourceSpec(name="memory", weight=memory)
    return [spec.model_dump() for spec in specs]


SHAPE = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
PLUGINS: dict[str, Plugin] = {
    "least": _fit("LeastAllocated"),
    "most": _fit("MostAllocated"),
    "least, weighted": _fit("LeastAllocated", resources=_weighted(3, 1)),
    "most, weighted": _fit("MostAllocated", resources=_weighted(1, 7)),
    "by ratio": _fit("RequestedToCapacityRatio", requestedToCapacityRatio=SHAPE),
    "one resource": _fit("LeastAllocated", resources=_weighted(1, 1)[:1]),
    "balance": NodeResourcesBalancedAllocation(),
}


def _random_cluster(random: Random, amounts: tuple[int, ...]) -> Cluster:
    cluster = a_cluster()
    for n in range(60):
        sizes = {"cpu": f"{random.choice(amounts)}m", "memory": random.choice(amounts)}
        cluster.set_node(a_node(f"n{n}").offers(sizes, pods=random.choice((0, 1, 110))).build())
    for n in range(100):
        pod = _random_pod(random, f"p{n}", amounts).on(f"n{random.randrange(60)}")
        cluster.observe_pod(pod.info())
    return cluster


def _random_pod(random: Random, name: str, amounts: tuple[int, ...]) -> PodBuilder:
    pod = a_pod(name)
    if random.random() < 0.2:
        return pod
    return pod.needs(cpu=f"{random.choice(amounts)}m", memory=random.choice(amounts))


@pytest.mark.parametrize("amounts", AMOUNTS.values(), ids=AMOUNTS)
@pytest.mark.parametrize("name", PLUGINS)
def test_alone_as_among_all(name: str, amounts: tuple[int, ...]) -> None:
    random, plugin = Random(name), PLUGINS[name]
    cluster = _random_cluster(random, amounts)
    table, every = cluster.table, NodeView(cluster.table)
    assert table.shares.refresh() == (0 not in amounts)
    apart = NodeView(table, np.arange(table.size))
    for n in range(20):
        pod, state = _random_pod(random, f"x{n}", amounts).info(), CycleState()
        if plugin.pre_score(state, pod, every, every.alive) is not None:
            continue
        scores = plugin.score(state, pod, every, every.alive).tolist()
        assert plugin.score(state, pod, apart, apart.alive).tolist() == scores
        rows = [NodeView(table, slice(row, row + 1)) for row in range(table.size)]
        alone = [plugin.score(state, pod, row, row.alive) for row in rows]
        assert np.concatenate(alone).tolist() == scores
        if isinstance(plugin, NodeResourcesFit):
            passes = plugin.filter(state, pod, every).passes.tolist()
            assert [plugin.filter(state, pod, row).passes.item() for row in rows] == passes
            assert plugin.filter(state, pod, apart).passes.tolist() == passes
        cluster.assume_pod(pod, f"n{n}")
    cluster.check_consistent()
