"""CronJobs: their first Job at once, or a Job whenever their schedule says."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any, Final

from arranger.api.timestamps import second_time
from arranger.embedded import Object
from arranger.embedded.workloads.cron_schedule import last_due, parse_schedule
from arranger.embedded.workloads.plan import Plan, Surroundings, controller_reference

#: Seconds of a deadline that leaves nothing out.
_LONG_AGO: Final = 10**9
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: How many Jobs that are over are kept, by the condition that says so.
_KEPT: Final = {
    "Complete": ("successfulJobsHistoryLimit", 3),
    "Failed": ("failedJobsHistoryLimit", 1),
}


def start_once(cron_job: Object, owned: Sequence[Object], around: Surroundings) -> Plan:
    """One Job, as if the schedule had been due when the CronJob was first seen."""
    _, status = _active(owned)
    if cron_job["spec"].get("suspend") or (cron_job.get("status") or {}).get("lastScheduleTime"):
        return Plan(status=status)
    return _started(cron_job, around.now, status)


def follow_schedule(cron_job: Object, owned: Sequence[Object], around: Surroundings) -> Plan:
    """The Job that is due, as kube-controller-manager starts it.

    What was missed is made up for by one Job, the last, as far as ``startingDeadlineSeconds`` goes.

    Raises:
        ValueError: the schedule or the time zone cannot be read.
    """
    spec, now = cron_job["spec"], around.now
    (active, status), gone = _active(owned), _too_old(spec, owned)
    if spec.get("suspend"):
        return Plan(status=status, delete=gone)
    schedule = parse_schedule(spec["schedule"], spec.get("timeZone") or "")
    stamp = (cron_job.get("status") or {}).get("lastScheduleTime")
    since = datetime.fromisoformat(stamp or cron_job["metadata"]["creationTimestamp"])
    first = since
    if (deadline := spec.get("startingDeadlineSeconds")) is not None:
        first = max(since, now - timedelta(seconds=min(deadline, _LONG_AGO)))
    due, policy = last_due(schedule, first, now), spec.get("concurrencyPolicy", "Allow")
    if due is None or (policy == "Forbid" and active):
        following = schedule.after(since if due is None else now)
        wait = None if following is None else max((following - now).total_seconds(), 0.0)
        return Plan(status=status, delete=gone, again_in=wait)
    if policy == "Replace":
        gone, status = [*gone, *active], {"active": None}
    following = schedule.after(due)
    wait = None if following is None else (following - now).total_seconds()
    started = _started(cron_job, due, status)
    return Plan(create=started.create, delete=gone, status=started.status, again_in=wait)


def _started(cron_job: Object, due: datetime, status: dict[str, Any]) -> Plan:
    number = int(due.timestamp()) // 60
    job = job_of(cron_job, f"{cron_job['metadata']['name']}-{number}")
    job["metadata"]["annotations"][_SCHEDULED] = stamp = second_time(due)
    job["metadata"]["ownerReferences"] = [controller_reference(cron_job)]
    return Plan(create=[job], status={**status, "lastScheduleTime": stamp})


def _active(owned: Sequence[Object]) -> tuple[list[Object], dict[str, Any]]:
    """(Jobs that are not over, what the status says of them)."""
    jobs = [obj for obj in owned if obj["kind"] == "Job" and not _end(obj)]
    told = [
        {key: job[key] for key in ("apiVersion", "kind")}
        | {key: job["metadata"][key] for key in ("namespace", "name", "uid")}
        for job in jobs
    ]
    return jobs, {"active": told or None}


def _too_old(spec: Object, owned: Sequence[Object]) -> list[Object]:
    """Jobs that are over and more than are to be kept, of each end."""
    gone: list[Object] = []
    for end, (limit, usual) in _KEPT.items():
        jobs = [obj for obj in owned if obj["kind"] == "Job" and _end(obj) == end]
        jobs.sort(key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
        gone += jobs[: max(0, len(jobs) - int(spec.get(limit, usual)))]
    return gone


def _end(job: Object) -> str:
    """The condition with which a Job is over; "" of one that is not."""
    conditions = (job.get("status") or {}).get("conditions") or []
    ends = (each["type"] for each in conditions if each["status"] == "True")
    return next((each for each in ends if each in _KEPT), "")


def job_of(cron_job: Object, name: str) -> Object:
    """A Job of a CronJob's template."""
    template = deepcopy(cron_job["spec"]["jobTemplate"])
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": cron_job["metadata"].get("namespace", "default"),
            "labels": dict(meta.get("labels") or {}),
            "annotations": dict(meta.get("annotations") or {}),
        },
        "spec": template["spec"],
    }
