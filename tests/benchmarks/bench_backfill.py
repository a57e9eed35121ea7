"""How fast lone pods are placed while gangs wait and a start is planned, beside no plan.

    python -m tests.benchmarks.bench_backfill [--nodes 5000] [--pods 4000] [--gangs 200]

CPU time of the engine alone, both in one process, in turns; the ratio is what counts. Then the
longest step of a first plan, with pods beside: the loop is held for so long.
"""

from __future__ import annotations

import argparse
import gc
import time
from dataclasses import replace
from statistics import median

from arranger.api.effects import Applied, Bind
from arranger.daemon.garbage import tune_gc
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.storage import a_claim, a_class

_ON = GangPolicy(starvation_after=0.001, reservation_seconds=1e9)


def crowded(policy: GangPolicy, nodes: int, gangs: int) -> Engine:
    """Nodes of 16 CPUs, half taken by pods that end; each gang needs four nodes as a whole."""
    engine = Engine(EngineSettings([default_profile()], gang_policy=policy))
    handlers = engine.handlers
    for n in range(nodes):
        handlers.on_node_updated(a_node(f"n{n}").offers(cpu=16, pods=110).build(), 0.0)
        old = a_pod(f"old-{n}").needs(cpu=8).on(f"n{n}").with_spec(activeDeadlineSeconds=1000 + n)
        started = {"phase": "Running", "startTime": "1970-01-01T00:00:00Z"}
        handlers.on_pod_updated(old.with_status(**started).build(), 0.0)
    for g in range(gangs):
        for m in range(4):
            pod = a_pod(f"g{g}-{m}").needs(cpu=16).in_gang(f"g{g}", 4)
            handlers.on_pod_updated(pod.build(), 0.0)
    for now in (1.0, 2.0, 400.0):
        drain(engine, now)
    return engine


def drain(engine: Engine, now: float) -> int:
    """Run until nothing is left; returns how many pods are bound."""
    bound = 0
    while True:
        done = engine.run(now)
        for effect in done:
            engine.on_outcome(effect, Applied(), now)
            bound += isinstance(effect, Bind)
        if not done and not engine.ready:
            return bound


def rate(engine: Engine, pods: int, turn: int) -> float:
    """Lone pods placed in a second of CPU time."""
    for n in range(pods):
        pod = a_pod(f"lone-{turn}-{n}").needs(cpu="100m")
        engine.handlers.on_pod_updated(pod.build(), 500.0 + turn)
    began = time.process_time()
    bound = drain(engine, 500.0 + turn)
    return bound / (time.process_time() - began)


def longest_step(nodes: int, members: int, kind: str = "") -> float:
    """Seconds of CPU time that a step takes at most until a gang is planned, ten pods a node.

    ``kind``: members with ``requests`` of their own, or with a claim each that has no volume yet.
    """
    engine = Engine(EngineSettings([default_profile()], gang_policy=_ON))
    engine.handlers.on_object_updated(a_class().build(), 0.0)
    started = {"phase": "Running", "startTime": "1970-01-01T00:00:00Z"}
    for n in range(nodes):
        engine.handlers.on_node_updated(a_node(f"n{n}").offers(cpu=10, pods=110).build(), 0.0)
        for m in range(10):
            old = a_pod(f"old-{n}-{m}").needs(cpu=1).on(f"n{n}").with_status(**started)
            limit = {"activeDeadlineSeconds": 1000 + n + m} if m % 2 else {}
            engine.handlers.on_pod_updated(old.with_spec(**limit).build(), 0.0)
    for m in range(members):
        pod = a_pod(f"g-{m}").needs(cpu=f"{1000 + m * (kind == 'requests')}m").in_gang("g", members)
        if kind == "claims":
            engine.handlers.on_object_updated(a_claim(f"c{m}").build(), 0.0)
            pod = pod.with_claim(f"c{m}")
        engine.handlers.on_pod_updated(pod.build(), 0.0)
    drain(engine, 0.0)
    gc.collect()
    tune_gc()
    longest, now = 0.0, 0.0
    while not engine.planned_room.plans:
        began, now = time.process_time(), now + 0.01
        for effect in engine.run(now, seconds=0.001):
            engine.on_outcome(effect, Applied(), now)
        longest = max(longest, time.process_time() - began)
    return longest


def main() -> None:
    """Measure in turns, and say the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 5000), ("pods", 2000), ("gangs", 200), ("turns", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    began = time.process_time()
    on = crowded(_ON, args.nodes, args.gangs)
    planned = time.process_time() - began
    off = crowded(replace(_ON, starvation_after=float("inf")), args.nodes, args.gangs)
    starts = [g.planned_start for g in on.registry.gangs.values() if g.planned_start is not None]
    print(f"planned: {len(starts)}; to build and plan {planned:.1f} s CPU")
    gc.collect()
    gc.freeze()  # as the daemon does
    rates = [(rate(on, args.pods, n), rate(off, args.pods, n)) for n in range(args.turns)]
    with_plan, without = (median(each) for each in zip(*rates, strict=True))
    ratio = median(a / b for a, b in rates)
    print(f"with the plan {with_plan:.0f}, without {without:.0f} pods/s: {ratio:.2f}")
    for members in (4, 2500, 8000):
        longest = 1000 * longest_step(args.nodes, members)
        print(f"longest step of a first plan for {members:,} members: {longest:.0f} ms CPU")
    for kind in ("requests", "claims"):
        longest = 1000 * longest_step(args.nodes, 2000, kind)
        print(f"the same for 2,000 members with {kind} of their own: {longest:.0f} ms CPU")


if __name__ == "__main__":
    main()
