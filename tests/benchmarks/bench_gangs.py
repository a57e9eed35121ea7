"""What the core spends on a pod, alone and in gangs: ``python -m tests.benchmarks.bench_gangs``.

Feeds an engine nodes and pods and takes its Bindings, as the daemon does but without a server.
Prints microseconds of CPU a pod, to take it in and to decide, and the ratio to lone pods.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import click

from arranger.api.effects import Bind
from arranger.api.types.core import Pod
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


def decide(nodes: int, gangs: int, size: int) -> tuple[float, float]:
    """(microseconds a pod to take in, to decide)."""
    engine = Engine([default_profile()])
    for n in range(nodes):
        engine.handlers.on_node_updated(a_node(f"n{n}").in_zone(f"z{n % 3}").build(), 0.0)
    engine.run(0.0)  # what comes later is not part of the initial lists
    waiting = list(pods(gangs, size))
    gc.collect()
    start = time.process_time()
    for pod in waiting:
        engine.handlers.on_pod_updated(pod, 0.0)
    arrived = time.process_time()
    bound = 0
    while bound < len(waiting):
        for effect in engine.run(0.0, limit=64):
            bound += isinstance(effect, Bind)
    done = time.process_time()
    return (arrived - start) / len(waiting) * 1e6, (done - arrived) / len(waiting) * 1e6


def main() -> None:
    """Measure every shape, the best of three."""
    click.echo("nodes  shape        taking in µs   deciding µs   ratio to lone pods")
    for nodes in NODES:
        alone = 0.0
        for name, (gangs, size) in SHAPES.items():
            runs = [decide(nodes, gangs, size) for _ in range(3)]
            taking_in, deciding = (min(run[n] for run in runs) for n in (0, 1))
            alone = alone or taking_in + deciding
            ratio = alone / (taking_in + deciding)
            click.echo(f"{nodes:5}  {name:12} {taking_in:12.1f} {deciding:13.1f} {ratio:20.2f}")


if __name__ == "__main__":
    main()
