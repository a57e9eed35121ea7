"""When pods end: known from a limit, estimated from others of their kind, or not at all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from arranger.api.annotations import MAX_RUN_TIME
from arranger.backfill.history import MAX_KINDS, MAX_RUNS, RunTimeHistory, name_stem
from arranger.backfill.run_times import Basis
from arranger.backfill.timeline import Timeline
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from tests.builders import a_node, a_pod
from tests.unit.backfill.worlds import NOW, at, run_times, running, timeline_of

STEMS = {
    "train": "train",
    "train-0": "train",
    "train-12-3": "train",
    "train-7d4b8c9f6d-x2x5z": "train",
    "nightly-28391520-wxk4q": "nightly",
    "train-small": "train-small",
    "data-loader": "data-loader",
    "12": "12",
    "-1": "-1",
    "-22222" * 40 + "a": "-22222" * 40 + "a",
}


@pytest.mark.parametrize(("name", "stem"), STEMS.items(), ids=STEMS.keys())
def test_the_generated_end_of_a_name_does_not_count(name: str, stem: str) -> None:
    assert name_stem(name) == stem


def history_of(*seconds: float) -> RunTimeHistory:
    history = RunTimeHistory(lambda pod: "")
    for n, lasted in enumerate(seconds):
        history.record(running(f"train-{n}", 1, NOW, None), NOW + lasted)
    return history


def estimate(history: RunTimeHistory, name: str) -> float | None:
    return history.estimate(history.key_of(a_pod(name).info()))


def test_an_estimate_is_as_long_as_nine_of_ten_have_run_at_most() -> None:
    history = history_of(*range(1, 11))
    assert estimate(history, "train-77") == 9
    assert estimate(history, "serve-77") is None


def test_only_the_youngest_runs_count() -> None:
    assert estimate(history_of(*[1000] * 50, *[5] * MAX_RUNS), "train-1") == 5


def test_nobody_is_judged_by_pods_of_another_namespace_or_queue() -> None:
    history = RunTimeHistory(lambda pod: pod.pod.metadata.labels.get("q", ""))
    history.record(running("train-1", 1, NOW, None), NOW + 5)
    for other in (a_pod("train-2").in_namespace("other"), a_pod("train-2").labelled({"q": "big"})):
        assert history.estimate(history.key_of(other.info())) is None


def test_the_memory_of_kinds_is_bounded_and_the_oldest_go_first() -> None:
    history = RunTimeHistory(lambda pod: "")
    for n in range(MAX_KINDS + 10):
        history.record(running(f"kind{n}a", 1, NOW, None), NOW + 5)
    assert len(history) == MAX_KINDS
    assert estimate(history, "kind0a") is None
    assert estimate(history, f"kind{MAX_KINDS + 9}a") == 5


def test_a_pod_that_never_started_or_ended_before_its_start_tells_nothing() -> None:
    history = RunTimeHistory(lambda pod: "")
    history.record(a_pod("p").info(), NOW)
    history.record(running("p", 1, NOW, None), NOW - 1)
    assert len(history) == 0


def ends(timeline: Timeline, now: float) -> list[tuple[float, int]]:
    timeline.refresh(now)
    end, basis = timeline.ends(now)
    there = timeline.rows_of_slots() >= 0
    return list(zip(end[there].tolist(), basis[there].tolist(), strict=True))


GUESS = Basis.ESTIMATE
ENDS: dict[str, tuple[PodInfo, float, Basis]] = {
    "a deadline": (running("p", 1, NOW - 10, 60), NOW + 50, Basis.KNOWN),
    "no limit": (running("p", 1, NOW, None), math.inf, GUESS),
    "the smaller of two limits": (
        a_pod("p")
        .annotated({MAX_RUN_TIME: "20s"})
        .with_spec(activeDeadlineSeconds=60)
        .with_status(startTime=at(NOW))
        .info(),
        NOW + 20,
        Basis.KNOWN,
    ),
    "a deadline that runs from a start not known yet": (
        a_pod("p").with_spec(activeDeadlineSeconds=60).info(),
        NOW + 60,
        Basis.LIMIT,
    ),
    "one of its kind has run before": (
        running("train-9", 1, NOW - 3, None),
        NOW + 4,
        Basis.ESTIMATE,
    ),
    "it is later than it may be": (running("p", 1, NOW - 40, 30), NOW + 10, GUESS),
    "it has run for longer than others": (
        running("train-9", 1, NOW - 9, None),
        NOW + 9,
        Basis.ESTIMATE,
    ),
}


@pytest.mark.parametrize(("pod", "end", "basis"), ENDS.values(), ids=ENDS.keys())
def test_when_a_pod_ends_with(pod: PodInfo, end: float, basis: Basis) -> None:
    table = NodeTable()
    table.add_pod(pod, table.set_node(a_node("n0").build()))
    assert ends(Timeline(table, run_times(history_of(7))), NOW) == [(end, basis)]


def test_the_first_of_a_kind_that_ends_tells_of_those_that_run() -> None:
    table, history = NodeTable(), RunTimeHistory(lambda pod: "")
    table.add_pod(running("train-1", 1, NOW, None), table.set_node(a_node("n0").build()))
    timeline = Timeline(table, run_times(history))
    assert ends(timeline, NOW) == [(math.inf, Basis.ESTIMATE)]
    history.record(running("train-0", 1, NOW, None), NOW + 30)
    assert ends(timeline, NOW + 1) == [(NOW + 30, Basis.ESTIMATE)]


def test_an_edited_limit_and_a_start_that_is_known_now_count() -> None:
    table = NodeTable()
    row = table.set_node(a_node("n0").build())
    pod = a_pod("p").with_spec(activeDeadlineSeconds=60)
    table.add_pod(pod.info(), row)
    timeline = timeline_of(table)
    assert ends(timeline, NOW) == [(NOW + 60, Basis.LIMIT)]
    assert ends(timeline, NOW + 5) == [(NOW + 60, Basis.LIMIT)], "from when it was seen first"
    table.replace_pod(pod.with_status(startTime=at(NOW + 2)).info(), row)
    assert ends(timeline, NOW + 5) == [(NOW + 62, Basis.KNOWN)]


def test_no_request_makes_room_that_is_not_there() -> None:
    table = NodeTable()
    row = table.set_node(a_node("n0").offers(cpu=4, memory=100).build())
    for n in range(3):
        huge = a_pod(f"p{n}").needs(cpu=1, memory=2**62).with_spec(activeDeadlineSeconds=5)
        table.add_pod(huge.with_status(startTime=at(NOW)).info(), row)
    timeline = timeline_of(table)
    timeline.refresh(NOW)
    assert bool((timeline.free_at(NOW + 10, NOW) <= table.allocatable[:, : table.size]).all())
    assert timeline.free_at(NOW + 10, NOW).dtype == np.int64
