"""Jobs of ``batch/v1``: pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from arranger.api.timestamps import second_time
from arranger.embedded import Object
from arranger.embedded.workloads.plan import (
    Plan,
    Surroundings,
    back_off,
    is_active,
    is_ready,
    pod_of,
)

INDEX: Final = "batch.kubernetes.io/job-completion-index"
#: The most seconds until a pod is replaced that has failed.
_MAX_BACK_OFF: Final = 600.0
_DEFAULT_BACK_OFF_LIMIT: Final = 6


@dataclass(slots=True)
class JobTally:
    """What has become of the pods of one Job, those included that are gone.

    Attributes:
        counted: uids of pods that count no more, so that none counts twice.
        indexes: those that have succeeded, of an Indexed Job.
        in_a_row: failures since the last success.
        verdict: why a rule of the failure policy has failed the Job; empty while none has.
    """

    succeeded: int = 0
    failed: int = 0
    in_a_row: int = 0
    last_failure: datetime | None = None
    indexes: set[int] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    verdict: str = ""

    def on_pod_updated(self, job: Object, pod: Object, now: datetime, *, gone: bool) -> None:
        """Count a pod that has ended; one that is gone before it has ended has failed."""
        meta, phase = pod["metadata"], pod["status"].get("phase")
        if meta["uid"] in self.counted or not (gone or phase in ("Succeeded", "Failed")):
            return
        self.counted.add(meta["uid"])
        if phase == "Succeeded":
            self.succeeded += 1
            self.in_a_row = 0
            if (index := _index_of(pod)) is not None:
                self.indexes.add(index)
            return
        action = _policy_action(job, pod)
        if action == "Ignore" or _stopped(job):
            return
        self.failed += 1
        self.in_a_row += 1
        self.last_failure = now
        if action == "FailJob":
            self.verdict = "PodFailurePolicy"


def reconcile_job(
    job: Object, owned: Sequence[Object], around: Surroundings, tally: JobTally
) -> Plan:
    """As many pods at once as the Job wants, after a back-off if the last one has failed."""
    spec, now = job["spec"], around.now
    pods = [obj for obj in owned if obj["kind"] == "Pod"]
    active = [pod for pod in pods if is_active(pod)]
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
    if completions is None and "parallelism" not in spec:
        completions = 1
    done = len(tally.indexes) if _is_indexed(job) else tally.succeeded
    counts = {
        "active": len(active),
        "ready": sum(map(is_ready, pods)),
        "succeeded": done,
        "failed": tally.failed,
    }
    if ended := _end(job, tally, now, done=done, completions=completions, active=len(active)):
        kind, reason = ended
        condition = {"type": kind, "status": "True", "reason": reason}
        condition["lastTransitionTime"] = second_time(now)
        return Plan(delete=active, status={**counts, "active": 0, "conditions": [condition]})
    if spec.get("suspend"):
        return Plan(delete=active, status=counts)

    wanted = parallelism
    if completions is not None:
        wanted = min(parallelism, completions - done)
    elif done:
        wanted = min(parallelism, len(active))
    # By default a pod that is on its way out is replaced at once; under a failure policy it is not,
    # for what has become of it decides whether it failed.
    policy = spec.get("podReplacementPolicy") or ("Failed" if "podFailurePolicy" in spec else "")
    leaving = [p for p in pods if p["metadata"].get("deletionTimestamp")]
    unfinished = [p for p in leaving if p["metadata"]["uid"] not in tally.counted]
    held = [*active, *(unfinished if policy == "Failed" else ())]
    missing = max(0, wanted - len(held))
    waits = [_deadline_in(job, now), _back_off(tally, now) if missing else None]
    if waits[1] is not None:
        missing = 0
    return Plan(
        create=[
            _pod(job, index) for index in _free_indexes(job, tally, held, completions, missing)
        ],
        delete=sorted(active, key=_worth)[: max(0, len(active) - wanted)],
        status=counts,
        again_in=min((wait for wait in waits if wait is not None), default=None),
    )


def _end(
    job: Object,
    tally: JobTally,
    now: datetime,
    *,
    done: int,
    completions: int | None,
    active: int,
) -> tuple[str, str] | None:
    """(Complete or Failed, why) of a Job that is over."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return condition["type"], condition["reason"]
    if tally.verdict:
        return "Failed", tally.verdict
    if tally.failed > job["spec"].get("backoffLimit", _DEFAULT_BACK_OFF_LIMIT):
        return "Failed", "BackoffLimitExceeded"
    left = _deadline_in(job, now)
    if left is not None and left <= 0:
        return "Failed", "DeadlineExceeded"
    enough = done >= completions if completions is not None else done and not active
    return ("Complete", "CompletionsReached") if enough else None


def _stopped(job: Object) -> bool:
    """Whether its pods are deleted by itself, which is nobody's failure."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return bool(job["spec"].get("suspend")) or any(c["status"] == "True" for c in conditions)


def _deadline_in(job: Object, now: datetime) -> float | None:
    """Seconds until ``activeDeadlineSeconds`` are over; it counts from the Job's creation."""
    seconds = job["spec"].get("activeDeadlineSeconds")
    if seconds is None or job["spec"].get("suspend"):
        return None
    created = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    return (created + timedelta(seconds=seconds) - now).total_seconds()


def _back_off(tally: JobTally, now: datetime) -> float | None:
    """Seconds until the next pod may be made; None if that is now."""
    if not tally.in_a_row or tally.last_failure is None:
        return None
    return back_off(tally.in_a_row, tally.last_failure, now, most=_MAX_BACK_OFF)


def _policy_action(job: Object, pod: Object) -> str:
    """What the first rule of ``podFailurePolicy`` says that speaks of this pod; else Count."""
    for rule in (job["spec"].get("podFailurePolicy") or {}).get("rules") or ():
        if _speaks_of(rule, pod):
            return str(rule["action"])
    return "Count"


def _speaks_of(rule: Mapping[str, Any], pod: Object) -> bool:
    conditions = {(c["type"], c["status"]) for c in pod["status"].get("conditions") or ()}
    patterns = rule.get("onPodConditions") or ()
    if any((each["type"], each.get("status", "True")) in conditions for each in patterns):
        return True
    if not (codes := rule.get("onExitCodes")):
        return False
    statuses = pod["status"].get("containerStatuses") or ()
    given = [(s["name"], s["state"].get("terminated", {}).get("exitCode", 0)) for s in statuses]
    only = codes.get("containerName")
    failed = {code for name, code in given if code and only in (None, name)}
    within = {code for code in failed if code in codes["values"]}
    return bool(within if codes["operator"] == "In" else failed - within)


def _is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _index_of(pod: Object) -> int | None:
    index = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return None if index is None else int(index)


def _free_indexes(
    job: Object,
    tally: JobTally,
    held: Sequence[Object],
    completions: int | None,
    count: int,
) -> Sequence[int | None]:
    """The indexes of the next pods; None for each of a Job without indexes."""
    if not _is_indexed(job):
        return [None] * count
    taken = tally.indexes | {_index_of(pod) for pod in held}
    return [index for index in range(completions or 0) if index not in taken][:count]


def _pod(job: Object, index: int | None) -> Object:
    meta = job["metadata"]
    name, uid = meta["name"], meta["uid"]
    labels = {
        "batch.kubernetes.io/job-name": name,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "controller-uid": uid,
    }
    if index is None:
        return pod_of(job, labels=labels)
    number = {INDEX: str(index)}
    pod = pod_of(job, labels={**labels, **number}, annotations=number)
    pod["metadata"]["generateName"] = f"{name}-{index}-"
    pod["spec"].setdefault("hostname", f"{name}-{index}")
    field_path = {"fieldPath": f"metadata.annotations['{INDEX}']"}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field_path}}
    for container in pod["spec"]["containers"]:
        container["env"] = [*(container.get("env") or ()), variable]
    return pod


def _worth(pod: Object) -> tuple[bool, bool]:
    return bool(pod["spec"].get("nodeName")), is_ready(pod)
