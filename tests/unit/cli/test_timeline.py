"""Timelines: what happens to objects, how it is grouped, drawn and reported."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from arranger.cli.output.gantt import draw_timeline
from arranger.cli.output.report import html_report
from arranger.cli.output.timeline_table import clock, moments
from arranger.cli.simulation.goal import Goal, GoalError
from arranger.cli.simulation.result import SimulationResult
from arranger.cli.simulation.stays import stays, waiting_over_time
from arranger.cli.simulation.timeline import Happening, Timeline
from arranger.embedded.storage.store import Change

Object = dict[str, Any]


def a_pod(name: str = "p", *, node: str = "", phase: str = "Pending", **meta: Any) -> Object:
    head = {"kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name, **meta}}
    spec = {"nodeName": node} if node else {}
    return {**head, "spec": spec, "status": {"phase": phase}}


def change(before: Object | None, after: Object, kind: str = "MODIFIED") -> Change:
    resource = {"Pod": "/pods", "Job": "batch/jobs", "TYJob": "arranger.io/tyjobs"}[after["kind"]]
    return Change(1, kind, resource, before, after)


def told(*changes: Change) -> list[tuple[str, str, str]]:
    """(what, node, note) of what a timeline makes of the changes."""
    timeline = Timeline(lambda: 0.0)
    for each in changes:
        timeline.on_change(each)
    return [(each.what, each.node, each.note) for each in timeline.happenings]


EVICTED = {
    **a_pod(node="n1", phase="Running", deletionTimestamp="t"),
    "status": {
        "phase": "Running",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "message": "make room"}],
    },
}
TYJOB = {"kind": "TYJob", "metadata": {"name": "t", "namespace": "default"}}
JOB = {"kind": "Job", "metadata": {"name": "j", "namespace": "default"}}
COMPLETE = [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}]


@pytest.mark.parametrize(
    ("changes", "happened"),
    [
        pytest.param([change(None, a_pod(), "ADDED")], [("Created", "", "")], id="a pod comes"),
        pytest.param(
            [change(None, a_pod(node="n1"), "ADDED")],
            [("Created", "", ""), ("Bound", "n1", "")],
            id="a pod comes with its node",
        ),
        pytest.param(
            [change(a_pod(), a_pod(node="n1"))], [("Bound", "n1", "")], id="a pod is bound"
        ),
        pytest.param(
            [change(a_pod(node="n1"), a_pod(node="n1", phase="Running"))],
            [("Started", "n1", "")],
            id="a pod starts",
        ),
        pytest.param(
            [change(a_pod(node="n1", phase="Running"), a_pod(node="n1", phase="Failed"))],
            [("Failed", "n1", "")],
            id="a pod fails",
        ),
        pytest.param(
            [change(a_pod(node="n1", phase="Running"), EVICTED), change(EVICTED, EVICTED)],
            [("Evicted", "n1", "make room")],
            id="a pod is evicted, which is told once",
        ),
        pytest.param(
            [change(EVICTED, EVICTED, "DELETED")], [("Gone", "n1", "")], id="an evicted pod goes"
        ),
        pytest.param(
            [change(a_pod(), a_pod(), "DELETED")],
            [("Deleted", "", ""), ("Gone", "", "")],
            id="a pod that waits is deleted and gone at once",
        ),
        pytest.param(
            [change(JOB, {**JOB, "status": {"conditions": COMPLETE}})],
            [("Complete", "", "CompletionsReached")],
            id="a Job is complete",
        ),
        pytest.param(
            [change(TYJOB, {**TYJOB, "status": {"stage": "Running"}})],
            [("Running", "", "")],
            id="a TYJob goes on",
        ),
        pytest.param([change(TYJOB, {**TYJOB, "status": 5})], [], id="a status that is none"),
    ],
)
def test_what_happens(changes: list[Change], happened: list[tuple[str, str, str]]) -> None:
    assert told(*changes) == happened


def a_life(name: str, owner: str = "Job default/j") -> list[Happening]:
    def at(seconds: float, what: str, node: str = "") -> Happening:
        return Happening(seconds, what, "Pod", f"default/{name}", owner, node)

    created = [at(0.0, "Created"), at(5.0, "Bound", "n1"), at(5.0, "Started", "n1")]
    return [*created, at(9.0, "Evicted", "n1"), at(10.0, "Gone", "n1")]


def test_pods_of_one_owner_are_told_in_one_line() -> None:
    found = list(moments([*a_life("a"), *a_life("b")]))
    assert [(m.at, m.what, m.told(), m.details()) for m in found][:2] == [
        (0.0, "Created", "2 pods of Job default/j", ""),
        (5.0, "Bound", "2 pods of Job default/j", "n1 (2)"),
    ]


def test_a_name_that_comes_again_is_another_pod() -> None:
    again = Happening(10.0, "Created", "Pod", "default/a", "Job default/j")
    first, second = stays([*a_life("a"), again])
    assert (first.bound, first.ended, first.outcome) == (5.0, 10.0, "Evicted")
    assert (second.created, second.bound, second.ended) == (10.0, None, None)
    assert waiting_over_time([first, second]) == [(0.0, 1, 0), (5.0, 0, 1), (10.0, 1, 0)]


def test_times_are_shown_with_their_days() -> None:
    assert [clock(7.9), clock(3_661), clock(190_800)] == ["0:00:07", "1:01:01", "2d 05:00:00"]


def test_names_of_others_are_text_in_the_picture_and_in_the_report() -> None:
    hostile = '"><script>alert(1)</script>'
    life = [
        Happening(0.0, "Created", "Pod", f"default/{hostile}", hostile),
        Happening(1.0, "Bound", "Pod", f"default/{hostile}", hostile, hostile, hostile),
    ]
    picture = draw_timeline(life, 60.0)
    assert "script" not in {
        element.tag.rpartition("}")[2] for element in ET.fromstring(picture).iter()
    }
    outcome = SimulationResult(
        placements=[],
        pending=[{"pod": hostile, "reason": hostile}],
        evictions=[{"pod": hostile, "note": hostile}],
        stages={},
        not_made=[hostile],
        ignored=[hostile],
        events=[],
        virtual_seconds=60.0,
        end=hostile,
        timeline=life,
    )
    page = html_report(outcome)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 8


def test_a_picture_of_nothing_is_one() -> None:
    assert ET.fromstring(draw_timeline([], 0.0)).tag.endswith("svg")


@pytest.mark.parametrize(
    ("goal", "obj", "reached"),
    [
        ("pod/p=Running", a_pod(phase="Running"), True),
        ("pod/p=Running", a_pod(), False),
        ("Pod/default/p=running", a_pod(phase="Running"), True),
        ("pod/team/p=Running", a_pod(phase="Running"), False),
        ("pod/q=Running", a_pod(phase="Running"), False),
        ("job/j=Complete", {**JOB, "status": {"conditions": COMPLETE}}, True),
        ("job/j=Complete", {**JOB, "status": 7}, False),
        ("tyjob/t=Succeeded", {**TYJOB, "status": {"stage": "Succeeded"}}, True),
    ],
)
def test_a_goal_is_reached(goal: str, obj: Object, reached: bool) -> None:
    assert Goal(goal)(change(obj, obj)) is reached


def test_all_are_placed_when_none_waits_any_more() -> None:
    goal = Goal("placed")
    steps = [
        change(None, a_pod("a")),
        change(None, a_pod("b")),
        change(a_pod("a"), a_pod("a", node="n")),
    ]
    assert not any(map(goal, steps))
    assert goal(change(a_pod("b"), a_pod("b", node="n")))


@pytest.mark.parametrize("odd", ["", "soon", "pod/p", "pod=Running", "pod/p=", "a/b/c/d=E"])
def test_a_goal_that_is_none_is_refused(odd: str) -> None:
    with pytest.raises(GoalError):
        Goal(odd)
