"""CronJobs that follow their schedules; virtual time begins at midnight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from arranger.embedded import Object
from arranger.embedded.kubelet import HollowKubelets
from arranger.embedded.transport.in_process import InProcessTransport
from arranger.embedded.virtual_time import virtual_now
from tests.unit.embedded.workloads.harness import WorkloadHarness, a_workload

pytestmark = pytest.mark.looptime(noop_cycles=0)

HOUR = 3600.0


@pytest.fixture
async def scheduled() -> AsyncIterator[WorkloadHarness]:
    harness = WorkloadHarness(schedules=True)
    kubelets = HollowKubelets(InProcessTransport(harness.cluster), now=virtual_now)
    work = [asyncio.create_task(each.run()) for each in (harness.controllers, kubelets)]
    yield harness
    for each in work:
        each.cancel()
        with suppress(asyncio.CancelledError):
            await each


def a_cron_job(schedule: str, runs: int = 60, exits: int = 0, **spec: Any) -> Object:
    job = a_workload("Job", runs=runs, exits=exits, backoffLimit=0)["spec"]
    given = {"schedule": schedule, "jobTemplate": {"spec": job}, **spec}
    head = {"apiVersion": "batch/v1", "kind": "CronJob"}
    return {**head, "metadata": {"name": "w", "namespace": "default"}, "spec": given}


def jobs(harness: WorkloadHarness) -> list[str]:
    """When those that are there were due."""
    named = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    found = (
        job["metadata"]["annotations"][named] for job in harness.cluster.objects("jobs", "batch")
    )
    return sorted(stamp[11:16] for stamp in found)


#: The CronJob, after how many hours, the Jobs that are there, and how many pods run.
CASES: dict[str, tuple[Object, float, list[str], int]] = {
    "one is due each hour, and three that are over are kept": (
        *(a_cron_job("0 * * * *"), 5.5),
        *(["03:00", "04:00", "05:00"], 0),
    ),
    "of those that failed one is kept": (a_cron_job("0 * * * *", exits=1), 3.5, ["03:00"], 0),
    "nothing is due before its time": (a_cron_job("0 9 * * *"), 8.9, [], 0),
    "in its zone": (a_cron_job("0 9 * * *", timeZone="Asia/Shanghai"), 2.0, ["01:00"], 0),
    "long ones run beside each other": (
        *(a_cron_job("0 * * * *", runs=9_000), 3.2),
        *(["01:00", "02:00", "03:00"], 3),
    ),
    "or wait for the one before, and make up for one": (
        *(a_cron_job("0 * * * *", runs=9_000, concurrencyPolicy="Forbid"), 4.2),
        *(["01:00", "03:00"], 1),
    ),
    "within the deadline only": (
        a_cron_job("0 * * * *", 9_000, concurrencyPolicy="Forbid", startingDeadlineSeconds=60),
        *(4.2, ["01:00", "04:00"], 1),
    ),
    "or replace it": (
        *(a_cron_job("0 * * * *", runs=9_000, concurrencyPolicy="Replace"), 3.2),
        *(["03:00"], 1),
    ),
    "none while it is suspended": (a_cron_job("* * * * *", suspend=True), 1.0, [], 0),
    "none whose schedule cannot be read": (a_cron_job("every day"), 30.0, [], 0),
    "none in a zone that nobody knows": (a_cron_job("@hourly", timeZone="../x"), 30.0, [], 0),
    "a deadline longer than any time leaves nothing out": (
        *(a_cron_job("@hourly", startingDeadlineSeconds=10**15), 1.5),
        *(["01:00"], 0),
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_a_cron_job_starts(scheduled: WorkloadHarness, case: str) -> None:
    cron_job, hours, expected, running = CASES[case]
    scheduled.apply(cron_job)
    await scheduled.after(hours * HOUR)
    assert jobs(scheduled) == expected
    assert len(scheduled.names("Running")) == running


async def test_it_is_idle_only_where_nothing_will_be_due(scheduled: WorkloadHarness) -> None:
    scheduled.apply(a_cron_job("0 0 30 2 *"))
    await scheduled.after(60)
    assert scheduled.controllers.idle
    assert jobs(scheduled) == []


async def test_its_owner_is_told_what_cannot_be_read(scheduled: WorkloadHarness) -> None:
    scheduled.apply(a_cron_job("61 * * * *"))
    await scheduled.after(5)
    (event,) = scheduled.cluster.objects("events", "events.k8s.io")
    assert "61 is no minute" in event["note"]
