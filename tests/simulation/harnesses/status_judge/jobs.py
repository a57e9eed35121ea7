"""What Volcano's Jobs must say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise

from tests.simulation.harnesses.status_judge.fields import (
    Object,
    Server,
    absent,
    differ,
    in_order,
)
from tests.simulation.harnesses.status_judge.views import VOLCANO, phase_of_pod

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Terminating", "Unknown")
OVER = ("Aborted", "Completed", "Terminated", "Failed")
_WORKING = ("Pending", "Running", "Restarting")
_ENDING = ("Aborting", "Terminating", "Completing")
#: Phase → those that may follow; an end that nobody leaves is not there.
EDGES = {
    "Pending": ("Running", "Restarting", "Completed", "Failed", *_ENDING),
    "Running": ("Pending", "Restarting", "Completed", "Failed", *_ENDING),
    "Restarting": ("Pending", *_ENDING),
    "Aborting": ("Aborted", "Restarting"),
    "Aborted": ("Restarting",),
    "Terminating": ("Terminated",),
    "Completing": ("Completed",),
}
#: Phases that begin a new version of the job; Failed does where retries have run out.
VERSIONS = ("Restarting", *_ENDING)
#: Conditions that are kept.
HISTORY = 20


def job_faults(cluster: Server, now: datetime) -> Iterator[str]:
    """What is untrue in the status of Jobs."""
    pods, groups = cluster.objects("pods"), cluster.objects("podgroups", VOLCANO)
    for job in cluster.objects("jobs", "batch.volcano.sh"):
        if "deletionTimestamp" in job["metadata"] or not _is_ours(job):
            continue
        uid = job["metadata"]["uid"]
        mine = [pod for pod in pods if uid in _owners(pod)]
        mine_groups = [group for group in groups if uid in _owners(group)]
        made = {f"{o['kind']}/{o['metadata']['name']}" for o in _owned(cluster, uid)}
        for fault in (*_of_job(job, mine, mine_groups), *_of_past(job, mine, made, now)):
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


def _owned(cluster: Server, uid: str) -> Iterator[Object]:
    for plural in ("services", "configmaps", "persistentvolumeclaims"):
        yield from (obj for obj in cluster.objects(plural) if uid in _owners(obj))


def _of_past(job: Object, pods: list[Object], made: set[str], now: datetime) -> Iterator[str]:
    """Phases, versions, times, and what the controller remembers."""
    status, spec = job.get("status") or {}, job["spec"]
    state, history = status.get("state") or {}, status.get("conditions") or []
    phases = [each["status"] for each in history]
    if phases[-1:] != [state.get("phase")]:
        yield f"it is {state.get('phase')}, and was last {phases[-1:]}"
    elif history[-1].get("lastTransitionTime") != state.get("lastTransitionTime"):
        yield f"since {state.get('lastTransitionTime')}, and {history[-1]}"
    if wrong := [step for step in pairwise(phases) if step[1] not in EDGES.get(step[0], ())]:
        yield f"phases that do not follow each other: {wrong}"
    began = job["metadata"]["creationTimestamp"]
    times = [began, *(each.get("lastTransitionTime") for each in history)]
    if None in times:
        yield f"a phase does not say since when: {history}"
    yield from in_order("conditions", times, now)
    version, retries = status.get("version", 0), status.get("retryCount", 0)
    begun = sum(phase in VERSIONS for phase in phases) + (state.get("reason") == "Failed")
    newest = max((_version(pod) for pod in pods), default=0)
    if version < max(begun, newest, retries):
        yield f"version is {version} after {phases}, with pods of {newest} and {retries} retries"
    if len(phases) < HISTORY and not phases.count("Restarting") + phases.count("Failed"):
        yield from differ("retryCount", retries, 0)
        yield from differ("version", version, begun)
    if (state.get("phase") == "Failed") < (0 < spec.get("maxRetry", 3) <= retries):
        yield f"it is {state.get('phase')} after {retries} retries"
    if bool(state.get("reason")) != bool(state.get("message")):
        yield f"reason is {state.get('reason')!r} and message {state.get('message')!r}"
    if state.get("phase") in VERSIONS and not state.get("reason"):
        yield f"it is {state.get('phase')} for no reason"
    yield from absent(status, "runningDuration")
    # Those that a smaller job has in excess stay when it has ended, and nobody makes them again.
    sizes = {task.get("name"): task.get("replicas", 1) for task in spec["tasks"]}
    kept = [pod for pod in pods if _index(pod)[1] < sizes.get(_index(pod)[0], 0)]
    yield from _of_memory(status.get("controlledResources") or {}, kept, made)


def _of_memory(written: Object, pods: Iterable[Object], made: set[str]) -> Iterator[str]:
    """The pods that there are have been seen, and what it says was made is there."""
    try:
        memory = json.loads(written.get("arranger.io/state", "{}"))
    except ValueError:
        memory = None
    if not isinstance(memory, dict):
        yield f"controlledResources cannot be read: {written}"
        return
    for pod in pods:
        task, index = _index(pod)
        if not any(a <= index <= b for a, b in _ranges(memory.get(f"pods-seen/{task}", ""))):
            yield f"pod {task}/{index} has not been seen: {memory}"
    kinds = {"services": "Service", "configmaps": "ConfigMap"}
    for name in (key.split("/") for key in memory if key.startswith("made/")):
        if name[1] in kinds and f"{kinds[name[1]]}/{name[2]}" not in made:
            yield f"{name} was made and is not there"


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield int(first), int(last or first)


def _version(pod: Object) -> int:
    return int(pod["metadata"]["annotations"]["volcano.sh/job-version"])


def _index(pod: Object) -> tuple[str, int]:
    notes = pod["metadata"]["annotations"]
    return notes["volcano.sh/task-spec"], int(notes["volcano.sh/task-index"])


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
    # One that was made to complete keeps the reason for that.
    earlier = [each["status"] for each in status.get("conditions") or ()][-2:-1]
    asked = phase == "Completed" and earlier == ["Completing"]
    if (
        phase in ("Running", "Completed")
        and not asked
        and state.get("reason") not in (None, "Refused")
    ):
        yield f"it is {phase} for {state.get('reason')!r}"
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
