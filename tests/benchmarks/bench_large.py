"""The core at sizes that others publish: ``python -m tests.benchmarks.bench_large ROW [--size N]``.

Feeds an engine and takes its effects, as the daemon does but without a server. Prints CPU seconds,
and the most memory that the process had. Rows, with what ``--size`` is of:

* ``million``: so many pods, all alike, on as many nodes (1,000,000);
* ``gang``: a gang of 512 pods of one card on so many nodes of eight (500), and the answer "no" for
  one that has a pod too many;
* ``reclaim``: 41 gangs of ten pods, each of which takes a whole node, from a queue that uses all
  cards of so many nodes (500) in gangs of four;
* ``victims``: so many pods (39,000) of which each needs one of lower priority to go, where 130,000
  nodes are full; with a smaller size, fewer nodes in proportion.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections.abc import Iterator

import click
from msgspec import structs

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.api.types.core import Node, Pod
from arranger.daemon.garbage import GC_THRESHOLDS
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.queueing import CARD, gpu_node, inference, training

CARDS = 8
MEMBERS = 512
GANGS, GANG_SIZE = 41, 10


def many_nodes(count: int) -> Iterator[Node]:
    """Nodes of 4 CPU and 32Gi in three zones, for less than builders take."""
    patterns = [a_node("n").in_zone(f"z{zone}").build() for zone in range(3)]
    for n in range(count):
        node = patterns[n % 3]
        labels = {**node.metadata.labels, "kubernetes.io/hostname": f"n{n}"}
        metadata = structs.replace(node.metadata, name=f"n{n}", uid=f"uid-n{n}", labels=labels)
        yield structs.replace(node, metadata=metadata)


def alike(pattern: PodBuilder, count: int, prefix: str) -> Iterator[Pod]:
    """So many pods like one, each with a name and uid of its own."""
    pod = pattern.build()
    for n in range(count):
        name = f"{prefix}{n}"
        yield structs.replace(pod, metadata=structs.replace(pod.metadata, name=name, uid=name))


def on_node(pod: Pod, node: str) -> Pod:
    """The pod as it runs on a node."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


class Bench:
    """An engine, and CPU seconds by what they are of."""

    def __init__(self, config: QuotaConfig | None = None) -> None:
        self.engine = Engine(
            EngineSettings([default_profile()], quota_config=config or QuotaConfig())
        )
        self.now = 0.0
        self.bound = self.evicted = 0
        self.decided = 0.0
        self._clock = time.process_time()

    def lap(self) -> float:
        """Seconds since the last lap."""
        before, self._clock = self._clock, time.process_time()
        return self._clock - before

    def take_in(self, pods: list[Pod]) -> None:
        """They arrive."""
        for pod in pods:
            self.engine.handlers.on_pod_updated(pod, self.now)

    def settle(self, until: int, limit: int = 256) -> None:
        """Go on until so many are bound, or nothing is left to do; victims go at once."""
        engine, begun = self.engine, time.process_time()
        while self.bound < until:
            effects = engine.run(self.now, limit=limit)
            for effect in effects:
                if isinstance(effect, Bind):
                    engine.on_outcome(effect, Applied(), self.now)
                    self.bound += 1
                elif isinstance(effect, DeletePod):
                    engine.on_outcome(effect, Applied(), self.now)
                    engine.handlers.on_pod_deleted(f"default/{effect.pod.name}", self.now)
                    self.evicted += 1
                    self.decided = time.process_time() - begun
            if not effects and not engine.ready:
                due = engine.next_timer()
                if due is None or due > 600:
                    return
                self.now = due


def million(size: int) -> str:
    """Equal pods on as many nodes."""
    bench = Bench()
    for node in many_nodes(size):
        bench.engine.handlers.on_node_updated(node, 0.0)
    bench.engine.run(0.0)
    nodes = bench.lap()
    pods = list(alike(a_pod().needs(cpu="100m", memory="500Mi"), size, "p"))
    gc.collect()
    bench.lap()
    bench.take_in(pods)
    arrived = bench.lap()
    bench.settle(size)
    done = bench.lap()
    assert bench.bound == size
    return (
        f"{size:,} pods on {size:,} nodes: nodes taken in in {nodes:.1f} s, pods in {arrived:.1f}, "
        f"decided in {done:.1f} ({done / size * 1e6:.0f} µs a pod)"
    )


def gang(size: int) -> str:
    """A large gang that fits, and one that does not."""
    times = []
    for count, cards in ((MEMBERS, 1), (size * CARDS // 4 + 1, 4)):
        bench = Bench()
        for n in range(size):
            bench.engine.handlers.on_node_updated(gpu_node(f"n{n}").build(), 0.0)
        bench.engine.run(0.0)
        pattern = a_pod().needs({"nvidia.com/gpu": cards}, cpu="100m").in_gang("g", count)
        members = list(alike(pattern, count, "p"))
        bench.lap()
        bench.take_in(members)
        arrived = bench.lap()
        bench.settle(count)
        times.append((count, bench.bound, arrived, bench.lap()))
    return "; ".join(
        f"gang of {count} on {size} nodes: {bound} bound, taken in in {arrived:.2f} s, decided in "
        f"{done:.2f}"
        for count, bound, arrived, done in times
    )


def reclaim(size: int) -> str:
    """Gangs that take whole nodes from gangs of another queue."""
    bench = Bench(QuotaConfig(preempt_within_queue=False))
    handlers, cards = bench.engine.handlers, size * CARDS
    for name, priority in (("inference", 80000), ("training", 20000)):
        handlers.on_queue_updated(a_queue(name, cards={CARD: cards}, priority=priority), 0.0)
    for n in range(size):
        handlers.on_node_updated(gpu_node(f"n{n}").build(), 0.0)
    for n in range(cards // 2):  # the members of a gang on four nodes
        pod = training(f"t{n}", cards=2).in_gang(f"t{n // 16}-{n % 4}", 4)
        handlers.on_pod_updated(pod.on(f"n{n // 4}").build(), 0.0)
    bench.engine.run(0.0)
    takers = [
        inference(f"i{n}", cards=CARDS).in_gang(f"i{n // GANG_SIZE}", GANG_SIZE).build()
        for n in range(GANGS * GANG_SIZE)
    ]
    bench.lap()
    bench.take_in(takers)
    bench.settle(len(takers))
    return (
        f"{GANGS} gangs of {GANG_SIZE} on {size} nodes: {bench.bound} bound, {bench.evicted} "
        f"evicted, decided in {bench.decided:.2f} s, done in {bench.lap():.2f}"
    )


def victims(size: int) -> str:
    """A victim for each taker, where all nodes are full."""
    count = size * 130 // 39
    bench = Bench()
    handlers = bench.engine.handlers
    for node in many_nodes(count):
        handlers.on_node_updated(node, 0.0)
    running = alike(a_pod().needs(cpu=3, memory="1Gi").with_priority(1), count, "v")
    for n, pod in enumerate(running):
        handlers.on_pod_updated(on_node(pod, f"n{n}"), 0.0)
    bench.engine.run(0.0)
    takers = list(alike(a_pod().needs(cpu=3, memory="1Gi").with_priority(100), size, "t"))
    bench.lap()
    bench.take_in(takers)
    arrived = bench.lap()
    bench.settle(size)
    return (
        f"{size:,} takers on {count:,} nodes: {bench.evicted:,} victims; taken in in {arrived:.2f} "
        f"s, decided in {bench.decided:.2f}, all bound after {bench.lap():.2f}"
    )


ROWS = {
    "million": (million, 1_000_000),
    "gang": (gang, 500),
    "reclaim": (reclaim, 500),
    "victims": (victims, 39_000),
}


def main() -> None:
    """Measure one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("--size", type=int)
    args = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as in the daemon
    measure, size = ROWS[args.row]
    said = measure(args.size or size)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(f"{said}; at most {most:,.0f} MiB")


if __name__ == "__main__":
    main()
