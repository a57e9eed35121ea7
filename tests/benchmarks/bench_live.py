"""Pods that differ, pods that trickle in, and starts, beside kube-scheduler on a real server.

    python -m tests.benchmarks.bench_live own | arrivals | claims | start [--nodes N] [--pods N]

* ``own``: pending pods of which no two are alike (see ``bench_classes``), and as many equal ones;
* ``arrivals``: pods of 400 apps come one by one, 200 a second: from the request that makes a pod to
  the watch that shows it bound, and the scheduler's CPU a pod;
* ``claims``: pods with a claim each to one of eight devices a node, made from a template by the
  controller-manager, which runs on;
* ``start``: from the start of the process to the Binding of the one pod that waits in a cluster
  with so many bound ones, of about 2 kB each, and the most memory it held.

Each contender gets a control plane of its own. Compare the ratio within one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Final

import numpy as np

from tests import builders
from tests.benchmarks.bench_classes import SHAPES, ZONE, apps
from tests.benchmarks.bench_start import a_bound_pod
from tests.benchmarks.comparison import (
    CONTENDERS,
    HEADING,
    PODS,
    Object,
    Result,
    Starter,
    compare,
    events_written,
    measure,
    watch_bindings,
)
from tests.controlplane.daemon import install_rbac
from tests.controlplane.harness import ControlPlane, a_node, a_pod, cpu_seconds
from tests.devices import a_claim, a_device_class, a_slice, claiming_from

RATE: Final = 200
APPS: Final = 400
RESOURCE: Final = "/apis/resource.k8s.io/v1"
#: Devices a node has in ``claims``.
DEVICES: Final = 8
#: Pods a node has in ``start``.
PODS_A_NODE: Final = 30
#: Seconds after which a pod that is not bound is given up.
PATIENCE: Final = 60.0


def nodes(count: int) -> Iterator[Object]:
    """Nodes of 32 CPUs in three zones and three pools."""
    for n in range(count):
        node = a_node(f"n{n}", cpu="32", memory="128Gi")
        node["metadata"]["labels"] |= {ZONE: f"z{n % 3}", "pool": "abc"[n % 3]}
        yield node


def as_posted(pods: Iterable[builders.PodBuilder], scheduler: str) -> Iterator[Object]:
    """What a client sends to make these pods."""
    for builder in pods:
        manifest = builder.manifest()
        del manifest["metadata"]["uid"], manifest["status"]
        manifest["spec"]["schedulerName"] = scheduler
        yield {"apiVersion": "v1", "kind": "Pod", **manifest}


def bound_pods(count: int) -> Iterator[Object]:
    """Pods that have nodes already, as clients would make them."""
    for n in range(count):
        pod = a_bound_pod(n, f"n{n // PODS_A_NODE}")
        kept = {key: pod["metadata"][key] for key in ("name", "labels", "annotations")}
        sources = [{"serviceAccountToken": {"path": "token"}}]
        pod["spec"]["volumes"][0]["projected"]["sources"] = sources
        pod["spec"]["serviceAccountName"] = "default"
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": pod["spec"]}


async def own(node_count: int, pod_count: int) -> None:
    """Print how fast pods of their own are bound, beside equal ones."""
    print(f"{node_count} nodes, {pod_count} pods\n{HEADING}")
    for shape in ("equal", "own"):
        results: dict[str, Result] = {}
        for name, (start, scheduler) in CONTENDERS.items():
            waiting = SHAPES[shape](pod_count, pod_count)
            results[name] = await measure(
                name,
                start,
                nodes=nodes(node_count),
                pods={PODS: as_posted(waiting, scheduler)},
                seen="p",
                count=pod_count,
            )
            print(results[name].row(), shape, flush=True)
        print(compare(results), flush=True)


async def start(node_count: int, pod_count: int) -> None:
    """Print what a start among bound pods takes; of nodes there are as many as these need."""
    print(f"{pod_count} bound pods on {pod_count // PODS_A_NODE} nodes")
    for name, (starter, scheduler) in CONTENDERS.items():
        result = await measure(
            name,
            starter,
            nodes=nodes(pod_count // PODS_A_NODE + 1),
            pods={PODS: (*bound_pods(pod_count), a_pod("waits", scheduler=scheduler))},
            seen="waits",
            count=1,
            with_events=False,
        )
        print(
            f"{name:15} first Binding after {result.start_up:.2f} s,"
            f" {result.scheduler_cpu:.2f} s CPU, {result.memory:.0f} MiB",
            flush=True,
        )


async def claims(node_count: int, pod_count: int) -> None:
    """Print how fast pods with claims are bound, once all claims have been made."""
    print(f"{node_count} nodes of {DEVICES} devices, {pod_count} pods with a claim\n{HEADING}")
    asked = a_claim().asks().manifest()["spec"]
    template = {**_template("gpu"), "spec": {"spec": asked}}
    slices = (a_slice(f"n{n}", *(f"d{m}" for m in range(DEVICES))) for n in range(node_count))
    around = {
        f"{RESOURCE}/deviceclasses": [_as_sent(a_device_class())],
        f"{RESOURCE}/resourceslices": list(map(_as_sent, slices)),
        f"{RESOURCE}/namespaces/default/resourceclaimtemplates": [template],
    }
    results: dict[str, Result] = {}
    for name, (start, scheduler) in CONTENDERS.items():
        waiting = (
            claiming_from(builders.a_pod(f"p{n}").needs(cpu="100m"), "gpu")
            for n in range(pod_count)
        )
        results[name] = await measure(
            name,
            start,
            nodes=nodes(node_count),
            pods={**around, PODS: as_posted(waiting, scheduler)},
            seen="p",
            count=pod_count,
            claims=pod_count,
        )
        print(results[name].row(), flush=True)
    print(compare(results), flush=True)


def _template(name: str) -> Object:
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    return {**kind, "metadata": {"name": name}}


def _as_sent(builder: builders.StoredBuilder) -> Object:
    """The object as a client sends it."""
    manifest = builder.manifest()
    return {**manifest, "metadata": {"name": manifest["metadata"]["name"]}}


async def arrivals(node_count: int, pod_count: int) -> None:
    """Print how long pods wait that come one by one."""
    print(f"{node_count} nodes, {pod_count} pods of {APPS} apps, {RATE} a second")
    for name, (starter, scheduler) in CONTENDERS.items():
        waited, cpu = await _arrive(starter, scheduler, node_count, pod_count)
        half, most = np.percentile(waited, [50, 99])
        print(
            f"{name:15} p50 {half * 1000:.0f} ms, p99 {most * 1000:.0f} ms,"
            f" {cpu / pod_count * 1000:.2f} ms CPU a pod, {pod_count - len(waited)} not bound",
            flush=True,
        )


async def _arrive(
    starter: Starter, scheduler: str, node_count: int, pod_count: int
) -> tuple[list[float], float]:
    """(seconds from each pod's request to its Binding, CPU seconds of the scheduler)."""
    async with ControlPlane(is_judged=False) as plane:
        await install_rbac(plane)
        await plane.post_all("/api/v1/nodes", nodes(node_count))
        await plane.post(PODS, a_pod("pfirst", scheduler=scheduler))
        async with watch_bindings(plane, "p") as bindings:
            pid = await starter(plane)
            assert pid is not None
            await anext(bindings)
            sent: dict[str, float] = {}
            before = cpu_seconds(pid)

            async def make() -> None:
                begun = time.perf_counter()
                async with asyncio.TaskGroup() as group:
                    for n, pod in enumerate(as_posted(apps(pod_count, APPS), scheduler)):
                        await asyncio.sleep(begun + n / RATE - time.perf_counter())
                        sent[pod["metadata"]["name"]] = time.perf_counter()
                        group.create_task(plane.post(PODS, pod))

            making = asyncio.create_task(make())
            waited: list[float] = []
            try:
                while len(waited) < pod_count:
                    seen = await asyncio.wait_for(anext(bindings), PATIENCE)
                    waited.append(seen.at - sent[seen.pod])
            except TimeoutError:
                pass  # told as not bound
            await making
            await events_written(plane)
            return waited, cpu_seconds(pid) - before


#: Row → how it is measured, and its numbers of nodes and of pods.
ROWS: Final[dict[str, tuple[Callable[[int, int], Coroutine[Any, Any, None]], int, int]]] = {
    "own": (own, 5000, 5000),
    "arrivals": (arrivals, 5000, 6000),
    "claims": (claims, 500, 2500),
    "start": (start, 5000, 60_000),
}


def main() -> None:
    """Measure one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--pods", type=int, default=0)
    args = parser.parse_args()
    measured, nodes_of_row, pods_of_row = ROWS[args.row]
    asyncio.run(measured(args.nodes or nodes_of_row, args.pods or pods_of_row))


if __name__ == "__main__":
    main()
