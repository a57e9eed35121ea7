from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from arranger.api.effects import ObjectReference, PublishEvent
from arranger.kube.events import EventRecorder, EventWrite, truncate_note

POD = ObjectReference("v1", "Pod", "team", "web-0", "uid-1")
FAILED = PublishEvent(
    regarding=POD,
    reason="FailedScheduling",
    action="Scheduling",
    note="0/3 nodes are available",
    type="Warning",
)


class RecorderHarness:
    """A recorder with its clock, and a server that answers as told."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        self.start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self.recorder = EventRecorder(
            "host-1",
            rng=random.Random(1),
            clock=lambda: self.start + timedelta(seconds=self.now),
            **settings,
        )
        self.sent: list[EventWrite] = []

    def record(self, event: PublishEvent = FAILED, times: int = 1) -> None:
        for _ in range(times):
            self.recorder.record(event, self.now)

    def send(self, status: int = 201) -> list[tuple[str, int]]:
        """Answer all that is ready; gives each request's method and the count it carried."""
        got = []
        while (write := self.recorder.next()) is not None:
            self.sent.append(write)
            series = json.loads(write.body).get("series") or {"count": 1}
            got.append((write.method, series["count"]))
            self.recorder.on_answer(write, status, self.now)
            if len(got) > 20:
                raise AssertionError("no end")
        return got

    def wait(self, seconds: float) -> None:
        """Let time pass, ticking whenever the recorder wants."""
        end = self.now + seconds
        while self.recorder.next_due() <= end:
            self.now = max(self.now, self.recorder.next_due())
            self.recorder.tick(self.now)
        self.now = end

    def body(self, which: int = -1) -> Any:
        return json.loads(self.sent[which].body)


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


# --- another note ----------------------------------------------------------------------------


def noted(text: str) -> PublishEvent:
    return replace(FAILED, note=text)


def test_another_reason_is_another_event_at_once() -> None:
    harness = RecorderHarness()
    harness.record(noted("waits for members"))
    harness.send()
    harness.record(noted("0/3 nodes are available"))
    assert harness.send() == [("POST", 1)]
    assert harness.body()["note"] == "0/3 nodes are available"
    assert harness.body(0)["metadata"]["name"] != harness.body(1)["metadata"]["name"]
    harness.record(noted("0/3 nodes are available"))
    assert harness.send() == [("PATCH", 2)]
    assert harness.sent[-1].path.endswith(harness.body(1)["metadata"]["name"])


def test_what_was_counted_under_the_old_note_is_written_out() -> None:
    harness = RecorderHarness()
    for _ in range(5):
        harness.record(noted("waits for members"))
        harness.send()
    harness.record(noted("0/3 nodes are available"))
    assert harness.send() == [("PATCH", 5), ("POST", 1)]


def test_other_numbers_are_another_event_ten_seconds_later() -> None:
    harness = RecorderHarness()
    harness.record(noted("0/3 nodes are available"))
    harness.send()
    harness.now = 4.0
    harness.record(noted("0/4 nodes are available"))
    assert harness.send() == []
    harness.now = 7.0
    harness.record(noted("0/5 nodes are available"))
    harness.record(noted("0/5 nodes are available"))
    harness.wait(2.9)
    assert harness.send() == []
    harness.wait(0.1)
    assert harness.send() == [("POST", 2)]
    assert harness.body()["note"] == "0/5 nodes are available"


def test_a_note_that_is_as_before_by_then_is_the_same_series() -> None:
    harness = RecorderHarness()
    for note in ("0/3 nodes", "0/4 nodes", "0/3 nodes"):
        harness.record(noted(note))
    assert harness.send() == [("POST", 2)]
    harness.wait(60)
    assert harness.send() == []


def test_numbers_that_never_rest_do_not_hide_another_reason() -> None:
    harness = RecorderHarness()
    for second in range(100):
        harness.record(noted(f"0/{second} nodes are available"))
        harness.send()
        harness.wait(1)
    harness.record(noted("gang default/g waits for members"))
    harness.send()
    assert harness.body()["note"] == "gang default/g waits for members"


ALWAYS_NEW = {
    "numbers": lambda n: f"0/{n} nodes are available",
    "two reasons in turn": lambda n: ("no room", "no members")[n % 2],
    "ever other pods": lambda n: f"blocked by pod {'x' * (n % 97)}",
}


@pytest.mark.parametrize("note", ALWAYS_NEW.values(), ids=ALWAYS_NEW.keys())
def test_a_note_that_always_changes_costs_ever_less_and_is_true_in_the_end(
    note: Callable[[int], str],
) -> None:
    harness = RecorderHarness()
    created = []
    for second in range(3600):
        harness.record(noted(note(second)))
        created += [harness.now for method, _ in harness.send() if method == "POST"]
        harness.wait(1)
    gaps = [later - earlier for earlier, later in itertools.pairwise(created)]
    assert max(gaps[1:]) <= 301
    assert min(gaps[1:]) >= 10
    assert len(created) <= 18
    harness.wait(301)
    harness.send()
    last = next(write for write in harness.sent[::-1] if write.method == "POST")
    assert json.loads(last.body)["note"] == note(3599)


def test_after_a_calm_time_a_new_reason_shows_at_once_again() -> None:
    harness = RecorderHarness()
    for n in range(4):
        harness.record(noted(f"reason {'x' * n}"))
        harness.send()
    for _ in range(21):
        harness.wait(30)
        harness.record(noted("reason xxx"))
        harness.send()
    harness.record(noted("another"))
    harness.send()
    assert harness.body()["note"] == "another"


def test_a_note_that_waits_is_not_lost_when_the_series_is_forgotten() -> None:
    harness = RecorderHarness(max_series=1)
    harness.record(noted("0/3 nodes"))
    harness.record(noted("0/4 nodes"))
    harness.record(replace(FAILED, regarding=replace(POD, name="other")))
    harness.send()
    assert {json.loads(write.body)["note"] for write in harness.sent} >= {"0/3 nodes", "0/4 nodes"}


def test_an_old_note_is_not_told_again_because_its_event_expired() -> None:
    harness = RecorderHarness()
    for _ in range(3):
        harness.record(noted("no members"))
        harness.send()
    harness.record(noted("no room"))
    write = harness.recorder.next()
    assert write is not None
    assert write.method == "PATCH"
    harness.recorder.on_answer(write, 404, harness.now)
    assert harness.send() == [("POST", 1)]
    assert harness.body()["note"] == "no room"


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


def test_memory_is_bounded_and_counts_are_written_out_before_forgetting() -> None:
    harness = RecorderHarness(max_series=2)
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


NOTES = {
    "short": ("why", "why"),
    "just fits": ("x" * 1024, "x" * 1024),
    "one too long": ("x" * 1025, "x" * 1020 + " ..."),
    "bytes count, not characters": ("ü" * 600, "ü" * 510 + " ..."),
    "a cut through a character loses it": ("x" + "ü" * 600, "x" + "ü" * 509 + " ..."),
}


@pytest.mark.parametrize("case", NOTES.values(), ids=NOTES.keys())
def test_notes_fit_the_limit(case: tuple[str, str]) -> None:
    note, want = case
    assert truncate_note(note) == want
    assert len(want.encode()) <= 1024


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
