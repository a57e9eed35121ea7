"""What the cache keeps of Jobs takes little memory, and says all that a plan is made from."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from arranger.api.parsing.objects import decode_object
from arranger.api.types.volcano_job import VolcanoJob
from arranger.controllers.runtime.objects import UnstructuredObject
from arranger.controllers.vcjob.cache import JobCache
from tests.unit.controllers.vcjob.snapshots import NOW, a_task, job_body, on

Object = dict[str, Any]


def a_large_task(name: str, **more: Any) -> Object:
    task: Object = a_task(name, **more)
    env = [{"name": f"E{n}", "value": f"{n}"} for n in range(4000)]
    container = {**task["template"]["spec"]["containers"][0], "env": env}
    task["template"]["spec"]["containers"] = [container]
    return task


def a_large_job(**spec: Any) -> Object:
    tasks = [a_large_task("a"), a_large_task("", policies=[on("PodFailed", "RestartJob")])]
    return job_body(tasks=tasks, **spec)


JOBS: dict[str, Object] = {
    "one that waits": a_large_job(),
    "one of a queue": a_large_job(queue="q", schedulerName="arranger", minAvailable=1),
    "one with plugins and volumes": a_large_job(
        plugins={"svc": []}, volumes=[{"mountPath": "/data"}], ttlSecondsAfterFinished=5
    ),
    "one that has ended": a_large_job(status={"state": {"phase": "Completed"}}),
}


def observed(body: bytes) -> JobCache:
    cache = JobCache()
    cache.on_job_updated(decode_object(body, UnstructuredObject))
    return cache


@pytest.mark.parametrize("made", JOBS.values(), ids=JOBS)
def test_a_job_takes_no_more_than_what_was_sent(made: Object) -> None:
    body = json.dumps(made).encode()
    tracemalloc.start()
    cache = observed(body)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cache.reference("default/j").uid
    assert taken < 1.5 * len(body)


@pytest.mark.parametrize("made", JOBS.values(), ids=JOBS)
def test_a_snapshot_has_the_job_as_it_was_sent(made: Object) -> None:
    body = json.dumps(made).encode()
    found = observed(body).snapshot("default/j", NOW)
    assert found is not None
    sent = decode_object(body, VolcanoJob)
    assert found.spec == sent.spec
    assert found.job.status == sent.status
    assert [task.name for task in found.spec.tasks] == ["a", "default1"]


def test_a_list_shows_a_job_that_is_known() -> None:
    cache = observed(json.dumps(a_large_job()).encode())
    for made, news in ((a_large_job(), set()), (a_large_job(queue="q"), {"default/j"})):
        again = decode_object(json.dumps(made).encode(), UnstructuredObject)
        assert cache.on_job_updated(again, asked_at="listed") == news
