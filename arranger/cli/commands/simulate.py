"""``arranger simulate``: manifests into the embedded cluster, until nothing changes any more."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from arranger.daemon.config.schema import Config, LeaderElectionConfig
from arranger.daemon.scheduler import Scheduler
from arranger.embedded.bundled_crds import bundled_crds
from arranger.embedded.errors import ApiError
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.server import EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import run_virtual, virtual_now

Object = dict[str, Any]

#: What others refer to goes first.
_CREATION_ORDER: Final = ("CustomResourceDefinition", "Namespace", "PriorityClass", "Node")
#: Kinds that are pods only where a controller makes them, which no simulation does.
_WORKLOAD_KINDS: Final = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Job",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
        "TYJob",
    }
)
#: Virtual seconds without a write after which nothing will happen any more: longer than the longest
#: rest of an unschedulable pod (five minutes) and its back-off.
_QUIET_SECONDS: Final = 400.0


class ManifestError(ValueError):
    """A manifest cannot be used; the message gives file and document."""


@dataclass(slots=True)
class SimulationResult:
    """What a simulation ended with; every list is sorted, so that equal runs print alike.

    Attributes:
        without_pods: kinds whose pods a controller would make, and how many objects of each there
            are.
    """

    placements: list[Object] = field(default_factory=list)
    pending: list[Object] = field(default_factory=list)
    evictions: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    stages: dict[str, str] = field(default_factory=dict)
    without_pods: dict[str, int] = field(default_factory=dict)
    virtual_seconds: float = 0.0

    def as_json(self) -> Object:
        """The form that scripts read."""
        return {
            "placements": self.placements,
            "pending": self.pending,
            "evictions": self.evictions,
            "stages": self.stages,
            "notRun": self.without_pods,
            "events": self.events,
            "virtualSeconds": self.virtual_seconds,
        }


def read_manifests(paths: Sequence[Path]) -> list[tuple[str, Object]]:
    """Every object of the files and of the folders' YAML and JSON files, with where it stands.

    Raises:
        ManifestError: a file cannot be read, or holds something that is no object.
    """
    found: list[tuple[str, Object]] = []
    for path in _files(paths):
        try:
            documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ManifestError(f"{path}: {error}") from error
        for n, document in enumerate(documents, start=1):
            if document is not None:
                found += _objects(document, f"{path}, document {n}")
    return sorted(found, key=lambda entry: _rank(entry[1]))


def simulate(
    manifests: Iterable[tuple[str, Object]], config: Config, *, seed: int = 0
) -> SimulationResult:
    """Load the manifests, schedule until nothing changes, and tell what became of every pod.

    Raises:
        ManifestError: the server refuses an object.
        ConfigError: the configured plugins cannot be used.
    """
    single_replica = config.model_copy(
        update={"leader_election": LeaderElectionConfig(leader_elect=False)}
    )
    return run_virtual(_simulate(list(manifests), single_replica, seed))


async def _simulate(
    manifests: list[tuple[str, Object]], config: Config, seed: int
) -> SimulationResult:
    cluster = EmbeddedCluster(now=virtual_now, rng=random.Random(seed))
    load_manifests(cluster, manifests)
    scheduler = Scheduler(
        InProcessTransport(cluster),
        config,
        identity="simulation",
        rng=random.Random(seed),
        clock=lambda: virtual_now().timestamp(),
    )
    work = asyncio.create_task(scheduler.run())
    kubelets = HollowKubelets(InProcessTransport(cluster), now=virtual_now)
    running = asyncio.create_task(kubelets.run())
    last_change = 0.0
    version = -1
    loop = asyncio.get_running_loop()
    while (loop.time() - last_change < _QUIET_SECONDS or not kubelets.idle) and not work.done():
        if cluster.store.version != version:
            version, last_change = cluster.store.version, loop.time()
        await asyncio.sleep(1.0)
    running.cancel()
    await asyncio.wait({running})
    scheduler.stop()
    await work
    outcome = collect_result(cluster, last_change)
    kinds = Counter(manifest["kind"] for _, manifest in manifests)
    outcome.without_pods = {kind: kinds[kind] for kind in sorted(_WORKLOAD_KINDS & kinds.keys())}
    return outcome


def load_manifests(cluster: EmbeddedCluster, manifests: Iterable[tuple[str, Object]]) -> None:
    """Create every object, the namespaces they name, and the definitions that we ship.

    Raises:
        ManifestError: the server refuses one.
    """
    manifests = list(manifests)
    given = {
        manifest["metadata"].get("name") for _, manifest in manifests if _is_definition(manifest)
    }
    for definition in bundled_crds():
        if definition["metadata"]["name"] not in given:
            cluster.create(definition)
    for where, manifest in manifests:
        _create(cluster, where, manifest)


def _is_definition(manifest: Object) -> bool:
    return manifest["kind"] == "CustomResourceDefinition" and "metadata" in manifest


def _create(cluster: EmbeddedCluster, where: str, manifest: Object) -> None:
    namespace = (manifest.get("metadata") or {}).get("namespace")
    known = {ns["metadata"]["name"] for ns in cluster.objects("namespaces")}
    if namespace and namespace not in known and manifest["kind"] != "Namespace":
        head = {"apiVersion": "v1", "kind": "Namespace"}
        cluster.create({**head, "metadata": {"name": namespace}})
    try:
        cluster.create(manifest)
    except ApiError as error:
        raise ManifestError(f"{where}: {error.message}") from error


def collect_result(cluster: EmbeddedCluster, seconds: float) -> SimulationResult:
    """What has become of every pod after ``seconds``."""
    outcome = SimulationResult(virtual_seconds=seconds)
    for pod in cluster.objects("pods"):
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if node := pod["spec"].get("nodeName"):
            phase = pod["status"]["phase"]
            outcome.placements.append({"pod": name, "node": node, "phase": phase})
        else:
            conditions = pod["status"].get("conditions") or [{}]
            why = conditions[0].get("message", f"waits for {pod['spec']['schedulerName']}")
            outcome.pending.append({"pod": name, "reason": why})
    for event in cluster.objects("events", "events.k8s.io"):
        about = event["regarding"]
        outcome.events.append(
            {
                "object": f"{about['kind']} {about.get('namespace', '')}/{about['name']}",
                "type": event["type"],
                "reason": event["reason"],
                "note": event["note"],
                "count": (event.get("series") or {"count": 1})["count"],
            }
        )
        if event["reason"] == "Preempted":
            evicted = f"{about.get('namespace', '')}/{about['name']}"
            outcome.evictions.append({"pod": evicted, "note": event["note"]})
    outcome.stages = _tyjob_stages(cluster)
    outcome.evictions.sort(key=lambda eviction: str(eviction["pod"]))
    outcome.events.sort(key=lambda event: (event["object"], event["reason"]))
    return outcome


def _tyjob_stages(cluster: EmbeddedCluster) -> dict[str, str]:
    """TYJob → its stage; what no controller has seen yet has none."""
    try:
        jobs = cluster.objects("tyjobs", "arranger.io")
    except KeyError:
        return {}
    return {
        f"{job['metadata']['namespace']}/{job['metadata']['name']}": job["status"]["stage"]
        for job in jobs
        if (job.get("status") or {}).get("stage")
    }


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml", ".json"))
        else:
            yield path


def _objects(document: object, where: str) -> list[tuple[str, Object]]:
    if not isinstance(document, Mapping) or "kind" not in document:
        raise ManifestError(f"{where}: not a Kubernetes object: it has no kind")
    if document["kind"] == "SchedulerConfiguration":
        raise ManifestError(f"{where}: the scheduler's configuration is given with --config")
    if str(document["kind"]).endswith("List"):
        items = document.get("items") or []
        return [pair for n, item in enumerate(items) for pair in _objects(item, f"{where}[{n}]")]
    return [(where, dict(document))]


def _rank(manifest: Object) -> int:
    kind = manifest["kind"]
    return _CREATION_ORDER.index(kind) if kind in _CREATION_ORDER else len(_CREATION_ORDER)
