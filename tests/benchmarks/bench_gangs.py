"""What the core spends on a pod, alone and in gangs: ``python -m tests.benchmarks.bench_gangs``.

Feeds an engine nodes and pods and takes its Bindings, as the daemon does but without a server.
Prints microseconds of CPU a pod, to take it in, to decide, and to hear that it is bound, and the
rate that follows, as a part of that of lone pods.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator

import click
from msgspec import structs

from arranger.api.effects import Applied, Bind
from arranger.api.types.core import Pod
from arranger.daemon.garbage import GC_THRESHOLDS
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod

#: Name → (gangs, members of each); zero members for lone pods.
SHAPES = {
    "lone pods": (5000, 0),
    "20 x 250": (20, 250),
    "500 x 10": (500, 10),
    "1 x 5000": (1, 5000),
}
NODES = (1000, 5000)


def pods(gangs: int, size: int) -> Iterator[Pod]:
    """Pods of equal needs, as lone pods or in gangs that need all their members."""
    for gang in range(gangs):
        for member in range(size or 1):
            pod = a_pod(f"p{gang}-{member}").needs(cpu="100m", memory="500Mi")
            yield (pod.in_gang(f"g{gang}", size) if size else pod).build()


def bound(pod: Pod, node: str) -> Pod:
    """The pod as the watch shows it after its Binding."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


def spend(nodes: int, gangs: int, size: int) -> tuple[float, float, float]:
    """(microseconds a pod to take in, to decide, to hear that it is bound)."""
    engine = Engine(EngineSettings([default_profile()]))
    for n in range(nodes):
        engine.handlers.on_node_updated(a_node(f"n{n}").in_zone(f"z{n % 3}").build(), 0.0)
    engine.run(0.0)  # what comes later is not part of the initial lists
    waiting = list(pods(gangs, size))
    gc.collect()
    start = time.process_time()
    for pod in waiting:
        engine.handlers.on_pod_updated(pod, 0.0)
    arrived = time.process_time()
    bindings: list[Bind] = []
    while len(bindings) < len(waiting):
        bindings += [e for e in engine.run(0.0, limit=64) if isinstance(e, Bind)]
    decided = time.process_time()
    pod_of = {pod.metadata.uid: pod for pod in waiting}
    watched = [(binding, bound(pod_of[binding.pod.uid], binding.node)) for binding in bindings]
    gc.collect()
    begin = time.process_time()
    for binding, pod in watched:
        engine.on_outcome(binding, Applied(), 0.0)
        engine.handlers.on_pod_updated(pod, 0.0)
    confirmed = time.process_time()
    each = 1e6 / len(waiting)
    return (arrived - start) * each, (decided - arrived) * each, (confirmed - begin) * each


def main() -> None:
    """Measure every shape in alternation, and take the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as in the daemon
    click.echo("nodes  shape        taking in µs  deciding µs  confirming µs   of lone pods")
    for nodes in args.nodes:
        runs = [
            {name: spend(nodes, *shape) for name, shape in SHAPES.items()} for _ in range(args.runs)
        ]
        alone = 0.0
        for name in SHAPES:
            spent = [min(run[name][n] for run in runs) for n in range(3)]
            alone = alone or sum(spent)
            columns = "".join(f"{part:13.1f}" for part in spent)
            click.echo(f"{nodes:5}  {name:12} {columns} {alone / sum(spent):14.2f}")


if __name__ == "__main__":
    main()
