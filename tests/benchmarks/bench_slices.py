"""What one tenant's work costs another: ``python -m tests.benchmarks.bench_slices [nodes] [pods]``.

So many gangs that fit nowhere, or pods of as many distinct specs, or what else one tenant may think
of, wait; another tenant's pods come one by one, while pods leave nodes and wake what waits. Prints
milliseconds: of CPU of single steps of the engine, and of the events by which the crowd comes, and
from the arrival of the other's pod to its Binding.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from arranger.api.effects import Applied, Bind
from arranger.api.types.core import Pod
from arranger.daemon.garbage import tune_gc
from arranger.daemon.scheduler import ENTITIES_PER_STEP, SECONDS_PER_STEP
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod

ARRIVALS = 60


def unfittable_gangs(count: int) -> Iterator[Pod]:
    """Gangs of four pods, each larger than any node."""
    for gang in range(count):
        for n in range(4):
            name = f"g{gang}-{n}"
            pod = a_pod(name).in_namespace("greedy").needs(cpu=4, memory=f"{40 + gang % 7}Gi")
            yield pod.in_gang(f"g{gang}", 4).build()


def distinct_specs(count: int) -> Iterator[Pod]:
    """Pods of which no two are alike, each larger than any node."""
    for n in range(count):
        pod = a_pod(f"d{n}").in_namespace("greedy").needs(cpu=1, memory=f"{40_000 + n}Mi")
        yield pod.build()


def gangs_that_name_each_other(count: int) -> Iterator[Pod]:
    """Up to 256 gangs of two pods, which start together or not at all."""
    gangs = min(count // 2, 256)
    names = json.dumps([f"greedy/g{n}" for n in range(gangs)])
    for n in range(2 * gangs):
        pod = a_pod(f"g{n}").in_namespace("greedy").needs(cpu=4, memory="40Gi")
        yield pod.in_gang(f"g{n // 2}", 2, groups=names).build()


def bundles(count: int) -> Iterator[Pod]:
    """One gang in which every member is a bundle of its own."""
    for n in range(count):
        pod = a_pod(f"b{n}").in_namespace("greedy").needs(cpu=4, memory="40Gi")
        yield pod.in_bundle("g", f"b{n}", 1).build()


def incomplete_gangs(count: int) -> Iterator[Pod]:
    """Gangs of two pods, of which one never comes."""
    for n in range(count):
        yield a_pod(f"i{n}").in_namespace("greedy").needs(cpu=1).in_gang(f"g{n}", 2).build()


def one_gang(count: int) -> Iterator[Pod]:
    """One gang of pods larger than any node."""
    for n in range(count):
        pod = a_pod(f"o{n}").in_namespace("greedy").needs(cpu=4, memory="40Gi")
        yield pod.in_gang("g", count).build()


CROWDS: dict[str, Callable[[int], Iterator[Pod]]] = {
    "unfittable gangs": unfittable_gangs,
    "distinct specs": distinct_specs,
    "gangs that name each other": gangs_that_name_each_other,
    "bundles of one gang": bundles,
    "incomplete gangs": incomplete_gangs,
    "members of one gang": one_gang,
}


class Bench:
    """An engine that is driven as the daemon does it."""

    def __init__(self, nodes: int) -> None:
        self.engine = Engine(EngineSettings([default_profile()], perf_counter=time.perf_counter))
        for row in range(nodes):
            node = a_node(f"n{row}").in_zone(f"z{row % 3}").build()
            self.engine.handlers.on_node_updated(node, 0.0)
        self.steps: list[float] = []
        self.bound: dict[str, float] = {}
        self.began = time.perf_counter()

    def step(self) -> None:
        """One step of the engine, with its Bindings carried out at once."""
        start, now = time.thread_time(), time.perf_counter() - self.began
        effects = self.engine.run(now, limit=ENTITIES_PER_STEP, seconds=SECONDS_PER_STEP)
        for effect in effects:
            if isinstance(effect, Bind):
                self.bound[effect.pod.name] = time.perf_counter()
                self.engine.on_outcome(effect, Applied(), now)
        self.steps.append(time.thread_time() - start)

    def settle(self) -> None:
        """Steps until nothing is ready."""
        self.step()
        while self.engine.ready:
            self.step()


def measure(crowd: Callable[[int], Iterator[Pod]], nodes: int, count: int) -> dict[str, float]:
    """Milliseconds, by what they are of."""
    bench = Bench(nodes)
    handlers = bench.engine.handlers
    for n in range(ARRIVALS):
        filler = a_pod(f"f{n}").in_namespace("other").needs(cpu=1).on(f"n{n}")
        handlers.on_pod_updated(filler.build(), 0.0)
    bench.settle()
    bench.steps.clear()
    gc.collect()
    tune_gc()
    event = 0.0
    for n, pod in enumerate(crowd(count)):
        start = time.thread_time()
        handlers.on_pod_updated(pod, time.perf_counter() - bench.began)
        event = max(event, time.thread_time() - start)
        if n % ARRIVALS == 0:
            bench.step()
    bench.settle()
    arrival = max(bench.steps)
    bench.steps.clear()
    delays = []
    for n in range(ARRIVALS):
        now = time.perf_counter() - bench.began
        handlers.on_pod_deleted(f"other/f{n}", now)  # wakes what waits
        came = time.perf_counter()
        newcomer = a_pod(f"new{n}").in_namespace("other").needs(cpu=1).build()
        handlers.on_pod_updated(newcomer, now)
        while f"new{n}" not in bench.bound:
            bench.step()
        delays.append(bench.bound[f"new{n}"] - came)
    return {
        "event, worst": event * 1e3,
        "step as they come, worst": arrival * 1e3,
        "step, median": statistics.median(bench.steps) * 1e3,
        "step, worst": max(bench.steps) * 1e3,
        "other's pod, median": statistics.median(delays) * 1e3,
        "other's pod, worst": max(delays) * 1e3,
    }


def main() -> None:
    """Measure every crowd."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    waiting = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    for name, crowd in CROWDS.items():
        found = measure(crowd, nodes, waiting)
        row = "  ".join(f"{what} {milliseconds:.1f}" for what, milliseconds in found.items())
        print(f"{waiting} {name} on {nodes} nodes: {row}")


if __name__ == "__main__":
    main()
