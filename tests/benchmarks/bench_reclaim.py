"""What reclaim costs in the core: ``python -m tests.benchmarks.bench_reclaim [nodes]``.

Every node has eight cards, all of them used by training; as many pods of inference arrive, of one
card each. With ``--guaranteed`` half of all cards are guaranteed to inference, of which half as
many pods arrive; with ``--deserved`` each queue deserves half, and nobody says a service. Feeds an
engine and takes its effects, as the daemon does but without a server: victims go as soon as they
are told. Prints CPU seconds until every taker is bound, and the evictions; anchor: KAI's in-memory
benchmark of 500 nodes, 4,000 running and 4,000 pending pods, 165 s.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import click

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.api.types.queue import Queue
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_pod, a_queue
from tests.queueing import CARD, GPU, gpu_node, inference, training

CARDS = 8


def queues(by: str, cards: int) -> Iterator[Queue]:
    """Two queues of which one takes from the other ``by`` service type or by what they have."""
    half, priorities = {GPU: str(cards // 2)}, {"inference": 80000, "training": 20000}
    for name, priority in priorities.items():
        spec: dict[str, Any] = {"reclaimable": True, "priority": priority}
        if by == "deserved":
            spec["deserved"] = half
        elif by == "guaranteed" and name == "inference":
            spec["guarantee"] = {"resource": half}
        yield a_queue(name, cards={CARD: cards} if by == "service" else None, **spec)


def a_pod_of(queue: str, number: int, by: str) -> PodBuilder:
    """A pod of one card."""
    if by != "deserved":
        return inference(f"i{number}") if queue == "inference" else training(f"t{number}")
    pod = a_pod(f"{queue[0]}{number}").needs({GPU: 1}, cpu="100m").in_queue(queue)
    return pod.with_priority(80000 if queue == "inference" else 20000)


def reclaim(nodes: int, by: str) -> tuple[float, float, int]:
    """(CPU seconds until the last eviction is decided, until all are bound, evictions)."""
    engine = Engine(
        EngineSettings([default_profile()], quota_config=QuotaConfig(preempt_within_queue=False))
    )
    count = nodes * CARDS
    for queue in queues(by, count):
        engine.handlers.on_queue_updated(queue, 0.0)
    for n in range(nodes):
        engine.handlers.on_node_updated(gpu_node(f"n{n}").build(), 0.0)
    for n in range(count):
        engine.handlers.on_pod_updated(
            a_pod_of("training", n, by).on(f"n{n // CARDS}").build(), 0.0
        )
    engine.run(0.0)
    count //= 1 if by == "service" else 2
    arriving = [a_pod_of("inference", n, by).build() for n in range(count)]
    gc.collect()
    start = time.process_time()
    for pod in arriving:
        engine.handlers.on_pod_updated(pod, 0.0)
    now, bound, evicted, decided = 0.0, 0, 0, 0.0
    while bound < count:
        effects = engine.run(now)
        for effect in effects:
            if isinstance(effect, DeletePod):
                engine.on_outcome(effect, Applied(), now)
                engine.handlers.on_pod_deleted(f"default/{effect.pod.name}", now)
                evicted += 1
                decided = time.process_time() - start
            elif isinstance(effect, Bind):
                engine.on_outcome(effect, Applied(), now)
                bound += 1
        if not effects and not engine.ready:
            due = engine.next_timer()
            assert due is not None, f"{bound} of {count} are bound, and nothing is due"
            now = due
    return decided, time.process_time() - start, evicted


def main() -> None:
    """Measure the best of three runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=500)
    for kind in ("guaranteed", "deserved"):
        parser.add_argument(f"--{kind}", action="store_const", const=kind, dest="by")
    args = parser.parse_args()
    by, nodes = args.by or "service", args.nodes
    decided, done, evicted = min((reclaim(nodes, by) for _ in range(3)), key=itemgetter(1))
    click.echo(
        f"{nodes} nodes, {evicted} takers, by {by}: evictions decided in {decided:.2f} s, "
        f"all bound in {done:.2f} s of CPU ({done / evicted * 1e6:.0f} µs a taker)"
    )


if __name__ == "__main__":
    main()
