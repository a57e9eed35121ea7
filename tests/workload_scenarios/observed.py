"""What there is after a step, as lines that are alike on every cluster."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tests.workload_scenarios.scenario import INDEX, KINDS, Object, World, resource_path

#: Of a status: what no two clusters have alike, and what says only how far a controller has read.
_SKIPPED = ("observedGeneration", "uncountedTerminatedPods", "collisionCount")
_TIMES = ("startTime", "completionTime")
REVISION = "deployment.kubernetes.io/revision"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"


async def observe(world: World) -> list[str]:
    """Pods, claims and workloads of the scenario, sorted; of several alike one with a count."""
    lines: Counter[str] = Counter()
    for kind in KINDS:
        _, found = await world.request("GET", resource_path(world, kind))
        for obj in found["items"]:
            describe = {"Pod": _pod, "PersistentVolumeClaim": _claim}.get(kind, _workload)
            lines[f"{kind} {' '.join(describe(obj))}"] += 1
    return sorted(f"{count} x {text}" if count > 1 else text for text, count in lines.items())


def _pod(pod: Object) -> Iterator[str]:
    meta, spec, status = pod["metadata"], pod["spec"], pod["status"]
    yield _shape(meta["name"])
    yield from _of(meta)
    yield str(spec["containers"][0]["image"])
    yield str(status.get("phase"))
    if any((c["type"], c["status"]) == ("Ready", "True") for c in status.get("conditions") or ()):
        yield "ready"
    if (index := (meta.get("annotations") or {}).get(INDEX)) is not None:
        yield f"index={index}"
    if (failures := (meta.get("annotations") or {}).get(FAILURE_COUNT)) is not None:
        yield f"job-index-failure-count={failures}"
    if (number := (meta.get("labels") or {}).get("apps.kubernetes.io/pod-index")) is not None:
        yield f"ordinal={number}"
    if meta.get("deletionTimestamp"):
        yield "deleting"


def _of(meta: Object) -> Iterator[str]:
    for owner in meta.get("ownerReferences") or ():
        yield f"of {owner['kind']}/{_shape(owner['name'])}"


def _claim(claim: Object) -> Iterator[str]:
    yield claim["metadata"]["name"]
    yield from _of(claim["metadata"])


def _workload(workload: Object) -> Iterator[str]:
    meta, spec, status = workload["metadata"], workload["spec"], workload.get("status") or {}
    yield _shape(meta["name"])
    yield from _of(meta)
    yield str(spec["template"]["spec"]["containers"][0]["image"])
    if (revision := (meta.get("annotations") or {}).get(REVISION)) is not None:
        yield f"revision={revision}"
    if meta.get("deletionTimestamp"):
        yield "deleting"
    if "replicas" in spec:
        yield f"replicas={spec['replicas']}"
    yield "|"
    for key, value in sorted(status.items()):
        if key == "conditions" or key in _SKIPPED or not value:
            continue
        if key in ("currentRevision", "updateRevision"):
            continue
        yield key if key in _TIMES else f"{key}={value}"
    if "updateRevision" in status:
        same = status.get("currentRevision") == status["updateRevision"]
        yield "one revision" if same else "two revisions"
    if conditions := status.get("conditions"):
        shown = sorted(f"{c['type']}={c['status']}:{c.get('reason', '')}" for c in conditions)
        yield f"conditions={','.join(shown)}"


def _shape(name: str) -> str:
    """A name with its random parts as stars."""
    parts = name.split("-")
    return "-".join("*" if _is_random(part) else part for part in parts)


def _is_random(part: str) -> bool:
    return bool(re.fullmatch("[0-9a-z]{5,10}", part))
