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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from arranger.api import keys
from arranger.kube.access import Access, Credentials, Identity
from arranger.kube.pool import RawPool
from tests.controlplane.daemon import Daemon, install_rbac
from tests.controlplane.harness import ControlPlane, a_node, a_pod, cpu_seconds

PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True, slots=True)
class Result:
    """One contender's run."""

    name: str
    pods: int
    start_up: float
    seconds: float
    scheduler_cpu: float
    server_cpu: float

    @property
    def rate(self) -> float:
        return (self.pods - 1) / self.seconds


Starter = Callable[[ControlPlane], Awaitable[int | None]]


def waiting_pods(count: int, scheduler: str, gang: int) -> Iterator[dict[str, Any]]:
    """Pending pods, in gangs of ``gang`` members if that is not 0."""
    for n in range(count):
        pod = a_pod(f"p{n}", scheduler=scheduler)
        if gang:
            pod["metadata"]["annotations"] = {
                keys.GANG_NAME: f"g{n // gang}",
                keys.GANG_MIN: str(gang),
            }
        yield pod


async def measure(
    name: str, start: Starter, *, nodes: int, pods: int, scheduler: str, gang: int = 0
) -> Result:
    """Fill a new cluster, start the contender, and watch it drain."""
    async with ControlPlane() as plane:
        await install_rbac(plane)
        await plane.post_all("/api/v1/nodes", (a_node(f"n{n}") for n in range(nodes)))
        await plane.post_all(PODS, waiting_pods(pods, scheduler, gang))
        async with _bindings(plane) as seen:
            server_before = plane.components["kube-apiserver"].cpu_seconds()
            started = time.perf_counter()
            pid = await start(plane)
            first = await anext(seen)
            async for last in seen:
                if last[0] == pods:
                    break
            server_cpu = plane.components["kube-apiserver"].cpu_seconds() - server_before
            return Result(
                name,
                pods,
                first[1] - started,
                last[1] - first[1],
                0.0 if pid is None else cpu_seconds(pid),
                server_cpu,
            )


@asynccontextmanager
async def _bindings(plane: ControlPlane) -> AsyncIterator[AsyncIterator[tuple[int, float]]]:
    """(number bound, time) as a watch of bound pods shows them; metadata only, to cost little."""
    url = f"{plane.url}{PODS}?watch=1&fieldSelector=spec.nodeName!=&timeoutSeconds=600"
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    headers = {"Authorization": f"Bearer {plane.token}", "Accept": accept}
    connector = aiohttp.TCPConnector(ssl=plane.ssl_context())
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        session.get(url, headers=headers) as answer,
    ):

        async def seen() -> AsyncIterator[tuple[int, float]]:
            bound = 0
            async for line in answer.content:
                if json.loads(line)["type"] == "ADDED":
                    bound += 1
                    yield bound, time.perf_counter()

        yield seen()


async def start_arranger(plane: ControlPlane) -> int:
    """Our daemon, with Events on and the rights of ``manifests/``."""
    daemon = await Daemon.start(plane, config={"leaderElection": {"leaderElect": False}})
    return daemon.process.pid


async def start_kube_scheduler(plane: ControlPlane) -> int:
    """The same binary's kube-scheduler, QPS 5000."""
    await plane.start_scheduler()
    return plane.components["kube-scheduler"].process.pid


def start_null_binder(nodes: int, pods: int) -> Starter:
    """Posts Bindings round robin and decides nothing: what the API server can take."""

    async def start(plane: ControlPlane) -> None:
        identity = Identity(f"Bearer {plane.token}", ca_file=str(plane.ca_file))
        pool = RawPool(Access(plane.url, Credentials(identity, now=time.monotonic)))
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
                answer = await pool.request("POST", path, body=json.dumps(body).encode())
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
    contenders: dict[str, tuple[Starter, str, int]] = {
        "arranger": (start_arranger, "arranger", 0),
        **{f"gangs of {size}": (start_arranger, "arranger", size) for size in args.gangs},
        "kube-scheduler": (start_kube_scheduler, "default-scheduler", 0),
        "null": (start_null_binder(args.nodes, args.pods), "nobody", 0),
    }
    results: dict[str, Result] = {}
    print(f"{args.nodes} nodes, {args.pods} pods")
    print("contender        pods/s   start-up s   CPU ms/pod   apiserver CPU ms/pod")
    for name, (start, scheduler, gang) in contenders.items():
        if args.only is not None and not name.startswith((args.only, "gangs")):
            continue
        result = await measure(
            name, start, nodes=args.nodes, pods=args.pods, scheduler=scheduler, gang=gang
        )
        results[name] = result
        print(
            f"{name:15} {result.rate:7.0f} {result.start_up:12.2f}"
            f" {1000 * result.scheduler_cpu / result.pods:12.2f}"
            f" {1000 * result.server_cpu / result.pods:22.2f}",
            flush=True,
        )
    for name in results:
        if name.startswith("gangs") and "arranger" in results:
            print(f"{name}: {results[name].rate / results['arranger'].rate:.2f} of the lone pods")
    if {"arranger", "kube-scheduler"} <= results.keys():
        ratio = results["arranger"].rate / results["kube-scheduler"].rate
        print(f"arranger is {ratio:.2f} times as fast as kube-scheduler")


if __name__ == "__main__":
    asyncio.run(main())
