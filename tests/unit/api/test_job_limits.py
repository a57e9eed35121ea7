"""Jobs that are larger than any may be, whatever the installed definition lets in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.nesting import TOO_DEEP
from arranger.api.types.pod_templates import template_problem, volumes_problem
from arranger.api.types.tyjob import parse_tyjob, validate_tyjob
from arranger.api.types.volcano_job import VolcanoJob
from arranger.controllers.vcjob.cache import JobCache
from arranger.controllers.vcjob.validation import first_problem
from tests.builders import an_unstructured
from tests.tyjobs import a_template, a_tyjob
from tests.unit.controllers.vcjob.snapshots import a_task, job_body

Object = dict[str, Any]

_POLICY = {"event": "PodFailed", "action": "RestartJob"}

#: What is said of a Volcano Job → its spec.
VOLCANO: dict[str, Object] = {
    "2147483647 pods are more than 10000": {"tasks": [a_task(replicas=2**31 - 1)]},
    "20000 pods are more than 10000": {
        "tasks": [a_task("a", 20_000), a_task("b", -(10**9), minAvailable=0)]
    },
    "257 tasks are more than 256": {"tasks": [a_task(f"t{n}", 1) for n in range(257)]},
    "65 policies are more than 64": {"policies": [_POLICY] * 65},
    "65 policies of a task are more than 64": {"tasks": [a_task(policies=[_POLICY] * 65)]},
    "17 events of a policy are more than 16": {
        "policies": [{"events": ["PodFailed"] * 17, "action": "RestartJob"}]
    },
    "17 plugins are more than 16": {"plugins": {f"p{n}": [] for n in range(17)}},
    "65 arguments of a plugin are more than 64": {"plugins": {"env": ["a"] * 65}},
    "65 volumes are more than 64": {"volumes": [{"mountPath": f"/{n}"} for n in range(65)]},
    "257 tasks in dependsOn are more than 256": {
        "tasks": [a_task(dependsOn={"name": [str(n) for n in range(257)]})]
    },
}


@pytest.mark.parametrize("problem", VOLCANO)
def test_a_volcano_job_that_is_too_large_is_not_taken_in(problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        JobCache().on_job_updated(an_unstructured(job_body(**VOLCANO[problem])))


#: What is said of a TYJob → it.
TYJOBS: dict[str, Object] = {
    "1000001 pods are more than 10000": a_tyjob(workers=10**6),
    "2000000001 pods are more than 10000": a_tyjob(workers=2 * 10**9),
    "257 workerSets are more than 256": a_tyjob(
        workerSets=[{"name": f"s{n}", "template": a_template()} for n in range(257)]
    ),
    "65 volumes are more than 64": a_tyjob(volumes=[{"name": str(n)} for n in range(65)]),
    "64 characters of a name are more than 63": a_tyjob(
        workerSets=[{"name": "s" * 64, "template": a_template(), "counts": 9_000}]
    ),
    "65 basic policies are more than 64": a_tyjob(schedulerPolicy={"basicPolicy": ["Gang"] * 65}),
}


@pytest.mark.parametrize("problem", TYJOBS)
def test_a_tyjob_that_is_too_large_is_told_so(problem: str) -> None:
    job = parse_tyjob(TYJOBS[problem])
    assert job.replicas == ()
    assert [problem in said for said in validate_tyjob(job)] == [True]


def _template(**container: Any) -> Object:
    return {"spec": {"containers": [{"name": "c", **container}]}}


def _nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


#: What is said of a template → it.
TEMPLATES: dict[str, Object] = {
    "": _template(),
    "65 containers are more than 64": {
        "spec": {
            "containers": [{"name": "c"}],
            "initContainers": [{"name": f"i{n}"} for n in range(64)],
        }
    },
    "300049 bytes are more than 262144": _template(image="x" * 300_000),
    "1025 resources are more than 1024": {
        "spec": {
            "containers": [
                {"name": "c", "resources": {"requests": {f"r{n}": 1 for n in range(1000)}}},
                {"name": "d", "resources": {"limits": {f"r{n}": 1 for n in range(25)}}},
            ]
        }
    },
    "64 characters of hostname are more than 63": {
        "spec": {"containers": [{"name": "c"}], "hostname": "h" * 64}
    },
    "200000 characters of subdomain are more than 63": {
        "spec": {"containers": [{"name": "c"}], "subdomain": "s" * 200_000}
    },
    "it is nested too deeply": _template(env=_nested(5000)),
}


@pytest.mark.parametrize("problem", TEMPLATES)
def test_a_template_that_is_too_large_is_told_so(problem: str) -> None:
    assert template_problem(TEMPLATES[problem]).startswith(problem)
    assert bool(problem) == bool(template_problem(TEMPLATES[problem]))


def test_volumes_of_a_tyjob_are_no_larger_than_a_template() -> None:
    volumes = [{"name": f"v{n}", "csi": {"driver": "x" * 100_000}} for n in range(3)]
    assert volumes_problem(volumes[:2]) == ""
    assert volumes_problem(volumes) == "300103 bytes are more than 262144"


def _many(containers: int) -> Object:
    return {"spec": {"containers": [{"name": f"c{n}"} for n in range(containers)]}}


#: What a Volcano Job adds to each container, times the containers → whether that is too much.
ADDED: dict[str, tuple[Object, bool]] = {
    "a few mounts": ({"volumes": [{"mountPath": "/data"}]}, False),
    "mounts at long paths, in one container": (
        {"volumes": [{"mountPath": f"/{n}{'x' * 9_000}"} for n in range(64)]},
        False,
    ),
    "the same in 64 containers": (
        {
            "volumes": [{"mountPath": f"/{n}{'x' * 9_000}"} for n in range(64)],
            "tasks": [{**a_task("w", 1), "template": _many(64)}],
        },
        True,
    ),
    "paths of characters that are longer when they are written": (
        {
            "volumes": [{"mountPath": f"/{n}{chr(1) * 4_000}"} for n in range(64)],
            "tasks": [{**a_task("w", 1), "template": _many(8)}],
        },
        True,
    ),
    "the names of the pods of 256 tasks": (
        {"plugins": {"svc": []}, "tasks": [a_task(f"t{n}", 1) for n in range(256)]},
        False,
    ),
    "the same in 64 containers each": (
        {
            "plugins": {"svc": []},
            "tasks": [{**a_task(f"t{n}", 1), "template": _many(64)} for n in range(256)],
        },
        True,
    ),
    "the same where they are not asked for": (
        {
            "plugins": {"svc": ["--inject-hosts-env=false"]},
            "tasks": [{**a_task(f"t{n}", 1), "template": _many(64)} for n in range(256)],
        },
        False,
    ),
}


@pytest.mark.parametrize(("spec", "much"), ADDED.values(), ids=ADDED)
def test_what_a_volcano_job_adds_to_its_pods_is_bounded(spec: Object, much: bool) -> None:
    job = msgspec.convert(job_body(**{"tasks": [a_task()], **spec}), VolcanoJob)
    problem = first_problem(job)
    assert problem.endswith("bytes to a pod, which are more than 1048576") if much else not problem


@pytest.mark.parametrize("levels", [100, 900, 972, 5000])
def test_parts_of_jobs_that_are_too_deep_are_told_so_before_they_are_written(levels: int) -> None:
    """Near a thousand levels it hangs on the caller's own depth whether they can be."""
    deep = _nested(levels)
    assert template_problem({"metadata": {"notes": deep}, **_template()}) == TOO_DEEP
    assert volumes_problem([{"name": "v", "csi": deep}]) == TOO_DEEP
    volumes = [{"mountPath": "/v", "volumeClaim": {"selector": deep}}]
    job = msgspec.convert(job_body(tasks=[a_task()], volumes=volumes), VolcanoJob)
    assert first_problem(job) == f"spec.volumes[/v].volumeClaim: {TOO_DEEP}"
