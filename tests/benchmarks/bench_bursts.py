"""How long one tenant's pods wait for their nodes while another creates pods without end.

    python -m tests.benchmarks.bench_bursts [--rate 3000] [--burst 0] [--seconds 3] [KIND …]

In processor time of the scheduler, which the API server takes none of.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import statistics
from collections.abc import Callable
from typing import Any, Final

import structlog

from arranger.daemon.config.schema import Config, LeaderElectionConfig
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.server import EmbeddedCluster
from tests.builders import Member, PodBuilder, a_node, a_pod
from tests.processor_time import FarTransport, others_work, run_in_processor_time

CULPRIT, NEIGHBOUR = "culprit", "neighbour"
_ABSENT: Final = {"example.com/absent": "yes"}

#: Kind → the pod of a number.
KINDS: Final[dict[str, Callable[[int], PodBuilder]]] = {
    "alike": lambda n: a_pod(f"p{n}").needs(cpu="10m"),
    "each unlike the others": lambda n: a_pod(f"p{n}").needs(cpu=f"{n % 1000 + 1}m"),
    "that fit nowhere": lambda n: a_pod(f"p{n}").needs(cpu=1_000_000 + n),
    "that wait for others": lambda n: a_pod(f"p{n}").in_gang(f"g{n}", 2).needs(cpu="10m"),
}


async def waits(
    kind: Callable[[int], PodBuilder],
    *,
    rate: float,
    burst: int = 0,
    seconds: float = 1.0,
    nodes: int = 20,
) -> list[float]:
    """How many seconds each pod of the neighbour waits, one after the other, a tenth apart.

    Args:
        kind: makes the culprit's pods.
        rate: how many of them are created in a second.
        burst: how many more at the beginning.
        seconds: how long they go on.
    """
    now = asyncio.get_running_loop().time
    with others_work():
        cluster = EmbeddedCluster(rng=random.Random(1))
        for name in (CULPRIT, NEIGHBOUR):
            meta = {"name": name}
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        for n in range(nodes):
            _create(cluster, a_node(f"n{n}").offers(cpu=1000, pods=10_000))
    config = Config(leader_election=LeaderElectionConfig(leader_elect=False))
    transport, rng = FarTransport(cluster), random.Random(1)
    scheduler = Scheduler(transport, config, identity="one", rng=rng, perf_counter=now)
    task = asyncio.create_task(scheduler.run())
    found: list[float] = []
    try:
        while not scheduler.synced:  # noqa: ASYNC110 - in no real time
            await asyncio.sleep(0.01)
        attack = asyncio.create_task(_create_many(cluster, kind, rate, burst, seconds))
        while not attack.done():
            found.append(await _wait_of(cluster, f"own{len(found)}"))
            await asyncio.sleep(0.1)
        await attack
    finally:
        task.cancel()
        await asyncio.wait({task})
    return found


async def _create_many(
    cluster: EmbeddedCluster,
    kind: Callable[[int], PodBuilder],
    rate: float,
    burst: int,
    seconds: float,
) -> None:
    now = asyncio.get_running_loop().time
    began, made = now(), 0
    while (past := now() - began) < seconds:
        while made < burst + rate * past:
            with others_work():
                _create(cluster, kind(made).in_namespace(CULPRIT))
            made += 1
        await asyncio.sleep(0.002)


async def _wait_of(cluster: EmbeddedCluster, name: str) -> float:
    now = asyncio.get_running_loop().time
    with others_work():
        _create(cluster, a_pod(name).in_namespace(NEIGHBOUR).needs(cpu="10m"))
    began = now()
    while True:
        with others_work():
            pod: Any = cluster.store.get("/pods", (NEIGHBOUR, name))
        if pod["spec"].get("nodeName"):
            return now() - began
        await asyncio.sleep(0.001)


def _create(cluster: EmbeddedCluster, builder: Member) -> None:
    manifest = builder.manifest()
    manifest["metadata"].pop("resourceVersion", None)
    del manifest["metadata"]["uid"]
    cluster.create(manifest)


def main() -> None:
    """Print median and longest wait for each kind."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=3000)
    parser.add_argument("--burst", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    options = {"rate": args.rate, "burst": args.burst, "seconds": args.seconds}
    for kind in args.kinds:
        found = run_in_processor_time(waits(KINDS[kind], **options))
        median, most = statistics.median(found), max(found)
        print(f"pods {kind}: {len(found)} waits, median {median:.3f} s, longest {most:.3f} s")


if __name__ == "__main__":
    main()
