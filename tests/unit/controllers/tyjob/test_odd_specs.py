"""Whatever a TYJob says, it is planned or told what is wrong: no object ends the process."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arranger.api.types.tyjob import parse_tyjob, validate_tyjob
from arranger.controllers.tyjob.observed_state import ObservedState
from arranger.controllers.tyjob.state_machine import plan
from arranger.controllers.tyjob.writes import Create
from tests.odd_values import ODD, spoil, spoilt_everywhere
from tests.tyjobs import a_template, a_tyjob
from tests.unit.controllers.tyjob.observed import (
    LEADER,
    NOW,
    a_job,
    observed_pod,
    observed_state,
    refused,
)


def _template() -> dict[str, Any]:
    template = a_template()
    container = template["spec"]["containers"][0]
    container["env"] = [{"name": "A", "value": "b"}]
    container["ports"] = [{"name": "master", "containerPort": 1}]
    template["spec"] |= {"initContainers": [dict(container)], "volumes": [{"name": "v"}]}
    template["metadata"]["labels"] = {"app": "a"}
    return template


def _body() -> dict[str, Any]:
    body = a_tyjob(
        leader=_template(),
        worker=_template(),
        volumes=[{"name": "data", "emptyDir": {}}],
        schedulerPolicy={"basicPolicy": ["Gang"], "jobQueuePolicy": "DRF"},
        schedulingTimeoutSeconds=60,
        terminating=False,
        cleanPodPolicy="All",
        priority=5,
        queue="default",
    )
    body["metadata"] |= {"uid": "uid-job", "resourceVersion": "1"}
    return body


@pytest.mark.parametrize("seed", range(10))
def test_a_spoilt_spec_is_planned_or_told(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        check_spec(spoil(_body()["spec"], rng))


@pytest.mark.parametrize("whose", ["leader", "worker"])
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_template_with_anything_odd_anywhere_is_planned_or_told(whose: str, odd: Any) -> None:
    for template in spoilt_everywhere(_template(), odd):
        spec = _body()["spec"]
        part = spec["leader"] if whose == "leader" else spec["workerSets"][0]
        part["template"] = template
        check_spec(spec)


def check_spec(spec: Any) -> None:
    body, good = {**_body(), "spec": spec}, parse_tyjob(_body())
    pods = [observed_pod(good, replica.pod) for replica in good.replicas]
    job = parse_tyjob(body)
    problems = validate_tyjob(job)
    for there in (observed_state(), observed_state(*pods[:1]), observed_state(*pods)):
        planned = plan(job, there, NOW)
        for write in planned.writes:
            assert not isinstance(write, Create) or write.manifest["metadata"]["name"]
        if problems and not job.terminating:
            assert (planned.status["reason"], planned.writes) == ("Invalid", ())


_UNTIMED = {"type": "Scheduled", "status": "False", "lastTransitionTime": "0000-99"}
#: What somebody who may write the status has put there.
STATUSES: dict[str, dict[str, Any]] = {
    "a condition of no type": {"conditions": [{}]},
    "a condition of a strange type": {"conditions": [{"type": 5}, 7]},
    "a refusal of others": {"conditions": [{"type": "Valid", "status": "False", "message": []}]},
    "a moment that is none": {"stage": "Running", "conditions": [_UNTIMED]},
    "fewer restarts than none": {"restarts": -5},
    "restarts beyond 64 bits": {"restarts": 10**30, "workerRestarts": {"a": 10**40, "b": True}},
    "workers that have succeeded beyond all counts": {
        "succeededWorkers": {"actor": "0-99999,5,x", "other": 5, "": None}
    },
    "workers that have succeeded as a list": {"succeededWorkers": ["actor"]},
    "a stage that is none": {"stage": {"a": 1}, "reason": [], "message": 1, "startTime": 5},
}


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
@pytest.mark.parametrize("least", [1, 99], ids=["valid", "invalid"])
@pytest.mark.parametrize("phase", ["", "Running", "Failed"])
def test_whatever_its_status_says_it_is_planned(
    status: dict[str, Any], least: int, phase: str
) -> None:
    job = a_job(status, generation=3)
    job.valid_spec.min_workers_num = least
    job.valid_spec.scheduling_timeout_seconds = 60
    pods = {LEADER: observed_pod(a_job(), LEADER, phase=phase)} if phase else {}
    planned = plan(job, ObservedState(pods, refusal=refused("no", 3)), NOW)
    assert planned.status or planned.writes
