"""What pods cost the core that differ: ``python -m tests.benchmarks.bench_classes``.

Feeds an engine nodes and pods and takes its Bindings, as the daemon does but without a server.
Prints microseconds of CPU a pod, to take it in, to decide and to hear that it is bound, and the
rate that follows, as a part of that of equal pods:

* ``equal``: 5,000 pods, all alike;
* ``own``: each with labels, an owner and requests of its own; a third selects a pool of nodes, a
  fifth spreads softly over zones by its own label;
* ``apps``: pods of 400 apps, each a ReplicaSet that is known, arriving one by one by turns; with
  ``--classes`` of so many apps.

With ``--curve`` over numbers of nodes, and of classes at 5,000 nodes; with ``--svg FOLDER`` these
are drawn, too.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from msgspec import structs

from arranger.api.effects import Applied, Bind
from arranger.api.types.core import LabelSelector, Node, ObjectMeta, Pod
from arranger.api.types.workloads import ReplicaSet, WorkloadSpec
from arranger.daemon.garbage import GC_THRESHOLDS
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.benchmarks.curves import draw_curves
from tests.builders import PodBuilder, a_node, a_pod

ZONE = "topology.kubernetes.io/zone"
CURVE_NODES = (1000, 5000, 20_000, 100_000)
CURVE_CLASSES = (1, 10, 100, 400, 1000, 5000)


def many_nodes(count: int) -> Iterator[Node]:
    """Nodes in three zones and pools, for less than builders take."""
    patterns = [a_node("n").in_zone(f"z{n}").labelled(pool="abc"[n]).build() for n in range(3)]
    for n in range(count):
        node = patterns[n % 3]
        labels = {**node.metadata.labels, "kubernetes.io/hostname": f"n{n}"}
        metadata = structs.replace(node.metadata, name=f"n{n}", uid=f"uid-n{n}", labels=labels)
        yield structs.replace(node, metadata=metadata)


def equal(count: int, classes: int) -> Iterator[PodBuilder]:
    """Pods that are all alike."""
    for n in range(count):
        yield a_pod(f"p{n}").needs(cpu="100m", memory="500Mi")


def own(count: int, classes: int) -> Iterator[PodBuilder]:
    """Pods of which no two are alike."""
    for n in range(count):
        pod = a_pod(f"p{n}").labelled(app=f"app-{n}").owned_by("ReplicaSet", f"rs-{n}")
        pod = pod.needs(cpu=f"{50 + n % 100}m", memory=f"{200 + n}Mi")
        if n % 3 == 0:
            pod = pod.selects(pool="abc"[n // 3 % 3])
        if n % 5 == 0:
            pod = pod.spreads(ZONE, over={"app": f"app-{n}"}, soft=True)
        yield pod


def apps(count: int, classes: int) -> Iterator[PodBuilder]:
    """Pods of some apps by turns."""
    for n in range(count):
        app = n % classes
        pod = a_pod(f"p{n}").labelled(app=f"app-{app}").owned_by("ReplicaSet", f"rs-{app}")
        yield pod.needs(cpu=f"{50 + app % 100}m", memory=f"{200 + app}Mi")


SHAPES: dict[str, Callable[[int, int], Iterator[PodBuilder]]] = {
    "equal": equal,
    "own": own,
    "apps": apps,
}


def a_replica_set(app: int) -> ReplicaSet:
    """The owner of an app's pods."""
    selector = LabelSelector(match_labels={"app": f"app-{app}"})
    metadata = ObjectMeta(name=f"rs-{app}", namespace="default", uid=f"rs-{app}")
    return ReplicaSet(metadata=metadata, spec=WorkloadSpec(selector=selector))


def bound(pod: Pod, node: str) -> Pod:
    """The pod as the watch shows it after its Binding."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


def spend(nodes: int, count: int, shape: str, classes: int) -> tuple[float, float, float]:
    """(microseconds a pod to take in, to decide, to hear that it is bound)."""
    engine = Engine(EngineSettings([default_profile()]))
    for node in many_nodes(nodes):
        engine.handlers.on_node_updated(node, 0.0)
    if shape == "apps":
        for app in range(classes):
            engine.handlers.on_object_updated(a_replica_set(app), 0.0)
    engine.run(0.0)  # what comes later is not part of the initial lists
    waiting = [pod.build() for pod in SHAPES[shape](count, classes)]
    pod_of = {pod.metadata.uid: pod for pod in waiting}
    trickle = shape == "apps"
    gc.collect()
    taken = decided = heard = 0.0
    steps = [[pod] for pod in waiting] if trickle else [waiting]
    now = 0.0
    for step in steps:
        start = time.process_time()
        for pod in step:
            engine.handlers.on_pod_updated(pod, now)
        arrived = time.process_time()
        taken += arrived - start
        bindings: list[Bind] = []
        while len(bindings) < len(step):
            bindings += [e for e in engine.run(now, limit=64) if isinstance(e, Bind)]
        done = time.process_time()
        decided += done - arrived
        watched = [(binding, bound(pod_of[binding.pod.uid], binding.node)) for binding in bindings]
        begin = time.process_time()
        for binding, pod in watched:
            engine.on_outcome(binding, Applied(), now)
            engine.handlers.on_pod_updated(pod, now)
        heard += time.process_time() - begin
        now += 0.005 * trickle
    each = 1e6 / count
    return taken * each, decided * each, heard * each


def row(nodes: int, count: int, shape: str, classes: int, runs: int, against: float) -> float:
    """Measure a shape, print its row, and return what it takes in all."""
    spent = [spend(nodes, count, shape, classes) for _ in range(runs)]
    parts = [min(run[n] for run in spent) for n in range(3)]
    total = sum(parts)
    columns = "".join(f"{part:12.1f}" for part in parts)
    share = f"{against / total:12.2f}" if against else f"{'':12}"
    click.echo(f"{nodes:7} {count:7} {shape:6} {classes:7} {columns}{total:12.1f}{share}")
    return total


def curves(nodes: int, pods: int, runs: int, folder: Path | None) -> None:
    """Measure over numbers of nodes and of classes, and draw that."""
    over_nodes: dict[str, list[tuple[float, float]]] = {"all alike": [], "each its own": []}
    for count in CURVE_NODES:
        alone = row(count, pods, "equal", 1, runs, 0.0)
        over_nodes["all alike"].append((count, alone))
        over_nodes["each its own"].append((count, row(count, pods, "own", pods, runs, alone)))
    over_classes = [
        (float(classes), row(nodes, pods, "apps", classes, runs, 0.0)) for classes in CURVE_CLASSES
    ]
    if folder is None:
        return
    y_title = "µs of CPU a pod"
    text = draw_curves(f"{pods:,} pods, the core alone", "nodes", y_title, over_nodes)
    (folder / "benchmarks-nodes.svg").write_text(text)
    title = f"{pods:,} pods one by one on {nodes:,} nodes, spread by default"
    text = draw_curves(title, "apps by turns", y_title, {"by turns": over_classes})
    (folder / "benchmarks-classes.svg").write_text(text)


def main() -> None:
    """Measure the shapes, or a curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=400)
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--svg", type=Path, help="a folder to draw the curves into")
    args = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as in the daemon
    click.echo(
        "  nodes    pods shape  classes     taking in    deciding  confirming    all µs  rate"
    )
    if args.curve or args.svg:
        curves(args.nodes, args.pods, args.runs, args.svg)
        return
    alone = 0.0
    for shape in args.shapes:
        classes = {"equal": 1, "own": args.pods}.get(shape, args.classes)
        total = row(args.nodes, args.pods, shape, classes, args.runs, alone)
        alone = total if shape == "equal" else alone


if __name__ == "__main__":
    main()
