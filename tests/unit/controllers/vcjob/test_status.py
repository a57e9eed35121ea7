"""The status that is written on a Job."""

from __future__ import annotations

from arranger.controllers.vcjob.state_machine import build_status, next_status
from tests.unit.controllers.vcjob.snapshots import a_task, job_snapshot, on


def test_the_status_as_people_read_it() -> None:
    view = job_snapshot(
        on("PodFailed", "AbortJob"),
        pods={"m/0": "Succeeded", "w/0": "Failed", "w/1": "Leaving"},
        tasks=[a_task("m", 1), a_task()],
        version=2,
        retries=1,
    )
    status = build_status(view, next_status(view))
    assert status["state"] == {
        "phase": "Aborting",
        "reason": "PodFailed",
        "message": "pod j-w-0 failed: AbortJob",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    counts = {name: status[name] for name in ("pending", "succeeded", "failed", "terminating")}
    assert counts == {"pending": 0, "succeeded": 1, "failed": 1, "terminating": 1}
    assert status["taskStatusCount"]["w"] == {"phase": {"Failed": 1, "Terminating": 1}}
    assert (status["minAvailable"], status["version"], status["retryCount"]) == (3, 3, 1)
    assert status["conditions"][-1]["status"] == "Aborting"


def test_phases_are_told_in_the_order_of_the_pods_whatever_their_hashes() -> None:
    phases = ["Running", "Failed", "Unknown", "Pending", "Succeeded", "Leaving"]
    pods = {f"w/{n}": phase for n, phase in enumerate(phases)}
    view = job_snapshot(phase="Running", pods=pods, tasks=[a_task(replicas=len(pods))])
    told = build_status(view, next_status(view))["taskStatusCount"]["w"]["phase"]
    assert list(told) == [*phases[:-1], "Terminating"]


def test_only_the_last_transitions_are_kept() -> None:
    view = job_snapshot(phase="Pending", pods={"w/0": "Running", "w/1": "Running"})
    view.job.status.conditions.extend({"status": "Pending"} for _ in range(50))
    assert len(build_status(view, next_status(view))["conditions"]) == 20
