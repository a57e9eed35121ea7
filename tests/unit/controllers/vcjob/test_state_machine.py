"""Every transition of a Job's life."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from arranger.api.types.volcano_job import JobPhase
from arranger.controllers.vcjob.controlled_resources import ControlledResources
from arranger.controllers.vcjob.state_machine import next_status
from tests.unit.controllers.vcjob.snapshots import NOW, a_pod_of, a_task, job_snapshot, on

Object = dict[str, Any]

RUNNING = {"w/0": "Running", "w/1": "Running"}


@dataclass(frozen=True)
class Case:
    """What is seen, and what the job becomes: phase, reason, how much its version grows."""

    phase: str
    becomes: str
    reason: str = ""
    more: int = 0
    retries: int = 0
    view: Object = field(default_factory=dict)
    policies: tuple[Object, ...] = ()


def abort(event: str) -> tuple[Object, ...]:
    return (on(event, "AbortJob"),)


CASES = {
    # --- beginning and running
    "a job that nobody has looked at is pending": Case("", "Pending"),
    "a job whose pods wait is pending": Case(
        "Pending", "Pending", view={"pods": {"w/0": "Pending", "w/1": "Running"}}
    ),
    "a pending job says why its gang waits": Case(
        "Pending",
        "Pending",
        "Unschedulable",
        view={
            "pods": {"w/0": "Pending", "w/1": "Pending"},
            "group": "Inqueue",
            "message": "no room",
        },
    ),
    "a job runs when its minimum runs": Case("Pending", "Running", view={"pods": RUNNING}),
    "a job runs when its minimum runs and others wait": Case(
        "Pending",
        "Running",
        view={"pods": {"w/0": "Running", "w/1": "Pending"}, "minAvailable": 1},
    ),
    "those that have ended count as having run": Case(
        "Pending", "Running", view={"pods": {"w/0": "Failed", "w/1": "Running"}}
    ),
    "a job below its minimum is pending again": Case(
        "Running", "Pending", view={"pods": {"w/0": "Running", "w/1": "Pending"}}
    ),
    "a job without pods stays what it was": Case(
        "Running", "Running", view={"tasks": [a_task(replicas=0)]}
    ),
    # --- what the server refuses to make
    "what is refused goes before why the gang waits": Case(
        "Pending",
        "Pending",
        "Refused",
        view={
            "pods": {"w/0": "Pending"},
            "group": "Inqueue",
            "message": "no room",
            "refusal": "no",
        },
    ),
    "a job that runs says what is refused": Case(
        "Running", "Running", "Refused", view={"pods": RUNNING, "refusal": "no"}
    ),
    "what is not refused any more is not said": Case(
        "Pending", "Pending", view={"pods": {}, "reason": "Refused", "refusal": ""}
    ),
    "who has not tried yet takes nothing back": Case(
        "Pending", "Pending", "Refused", view={"pods": {}, "reason": "Refused"}
    ),
    "why a job ends goes before what was refused": Case(
        "Running",
        "Failed",
        "PodsFailed",
        view={"pods": {"w/0": "Failed", "w/1": "Failed"}, "refusal": "no"},
    ),
    # --- ending by itself
    "a job whose pods have all succeeded has completed": Case(
        "Running", "Completed", view={"pods": {"w/0": "Succeeded", "w/1": "Succeeded"}}
    ),
    "a pending job may complete before it was seen to run": Case(
        "Pending", "Completed", view={"pods": {"w/0": "Succeeded", "w/1": "Succeeded"}}
    ),
    "a job whose minimum has succeeded has completed": Case(
        "Running",
        "Completed",
        view={"pods": {"w/0": "Succeeded", "w/1": "Failed"}, "minAvailable": 1},
    ),
    "a job of which too few have succeeded has failed": Case(
        "Running", "Failed", "PodsFailed", view={"pods": {"w/0": "Succeeded", "w/1": "Failed"}}
    ),
    "a job with a task of which too few have succeeded has failed": Case(
        "Running",
        "Failed",
        "PodsFailed",
        view={
            "pods": {"m/0": "Failed", "w/0": "Succeeded", "w/1": "Succeeded"},
            "tasks": [a_task("m", 1, minAvailable=1), a_task(minAvailable=1)],
            "minAvailable": 2,
        },
    ),
    "enough successes complete a job whose other pods still run": Case(
        "Running",
        "Completing",
        "MinSuccess",
        more=1,
        view={"pods": {"w/0": "Succeeded", "w/1": "Running"}, "minSuccess": 1},
    ),
    "too few successes fail it": Case(
        "Running",
        "Failed",
        "PodsFailed",
        view={"pods": {"w/0": "Succeeded", "w/1": "Failed"}, "minSuccess": 2},
    ),
    "a succeeded pod that was tidied up has still succeeded": Case(
        "Running",
        "Completed",
        view={
            "pods": {"w/1": "Succeeded"},
            "memory": ControlledResources().with_observed([], [("w", 0)]),
        },
    ),
    # --- policies
    "an eviction aborts": Case(
        "Running",
        "Aborting",
        "PodEvicted",
        more=1,
        policies=abort("PodEvicted"),
        view={"pods": {"w/0": "Leaving", "w/1": "Running"}},
    ),
    "an eviction terminates": Case(
        "Running",
        "Terminating",
        "PodEvicted",
        more=1,
        policies=(on("PodEvicted", "TerminateJob"),),
        view={"pods": {"w/0": "Leaving", "w/1": "Running"}},
    ),
    "a completed task completes the job": Case(
        "Running",
        "Completing",
        "TaskCompleted",
        more=1,
        policies=(on("TaskCompleted", "CompleteJob"),),
        view={
            "pods": {"m/0": "Succeeded", "w/0": "Running", "w/1": "Running"},
            "tasks": [a_task("m", 1), a_task()],
        },
    ),
    "a failure restarts the job and costs a retry": Case(
        "Running",
        "Restarting",
        "PodFailed",
        more=1,
        retries=1,
        policies=(on("PodFailed", "RestartJob"),),
        view={"pods": {"w/0": "Failed", "w/1": "Running"}},
    ),
    "an eviction restarts the job and costs none": Case(
        "Running",
        "Restarting",
        "PodEvicted",
        more=1,
        policies=(on("PodEvicted", "RestartJob"),),
        view={"pods": {"w/0": "Leaving", "w/1": "Running"}},
    ),
    "an eviction restarts a job that has no retries left": Case(
        "Running",
        "Restarting",
        "PodEvicted",
        more=1,
        policies=(on("*", "RestartJob"),),
        view={"pods": {"w/0": "Evicted", "w/1": "Running"}, "retries": 2, "maxRetry": 3},
    ),
    "the last retry fails the job instead": Case(
        "Running",
        "Failed",
        "PodFailed",
        more=1,
        retries=1,
        policies=(on("PodFailed", "RestartJob"),),
        view={"pods": {"w/0": "Failed", "w/1": "Running"}, "retries": 2, "maxRetry": 3},
    ),
    "restarting a pod costs a retry too": Case(
        "Running",
        "Restarting",
        "PodFailed",
        more=1,
        retries=1,
        policies=(on("PodFailed", "RestartPod"),),
        view={"pods": {"w/0": "Failed", "w/1": "Running"}},
    ),
    "nobody minds a lost pod without a policy": Case(
        "Running", "Pending", view={"pods": {"w/1": "Running"}, "lost": ["w/0"]}
    ),
    "a gang in pieces restarts": Case(
        "Running",
        "Restarting",
        "Unknown",
        more=1,
        retries=1,
        policies=(on("Unknown", "RestartJob"),),
        view={"pods": {"w/0": "Running", "w/1": "Pending"}, "group": "Unknown"},
    ),
    # --- on the way
    "a restart waits for the old pods": Case(
        "Restarting",
        "Restarting",
        view={"pods": [a_pod_of("w/0", "Leaving")], "version": 1},
    ),
    "a restart is over when the old pods are gone": Case("Restarting", "Pending"),
    "a restart of one pod does not wait for the others": Case(
        "Restarting",
        "Pending",
        view={
            "pods": {"w/1": "Running"},
            "memory": ControlledResources(pod_versions={("w", 0): 1}),
        },
    ),
    "no policy interferes with a restart": Case(
        "Restarting",
        "Restarting",
        policies=abort("PodFailed"),
        view={"pods": [a_pod_of("w/0", "Failed")], "version": 1},
    ),
    **{
        f"{begun} waits for the last living pod": Case(
            begun, begun, view={"pods": {"w/0": "Leaving", "w/1": "Failed"}}
        )
        for begun in ("Aborting", "Terminating", "Completing")
    },
    **{
        f"{begun} becomes {end} when no pod lives": Case(
            begun, end, view={"pods": {"w/0": "Succeeded", "w/1": "Failed"}}
        )
        for begun, end in (
            ("Aborting", "Aborted"),
            ("Terminating", "Terminated"),
            ("Completing", "Completed"),
        )
    },
    # --- the ends
    **{
        f"{end} is left by no policy": Case(
            end,
            end,
            policies=(on("*", "RestartJob"),),
            view={"pods": {"w/0": "Failed", "w/1": "Succeeded"}},
        )
        for end in ("Aborted", "Terminated", "Completed", "Failed")
    },
    # --- what its owner asks for
    **{
        f"its owner aborts a job that is {phase}": Case(
            phase,
            "Aborting",
            "Asked",
            more=1,
            view={"pods": RUNNING, "annotations": {"arranger.io/action": "AbortJob"}},
        )
        for phase in ("Pending", "Running", "Restarting")
    },
    **{
        f"its owner resumes a job that is {phase}": Case(
            phase,
            "Restarting",
            "Asked",
            more=1,
            view={
                "pods": {"w/0": "Failed"},
                "annotations": {"arranger.io/action": "ResumeJob"},
            },
        )
        for phase in ("Aborting", "Aborted")
    },
    "its owner restarts a job at no cost": Case(
        "Running",
        "Restarting",
        "Asked",
        more=1,
        view={"pods": RUNNING, "annotations": {"arranger.io/action": "RestartJob"}},
    ),
    "a running job cannot be resumed": Case(
        "Running",
        "Running",
        view={"pods": RUNNING, "annotations": {"arranger.io/action": "ResumeJob"}},
    ),
    "an aborted job cannot be completed": Case(
        "Aborted",
        "Aborted",
        view={"annotations": {"arranger.io/action": "CompleteJob"}},
    ),
    "a completed job cannot be resumed": Case(
        "Completed", "Completed", view={"annotations": {"arranger.io/action": "ResumeJob"}}
    ),
    "a word that is no action is none": Case(
        "Running",
        "Running",
        view={"pods": RUNNING, "annotations": {"arranger.io/action": "Explode"}},
    ),
    "what was done once is not done again": Case(
        "Running",
        "Running",
        view={
            "pods": RUNNING,
            "annotations": {"arranger.io/action": "RestartJob"},
            "memory": ControlledResources(last_action="RestartJob"),
        },
    ),
    # --- invalid
    "an invalid job is not begun": Case("", "Pending", "Invalid", view={"plugins": {"ssh": []}}),
    "a job that becomes invalid stays as it is": Case(
        "Running",
        "Running",
        "Invalid",
        policies=abort("PodFailed"),
        view={"pods": {"w/0": "Failed"}, "plugins": {"ssh": []}},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_phase(case: Case) -> None:
    view = job_snapshot(*case.policies, phase=case.phase, **case.view)
    standing = next_status(view)
    assert (standing.phase, standing.reason) == (JobPhase(case.becomes), case.reason)
    assert standing.version - view.job.status.version == case.more
    assert standing.retries - view.job.status.retry_count == case.retries


def test_a_restart_of_the_whole_makes_every_pod_one_of_before() -> None:
    view = job_snapshot(on("PodFailed", "RestartJob"), pods={"w/0": "Failed", "w/1": "Running"})
    memory = next_status(view).controlled_resources
    assert (memory.restart_version, memory.seen) == (1, frozenset())


@pytest.mark.parametrize(
    ("action", "outdated"),
    [
        ("RestartPod", {("w", 0)}),
        ("RestartTask", {("w", 0), ("w", 1)}),
        ("RestartJob", {("m", 0), ("w", 0), ("w", 1)}),
    ],
)
def test_what_a_restart_concerns(action: str, outdated: set[tuple[str, int]]) -> None:
    pods = {"m/0": "Running", "w/0": "Failed", "w/1": "Running"}
    tasks = [a_task("m", 1), a_task()]
    standing = next_status(job_snapshot(on("PodFailed", action), pods=pods, tasks=tasks))
    after = job_snapshot(
        pods=[a_pod_of(where, fate) for where, fate in pods.items()],
        tasks=tasks,
        memory=standing.controlled_resources,
    )
    assert after.outdated.keys() == outdated


def test_a_finished_job_says_when_it_expires() -> None:
    view = job_snapshot(phase="Completed", ttlSecondsAfterFinished=300)
    assert next_status(view).requeue_at == NOW + timedelta(seconds=200)
