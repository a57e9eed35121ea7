"""Workers of a TYJob that have failed too often: how long that counts, and where it is said."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.controllers.tyjob.observed_state import Attempt
from arranger.controllers.tyjob.state_machine import next_stage, plan
from tests.unit.controllers.tyjob.observed import (
    FIRST,
    LEADER,
    NOW,
    SECOND,
    Object,
    a_job,
    observed_pod,
    observed_state,
)
from tests.unit.controllers.tyjob.test_planned_writes import short

GOING: Object = {"phase": "Failed", "leaving": "2026-01-01T12:00:00Z"}
#: Sentence → what is noted, the second worker as it is seen (None for gone), what counts then.
COUNTED: dict[str, tuple[Object, Object | None, Object]] = {
    "it is wanted": ({SECOND: 2}, {"ready": True, "restarts": 2}, {SECOND: 2}),
    "it is wanted and gone": ({SECOND: 2}, None, {SECOND: 2}),
    "it is wanted, and its pod is going": ({SECOND: 2}, {**GOING, "restarts": 1}, {SECOND: 2}),
    "another that nobody wants any more": ({"job-eval-0": 9, SECOND: 1}, None, {SECOND: 1}),
    "its name has come back, and a pod of before is going": (
        {},
        {**GOING, "containers": [{"restartCount": 9}]},
        {},
    ),
    "it has failed, and nobody has noted it": ({}, {"phase": "Failed"}, {SECOND: 1}),
}


@pytest.mark.parametrize("case", COUNTED.values(), ids=COUNTED.keys())
def test_failures_count_while_the_worker_is_asked_for(
    case: tuple[Object, Object | None, Object],
) -> None:
    noted, how, expected = case
    job = a_job({"stage": "Running", "workerRestarts": noted})
    pods = [observed_pod(job, LEADER, ready=True), observed_pod(job, FIRST, ready=True)]
    pods += [observed_pod(job, SECOND, **how)] if how is not None else []
    assert Attempt(job, observed_state(*pods), NOW).worker_restarts == expected


def test_a_worker_that_is_taken_away_is_forgotten_without_a_word() -> None:
    noted = {"job-eval-0": 4, SECOND: 1}
    job = a_job({"stage": "Running", "workerRestarts": noted}, restartLimit=0)
    pods = [observed_pod(job, name, ready=True) for name in (LEADER, FIRST)]
    planned = plan(job, observed_state(*pods), NOW)
    assert planned.status["workerRestarts"] == {"job-eval-0": None}
    assert not planned.events
    assert not [short(write) for write in planned.writes if SECOND in short(write)]


def test_the_event_of_the_last_failure_says_that_the_worker_is_given_up() -> None:
    for restarts, text in (
        (2, f"{SECOND} has failed, for the third time"),
        (3, f"{SECOND} has failed, for the 4th time, and is given up: restartLimit is 3"),
    ):
        job = a_job({"stage": "Running"})
        pods: dict[str, Any] = {name: {"ready": True} for name in (LEADER, FIRST)}
        pods[SECOND] = {"phase": "Failed", "restarts": restarts}
        there = observed_state(*(observed_pod(job, name, **how) for name, how in pods.items()))
        assert text in [note.message for note in plan(job, there, NOW).events]


@pytest.mark.parametrize(
    ("failed", "names"),
    [
        (1, "job-actor-0"),
        (3, "job-actor-0, job-actor-1, job-actor-2"),
        (5, "job-actor-0, job-actor-1, job-actor-2 and 2 more"),
    ],
)
def test_a_job_that_has_failed_by_its_workers_names_them(failed: int, names: str) -> None:
    noted = {f"job-actor-{number}": 4 for number in range(failed)}
    job = a_job({"stage": "Running", "workerRestarts": noted}, workers=5, least=5)
    stage, reason, message = next_stage("Running", Attempt(job, observed_state(), NOW))
    assert (stage, reason) == ("Failed", "WorkersFailed")
    left = f"{5 - failed} workers have not failed too often and 5 must run"
    assert message == f"{left}; restartLimit is 3, and given up are {names}"
