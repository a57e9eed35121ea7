"""CronJobs: their first Job, at once and not when their schedule says."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from arranger.api.timestamps import second_time
from arranger.embedded import Object
from arranger.embedded.workloads.plan import Plan, Surroundings, controller_reference

_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def reconcile_cron_job(cron_job: Object, owned: Sequence[Object], around: Surroundings) -> Plan:
    """One Job, as if the schedule had been due when the CronJob was first seen."""
    jobs = [obj for obj in owned if obj["kind"] == "Job"]
    active = [
        {key: job[key] for key in ("apiVersion", "kind")}
        | {key: job["metadata"][key] for key in ("namespace", "name", "uid")}
        for job in jobs
        if not (job.get("status") or {}).get("completionTime")
    ]
    status = {"active": active or None}
    if cron_job["spec"].get("suspend") or (cron_job.get("status") or {}).get("lastScheduleTime"):
        return Plan(status=status)
    stamp = second_time(around.now)
    number = int(around.now.timestamp()) // 60
    job = job_of(cron_job, f"{cron_job['metadata']['name']}-{number}")
    job["metadata"]["annotations"][_SCHEDULED] = stamp
    job["metadata"]["ownerReferences"] = [controller_reference(cron_job)]
    return Plan(create=[job], status={**status, "lastScheduleTime": stamp})


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
