"""The templates of pods in manifests, and how many pods each asks for.

What a manifest says has not been looked at by a server yet: anything may stand anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from arranger.embedded import Object

#: Kind → fields of its spec that count its pods; the largest counts.
_COUNTS: Final[Mapping[str, Sequence[str]]] = {
    "Deployment": ("replicas",),
    "ReplicaSet": ("replicas",),
    "ReplicationController": ("replicas",),
    "StatefulSet": ("replicas",),
    "Job": ("completions", "parallelism"),
    "DaemonSet": (),
}
_VOLCANO: Final = "batch.volcano.sh/"


def pods_asked_for(manifests: Iterable[tuple[str, Object]]) -> int:
    """About how many pods manifests ask for; a DaemonSet asks for one on each of their nodes."""
    given = [manifest for _, manifest in manifests]
    nodes = max(sum(each["kind"] == "Node" for each in given), 1)
    return sum(asked_by(each) * (nodes if each["kind"] == "DaemonSet" else 1) for each in given)


def asked_by(manifest: Object) -> int:
    """How many pods a manifest asks for, a DaemonSet on one node; none if it is no workload."""
    return sum(count for count, _ in _templates(manifest))


def pod_specs(manifest: Object) -> Iterator[Object]:
    """The specs of the pods that a manifest asks for: its own, or those of its templates."""
    for _, template in _templates(manifest):
        spec = template.get("spec")
        if isinstance(spec, dict):
            yield spec


def _templates(manifest: Object) -> Iterator[tuple[int, Object]]:
    """(how many pods, their template); a pod is a template of its own."""
    kind, spec = manifest["kind"], _dict(manifest.get("spec"))
    if kind == "Pod":
        yield 1, manifest
    elif kind == "CronJob":
        yield from _templates({**_dict(spec.get("jobTemplate")), "kind": "Job"})
    elif kind == "Job" and str(manifest.get("apiVersion", "")).startswith(_VOLCANO):
        for task in _dicts(spec.get("tasks")):
            yield _count(task, "replicas"), _dict(task.get("template"))
    elif kind == "TYJob":
        for leader in _dicts([spec.get("leader")]):
            yield 1, _dict(leader.get("template"))
        for workers in _dicts(spec.get("workerSets")):
            yield _count(workers, "counts"), _dict(workers.get("template"))
    elif kind in _COUNTS:
        yield _count(spec, *_COUNTS[kind]), _dict(spec.get("template"))


def _count(given: Object, *fields: str) -> int:
    counts = [given.get(field) for field in fields]
    return max([1, *(count for count in counts if isinstance(count, int))])


def _dict(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> Iterator[Object]:
    return (
        (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())
    )
