"""What a decision costs: ``python -m tests.benchmarks.bench_core [nodes]``.

Prints microseconds of judging a class of pods cold, and of keeping it current after a placement.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, expr

PLAIN = a_pod().needs(cpu="100m", memory="500Mi")
CLASSES: dict[str, PodBuilder] = {
    "plain": PLAIN,
    "tolerating and selecting": PLAIN.tolerates("gpu").selects(pool="a"),
    "host port": PLAIN.host_port(8080),
    "preferring a zone": PLAIN.prefers(10, expr("topology.kubernetes.io/zone", "In", "z1")),
    "spreading over zones": PLAIN.labelled(app="web").spreads(
        "topology.kubernetes.io/zone", over={"app": "web"}
    ),
    "apart per host": PLAIN.labelled(app="web").apart("kubernetes.io/hostname", {"app": "web"}),
}


def a_large_cluster(nodes: int) -> Cluster:
    """``nodes`` nodes over three zones and two pools, a tenth of them tainted."""
    cluster = Cluster()
    for n in range(nodes):
        node = a_node(f"n{n}").in_zone(f"z{n % 3}").labelled(pool="ab"[n % 2])
        cluster.set_node((node.tainted("gpu") if n % 10 == 0 else node).build())
    return cluster


def fastest(action: Callable[[], object], times: int) -> float:
    """Microseconds of the fastest of ``times`` calls: the others waited for something."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def numbered(pod: PodBuilder, count: int) -> list[PodInfo]:
    """Pods that differ in their name only."""
    return [pod.with_uid(f"uid-{n}").info() for n in range(count)]


def main() -> None:
    """Measure every class."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    profile = default_profile()
    click.echo(f"{nodes} nodes, µs{'cold':>30}{'placed':>10}{'median':>10}")
    for name, pod in CLASSES.items():
        cluster = a_large_cluster(nodes)
        info = pod.info()
        cold = fastest(lambda c=cluster, i=info: Evaluation(profile, c, i), 50)
        evaluation = Evaluation(profile, cluster, info)
        costs = []
        for member in numbered(pod, 300):
            row = evaluation.best_row()
            if row < 0:
                break
            cluster.assume_pod(member, cluster.table.name(row))
            start = time.perf_counter()
            evaluation.refresh()
            costs.append((time.perf_counter() - start) * 1e6)
        costs.sort()
        click.echo(f"{name:30}{cold:12.0f}{costs[0]:10.1f}{costs[len(costs) // 2]:10.1f}")


if __name__ == "__main__":
    main()
