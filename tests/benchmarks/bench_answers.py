"""How long answers take: ``python -m tests.benchmarks.bench_answers [nodes] [pods] [waiting]``.

A warm shadow of a large cluster (three namespaces, queues with limits, GPUs, Deployments, gangs) is
asked ``why`` about what waits in it, and ``whatif`` of every kind. Prints what it takes to make the
shadow, and of the answers the median, the 95th percentile and the worst, in wall-clock seconds, and
the median of the CPU seconds that they take: the work is in other processes, and several at a time.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from arranger.daemon.config.schema import Config
from arranger.shadow import ClusterObjects, Shadow, WhatIf, Why
from arranger.shadow.forecasts.added_nodes import add_nodes
from arranger.shadow.forecasts.changes import cordon, create, delete, set_queue
from arranger.shadow.inputs.objects import owner_kinds
from tests.builders import a_node, a_pod, a_pod_group
from tests.queueing import a_queue_manifest

#: Members of a waiting gang, and of every Deployment.
GANG, REPLICAS = 10, 25
QUEUES = ("red", "green", "blue")


def cluster(nodes: int, pods: int, waiting: int) -> Iterator[dict[str, Any]]:
    """All objects: nodes with eight cards, pods of three sizes, and what waits for various."""
    rng = random.Random(1)
    for n in range(nodes):
        made = a_node(f"n{n}").in_zone(f"z{n % 3}").labelled({"kubernetes.io/hostname": f"n{n}"})
        offers = {"nvidia.com/gpu": 8} if n % 2 else {}
        yield made.offers(cpu=32, memory="128Gi", pods=110, **offers).manifest()
    for queue in QUEUES:
        yield a_queue_manifest(queue, capability={"cpu": str(20 * nodes)})
    for n in range(pods):
        pod = a_pod(f"old-{n}").in_namespace(f"team-{n // REPLICAS % 3}").on(f"n{n % nodes}")
        pod = pod.needs(cpu=f"{rng.choice((2500, 2800, 3100))}m", memory="2Gi")
        pod = pod.owned_by("ReplicaSet", f"web-{n // REPLICAS}").labelled(app=f"a{n % 50}")
        yield pod.in_queue(QUEUES[n % 3]).in_phase("Running").manifest()
    for n in range(waiting):
        pod = a_pod(f"new-{n}").in_queue(QUEUES[n % 3])
        match n % 5:
            case 0:
                yield pod.needs(cpu=30).manifest()
            case 1:
                yield pod.needs(cpu=40).manifest()
            case 2:
                yield pod.needs(cpu=1).selects(disk="ssd").manifest()
            case 3:
                yield pod.needs(cpu=24, **{"nvidia.com/gpu": 8}).manifest()
            case _:
                gang = n // (5 * GANG)
                pod = pod.in_queue(QUEUES[gang % 3]).needs(cpu=20)
                yield pod.in_pod_group(f"g{gang}").manifest()
    yield a_queue_manifest("full", capability={"cpu": "10"})
    for n in range(waiting // 5):
        yield a_pod(f"limited-{n}").in_queue("full").needs(cpu=20).manifest()
        yield (
            a_pod(f"early-{n}")
            .in_queue(QUEUES[n % 3])
            .needs(cpu=30)
            .in_pod_group("late")
            .manifest()
        )
    yield a_pod_group("late").with_spec(minMember=waiting // 5 + 2).manifest()
    for g in range(waiting // (5 * GANG) + 1):
        yield a_pod_group(f"g{g}").with_spec(minMember=GANG).manifest()


def measure(ask: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall's clock, and of CPU."""
    start, used = time.perf_counter(), cpu()
    ask()
    return time.perf_counter() - start, cpu() - used


def cpu() -> float:
    """Seconds that this process and those it has waited for have used."""
    each = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in each)


def tell(name: str, measured: list[tuple[float, float]]) -> None:
    """One line of the table."""
    seconds = [wall for wall, _ in measured]
    worst, middle = max(seconds), statistics.median(seconds)
    high = statistics.quantiles(seconds, n=20)[-1] if len(seconds) > 1 else worst
    used = statistics.median(used for _, used in measured)
    row = f"{name:<40} {middle:6.2f} {high:6.2f} {worst:6.2f} {used:6.2f}"
    click.echo(f"{row}  of {len(seconds)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=5000)
    parser.add_argument("pods", type=int, nargs="?", default=50_000)
    parser.add_argument("waiting", type=int, nargs="?", default=100)
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    config = Config()
    manifests = list(cluster(given.nodes, given.pods, given.waiting))
    start = time.perf_counter()
    objects = ClusterObjects.from_manifests(manifests, owner_kinds(config))
    read = time.perf_counter()
    shadow = Shadow.of(objects, config)
    click.echo(
        f"{given.nodes} nodes, {given.pods} pods, {given.waiting} waiting; cold: read in"
        f" {read - start:.1f} s, taken in in {time.perf_counter() - read:.1f} s"
    )
    del manifests
    gc.collect()
    gc.freeze()
    click.echo(f"{'seconds':<40} {'median':>6} {'p95':>6} {'worst':>6} {'cpu':>6}")
    times = range(given.times)

    def why_pod(name: str, suggest: bool = True) -> tuple[float, float]:
        return measure(lambda: shadow.ask_now(Why(name, suggest=suggest)))

    def why(n: int, suggest: bool) -> tuple[float, float]:
        return why_pod(f"new-{n * 7 % given.waiting}", suggest)

    tell("the first question", [why(0, False)])
    tell("why POD, without suggestions", [why(n, False) for n in times])
    for n, what in enumerate(("full", "too large", "label", "cards", "gang")):
        asked = [why((n + 5 * m) * 3, True) for m in times]  # 3 * 7 leaves the kind as it is
        tell(f"why POD ({what})", asked)
    few = given.waiting // 5
    tell("why POD (limit of its queue)", [why_pod(f"limited-{n % few}") for n in times])
    tell("why POD (incomplete gang)", [why_pod(f"early-{n % few}") for n in times])
    tell("why queue", [measure(lambda: shadow.ask_now(Why("queue/red", suggest=False)))])
    new = a_pod("mine").needs(cpu=30).manifest()
    for name, changes in {
        "whatif -f": [create([new], "with mine")],
        "whatif --cordon": [cordon("n1")],
        "whatif --add-nodes": [add_nodes(4, "n3")],
        "whatif --delete": [delete("replicaset", "team-0/web-0")],
        "whatif --queue": [set_queue("red", "capability", "cpu", "10")],
    }.items():
        question = WhatIf(changes)
        tell(name, [measure(lambda asked=question: shadow.ask_now(asked)) for _ in times])


if __name__ == "__main__":
    main()
