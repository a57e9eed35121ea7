"""What pods cost while a cluster lives: ``python -m tests.benchmarks.bench_churn [--nodes 5000]``.

Eight pods of 40 apps are placed in a step, and after each step something changes that concerns none
of them: a node's heartbeat, an annotation or an image on a node, another namespace's Service or
budget. Prints microseconds of CPU a pod, the changes included, and that of nothing changing.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import click
import msgspec

from arranger.api.effects import Applied, Bind
from arranger.api.types.core import Namespace, Node
from arranger.api.types.workloads import Service
from arranger.daemon.garbage import tune_gc
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.builders import a_disruption_budget, a_node, a_pod

PODS = 2400
APPS = 40
STEP = 8


def a_live_node(number: int, *images: str) -> Node:
    """A node that has some images."""
    node = a_node(f"n{number}").in_zone(f"z{number % 3}")
    for image in ("base", *images):
        node = node.holding(image, 1)
    return node.build()


def stored(kind: type[Any], name: str, namespace: str, **more: Any) -> Any:
    """An object of a kind."""
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, **more}, kind)


def heartbeat(step: int, nodes: int) -> Node:
    """A node that says the same again."""
    node = a_live_node(step % nodes)
    metadata = msgspec.structs.replace(node.metadata, resource_version=str(step))
    return msgspec.structs.replace(node, metadata=metadata)


def an_annotated_node(number: int, note: str) -> Node:
    """A node on which an agent has written something."""
    node = a_live_node(number)
    metadata = msgspec.structs.replace(node.metadata, annotations={"agent": note})
    return msgspec.structs.replace(node, metadata=metadata)


#: What changes → the object after a step.
CHANGES: dict[str, Callable[[int, int], Any] | None] = {
    "nothing": None,
    "a heartbeat": heartbeat,
    "a note": lambda step, nodes: an_annotated_node(step % nodes, str(step)),
    "an image": lambda step, nodes: a_live_node(step % nodes, f"i{step}"),
    "a Service": lambda step, _: stored(Service, f"s{step}", "other"),
    "a budget": lambda step, _: a_disruption_budget(None, name=f"b{step}", namespace="other"),
}


def spend(nodes: int, change: Callable[[int, int], Any] | None) -> float:
    """Microseconds of CPU a pod."""
    engine = Engine(EngineSettings([default_profile()]))
    handlers = engine.handlers
    for n in range(nodes):
        handlers.on_node_updated(a_live_node(n), 0.0)
    for name in ("default", "other"):
        handlers.on_object_updated(stored(Namespace, name, ""), 0.0)
    engine.run(0.0)
    for n in range(PODS):
        pod = a_pod(f"p{n}").labelled(app=f"a{n % APPS}").needs(cpu="100m", memory="500Mi")
        handlers.on_pod_updated(pod.build(), 0.0)
    gc.collect()
    spent, bound, step = 0.0, 0, 0
    while bound < PODS:
        changed = None if change is None else change(step, nodes)
        begin = time.process_time()
        if changed is not None:
            handlers.kinds[type(changed)].updated(changed, 0.0)
        effects = engine.run(0.0, limit=STEP)
        spent += time.process_time() - begin
        for effect in effects:
            if isinstance(effect, Bind):
                bound += 1
                engine.on_outcome(effect, Applied(), 0.0)
        step += 1
    return spent / PODS * 1e6


def main() -> None:
    """Measure each change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    nodes = parser.parse_args().nodes
    tune_gc()
    for name, change in CHANGES.items():
        click.echo(f"{name:12} {spend(nodes, change):6.0f} µs a pod")


if __name__ == "__main__":
    main()
