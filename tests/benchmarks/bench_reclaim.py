"""What reclaim costs in the core: ``python -m tests.benchmarks.bench_reclaim [nodes]``.

Every node has eight cards, all of them used by training; as many pods of inference arrive, of one
card each. Feeds an engine and takes its effects, as the daemon does but without a server: victims
go as soon as they are told. Prints CPU seconds until every taker is bound, and the evictions;
anchor: KAI's in-memory benchmark of 500 nodes, 4,000 running and 4,000 pending pods, 165 s.
"""

from __future__ import annotations

import gc
import sys
import time

import click

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_queue
from tests.queueing import CARD, gpu_node, inference, training

CARDS = 8


def reclaim(nodes: int) -> tuple[float, float, int]:
    """(CPU seconds until the last eviction is decided, until all are bound, evictions)."""
    engine = Engine(
        EngineSettings([default_profile()], quota_config=QuotaConfig(preempt_within_queue=False))
    )
    count = nodes * CARDS
    for name, priority in (("inference", 80000), ("training", 20000)):
        engine.handlers.on_queue_updated(a_queue(name, cards={CARD: count}, priority=priority), 0.0)
    for n in range(nodes):
        engine.handlers.on_node_updated(gpu_node(f"n{n}").build(), 0.0)
    for n in range(count):
        engine.handlers.on_pod_updated(training(f"t{n}").on(f"n{n // CARDS}").build(), 0.0)
    engine.run(0.0)
    takers: dict[str, PodBuilder] = {f"i{n}": inference(f"i{n}") for n in range(count)}
    arriving = [pod.build() for pod in takers.values()]
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
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    decided, done, evicted = min(
        (reclaim(nodes) for _ in range(3)), key=lambda measured: measured[1]
    )
    each = done / (nodes * CARDS) * 1e6
    click.echo(
        f"{nodes} nodes, {nodes * CARDS} takers: {evicted} evictions decided in {decided:.2f} s, "
        f"all bound in {done:.2f} s of CPU ({each:.0f} µs a taker)"
    )


if __name__ == "__main__":
    main()
