"""Series of occurrences: what is created, patched, tried again and forgotten."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from arranger.api.effects import ObjectReference, PublishEvent
from tests.unit.kube.event_recorder import FAILED, POD, RecorderHarness


def test_the_first_occurrence_is_created_with_every_required_field() -> None:
    harness = RecorderHarness()
    node = ObjectReference("v1", "Node", "", "n1")
    harness.record(replace(FAILED, related=node, controller="batch"))
    harness.send()
    assert harness.sent[0].path == "/apis/events.k8s.io/v1/namespaces/team/events"
    body = harness.body()
    name = body["metadata"].pop("name")
    assert name.startswith("web-0.")
    assert len(name) == len("web-0.") + 16
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "team"},
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "batch",
        "reportingInstance": "batch-host-1",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": "0/3 nodes are available",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "team",
            "name": "web-0",
            "uid": "uid-1",
        },
        "related": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def test_an_event_about_a_node_lives_in_default() -> None:
    harness = RecorderHarness()
    harness.record(replace(FAILED, regarding=ObjectReference("v1", "Node", "", "n1")))
    harness.send()
    assert harness.sent[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert harness.body()["metadata"]["namespace"] == "default"


def test_the_second_is_patched_in_and_later_ones_are_only_counted() -> None:
    harness = RecorderHarness()
    harness.record()
    assert harness.send() == [("POST", 1)]
    harness.now = 10.0
    harness.record()
    assert harness.send() == [("PATCH", 2)]
    assert harness.body() == {
        "series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:15.000000Z"}
    }
    assert harness.sent[1].path.endswith("/" + harness.body(0)["metadata"]["name"])
    assert harness.sent[1].content_type == "application/strategic-merge-patch+json"
    harness.record(times=50)
    assert harness.send() == []


def test_a_series_that_ends_is_reported_and_forgotten() -> None:
    harness = RecorderHarness()
    for _ in range(5):
        harness.record()
        harness.send()
    harness.wait(359)
    assert harness.send() == []
    harness.wait(61)
    assert harness.send() == [("PATCH", 5)]
    harness.wait(7200)
    assert harness.send() == []
    assert harness.recorder.next_due() == float("inf")
    harness.record()
    assert harness.send() == [("POST", 1)]


def test_a_long_series_is_reported_every_half_hour() -> None:
    harness = RecorderHarness()
    got = []
    for _ in range(70):
        harness.record()
        got += harness.send()
        harness.wait(60)
    assert got == [("POST", 1), ("PATCH", 2), ("PATCH", 32), ("PATCH", 62)]


def test_occurrences_before_the_create_is_sent_travel_with_it() -> None:
    harness = RecorderHarness()
    harness.record(times=3)
    assert harness.send() == [("POST", 3)]
    assert harness.body()["series"]["count"] == 3


def test_an_occurrence_while_the_create_is_in_flight_is_patched_in_afterwards() -> None:
    harness = RecorderHarness()
    harness.record()
    write = harness.recorder.next()
    assert write is not None
    harness.record()
    assert harness.recorder.next() is None
    harness.recorder.on_answer(write, 201, harness.now)
    assert harness.send() == [("PATCH", 2)]


DIFFERENT = {
    "reason": replace(FAILED, reason="Other"),
    "action": replace(FAILED, action="Other"),
    "type": replace(FAILED, type="Normal"),
    "controller": replace(FAILED, controller="other"),
    "object": replace(FAILED, regarding=replace(POD, uid="uid-2")),
    "related object": replace(FAILED, related=POD),
}


@pytest.mark.parametrize("event", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_another_series_has_another(event: PublishEvent) -> None:
    harness = RecorderHarness()
    harness.record()
    harness.record(event)
    assert harness.send() == [("POST", 1), ("POST", 1)]
    assert harness.body(0)["metadata"]["name"] != harness.body(1)["metadata"]["name"]


def test_a_patch_of_an_event_that_expired_creates_it_anew() -> None:
    harness = RecorderHarness()
    harness.record()
    harness.send()
    harness.record()
    write = harness.recorder.next()
    assert write is not None
    harness.recorder.on_answer(write, 404, harness.now)
    assert harness.send() == [("POST", 2)]


def test_a_create_whose_answer_was_lost_is_found_to_exist() -> None:
    harness = RecorderHarness()
    harness.record()
    assert harness.send(0) == [("POST", 1)]
    harness.record(times=2)
    harness.wait(13)
    write = harness.recorder.next()
    assert write is not None
    harness.recorder.on_answer(write, 409, harness.now)
    assert harness.send() == [("PATCH", 3)]


@pytest.mark.parametrize("status", [0, 429, 500, 503])
def test_trouble_is_tried_twelve_times_ten_seconds_apart(status: int) -> None:
    harness = RecorderHarness()
    harness.record()
    tries = []
    for _ in range(300):
        if harness.send(status):
            tries.append(harness.now)
        harness.wait(1)
    gaps = [b - a for a, b in itertools.pairwise(tries)]
    assert len(tries) == 12
    assert all(10 <= gap <= 14 for gap in gaps)
    assert harness.recorder.dropped == 1
    harness.record()
    assert harness.send() == [("POST", 1)]


def test_a_refused_event_is_dropped() -> None:
    harness = RecorderHarness()
    harness.record()
    assert harness.send(403) == [("POST", 1)]
    assert harness.recorder.dropped == 1
    harness.wait(3600)
    assert harness.send() == []


def test_the_queue_is_bounded_and_drops_the_oldest() -> None:
    harness = RecorderHarness(capacity=3)
    for number in range(5):
        harness.record(replace(FAILED, regarding=replace(POD, name=f"p{number}")))
    assert len(harness.recorder) == 3
    assert harness.recorder.dropped == 2
    harness.send()
    assert [w.series.event.regarding.name for w in harness.sent] == ["p2", "p3", "p4"]


def test_who_floods_the_queue_drops_no_events_of_others_and_keeps_them_waiting_for_one() -> None:
    harness = RecorderHarness(capacity=3)
    harness.record(replace(FAILED, regarding=replace(POD, namespace="other", name="own")))
    for number in range(5):
        harness.record(replace(FAILED, regarding=replace(POD, name=f"p{number}")))
    harness.send()
    assert [w.series.event.regarding.name for w in harness.sent] == ["own", "p3", "p4"]


def test_memory_is_bounded_and_counts_are_written_out_before_forgetting() -> None:
    harness = RecorderHarness(max_aggregates=2)
    harness.record()
    harness.send()
    harness.record()
    harness.send()
    harness.record()
    for number in range(3):
        harness.record(replace(FAILED, regarding=replace(POD, name=f"p{number}")))
    assert ("PATCH", 3) in harness.send()
    harness.record()
    assert harness.send() == [("POST", 1)]


def test_names_are_unique_and_fit() -> None:
    harness = RecorderHarness()
    for number in range(100):
        about = replace(POD, name="x" * 253, uid=f"uid-{number}")
        harness.recorder.record(replace(FAILED, regarding=about), 0.0)
    names = set()
    while (write := harness.recorder.next()) is not None:
        names.add(json.loads(write.body)["metadata"]["name"])
    assert len(names) == 100
    assert all(len(name) <= 253 for name in names)
