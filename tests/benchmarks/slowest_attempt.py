"""Looks for the slowest legal pod: ``python -m tests.benchmarks.slowest_attempt``.

A cluster as large as we promise to serve, with something of everything that plugins look at; in it
one tenant's pod after the other, of recipes that are changed at random wherever that costs more.
Each is taken in, tried, tried again when a pod leaves and when a node changes, and deleted; what
counts is the longest of these steps. Prints the worst of each kind. ``--over 100`` ends with exit
code 1 if one takes longer. Milliseconds are of CPU: what the machine does beside does not count.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from arranger.api.effects import Applied, Bind
from arranger.api.types import core, resource_claims, storage
from arranger.daemon.garbage import tune_gc
from arranger.daemon.scheduler import ENTITIES_PER_STEP, SECONDS_PER_STEP
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.kube.watch.decoder import Decoder, WatchEvent
from arranger.kube.watch.trimming import trim
from arranger.plugins import default_profile
from tests.benchmarks.large_pods import CLAIMS, HOST, ZONE, Recipe, made, random_step, single_genes
from tests.benchmarks.largest_objects import Manifest

NAMESPACES: Final = 200
#: Steps with names; the longest of each counts.
Costs = dict[str, float]


class Cluster:
    """Nodes and pods of a busy cluster, of which a tenant knows all names."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.engine = Engine(EngineSettings([default_profile()], perf_counter=time.perf_counter))
        self.now = 0.0
        self._nodes, self._others = nodes, 0
        self._decoders: dict[type[Any], Decoder[Any]] = {}
        handlers = self.engine.handlers
        for kind, manifest in everything(nodes):
            takes = handlers.on_node_updated if kind is core.Node else handlers.on_object_updated
            takes(self.decoded(kind, manifest), 0.0)
        for n in range(pods):
            handlers.on_pod_updated(self.decoded(core.Pod, resident(n, nodes)), 0.0)
        self.settle()

    def decoded(self, kind: type[Any], manifest: Manifest | bytes) -> Any:
        """An object as the watch decodes it."""
        decoder = self._decoders.setdefault(kind, Decoder(kind, trim))
        line = manifest if isinstance(manifest, bytes) else as_line(manifest)
        event = decoder.decode_event(line)
        assert isinstance(event, WatchEvent), event
        return event.object

    def settle(self) -> float:
        """Steps as the daemon makes them until nothing is ready; milliseconds of the longest."""
        longest = 0.0
        while True:
            self.now += 0.001
            start = time.thread_time()
            limits: Any = {"limit": ENTITIES_PER_STEP, "seconds": SECONDS_PER_STEP}
            effects = self.engine.run(self.now, **limits)
            longest = max(longest, (time.thread_time() - start) * 1000)
            for effect in effects:
                if isinstance(effect, Bind):
                    self.engine.on_outcome(effect, Applied(), self.now)
            if not self.engine.ready:
                return longest

    def play(self, manifest: Manifest) -> Costs:
        """What a pod costs in its life."""
        handlers, costs = self.engine.handlers, Costs()

        def step(name: str, action: Callable[[], object]) -> None:
            self.now += 20.0  # whatever backs off is due
            start = time.thread_time()
            action()
            costs[name] = (time.thread_time() - start) * 1000
            costs[f"{name}: tried"] = self.settle()

        objects, line = list[Any](), as_line(manifest)
        step("decode", lambda: objects.append(self.decoded(core.Pod, line)))
        pod = objects[0]
        step("arrives", lambda: handlers.on_pod_updated(pod, self.now))
        leaver = self.decoded(core.Pod, resident(self._others, self._nodes))
        self._others += 1
        step("a pod leaves", lambda: handlers.on_pod_deleted(leaver.key, self.now))
        step("a pod comes", lambda: handlers.on_pod_updated(leaver, self.now))
        node = a_node(self._others % self._nodes)
        node["metadata"]["labels"]["changed"] = str(self._others)
        changed = self.decoded(core.Node, node)
        step("a node changes", lambda: handlers.on_node_updated(changed, self.now))
        step("goes", lambda: handlers.on_pod_deleted(pod.key, self.now))
        return costs


def as_line(manifest: Manifest) -> bytes:
    """As a watch sends it."""
    return json.dumps({"type": "ADDED", "object": manifest}).encode()


def a_node(n: int) -> Manifest:
    """A node with the labels and images of a cloud's; a tenth have taints, each its own."""
    labels = {HOST: f"n{n}", ZONE: f"z{n % 3}", "rack": f"r{n % 100}", "number": str(n)}
    labels |= {f"common-{i}": "x" for i in range(20)}
    room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    room |= {f"example.com/offered-{i}": "8" for i in range(16)}
    images = [{"names": [f"common-{i}:v1"], "sizeBytes": 10**8} for i in range(30)]
    taints = [{"key": "gpu", "value": f"t{n}", "effect": "NoSchedule"}] if n % 10 == 0 else []
    meta = {"name": f"n{n}", "uid": f"n{n}", "resourceVersion": "1", "labels": labels}
    status = {"allocatable": room, "capacity": room, "images": images}
    return {"metadata": meta, "spec": {"taints": taints}, "status": status}


def resident(n: int, nodes: int) -> Manifest:
    """A pod on a node: the first of each is of a DaemonSet with a host port and a disk."""
    container: Manifest = {"name": "c", "image": "common-1:v1"}
    container["resources"] = {"requests": {"cpu": "100m", "memory": "4Gi"}}
    spec: Manifest = {"nodeName": f"n{n % nodes}", "schedulerName": "arranger", "priority": 0}
    if n < nodes:
        container["ports"] = [{"containerPort": 1, "hostPort": 9100 + i} for i in range(4)]
        disks = [{"name": f"d{i}", "iscsi": {"iqn": f"iqn-{n}-{i}"}} for i in range(2)]
        claim = {"name": "v", "persistentVolumeClaim": {"claimName": f"of-{n}"}}
        spec["volumes"] = [*disks, claim]
    spec["containers"] = [container]
    labels = {"app": f"web-{n // 15}", "team": "a", "pod-template-hash": str(n // 15)}
    meta = {"name": f"p{n}", "namespace": f"team-{n % NAMESPACES}", "uid": f"p{n}"}
    made = {"metadata": {**meta, "labels": labels, "resourceVersion": "1"}, "spec": spec}
    return {**made, "status": {"phase": "Running"}}


def everything(nodes: int) -> Iterator[tuple[type[Any], Manifest]]:
    """All that is no pod."""

    def meta(name: str, namespace: str = "", **labels: str) -> Manifest:
        names = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
        return {**names, "resourceVersion": "1", "labels": labels}

    for n in range(NAMESPACES):
        yield core.Namespace, {"metadata": meta(f"team-{n}", half="ab"[n % 2])}
    yield core.Namespace, {"metadata": meta("theirs", half="a")}
    for n in range(nodes):
        yield core.Node, a_node(n)
        drivers = [{"name": "csi.example.com", "nodeID": f"n{n}", "allocatable": {"count": 100}}]
        yield storage.CSINode, {"metadata": meta(f"n{n}"), "spec": {"drivers": drivers}}
    waits = {"volumeBindingMode": "WaitForFirstConsumer"}
    yield (
        storage.StorageClass,
        {"metadata": meta("made"), "provisioner": "csi.example.com", **waits},
    )
    static = {"provisioner": "kubernetes.io/no-provisioner", **waits}
    yield storage.StorageClass, {"metadata": meta("static"), **static}
    room = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for n in range(2000):
        wanted = {"key": HOST, "operator": "In", "values": [f"n{n % nodes}"]}
        terms = [{"matchExpressions": [wanted]}]
        spec = {**room, "storageClassName": "static", "local": {"path": "/"}}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        volume = {"metadata": meta(f"static-{n}"), "spec": spec, "status": {"phase": "Available"}}
        yield storage.PersistentVolume, volume
    for n in range(CLAIMS):
        wanted = {"key": ZONE, "operator": "In", "values": [f"z{i}" for i in range(3)]}
        csi = {"driver": "csi.example.com", "volumeHandle": f"h{n}"}
        spec = {**room, "storageClassName": "made", "csi": csi}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
        spec["claimRef"] = {"namespace": "theirs", "name": f"bound-{n}", "uid": f"theirs/bound-{n}"}
        yield storage.PersistentVolume, {"metadata": meta(f"pv-{n}"), "spec": spec}
        done = {"pv.kubernetes.io/bind-completed": "yes"}
        bound = {**meta(f"bound-{n}", "theirs"), "annotations": done}
        claim = {**asked, "storageClassName": "made"}
        of_volume = {**claim, "volumeName": f"pv-{n}"}
        yield storage.PersistentVolumeClaim, {"metadata": bound, "spec": of_volume}
        unbound = {"metadata": meta(f"unbound-{n}", "theirs"), "spec": claim}
        yield storage.PersistentVolumeClaim, unbound
        of_static = {"metadata": meta(f"static-{n}", "theirs"), "spec": dict(claim)}
        of_static["spec"]["storageClassName"] = "static"
        yield storage.PersistentVolumeClaim, of_static
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]
        devices = {
            "metadata": meta(f"devices-{n}", "theirs"),
            "spec": {"devices": {"requests": requests}},
        }
        yield resource_claims.ResourceClaim, devices
    yield resource_claims.DeviceClass, {"metadata": meta("gpu")}
    for n in range(0, nodes, 10):
        pool = {"name": f"n{n}", "resourceSliceCount": 1}
        cards = [{"name": f"d{i}", "attributes": {"model": {"string": "a"}}} for i in range(8)]
        spec = {"driver": "gpu.example.com", "nodeName": f"n{n}", "pool": pool, "devices": cards}
        yield resource_claims.ResourceSlice, {"metadata": meta(f"slice-{n}"), "spec": spec}


class Search:
    """The worst that was found, by the step that took longest and by the genes that it had."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._rng = cluster, random.Random(seed)
        self.tried = 0
        self.worst: dict[str, tuple[float, Recipe]] = {}
        self._pool: list[tuple[float, Recipe]] = []

    def try_one(self, recipe: Recipe) -> None:
        """Play a recipe."""
        manifest = made(recipe, f"large-{self.tried}")
        if manifest is None:
            return
        self.tried += 1
        costs = self._cluster.play(manifest)
        name = max(costs, key=costs.__getitem__)
        for step, cost in costs.items():
            if cost > self.worst.get(step, (0.0, {}))[0]:
                self.worst[step] = cost, recipe
                if step == name:
                    click.echo(f"{cost:8.1f} ms {step}: {json.dumps(recipe)}")
        self._pool.append((costs[name], recipe))
        self._pool = sorted(self._pool, key=lambda each: -each[0])[:24]

    def climb(self) -> None:
        """Change one of the worst at random; now and then put two of them together."""
        _, recipe = self._rng.choice(self._pool)
        if self._rng.random() < 0.3:
            recipe = {**recipe, **self._rng.choice(self._pool)[1]}
        self.try_one(random_step(recipe, self._rng))


def main() -> None:
    """Search for a while."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--tries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--over", type=float, default=0.0)
    parser.add_argument("--recipe", action="append", help="plays only these, as JSON")
    args = parser.parse_args()
    cluster = Cluster(args.nodes, args.pods)
    gc.collect()
    tune_gc()
    search = Search(cluster, args.seed)
    if args.recipe:
        for recipe in args.recipe:
            search.try_one(json.loads(recipe))
    else:
        search.try_one({})
        for recipe in single_genes():
            search.try_one(recipe)
        click.echo(f"{search.tried} of one kind each; now of several")
        for _ in range(args.tries):
            search.climb()
    click.echo(f"{search.tried} pods; the longest steps:")
    ordered = sorted(search.worst.items(), key=lambda each: -each[1][0])
    for step, (cost, recipe) in ordered:
        click.echo(f"{cost:8.1f} ms {step}: {json.dumps(recipe)}")
    cluster.engine.check_consistent()
    if args.over and ordered[0][1][0] > args.over:
        sys.exit(1)


if __name__ == "__main__":
    main()
