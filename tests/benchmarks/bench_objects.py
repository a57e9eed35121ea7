"""What one object costs the event loop: ``python -m tests.benchmarks.bench_objects [nodes]``.

For each list and map of a kind the largest object that an API server stores, and milliseconds: of
decoding it, of taking it in, of the engine's steps that it causes, of the slowest of the ordinary
pods of another tenant that come then, and of its deletion. Pods come twice: waiting for a node, and
with one. ``--over 50`` prints only what takes longer; ``--fields affinity`` only such paths.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from arranger.api.effects import Applied, Bind
from arranger.api.types import core, resource_claims, storage
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.kube.watch.decoder import Decoder, WatchEvent
from arranger.plugins import default_profile
from tests.benchmarks.largest_objects import Manifest, fields_that_grow, largest
from tests.builders import PodBuilder, a_node, a_pod

#: Ordinary pods that come after each object.
OTHERS: Final = 8
META: Final = {"name": "largest", "namespace": "theirs", "uid": "largest", "resourceVersion": "1"}
#: A pod that is placed by us, but for what makes it large.
A_POD: Final = {
    "metadata": META,
    "spec": {"schedulerName": "arranger", "containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Pending"},
}
A_CLAIM: Final = {
    "metadata": META,
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}
A_CLASS: Final = {"metadata": {"name": "gpu", "uid": "class", "resourceVersion": "1"}}
A_SLICE: Final = {
    "metadata": {"name": "slice", "uid": "slice", "resourceVersion": "1"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n0",
        "pool": {"name": "n0", "resourceSliceCount": 1},
        "devices": [{"name": "d0", "attributes": {"model": {"string": "a"}}}],
    },
}
USES_CLAIM: Final = {"resourceClaims": [{"name": "c", "resourceClaimName": "largest"}]}
USES_VOLUME: Final = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "largest"}}]}


class World:
    """An engine with nodes, a device on some, and ordinary pods on them."""

    def __init__(self, nodes: int) -> None:
        self.engine = Engine(EngineSettings([default_profile()]))
        self.now = 0.0
        for n in range(nodes):
            node = a_node(f"n{n}").in_zone(f"z{n % 3}").labelled(pool="ab"[n % 2])
            self.engine.handlers.on_node_updated(
                (node.tainted("gpu") if n % 10 == 0 else node).build(), 0.0
            )
        handlers = self.engine.handlers
        handlers.on_object_updated(decoded(resource_claims.DeviceClass, A_CLASS), 0.0)
        for n in range(min(nodes, 100)):
            home = {"nodeName": f"n{n}", "pool": {"name": f"n{n}", "resourceSliceCount": 1}}
            made = {**A_SLICE, "metadata": {**A_SLICE["metadata"], "name": f"slice-{n}"}}
            made["spec"] = {**A_SLICE["spec"], **home}
            handlers.on_object_updated(decoded(resource_claims.ResourceSlice, made), 0.0)
        self.engine.run(0.0)
        self._others = (ordinary(n) for n in range(10**9))
        for _ in range(OTHERS):
            self.place_another()

    def place_another(self) -> float:
        """Milliseconds from an ordinary pod's arrival to its Binding."""
        pod = next(self._others).build()
        return timed(lambda: (self.engine.handlers.on_pod_updated(pod, self.now), self.settle()))

    def settle(self) -> float:
        """Run until nothing is ready; Bindings succeed. Milliseconds of the longest step."""
        longest = 0.0
        while True:
            self.now += 0.001
            start = time.thread_time()
            for effect in self.engine.run(self.now):
                if isinstance(effect, Bind):
                    self.engine.on_outcome(effect, Applied(), self.now)
            longest = max(longest, (time.thread_time() - start) * 1000)
            if not self.engine.ready:
                return longest


def ordinary(n: int) -> PodBuilder:
    """Another tenant's pod, of one of three kinds."""
    pod = a_pod(f"ordinary-{n}").needs(cpu="100m", memory="500Mi").labelled(app=f"web-{n % 3}")
    over = {"app": f"web-{n % 3}"}
    kinds = (pod, pod.spreads("topology.kubernetes.io/zone", over=over), pod.selects(pool="a"))
    return kinds[n % 3]


def decoded(kind: type[Any], manifest: Manifest) -> Any:
    """As the watch decodes it."""
    line = json.dumps({"type": "ADDED", "object": manifest}).encode()
    event = Decoder(kind).decode_event(line)
    assert isinstance(event, WatchEvent), event
    return event.object


def timed(action: Callable[[], object]) -> float:
    """Milliseconds of CPU: what the machine does beside does not count."""
    start = time.thread_time()
    action()
    return (time.thread_time() - start) * 1000


Row = tuple[str, list[float]]


def cost_of(world: World, label: str, kind: type[Any], manifest: Manifest, *pods: Manifest) -> Row:
    """The costs of an object, and of pods that use it."""
    handlers, found = world.engine.handlers, list[float]()
    line = json.dumps({"type": "ADDED", "object": manifest}).encode()
    objects: list[Any] = []
    found.append(timed(lambda: objects.append(Decoder(kind).decode_event(line).object)))  # type: ignore[union-attr]
    takes = handlers.on_pod_updated if kind is core.Pod else handlers.on_object_updated
    found.append(timed(lambda: takes(objects[0], world.now)))
    users = [decoded(core.Pod, pod) for pod in pods]
    for user in users:
        handlers.on_pod_updated(user, world.now)
    found.append(world.settle())
    found.append(max(world.place_another() for _ in range(OTHERS)))
    for user in users:
        handlers.on_pod_deleted(user.key, world.now)
    if kind is core.Pod:
        found.append(timed(lambda: handlers.on_pod_deleted(objects[0].key, world.now)))
    else:
        found.append(timed(lambda: handlers.on_object_deleted(objects[0], world.now)))
    found.append(max(world.place_another() for _ in range(3)))
    return label, found


def rows(world: World, wanted: str) -> Iterator[Row]:
    """A row for each path."""
    for path in fields_that_grow(core.Pod):
        name = ".".join(path).replace(".[]", "[]")
        if wanted not in name or "{}" in path:
            continue
        made = largest(core.Pod, path, A_POD)
        yield cost_of(world, name, core.Pod, made)
        made["spec"] = {**made["spec"], "nodeName": "n1"}
        made["metadata"] = {**META, **made["metadata"], "uid": "bound", "name": "bound"}
        yield cost_of(world, f"{name} (bound)", core.Pod, made)
    for kind, base, user in (
        (resource_claims.ResourceClaim, A_CLAIM, USES_CLAIM),
        (resource_claims.DeviceClass, A_CLASS, USES_CLAIM),
        (resource_claims.ResourceSlice, A_SLICE, USES_CLAIM),
        (storage.PersistentVolumeClaim, {"metadata": META}, USES_VOLUME),
    ):
        for path in fields_that_grow(kind):
            name = f"{kind.__name__} {'.'.join(path).replace('.[]', '[]')}"
            if wanted not in name or "{}" in path:
                continue
            pod = {**A_POD, "spec": {**A_POD["spec"], **user}}
            if kind is resource_claims.ResourceClaim or kind is storage.PersistentVolumeClaim:
                yield cost_of(world, name, kind, largest(kind, path, base), pod)
                continue
            claim = decoded(resource_claims.ResourceClaim, A_CLAIM)
            world.engine.handlers.on_object_updated(claim, world.now)
            yield cost_of(world, name, kind, largest(kind, path, base), pod)
            world.engine.handlers.on_object_deleted(claim, world.now)
            if kind is resource_claims.DeviceClass:
                again = decoded(kind, A_CLASS)
                world.engine.handlers.on_object_updated(again, world.now)


def main() -> None:
    """Measure every path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=5000)
    parser.add_argument("--over", type=float, default=0.0)
    parser.add_argument("--fields", default="")
    args = parser.parse_args()
    world = World(args.nodes)
    columns = ("decode", "take in", "step", "others", "delete", "after")
    click.echo(f"{f'{args.nodes} nodes, ms':112}" + "".join(f"{name:>9}" for name in columns))
    for label, found in rows(world, args.fields):
        gc.collect()
        if max(found) >= args.over:
            click.echo(f"{label[-110:]:112}" + "".join(f"{ms:9.1f}" for ms in found))


if __name__ == "__main__":
    main()
