"""A simulation waits for what is due later, and takes manifests of all kinds of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arranger.cli.simulation.asked import pods_asked_for
from tests.simulation.commands.test_simulate_end import a_pod, run
from tests.simulation.commands.test_simulate_workloads import NODE, a_workload, outcome

Object = dict[str, Any]

BIG = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 5}}}]}


def a_volcano_job(replicas: int = 1) -> Object:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    task = {"name": "w", "replicas": replicas, "template": template}
    head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}}
    return {**head, "spec": {"schedulerName": "volcano", "minAvailable": 1, "tasks": [task]}}


def a_tyjob(workers: int = 1, scheduler: str = "arranger") -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": scheduler, "containers": [container]}}
    sets = [{"name": "w", "counts": workers, "template": template}]
    leader = {"name": "l", "template": template}
    head = {"apiVersion": "arranger.io/v1alpha1", "kind": "TYJob", "metadata": {"name": "t"}}
    return {**head, "spec": {"leader": leader, "minWorkersNum": workers, "workerSets": sets}}


def test_a_pod_ends_at_its_deadline() -> None:
    first = a_pod("first", spec={**BIG, "activeDeadlineSeconds": 60})
    assert run(NODE, first, a_pod("then", spec=BIG)).pending == []


def test_the_end_of_a_maximum_run_time_is_waited_for() -> None:
    first = a_pod("first", spec=BIG, arranger__io__max_run_time="2h")
    first["metadata"]["annotations"] = {"arranger.io/max-run-time": "2h"}
    assert run(NODE, first, a_pod("then", spec=BIG)).pending == []


def test_the_configured_time_out_of_tyjobs_counts(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    head = "apiVersion: arranger.io/v1alpha1\nkind: SchedulerConfiguration\n"
    config.write_text(head + "tyjobs: {schedulingTimeoutSeconds: 7200}\n")
    options = ("--config", str(config))
    found = outcome(tmp_path, NODE, a_tyjob(workers=20), options=options)
    assert found["stages"] == {"default/t": "Failed"}


@pytest.mark.parametrize("job", [a_volcano_job(), a_tyjob(scheduler="volcano")])
def test_all_pods_are_those_of_jobs_too(tmp_path: Path, job: Object) -> None:
    found = outcome(tmp_path, NODE, job, options=("--all-pods",))
    assert (found["pending"], bool(found["placements"])) == ([], True)


def test_a_cron_job_as_kubectl_prints_it_starts(tmp_path: Path) -> None:
    cron = a_workload(
        "CronJob", schedule="0 * * * *", jobTemplate={"spec": a_workload("Job")["spec"]}
    )
    cron["status"] = {"lastScheduleTime": "2026-11-28T00:00:00Z"}
    assert len(outcome(tmp_path, NODE, cron)["placements"]) == 1


@pytest.mark.parametrize(
    ("manifest", "pods"),
    [
        (a_workload("Job", parallelism=30), 30),
        (a_volcano_job(30), 30),
        (a_tyjob(30), 31),
        (a_workload("DaemonSet"), 2),
    ],
)
def test_pods_that_are_asked_for_are_counted(manifest: Object, pods: int) -> None:
    assert pods_asked_for([("", NODE), ("", NODE), ("", manifest)]) == pods
