"""Workers of a TYJob that have succeeded: what is noted of them, and what that is worth."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.controllers.tyjob.cache import TYJobCache
from arranger.controllers.tyjob.observed_state import Attempt
from arranger.controllers.tyjob.state_machine import next_stage, plan
from arranger.controllers.tyjob.through_workers import note_of, noted_workers
from tests.builders import an_unstructured
from tests.tyjobs import a_template, a_tyjob
from tests.unit.controllers.tyjob.observed import (
    FIRST,
    LEADER,
    LEADER_UID,
    NOW,
    SECOND,
    Object,
    a_job,
    observed_pod,
    observed_state,
)

DONE: Object = {"phase": "Succeeded"}
GONE: Object = {"actor": "0"}
#: Sentence → what is noted, the first worker as it is seen (None for gone), whether it is through.
THROUGH: dict[str, tuple[Object, Object | None, bool]] = {
    "it has succeeded": ({}, DONE, True),
    "it runs": ({}, {"ready": True}, False),
    "it is gone": ({}, None, False),
    "it is noted and gone": (GONE, None, True),
    "it is noted and being deleted": (GONE, {**DONE, "leaving": "2026-01-01T12:00:00Z"}, True),
    "it is noted and runs all the same": (GONE, {"ready": True}, False),
    "it is noted and has failed all the same": (GONE, {"phase": "Failed"}, False),
    "another is noted": ({"actor": "7"}, None, False),
}


@pytest.mark.parametrize(("noted", "how", "through"), THROUGH.values(), ids=THROUGH.keys())
def test_a_worker_is_through_until_the_next_attempt(
    noted: Object, how: Object | None, through: bool
) -> None:
    status = {"stage": "Running", "succeededWorkers": noted}
    job = a_job(status)
    workers = [observed_pod(job, FIRST, **how)] if how is not None else []
    there = observed_state(observed_pod(job, LEADER, ready=True), *workers)
    current = Attempt(job, there, NOW)
    assert (FIRST in current.through) == through
    assert (next_stage("Running", current)[0] == "Running") == (
        through or (how is not None and "ready" in how)
    )
    without = Attempt(job, observed_state(*workers), NOW)
    assert not without.through, "its leader is lost"
    cleared = plan(job, observed_state(*workers), NOW).status
    assert cleared["succeededWorkers"] is None


@pytest.mark.parametrize(
    ("numbers", "noted"),
    [([], {}), ([0], {"actor": "0"}), ([0, 1, 2, 5, 7, 8], {"actor": "0-2,5,7-8"})],
)
def test_workers_are_noted_in_ranges(numbers: list[int], noted: Object) -> None:
    job, names = a_job(workers=9), {f"job-actor-{number}" for number in numbers}
    assert note_of(job, {*names, "job-other-0"}) == noted
    assert noted_workers(a_job({"succeededWorkers": noted}, workers=9)) == names


def test_a_note_of_ten_thousand_workers_is_short() -> None:
    job = a_job(workers=9_999)
    every_other = {f"job-actor-{number}" for number in range(0, 9_999, 2)}
    assert len(note_of(job, every_other)["actor"]) < 25_000


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-99999", {0, 1, 2}),
        ("1,1-2", {1}),
        ("2,0", {2}),
        ("0,x,1", {0}),
        ("-1", set()),
        (5, set()),
    ],
)
def test_of_what_others_have_noted_is_read_what_we_could_have_written(
    text: Any, numbers: set[int]
) -> None:
    job = a_job({"succeededWorkers": {"actor": text, "gone": "0"}}, workers=3)
    assert noted_workers(job) == {f"job-actor-{number}" for number in numbers}


def test_workers_of_sets_that_are_gone_are_forgotten() -> None:
    sets = [{"name": "other", "template": a_template(), "counts": 2}]
    job = a_job({"stage": "Running", "succeededWorkers": GONE}, workerSets=sets)
    there = observed_state(observed_pod(job, LEADER, ready=True))
    assert plan(job, there, NOW).status["succeededWorkers"] is None


def test_a_worker_that_ended_and_went_before_anybody_looked_is_through() -> None:
    store, job = TYJobCache(), a_job()
    body = a_tyjob()
    body["metadata"] |= {"uid": "uid-job", "resourceVersion": "1"}
    store.on_job_updated(an_unstructured(body))
    store.on_owned_updated("pods", observed_pod(job, LEADER, ready=True))
    for name, how in ((FIRST, DONE), (SECOND, {**DONE, "leaving": "2026-01-01T12:00:00Z"})):
        store.on_owned_updated("pods", observed_pod(job, name, **how))
        store.on_owned_deleted("pods", observed_pod(job, name, **how))
    observed = store.observed_state(job)
    assert observed.through == {FIRST: LEADER_UID}, "the second had to go"
    assert Attempt(job, observed, NOW).through == {FIRST}
    store.on_job_deleted("default/job", "uid-job")
    assert not store._through
