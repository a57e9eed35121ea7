"""What the scheduler's memory grows to: ``python -m tests.benchmarks.bench_memory [nodes] [pods]``.

Nodes full of pods of many workloads, decoded as the watch decodes them and kept by an informer as
in the daemon; then the worst that one tenant may do, and its end. Prints megabytes of the process
(RSS) after each step. The daemon runs within 2 GiB.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click

from arranger.api.effects import Applied, Bind
from arranger.api.types.core import Node, Pod
from arranger.daemon.informers import Informers
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.kube.watch.decoder import Decoder, WatchEvent
from arranger.kube.watch.trimming import trim
from arranger.plugins import default_profile
from tests.benchmarks.largest_objects import Manifest

HOST: Final = "kubernetes.io/hostname"
#: Pods of one workload.
REPLICAS: Final = 15


def rss() -> int:
    """Megabytes that the process takes now."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return (
        int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
        // 1024
    )


def a_node(n: int) -> Manifest:
    """A node with the labels and images of a cloud's."""
    labels = {HOST: f"node-{n}", "topology.kubernetes.io/zone": f"z{n % 3}"}
    labels |= {f"node.example.com/label-{i}": f"value-{n % 7}" for i in range(20)}
    room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    images = [
        {"names": [f"registry.example.com/image-{i}:v1"], "sizeBytes": 10**8} for i in range(30)
    ]
    meta = {"name": f"node-{n}", "uid": f"node-{n}", "resourceVersion": "1", "labels": labels}
    return {"metadata": meta, "status": {"allocatable": room, "capacity": room, "images": images}}


def a_pod(n: int, nodes: int) -> Manifest:
    """A pod of a Deployment as an API server shows it, bound."""
    app = f"app-{n // REPLICAS}"
    container = {
        "name": "main",
        "image": f"registry.example.com/{app}:v1",
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"VARIABLE_{i}", "value": "x" * 40} for i in range(20)],
        "volumeMounts": [{"name": f"kube-api-access-{n}", "mountPath": "/var/run/secrets"}],
    }
    seconds = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", **seconds} for key in ("not-ready", "unreachable")
    ]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": app,
        "uid": app,
        "controller": True,
    }
    return {
        "metadata": {
            "name": f"{app}-{n}",
            "namespace": f"team-{n % 200}",
            "uid": f"00000000-0000-0000-0000-{n:012}",
            "resourceVersion": str(n),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": app, "pod-template-hash": f"{n // REPLICAS:010}", "team": "a"},
            "annotations": {"example.com/config-hash": f"{n // REPLICAS:064}"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "nodeName": f"node-{n % nodes}",
            "schedulerName": "arranger",
            "priority": 0,
            "containers": [container],
            "tolerations": tolerations,
            "volumes": [{"name": f"kube-api-access-{n}", "projected": {"sources": []}}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "ready": True}],
        },
    }


def hostile(n: int, nodes: int) -> Iterable[Manifest]:
    """The n-th round of a tenant: each of the audit's objects that filled the memory."""

    def made(what: str, *, node: bool = False, **spec: Any) -> Manifest:
        meta = {"name": f"{what}-{n}", "namespace": "hostile", "uid": f"{what}-{n}"}
        bound = {"nodeName": f"node-{n % nodes}"} if node else {}
        spec = {"schedulerName": "arranger", "containers": [{"name": "c"}], **bound, **spec}
        return {"metadata": {**meta, "resourceVersion": "1"}, "spec": spec}

    noted = made("noted", node=True)
    noted["metadata"]["annotations"] = {"example.com/note": "x" * 240_000}
    yield noted
    terms = [
        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": f"{n}-{i}"}}}
        for i in range(500)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    yield made("apart", node=True, affinity={"podAntiAffinity": required})
    yield made("apart-waiting", affinity={"podAntiAffinity": required})
    yield made("labels", nodeSelector={f"example.com/{n}-{i}": "x" for i in range(500)})
    requests = {f"example.com/{n}-{i}": "1" for i in range(500)}
    container = {"name": "c", "resources": {"requests": requests}}
    yield made("resources", containers=[container])
    yield made("resources-bound", node=True, containers=[container])
    yield made("images", containers=[{"name": f"c{i}", "image": f"{n}-{i}"} for i in range(100)])


def main() -> None:
    """Fill a cluster, have a tenant do his worst, and take it back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=5000)
    parser.add_argument("pods", type=int, nargs="?", default=150_000)
    parser.add_argument("--rounds", type=int, default=300)
    args = parser.parse_args()
    engine, now = Engine(EngineSettings([default_profile()])), 0.0
    informer = Informers(engine, lambda: now, lambda: None)._informers[Pod]
    nodes, pods = Decoder(Node, trim), Decoder(Pod, trim)

    def seen(decoder: Decoder[Any], manifest: Manifest) -> Any:
        event = decoder.decode_event(json.dumps({"type": "ADDED", "object": manifest}).encode())
        assert isinstance(event, WatchEvent), event
        return event.object

    def settle() -> None:
        while True:
            for effect in engine.run(now):
                if isinstance(effect, Bind):
                    engine.on_outcome(effect, Applied(), now)
            if not engine.ready:
                return

    click.echo(f"{'at the start':50}{rss():6} MB")
    for n in range(args.nodes):
        engine.handlers.on_node_updated(seen(nodes, a_node(n)), now)
    click.echo(f"{f'with {args.nodes} nodes':50}{rss():6} MB")
    for n in range(args.pods):
        informer.applied(seen(pods, a_pod(n, args.nodes)))
    settle()
    click.echo(f"{f'with {args.pods} pods':50}{rss():6} MB")
    theirs: list[Pod] = []
    for n in range(args.rounds):
        for manifest in hostile(n, args.nodes):
            theirs.append(seen(pods, manifest))
            informer.applied(theirs[-1])
        now += 0.1
        settle()
    click.echo(f"{f'with the {len(theirs)} pods of a hostile tenant':50}{rss():6} MB")
    for pod in theirs:
        informer.deleted(pod)
    theirs.clear()
    now += 1000
    settle()
    click.echo(f"{'when they have gone':50}{rss():6} MB")


if __name__ == "__main__":
    main()
