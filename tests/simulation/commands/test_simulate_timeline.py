"""``arranger simulate``: until when, what happened, pictures and reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.commands.test_simulate_workloads import (
    NODE,
    POD_SPEC,
    a_template,
    a_workload,
    outcome,
    simulate,
)

Object = dict[str, Any]


def a_job(name: str, seconds: int, *, cpu: int = 8, **notes: str) -> Object:
    job = a_workload("Job", template=a_template(run_seconds=str(seconds)))
    resources = {"requests": {"cpu": cpu}}
    spec = {**POD_SPEC, "restartPolicy": "Never"}
    spec["containers"] = [{"name": "c", "image": "i", "resources": resources}]
    job["spec"]["template"]["spec"] = spec
    annotations = {f"arranger.io/{key.replace('_', '-')}": value for key, value in notes.items()}
    job["metadata"] = {"name": name, "annotations": annotations}
    return job


def happened(found: Object, *what: str) -> list[tuple[str, int]]:
    """(what, second) of the timeline."""
    return [(h["what"], int(h["at"])) for h in found["timeline"] if h["what"] in what]


def test_one_job_after_the_other(tmp_path: Path) -> None:
    found = outcome(tmp_path, NODE, a_job("first", 100), a_job("second", 50))
    ends = [(h["name"], int(h["at"])) for h in found["timeline"] if h["what"] == "Complete"]
    assert sorted(ends, key=lambda each: each[1]) in (
        [("default/first", 100), ("default/second", 151)],
        [("default/second", 50), ("default/first", 151)],
        [("default/first", 100), ("default/second", 150)],
        [("default/second", 50), ("default/first", 150)],
    )


def test_what_arrives_later_comes_later(tmp_path: Path) -> None:
    found = outcome(tmp_path, NODE, a_job("late", 10, arrives_after="3600"))
    assert happened(found, "Created", "Succeeded") == [("Created", 3600), ("Succeeded", 3610)]


def test_a_time_of_arrival_that_is_none_is_refused(tmp_path: Path) -> None:
    code, output = simulate(tmp_path, NODE, a_job("late", 10, arrives_after="tomorrow"))
    assert code == 1
    assert "arranger.io/arrives-after: 'tomorrow' is no number of seconds" in output


@pytest.mark.parametrize("key", ["run-seconds", "termination-seconds"])
@pytest.mark.parametrize("said", ["-3", "soon", "", "1h", "inf"])
@pytest.mark.parametrize("kind", ["Pod", "Job", "CronJob", "StatefulSet"])
def test_seconds_for_the_kubelets_that_are_none_are_refused(
    tmp_path: Path, kind: str, key: str, said: str
) -> None:
    notes = {f"arranger.io/{key}": said}
    template = {**a_template(), "metadata": {"annotations": notes}}
    spec: Object = {"template": template}
    if kind == "CronJob":
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}
    given = {"kind": kind, "apiVersion": "v1", "metadata": {"name": "w"}, "spec": spec}
    if kind == "Pod":
        given |= {"metadata": {"name": "w", "annotations": notes}, "spec": POD_SPEC}
    code, output = simulate(tmp_path, NODE, given)
    assert code == 1
    assert f"arranger.io/{key}: '{said}' is no number of seconds" in output


def test_until_a_job_is_complete(tmp_path: Path) -> None:
    jobs = a_job("first", 100, cpu=1), a_job("second", 5000, cpu=1)
    found = outcome(tmp_path, NODE, *jobs, options=("--until", "job/first=Complete"))
    assert found["endReason"] == "Reached"
    assert [p["phase"] for p in found["placements"]] == ["Succeeded", "Running"]
    placed = outcome(tmp_path, NODE, *jobs, options=("--until", "placed"))
    assert {p["phase"] for p in placed["placements"]} <= {"Pending", "Running"}


def test_for_a_day(tmp_path: Path) -> None:
    code, output = simulate(tmp_path, NODE, a_job("long", 900_000), options=("--for", "24h"))
    assert code == 0, output
    assert output.splitlines()[-1].startswith("stopped at the bound of 24h (--for), no pod waits")


def test_a_goal_that_is_none_is_refused_in_a_line(tmp_path: Path) -> None:
    code, output = simulate(tmp_path, NODE, options=("--until", "soon"))
    assert code == 2
    assert "--until: 'soon' is neither placed nor KIND/NAME=STATE" in output


def test_pictures_and_reports_are_written(tmp_path: Path) -> None:
    svg, html = tmp_path / "picture.svg", tmp_path / "report.html"
    options = ("--svg", str(svg), "--html", str(html), "--timeline")
    code, output = simulate(tmp_path, NODE, a_job("first", 100), options=options)
    assert code == 0, output
    assert "Pod default/first-" in output
    assert "first-" in svg.read_text()
    page = html.read_text()
    assert svg.read_text().strip() in page
    assert "Job default/first" in page


def test_pods_that_are_gone_are_counted(tmp_path: Path) -> None:
    job = a_job("short", 10)
    job["spec"]["ttlSecondsAfterFinished"] = 60
    code, output = simulate(tmp_path, NODE, job)
    assert code == 0, output
    assert "0 pods placed, 0 waiting, 1 come and gone" in output


def test_evicted_pods_come_back(tmp_path: Path) -> None:
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in (("low", 1), ("high", 9))
    ]
    low = a_workload("Deployment")
    low["spec"]["template"]["spec"] = {**_all_of_it(), "priorityClassName": "low"}
    urgent = a_job("urgent", 100, arrives_after="60")
    urgent["spec"]["template"]["spec"]["priorityClassName"] = "high"
    found = outcome(tmp_path, NODE, *classes, low, urgent)
    assert happened(found, "Evicted") == [("Evicted", 60)]
    phases = {p["pod"].split("-")[0]: p["phase"] for p in found["placements"]}
    assert phases == {"default/deployment": "Running", "default/urgent": "Succeeded"}


def _all_of_it() -> Object:
    resources = {"requests": {"cpu": 8}}
    return {**POD_SPEC, "containers": [{"name": "c", "image": "i", "resources": resources}]}


def test_equal_seeds_give_equal_timelines(tmp_path: Path) -> None:
    given = NODE, a_job("first", 100), a_job("second", 50)
    first, second = (json.dumps(outcome(tmp_path, *given)) for _ in range(2))
    assert first == second
