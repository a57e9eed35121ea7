"""Pods with claims to devices, in the core: ``python -m tests.benchmarks.bench_claims``.

Each pod names a claim template. As on a cluster the claim is made for it, told in the pod's status,
written before the Binding, and shown as it was written; without a server. Prints CPU microseconds
a pod for what arrives, for deciding, and for the answers, and the rate that follows.
"""

from __future__ import annotations

import argparse
import gc
import time

import click
from msgspec import structs

from arranger.api.effects import Applied, Bind, ReserveClaim
from arranger.api.types.core import Pod
from arranger.daemon.garbage import GC_THRESHOLDS
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod
from tests.devices import ClaimBuilder, a_claim, a_device_class, a_slice, claiming_from

DEVICES = 8


def spend(nodes: int, pods: int) -> tuple[float, float, float]:
    """Seconds for what arrives, for deciding, and for the answers.

    Raises:
        AssertionError: not all pods were bound.
    """
    engine = Engine(EngineSettings([default_profile()]))
    handlers = engine.handlers
    handlers.on_object_updated(a_device_class().build(), 0.0)
    for n in range(nodes):
        handlers.on_node_updated(a_node(f"n{n}").offers(cpu=64).build(), 0.0)
        devices = (f"d{m}" for m in range(DEVICES))
        handlers.on_object_updated(a_slice(f"n{n}", *devices).build(), 0.0)
    engine.run(0.0)
    arrivals: list[tuple[Pod, ClaimBuilder, Pod]] = []
    for n in range(pods):
        pod = claiming_from(a_pod(f"p{n}").needs(cpu="100m"), "gpu")
        name = f"p{n}-gpu"
        status = {"name": "gpu", "resourceClaimName": name}
        told = pod._append("status", resourceClaimStatuses=status)
        arrivals.append((pod.build(), a_claim(name).asks().made_for(pod), told.build()))
    claim_of = {claim.build().metadata.uid: claim for _, claim, _ in arrivals}
    pod_of = {pod.metadata.uid: pod for _, _, pod in arrivals}
    gc.collect()
    clock = time.process_time
    start = clock()
    for pod, claim, told in arrivals:
        handlers.on_pod_updated(pod, 0.0)
        handlers.on_object_updated(claim.build(), 0.0)
        handlers.on_pod_updated(told, 0.0)
    taken, decided, answered, bound = clock() - start, 0.0, 0.0, 0
    while bound < pods:
        start = clock()
        effects = engine.run(0.0, limit=64)
        decided += clock() - start
        assert effects, f"{pods - bound} pods wait"
        while effects:
            shown: list[ClaimBuilder | Pod] = []
            for effect in effects:
                if isinstance(effect, ReserveClaim):
                    claim = claim_of[effect.claim.uid].reserved_for(effect.pod.uid)
                    shown.append(claim.with_status(allocation=effect.allocation).at_version("2"))
                elif isinstance(effect, Bind):
                    pod = pod_of[effect.pod.uid]
                    spec = structs.replace(pod.spec, node_name=effect.node)
                    shown.append(structs.replace(pod, spec=spec))
                    bound += 1
            built = [each if isinstance(each, Pod) else each.build() for each in shown]
            start = clock()
            for effect in effects:
                if engine.awaits(effect):
                    engine.on_outcome(effect, Applied(), 0.0)
            for each in built:
                if isinstance(each, Pod):
                    handlers.on_pod_updated(each, 0.0)
                else:
                    handlers.on_object_updated(each, 0.0)
            answered += clock() - start
            start = clock()
            effects = engine.run(0.0, limit=0)
            decided += clock() - start
    return taken, decided, answered


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=2500)
    args = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as in the daemon
    spent = spend(args.nodes, args.pods)
    parts = ", ".join(
        f"{name} {part / args.pods * 1e6:.0f}"
        for name, part in zip(("arriving", "deciding", "answers"), spent, strict=True)
    )
    total = sum(spent)
    click.echo(
        f"{args.pods:,} pods with a claim each on {args.nodes:,} nodes: {parts} µs a pod, "
        f"{args.pods / total:,.0f} pods/s of CPU"
    )


if __name__ == "__main__":
    main()
