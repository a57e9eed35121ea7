"""What Volcano's Jobs must say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from arranger.embedded.server import EmbeddedCluster
from tests.simulation.harnesses.status_judge.gangs import VOLCANO, phase_of_pod

Object = dict[str, Any]

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Terminating", "Unknown")
OVER = ("Aborted", "Completed", "Terminated", "Failed")


def job_faults(cluster: EmbeddedCluster) -> Iterator[str]:
    """What is untrue in the status of Jobs."""
    pods, groups = cluster.objects("pods"), cluster.objects("podgroups", VOLCANO)
    for job in cluster.objects("jobs", "batch.volcano.sh"):
        if "deletionTimestamp" in job["metadata"] or not _is_ours(job):
            continue
        uid = job["metadata"]["uid"]
        mine = [pod for pod in pods if uid in _owners(pod)]
        mine_groups = [group for group in groups if uid in _owners(group)]
        for fault in _of_job(job, mine, mine_groups):
            yield f"Job {job['metadata']['name']}: {fault}"


def _of_job(job: Object, pods: list[Object], groups: list[Object]) -> Iterator[str]:
    status, spec = job.get("status") or {}, job["spec"]
    state = status.get("state") or {}
    replicas = sum(task.get("replicas", 1) for task in spec["tasks"])
    # As Volcano fills it in: what each task says for itself, else all of its pods.
    own = sum(task.get("minAvailable", task.get("replicas", 1)) for task in spec["tasks"])
    least = spec.get("minAvailable", own)
    found = Counter(map(_phase, pods))
    for phase in PHASES:
        have = status.get(phase.lower(), 0)
        # A pod that has succeeded stays counted when it is removed, and so do all after the end.
        over = state.get("phase") in ("Completed", "Failed", "Terminated")
        stays = phase == "Succeeded" or (over and phase == "Failed")
        true = have >= found[phase] if stays else have == found[phase]
        if not true:
            yield f"{phase.lower()} is {have} and there are {found[phase]}"
        tasks = status.get("taskStatusCount") or {}
        split = sum((each.get("phase") or {}).get(phase, 0) for each in tasks.values())
        if split != have:
            yield f"tasks have {split} pods {phase}, the job has {have}"
    for task in spec["tasks"]:
        mine = [
            p for p in pods if p["metadata"]["annotations"]["volcano.sh/task-spec"] == task["name"]
        ]
        said = (status.get("taskStatusCount") or {}).get(task["name"], {}).get("phase") or {}
        for phase, n in Counter(map(_phase, mine)).items():
            if said.get(phase, 0) < n:
                yield f"task {task['name']} has {said.get(phase, 0)} pods {phase}, not {n}"
    if status.get("minAvailable") != least:
        yield f"minAvailable is {status.get('minAvailable')} and must be {least}"
    if not 0 <= status.get("retryCount", 0) <= spec.get("maxRetry", 3):
        yield f"retryCount is {status.get('retryCount')}"
    if state.get("reason") != "Invalid":
        yield from _of_state(state, status, pods, groups, least, replicas)


def _of_state(
    state: Object,
    status: Object,
    pods: list[Object],
    groups: list[Object],
    least: int,
    replicas: int,
) -> Iterator[str]:
    phase = state.get("phase")
    active = [pod for pod in pods if phase_of_pod(pod) not in ("Succeeded", "Failed")]
    begun = sum(status.get(name, 0) for name in ("running", "succeeded", "failed"))
    if phase in OVER and active:
        yield f"it is {phase}, and {len(active)} of its pods are active"
    elif phase in ("Aborting", "Terminating", "Completing", "Restarting") and not active:
        yield f"it is {phase}, and no pod of it is left to go"
    elif phase in ("Pending", "Running") and replicas:
        if phase != (must := "Running" if begun >= least else "Pending"):
            yield f"it is {phase} and must be {must}: {begun} of {least} have begun"
        if status.get("succeeded", 0) + status.get("failed", 0) >= replicas:
            yield f"it is {phase}, and all of its pods have ended"
    elif phase not in (*OVER, "Aborting", "Terminating", "Completing", "Restarting", "Pending"):
        yield f"its phase is {phase}"
    if phase == "Pending" and state.get("reason") in (None, "Unschedulable"):
        told = {
            c["message"]
            for group in groups
            for c in (group.get("status") or {}).get("conditions") or ()
            if c["type"] == "Unschedulable"
        }
        if state.get("message") not in (told or {None}):
            yield f"it says {state.get('message')!r}, and its PodGroups {told}"


def _phase(pod: Object) -> str:
    phase = phase_of_pod(pod)
    going = "deletionTimestamp" in pod["metadata"] and phase not in ("Succeeded", "Failed")
    return "Terminating" if going else phase


def _owners(obj: Object) -> list[str]:
    return [o["uid"] for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")]


def _is_ours(job: Object) -> bool:
    return job["spec"].get("schedulerName") in (None, "", "arranger")
