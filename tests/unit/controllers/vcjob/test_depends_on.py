"""What it costs that tasks depend on each other: as many as there may be, each on all others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import pytest

from arranger.api.types.job_limits import MAX_PARTS
from arranger.api.types.volcano_job import JobPod, VolcanoJob
from arranger.controllers.vcjob.snapshot import JobSnapshot
from arranger.controllers.vcjob.validation import first_problem
from tests.unit.controllers.vcjob.snapshots import a_task, job_body

R = TypeVar("R")

PODS = 2000


def a_job(depends: Callable[[int], list[int]], first: int = 1) -> VolcanoJob:
    tasks = []
    for n in range(MAX_PARTS):
        task = a_task(f"t{n}", first if n == 0 else 1)
        if others := depends(n):
            task = {**task, "dependsOn": {"name": [f"t{other}" for other in others]}}
        tasks.append(task)
    return msgspec.convert(job_body(tasks=tasks), VolcanoJob)


def steps(work: Callable[[], R]) -> tuple[int, R]:
    """How many calls something makes, of functions of ours or not; and what it returns."""
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(None)
    return calls, result


ALL = range(MAX_PARTS)
SHAPES: dict[str, tuple[Callable[[int], list[int]], str]] = {
    "a chain": (lambda n: [n - 1] if n else [], ""),
    "a chain, the last first": (lambda n: [n + 1] if n + 1 < MAX_PARTS else [], ""),
    "each on all before it": (lambda n: list(range(n)), ""),
    "each on all after it": (lambda n: list(range(n + 1, MAX_PARTS)), ""),
    "the last so many times": (
        lambda n: [MAX_PARTS - 1] * MAX_PARTS if n + 1 < MAX_PARTS else [],
        "",
    ),
    "a ring": (lambda n: [(n + 1) % MAX_PARTS], "wait for each other"),
    "each on itself": (lambda n: [n], "wait for each other"),
    "all on all": (lambda _: list(ALL), "wait for each other"),
    "on what is not there": (lambda _: list(range(1000, 1000 + MAX_PARTS)), "there is no task"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_is_judged_in_few_steps_and_told_briefly(shape: str) -> None:
    depends, told = SHAPES[shape]
    job = a_job(depends)
    taken, problem = steps(lambda: first_problem(job))
    assert told in problem
    assert bool(told) == bool(problem)
    assert len(problem) < 200
    names = sum(len(task.depends_on.name) for task in job.spec.tasks if task.depends_on)
    assert taken < 200 * MAX_PARTS + 5 * names


def test_pods_are_looked_at_once_however_many_tasks_wait_for_them() -> None:
    job = a_job(lambda n: list(range(n)), first=PODS)
    state = {"metadata": {"name": "p", "namespace": "default"}, "status": {"phase": "Running"}}
    pods = {("t0", n): msgspec.convert(state, JobPod) for n in range(PODS)}
    snapshot = JobSnapshot(job, pods)
    taken, met = steps(lambda: [snapshot.dependencies_met(task) for task in job.spec.tasks])
    assert met == [True, True] + [False] * (MAX_PARTS - 2)
    assert taken < 50 * (PODS + MAX_PARTS) + 5 * MAX_PARTS**2
