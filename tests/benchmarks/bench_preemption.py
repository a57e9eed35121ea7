"""What preemption costs: ``python -m tests.benchmarks.bench_preemption [--real] [--nodes 1000]``.

Nodes of 4 CPU are full of pods of 900m, four each; as many preemptors of 3 CPU as there are nodes
have to make three of them leave. With ``--gang SPARE`` all of the nodes' pods are of one gang that
has so many to spare, and there is one preemptor; told is what it takes until it is nominated, with
the longest step of the engine. With ``--budgets N`` there are so many PodDisruptionBudgets, each of
an app of its own. Without ``--real`` the core alone is measured: CPU a preemptor from the first
attempt to the Binding, the best of three runs. With it, contenders on a control plane of their own
each; the victims go as soon as they are deleted (their grace is 0) and come to no kubelet. A
scheduler may evict for all before it binds the first, so what counts is the rate from its start to
the last binding ("pods/s in all"). Compare ratios within one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Iterator
from typing import Any

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.daemon.scheduler import SECONDS_PER_STEP
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.benchmarks.comparison import CONTENDERS, HEADING, PODS, measure
from tests.builders import a_disruption_budget, a_node, a_pod
from tests.controlplane import harness

EACH = 4
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NAMESPACES = "/api/v1/namespaces"
#: The victims' namespace, so that the benchmark need not watch them as well.
THEIRS = "victims"


def a_budget(app: int) -> PodDisruptionBudget:
    """One that lets one pod of an app go."""
    return a_disruption_budget({"matchLabels": {"app": f"a{app}"}}, 1, name=f"b{app}")


def drain(nodes: int, budgets: int = 0) -> tuple[float, int]:
    """(microseconds of the core's CPU a preemptor, number of evictions)."""
    engine = Engine(EngineSettings([default_profile()]))
    pods = {}
    for n in range(nodes):
        engine.handlers.on_node_updated(
            a_node(f"n{n}").offers(cpu=4).in_zone(f"z{n % 3}").build(), 0.0
        )
        for i in range(EACH):
            low = a_pod(f"low-{n}-{i}").needs(cpu="900m", memory="500Mi").on(f"n{n}")
            low = low.labelled(app=f"a{(n * EACH + i) % max(budgets, 1)}")
            engine.handlers.on_pod_updated(low.build(), 0.0)
    for app in range(budgets):
        engine.handlers.on_disruption_budget_updated(a_budget(app), 0.0)
    engine.run(0.0)  # what comes later is not part of the initial lists
    for n in range(nodes):
        high = a_pod(f"high-{n}").needs(cpu=3, memory="500Mi").with_priority(10)
        pods[f"high-{n}"] = high
        engine.handlers.on_pod_updated(high.build(), 0.0)
    gc.collect()
    now, bound, evicted = 0.0, 0, 0
    start = time.process_time()
    while bound < nodes:
        for effect in engine.run(now, limit=64):
            if isinstance(effect, Bind):
                bound += 1
                engine.on_outcome(effect, Applied(), now)
            elif isinstance(effect, DeletePod):
                evicted += 1
                engine.on_outcome(effect, Applied(), now)
                engine.handlers.on_pod_deleted(f"default/{effect.pod.name}", now)
        if not engine.ready:
            now = max(now, engine.next_timer() or now)
    return (time.process_time() - start) / nodes * 1e6, evicted


def drain_gang(nodes: int, spare: int) -> tuple[float, float, int]:
    """(CPU milliseconds of one preemptor, of its longest step, number of evictions)."""
    engine = Engine(EngineSettings([default_profile()], perf_counter=time.perf_counter))
    for n in range(nodes):
        engine.handlers.on_node_updated(a_node(f"n{n}").offers(cpu=8).build(), 0.0)
    size = nodes * 8
    for n in range(size):
        low = a_pod(f"low-{n}").needs(cpu=1).in_gang("g", size - spare).on(f"n{n // 8}")
        engine.handlers.on_pod_updated(low.build(), 0.0)
    engine.run(0.0)
    high = a_pod("high").needs(cpu=3).with_priority(10)
    engine.handlers.on_pod_updated(high.build(), 0.0)
    gc.collect()
    steps, evicted = list[float](), 0
    while engine.ready:
        start = time.process_time()
        effects = engine.run(0.0, seconds=SECONDS_PER_STEP)
        steps.append((time.process_time() - start) * 1000)
        evicted += sum(isinstance(effect, DeletePod) for effect in effects)
    return sum(steps), max(steps), evicted


# --- on the real control plane -----------------------------------------------------------------


def victims(nodes: int, scheduler: str) -> Iterator[dict[str, Any]]:
    """Running pods that go at once when they are deleted."""
    for n in range(nodes):
        for i in range(EACH):
            pod = harness.a_pod(f"low-{n}-{i}", scheduler=scheduler, cpu="900m", namespace=THEIRS)
            pod["spec"] |= {"nodeName": f"n{n}", "terminationGracePeriodSeconds": 0}
            yield pod


def preemptors(nodes: int, scheduler: str) -> Iterator[dict[str, Any]]:
    """Pods that fit nowhere, and are more important."""
    for n in range(nodes):
        pod = harness.a_pod(f"high-{n}", scheduler=scheduler, cpu="3")
        pod["spec"]["priorityClassName"] = "high"
        yield pod


async def main_real(nodes: int, only: str | None) -> None:
    """Run both contenders and print a table."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    high = {**head, "metadata": {"name": "high"}, "value": 1000}
    results = {}
    print(f"{nodes} nodes, {nodes} preemptors of three victims each\n{HEADING}")
    for name, (start, scheduler) in CONTENDERS.items():
        if only not in (None, name):
            continue
        results[name] = await measure(
            name,
            start,
            nodes=(harness.a_node(f"n{n}") for n in range(nodes)),
            pods={
                CLASSES: [high],
                NAMESPACES: [{"metadata": {"name": THEIRS}}],
                f"{NAMESPACES}/{THEIRS}/pods": victims(nodes, scheduler),
                PODS: preemptors(nodes, scheduler),
            },
            seen="high-",
            count=nodes,
        )
        print(results[name].row(), flush=True)
    if CONTENDERS.keys() <= results.keys():
        ours, theirs = results["arranger"], results["kube-scheduler"]
        print(
            f"arranger is {ours.overall / theirs.overall:.2f} times as fast as kube-scheduler from"
            f" the start, with 1/{theirs.scheduler_cpu / ours.scheduler_cpu:.1f} of its CPU"
        )


def main() -> None:
    """Measure the core, or with ``--real`` both contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gang", type=int, metavar="SPARE")
    parser.add_argument("--budgets", type=int, default=0)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--only", choices=list(CONTENDERS))
    args = parser.parse_args()
    if args.real:
        asyncio.run(main_real(args.nodes, args.only))
        return
    if args.gang is not None:
        total, longest, evicted = min(drain_gang(args.nodes, args.gang) for _ in range(3))
        print(f"{args.nodes} nodes: {total:.0f} ms, longest {longest:.0f}, {evicted} evictions")
        return
    cost, evicted = min(drain(args.nodes, args.budgets) for _ in range(3))
    print(f"{args.nodes} nodes: {cost:.0f} µs of CPU a preemptor, {evicted} evictions")


if __name__ == "__main__":
    main()
