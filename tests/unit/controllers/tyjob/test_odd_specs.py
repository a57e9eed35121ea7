"""Whatever a TYJob says, it is planned or told what is wrong: no object ends the process."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arranger.api.types.tyjob import parse_tyjob, validate_tyjob
from arranger.controllers.tyjob.state_machine import plan
from tests.odd_values import spoil
from tests.tyjobs import a_template, a_tyjob
from tests.unit.controllers.tyjob.observed import NOW, observed_pod, observed_state


def _body() -> dict[str, Any]:
    template = a_template()
    container = template["spec"]["containers"][0]
    container["env"] = [{"name": "A", "value": "b"}]
    container["ports"] = [{"name": "master", "containerPort": 1}]
    template["spec"] |= {"initContainers": [dict(container)], "volumes": [{"name": "v"}]}
    template["metadata"]["labels"] = {"app": "a"}
    body = a_tyjob(
        leader=template,
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
    rng, good = random.Random(seed), parse_tyjob(_body())
    pods = [observed_pod(good, replica.pod) for replica in good.replicas]
    for _ in range(100):
        body = _body()
        body["spec"] = spoil(body["spec"], rng)
        job = parse_tyjob(body)
        problems = validate_tyjob(job)
        for there in (observed_state(), observed_state(*pods)):
            planned = plan(job, there, NOW)
            if problems and not job.terminating:
                assert (planned.status["reason"], planned.writes) == ("Invalid", ())
