"""What a start costs the core: ``python -m tests.benchmarks.bench_start [--pods 20000]``.

Decodes the pages of a list of bound pods (about 3 kB of JSON each) and hands them to an engine, as
the informer of pods does. Prints microseconds of CPU a pod, of decoding and of taking in, and how
much the process has grown.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import time
from typing import Any, Final

import click

from arranger.api.types.core import Node, Pod
from arranger.daemon.garbage import GC_THRESHOLDS
from arranger.daemon.informers import Informers
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.kube.watch.decoder import Decoder
from arranger.kube.watch.trimming import trim
from arranger.plugins import default_profile
from tests.builders import a_node

PAGE: Final = 500
PODS_A_NODE: Final = 30
CREATED: Final = "2026-01-01T00:00:{:02}Z"


def a_bound_pod(n: int, node: str) -> dict[str, Any]:
    """A pod as a Deployment's looks in a cluster, of one of 2,000 apps."""
    app = n % 2000
    labels = {"app": f"app-{app}", "tier": "backend", "pod-template-hash": f"{app:010x}"}
    env = [{"name": f"SETTING_{k}", "value": f"value-{k}-of-app-{app}"} for k in range(8)]
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    token = f"kube-api-access-{n:05x}"
    ready = [
        {"type": kind, "status": "True", "lastTransitionTime": CREATED.format(n % 60)}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]
    fields = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}, "f:spec": {}}
    manager = {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{app}", "uid": f"{app}"}
    metadata = {
        "name": f"app-{app}-{n:06}",
        "generateName": f"app-{app}-",
        "namespace": f"team-{app % 50}",
        "uid": f"7a9f0000-0000-4000-8000-{n:012}",
        "resourceVersion": str(1000 + n),
        "creationTimestamp": CREATED.format(n % 60),
        "labels": labels,
        "annotations": {"example.com/checksum": f"{app:064x}"},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        "managedFields": [manager, {**manager, "manager": "kubelet"}],
    }
    container = {
        "name": "main",
        "image": f"registry.example.com/team/app-{app}:1.2.3",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": env,
        "resources": {"requests": {"cpu": "100m", "memory": f"{64 + app % 100}Mi"}},
        "volumeMounts": [{"name": token, "mountPath": "/var/run/secrets", "readOnly": True}],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ]
    spec = {
        "volumes": [{"name": token, "projected": {"sources": [{"serviceAccountToken": {}}]}}],
        "containers": [container],
        "restartPolicy": "Always",
        "nodeName": node,
        "schedulerName": "default-scheduler",
        "tolerations": [{**each, "tolerationSeconds": 300} for each in tolerations],
        "priority": 0,
    }
    status = {
        "phase": "Running",
        "conditions": ready,
        "podIP": "10.0.0.1",
        "startTime": CREATED.format(n % 60),
        "containerStatuses": [
            {"name": "main", "ready": True, "image": container["image"], "imageID": "sha256:0"}
        ],
    }
    return {"metadata": metadata, "spec": spec, "status": status}


def pages(count: int) -> list[bytes]:
    """The pods as the server lists them."""
    found = []
    for first in range(0, count, PAGE):
        items = [
            a_bound_pod(n, f"n{n // PODS_A_NODE}") for n in range(first, min(first + PAGE, count))
        ]
        found.append(json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode())
    return found


def start(count: int) -> tuple[float, float, float]:
    """(microseconds a pod to decode, to take in; MiB by which the process has grown)."""
    engine = Engine(EngineSettings([default_profile()]))
    informers = Informers(engine, lambda: 0.0, lambda: None)
    sink = informers._informers[Node]
    sink.replaced([a_node(f"n{n}").build() for n in range(count // PODS_A_NODE + 1)], "1")
    bodies = pages(count)
    decoder = Decoder(Pod, trim)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    pods: list[Pod] = []
    for body in bodies:
        pods += decoder.decode_page(body)[1]
    decoded = time.process_time()
    informers._informers[Pod].replaced(pods, "9")
    engine.run(0.0)
    done = time.process_time()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert len(engine.cluster) == count
    return (decoded - began) / count * 1e6, (done - decoded) / count * 1e6, grown


def main() -> None:
    """Measure once, as a second time nothing would grow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=20_000)
    args = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as in the daemon
    size = len(json.dumps(a_bound_pod(1, "n1")))
    decode, take_in, grown = start(args.pods)
    click.echo(
        f"{args.pods} bound pods of {size} bytes: decoded in {decode:.1f} µs a pod, taken in in "
        f"{take_in:.1f}, {decode + take_in:.1f} in all; {grown:.0f} MiB more"
    )


if __name__ == "__main__":
    main()
