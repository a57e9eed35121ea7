"""Drains pending pods on the real control plane: ours, kube-scheduler's, and a null binder's rate.

    python -m tests.benchmarks.bench_throughput [--nodes 5000] [--pods 5000] [--gangs 250 ...]

Each contender gets a control plane of its own with the same nodes and pods, and is started when
all pods wait. The rate counts from the first binding seen to the last, by a watch; start-up is the
time from starting the process to the first binding. Compare the ratio within one run only.

``--gangs`` adds runs of ours in which the same pods are in gangs of that size, all or none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

from arranger.api.annotations import GANG_MIN, GANG_NAME
from arranger.kube.client.connection_pool import ConnectionPool
from arranger.kube.client.credentials import ApiServerConfig, Credential, CredentialSource
from arranger.kube.client.transport import Request
from tests.benchmarks.comparison import (
    CONTENDERS,
    HEADING,
    PODS,
    Result,
    Starter,
    compare,
    measure,
)
from tests.controlplane.harness import ControlPlane, a_node, a_pod


def waiting_pods(count: int, scheduler: str, gang: int) -> Iterator[dict[str, Any]]:
    """Pending pods, in gangs of ``gang`` members if that is not 0."""
    for n in range(count):
        pod = a_pod(f"p{n}", scheduler=scheduler)
        if gang:
            pod["metadata"]["annotations"] = {
                GANG_NAME: f"g{n // gang}",
                GANG_MIN: str(gang),
            }
        yield pod


def start_null_binder(nodes: int, pods: int) -> Starter:
    """Posts Bindings round robin and decides nothing: what the API server can take."""

    async def start(plane: ControlPlane) -> None:
        identity = Credential(f"Bearer {plane.token}", ca_file=str(plane.ca_file))
        pool = ConnectionPool(
            ApiServerConfig(plane.url, CredentialSource(identity, now=time.monotonic))
        )
        left = iter(range(pods))

        async def work() -> None:
            for n in left:
                body = {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": f"p{n}"},
                    "target": {"kind": "Node", "name": f"n{n % nodes}"},
                }
                path = f"{PODS}/p{n}/binding"
                answer = await pool.send(Request("POST", path, body=json.dumps(body).encode()))
                assert answer.status == 201, answer

        async def all_of_it() -> None:
            await asyncio.gather(*(work() for _ in range(64)))
            await pool.close()

        _running.add(asyncio.create_task(all_of_it()))

    return start


_running: set[asyncio.Task[None]] = set()


async def main() -> None:
    """Run the contenders one after the other and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--gangs", type=int, nargs="*", default=[])
    parser.add_argument("--only", choices=["arranger", "kube-scheduler", "null"])
    args = parser.parse_args()
    ours = CONTENDERS["arranger"]
    contenders: dict[str, tuple[Starter, str, int]] = {
        "arranger": (*ours, 0),
        **{f"gangs of {size}": (*ours, size) for size in args.gangs},
        "kube-scheduler": (*CONTENDERS["kube-scheduler"], 0),
        "null": (start_null_binder(args.nodes, args.pods), "nobody", 0),
    }
    results: dict[str, Result] = {}
    print(f"{args.nodes} nodes, {args.pods} pods\n{HEADING}")
    for name, (start, scheduler, gang) in contenders.items():
        if args.only is not None and not name.startswith((args.only, "gangs")):
            continue
        results[name] = await measure(
            name,
            start,
            nodes=(a_node(f"n{n}") for n in range(args.nodes)),
            pods={PODS: waiting_pods(args.pods, scheduler, gang)},
            seen="p",
            count=args.pods,
        )
        print(results[name].row(), flush=True)
    for name in results:
        if name.startswith("gangs") and "arranger" in results:
            print(f"{name}: {results[name].rate / results['arranger'].rate:.2f} of the lone pods")
    print(compare(results))


if __name__ == "__main__":
    asyncio.run(main())
