"""Jobs and what is seen of them, said in a few words.

A pod is written as its fate, ``Running`` or ``Failed 137``; a job of one task ``w`` of two pods is
assumed where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from arranger.api.types.core import ObjectMeta
from arranger.api.types.volcano_job import JobPod, VolcanoJob
from arranger.controllers.vcjob.controlled_resources import ControlledResources, TaskIndex
from arranger.controllers.vcjob.snapshot import JobSnapshot, ObservedPodGroup

Object = dict[str, Any]

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONTAINER: Object = {"name": "c", "image": "img", "resources": {"requests": {"cpu": "1"}}}


def ago(seconds: float) -> str:
    """That long before :data:`NOW`, as the API writes it."""
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def a_task(name: str = "w", replicas: int = 2, **more: Any) -> Object:
    """A task as its owner writes it."""
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def on(event: str, action: str, **more: Any) -> Object:
    """A policy."""
    return {"event": event, "action": action, **more}


def job_body(
    *policies: Object,
    tasks: Iterable[Object] = (),
    name: str = "j",
    annotations: Mapping[str, str] | None = None,
    status: Object | None = None,
    **spec: Any,
) -> Object:
    """A Job as the API serves it."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "annotations": dict(annotations or {}),
        },
        "spec": {"tasks": list(tasks) or [a_task()], "policies": list(policies), **spec},
        "status": status or {},
    }


def pod_body(place: str, fate: str = "Running", *, version: int = 0, **status: Any) -> Object:
    """The pod of ``task/index``; a second word of its fate is an exit code."""
    task, _, index = place.partition("/")
    phase, _, code = fate.partition(" ")
    meta: Object = {
        "name": f"j-{task}-{index}",
        "namespace": "default",
        "uid": f"uid-j-{task}-{index}-{version}",
        "resourceVersion": "1",
        "creationTimestamp": ago(60),
        "annotations": {
            "volcano.sh/task-spec": task,
            "volcano.sh/task-index": index,
            "volcano.sh/job-version": str(version),
        },
        "ownerReferences": [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "j",
                "uid": "uid-j",
                "controller": True,
            }
        ],
    }
    if phase in ("Leaving", "Evicted"):
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
        }
        status.setdefault("conditions", [condition])
        if phase == "Leaving":
            meta["deletionTimestamp"] = ago(1)
        phase = {"Leaving": "Running", "Evicted": "Failed"}[phase]
    if code:
        ended = {"terminated": {"exitCode": int(code), "finishedAt": ago(10)}}
        status.setdefault("containerStatuses", [{"state": ended}])
    return {"metadata": meta, "status": {"phase": phase, **status}}


def a_pod_of(
    place: str, fate: str = "Running", *, deleted: float | None = None, **more: Any
) -> JobPod:
    """A pod; ``deleted`` so many seconds ago, with half a minute to end."""
    body = pod_body(place, fate, **more)
    if deleted is not None:
        period = {"deletionTimestamp": ago(deleted - 30), "deletionGracePeriodSeconds": 30}
        body["metadata"] |= period
    return msgspec.convert(body, JobPod)


def task_index(text: str) -> TaskIndex:
    task, _, index = text.partition("/")
    return task, int(index)


def job_snapshot(
    *policies: Object,
    pods: Mapping[str, str] | Iterable[JobPod] = (),
    phase: str = "Running",
    lost: Iterable[str] = (),
    group: str = "",
    message: str = "",
    version: int = 0,
    retries: int = 0,
    memory: ControlledResources | None = None,
    reason: str = "",
    refusal: str | None = None,
    now: datetime = NOW,
    **job: Any,
) -> JobSnapshot:
    """A view of a job in a phase.

    Args:
        pods: ``task/index`` → fate, all of the current version; or pods themselves.
        lost: places whose pod has been seen and is gone.
        reason: why it is in its phase, as its status says.
        refusal: what the server refused to make.
        group: the phase of its PodGroup; none, where it is empty.
    """
    if isinstance(pods, Mapping):
        pods = [a_pod_of(where, fate, version=version) for where, fate in pods.items()]
    found: dict[TaskIndex, JobPod] = {}
    for pod in pods:
        notes = pod.metadata.annotations
        found[notes["volcano.sh/task-spec"], int(notes["volcano.sh/task-index"])] = pod
    gone = {task_index(text) for text in lost}
    if memory is None:
        memory = ControlledResources(restart_version=version)
    memory = memory.with_observed([*found, *gone], [])
    status = {
        "state": {"phase": phase, "reason": reason, "lastTransitionTime": ago(100)},
        "version": version,
        "retryCount": retries,
        "controlledResources": memory.to_dict(),
    }
    body = job_body(*policies, status=status if phase else {}, **job)
    name = f"j-{memory.restart_version}"
    group_meta = ObjectMeta(name=name, uid="uid-g")
    seen_group = ObservedPodGroup(group_meta, phase=group, message=message)
    return JobSnapshot(
        job=msgspec.convert(body, VolcanoJob),
        pods=found,
        confirmed_empty=frozenset(gone),
        pod_groups={name: seen_group} if group else {},
        raw_status=body["status"],
        refusal=refusal,
        now=now,
    )
