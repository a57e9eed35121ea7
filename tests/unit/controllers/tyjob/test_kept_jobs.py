"""What the cache keeps of TYJobs takes little memory, and says all that a plan is made from."""

from __future__ import annotations

import json
import random
import tracemalloc
from typing import Any

import pytest

from arranger.api.parsing.objects import decode_object
from arranger.api.types.tyjob import parse_tyjob, validate_tyjob
from arranger.controllers.runtime.objects import UnstructuredObject
from arranger.controllers.tyjob.cache import TYJobCache
from arranger.controllers.tyjob.kept_jobs import kept, whole
from arranger.controllers.tyjob.observed_state import ObservedState
from arranger.controllers.tyjob.state_machine import plan
from tests.odd_values import spoil
from tests.tyjobs import a_template, a_tyjob
from tests.unit.controllers.tyjob.observed import LEADER, NOW, a_job, observed_pod, observed_state

Object = dict[str, Any]


def a_large_template(*, variables: int = 4000) -> Object:
    template = a_template()
    env = [{"name": f"E{n}", "value": f"{n}"} for n in range(variables)]
    template["spec"]["containers"][0]["env"] = env
    return template


def a_large_job(*, version: str = "1", stage: str = "Pending", **more: Any) -> Object:
    made = a_tyjob(leader=a_large_template(), worker=a_large_template(), **more)
    made["metadata"] |= {"uid": "uid-job", "resourceVersion": version}
    return {**made, "status": {"stage": stage}}


#: A job, and how many times what was sent it may take.
JOBS: dict[str, tuple[Object, float]] = {
    "one that waits": (a_large_job(), 1.5),
    "one that runs": (a_large_job(stage="Running"), 1.5),
    "one that cannot be run as it is": (a_large_job(least=9), 1.5),
    "one with large volumes": (
        a_large_job(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(64)]),
        1.5,
    ),
    "one that has ended": (a_large_job(stage="Succeeded"), 0.1),
    "one that has failed": (a_large_job(stage="Failed"), 0.1),
}


@pytest.mark.parametrize("case", JOBS.values(), ids=JOBS)
def test_a_job_takes_no_more_than_what_was_sent(case: tuple[Object, float]) -> None:
    made, share = case
    body, store = json.dumps(made).encode(), TYJobCache()
    tracemalloc.start()
    store.on_job_updated(decode_object(body, UnstructuredObject))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < share * len(body)


@pytest.mark.parametrize("case", JOBS.values(), ids=JOBS)
def test_what_is_planned_is_the_same(case: tuple[Object, float]) -> None:
    made, _ = case
    store = TYJobCache()
    store.on_job_updated(decode_object(json.dumps(made).encode(), UnstructuredObject))
    job, expected = store.job("default/job"), parse_tyjob(made)
    assert job is not None
    for observed in (ObservedState({}), observed_state(observed_pod(a_job(), LEADER))):
        assert repr(plan(job, observed, NOW)) == repr(plan(expected, observed, NOW))
    if made["status"]["stage"] in ("Pending", "Running"):
        assert job == expected


@pytest.mark.parametrize("seed", range(10))
def test_whatever_a_spec_says_the_same_is_told(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        made = a_large_job()
        spec = made["spec"]
        spec["leader"]["template"] = a_large_template(variables=500)
        spec["workerSets"][0]["template"] = a_template()
        job = parse_tyjob({**made, "spec": spoil(spec, rng)})
        assert validate_tyjob(whole(kept(job))) == validate_tyjob(job)


def test_a_list_shows_a_job_that_is_known() -> None:
    store = TYJobCache()
    store.on_job_updated(decode_object(json.dumps(a_large_job()).encode(), UnstructuredObject))
    again = decode_object(json.dumps(a_large_job()).encode(), UnstructuredObject)
    assert store.on_job_updated(again, asked_at="listed") == set()
    other = decode_object(json.dumps(a_large_job(least=2)).encode(), UnstructuredObject)
    assert store.on_job_updated(other, asked_at="listed") == {"default/job"}
