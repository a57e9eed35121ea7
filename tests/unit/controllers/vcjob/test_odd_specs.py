"""Whatever a Job says, it is planned or told what is wrong: no object ends the process."""

from __future__ import annotations

import random
from typing import Any

import pytest

from arranger.api.parsing.errors import ParseError
from arranger.controllers.vcjob.cache import JobCache
from arranger.controllers.vcjob.manifests import pod_group_of, pod_of
from arranger.controllers.vcjob.plan import plan
from tests.builders import an_unstructured
from tests.odd_values import spoil
from tests.unit.controllers.vcjob.snapshots import NOW, a_task, job_body


def _spec() -> dict[str, Any]:
    task: dict[str, Any] = a_task("m", 1, minAvailable=1)
    container = {
        "name": "c",
        "env": [{"name": "A", "value": "b"}],
        "ports": [{"name": "master", "containerPort": 1}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
    }
    task["template"] = {
        "metadata": {"labels": {"app": "a"}, "annotations": {"a": "b"}, "finalizers": ["f"]},
        "spec": {
            "containers": [container],
            "initContainers": [dict(container)],
            "volumes": [{"name": "v"}],
            "schedulerName": "arranger",
            "priorityClassName": "p",
            "hostname": "h",
            "subdomain": "s",
        },
    }
    volumes = [{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
    plugins = {"svc": ["--publish-not-ready-addresses"], "env": []}
    tasks = [task, a_task("w", 2, dependsOn={"name": ["m"]})]
    body = job_body({"event": "PodEvicted", "action": "RestartJob"}, tasks=tasks)
    return {**body["spec"], "volumes": volumes, "plugins": plugins, "queue": "q"}


def _passes(spec: Any) -> list[str]:
    """The reasons that are told, pass by pass, while all that is planned for a job is made."""
    reasons: list[str] = []
    status: dict[str, Any] = {}
    cache = JobCache()
    for version in range(4):
        body = {**job_body(status=status), "spec": spec}
        body["metadata"]["resourceVersion"] = str(version)
        cache.on_job_updated(an_unstructured(body))
        snapshot = cache.snapshot("default/j", NOW)
        if snapshot is None:  # another scheduler's
            break
        planned = plan(snapshot)
        status = _merged(status, planned.status)
        reasons.append(status["state"].get("reason", ""))
        if reasons[-1] != "Invalid":
            pod_group_of(snapshot)
        for index in planned.create_pods:
            pod_of(snapshot, index, scheduler="arranger")
        for manifest in planned.create_objects:
            cache.record_created(snapshot.job, manifest.name, manifest.digest)
    return reasons


def _merged(current: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """What a merge patch makes of a status."""
    merged = {key: value for key, value in current.items() if patch.get(key, value) is not None}
    for key, value in patch.items():
        if isinstance(value, dict):
            merged[key] = _merged(current.get(key) or {}, value)
        elif value is not None:
            merged[key] = value
    return merged


@pytest.mark.parametrize("seed", range(10))
def test_a_spoilt_spec_is_planned_or_told(seed: int) -> None:
    rng, told = random.Random(seed), 0
    for _ in range(100):
        try:
            told += "Invalid" in _passes(spoil(_spec(), rng))
        except ParseError:  # its controller records an Event, and leaves it alone
            continue
    assert told
