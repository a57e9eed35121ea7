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
    desk = RecorderHarness()
    node = ObjectReference("v1", "Node", "", "n1")
    desk.record(replace(FAILED, related=node, controller="batch"))
    desk.send()
    assert desk.sent[0].path == "/apis/events.k8s.io/v1/namespaces/team/events"
    body = desk.body()
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
    desk = RecorderHarness()
    desk.record(replace(FAILED, regarding=ObjectReference("v1", "Node", "", "n1")))
    desk.send()
    assert desk.sent[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert desk.body()["metadata"]["namespace"] == "default"


def test_the_second_is_patched_in_and_later_ones_are_only_counted() -> None:
    desk = RecorderHarness()
    desk.record()
    assert desk.send() == [("POST", 1)]
    desk.now = 10.0
    desk.record()
    assert desk.send() == [("PATCH", 2)]
    assert desk.body() == {
        "series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:15.000000Z"}
    }
    assert desk.sent[1].path.endswith("/" + desk.body(0)["metadata"]["name"])
    assert desk.sent[1].content_type == "application/strategic-merge-patch+json"
    desk.record(times=50)
    assert desk.send() == []


def test_a_series_that_ends_is_reported_and_forgotten() -> None:
    desk = RecorderHarness()
    for _ in range(5):
        desk.record()
        desk.send()
    desk.wait(359)
    assert desk.send() == []
    desk.wait(61)
    assert desk.send() == [("PATCH", 5)]
    desk.wait(7200)
    assert desk.send() == []
    assert desk.recorder.next_due() == float("inf")
    desk.record()
    assert desk.send() == [("POST", 1)]


def test_a_long_series_is_reported_every_half_hour() -> None:
    desk = RecorderHarness()
    got = []
    for _ in range(70):
        desk.record()
        got += desk.send()
        desk.wait(60)
    assert got == [("POST", 1), ("PATCH", 2), ("PATCH", 32), ("PATCH", 62)]


def test_occurrences_before_the_create_is_sent_travel_with_it() -> None:
    desk = RecorderHarness()
    desk.record(times=3)
    assert desk.send() == [("POST", 3)]
    assert desk.body()["series"]["count"] == 3


def test_an_occurrence_while_the_create_is_in_flight_is_patched_in_afterwards() -> None:
    desk = RecorderHarness()
    desk.record()
    write = desk.recorder.next()
    assert write is not None
    desk.record()
    assert desk.recorder.next() is None
    desk.recorder.on_answer(write, 201, desk.now)
    assert desk.send() == [("PATCH", 2)]


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
    desk = RecorderHarness()
    desk.record()
    desk.record(event)
    assert desk.send() == [("POST", 1), ("POST", 1)]
    assert desk.body(0)["metadata"]["name"] != desk.body(1)["metadata"]["name"]


# --- another note ----------------------------------------------------------------------------


def noted(text: str) -> PublishEvent:
    return replace(FAILED, note=text)


def test_another_reason_is_another_event_at_once() -> None:
    desk = RecorderHarness()
    desk.record(noted("waits for members"))
    desk.send()
    desk.record(noted("0/3 nodes are available"))
    assert desk.send() == [("POST", 1)]
    assert desk.body()["note"] == "0/3 nodes are available"
    assert desk.body(0)["metadata"]["name"] != desk.body(1)["metadata"]["name"]
    desk.record(noted("0/3 nodes are available"))
    assert desk.send() == [("PATCH", 2)]
    assert desk.sent[-1].path.endswith(desk.body(1)["metadata"]["name"])


def test_what_was_counted_under_the_old_note_is_written_out() -> None:
    desk = RecorderHarness()
    for _ in range(5):
        desk.record(noted("waits for members"))
        desk.send()
    desk.record(noted("0/3 nodes are available"))
    assert desk.send() == [("PATCH", 5), ("POST", 1)]


def test_other_numbers_are_another_event_ten_seconds_later() -> None:
    desk = RecorderHarness()
    desk.record(noted("0/3 nodes are available"))
    desk.send()
    desk.now = 4.0
    desk.record(noted("0/4 nodes are available"))
    assert desk.send() == []
    desk.now = 7.0
    desk.record(noted("0/5 nodes are available"))
    desk.record(noted("0/5 nodes are available"))
    desk.wait(2.9)
    assert desk.send() == []
    desk.wait(0.1)
    assert desk.send() == [("POST", 2)]
    assert desk.body()["note"] == "0/5 nodes are available"


def test_a_note_that_is_as_before_by_then_is_the_same_series() -> None:
    desk = RecorderHarness()
    for note in ("0/3 nodes", "0/4 nodes", "0/3 nodes"):
        desk.record(noted(note))
    assert desk.send() == [("POST", 2)]
    desk.wait(60)
    assert desk.send() == []


def test_numbers_that_never_rest_do_not_hide_another_reason() -> None:
    desk = RecorderHarness()
    for second in range(100):
        desk.record(noted(f"0/{second} nodes are available"))
        desk.send()
        desk.wait(1)
    desk.record(noted("gang default/g waits for members"))
    desk.send()
    assert desk.body()["note"] == "gang default/g waits for members"


ALWAYS_NEW = {
    "numbers": lambda n: f"0/{n} nodes are available",
    "two reasons in turn": lambda n: ("no room", "no members")[n % 2],
    "ever other pods": lambda n: f"blocked by pod {'x' * (n % 97)}",
}


@pytest.mark.parametrize("note", ALWAYS_NEW.values(), ids=ALWAYS_NEW.keys())
def test_a_note_that_always_changes_costs_ever_less_and_is_true_in_the_end(
    note: Callable[[int], str],
) -> None:
    desk = RecorderHarness()
    created = []
    for second in range(3600):
        desk.record(noted(note(second)))
        created += [desk.now for method, _ in desk.send() if method == "POST"]
        desk.wait(1)
    gaps = [later - earlier for earlier, later in itertools.pairwise(created)]
    assert max(gaps[1:]) <= 301
    assert min(gaps[1:]) >= 10
    assert len(created) <= 18
    desk.wait(301)
    desk.send()
    last = next(write for write in desk.sent[::-1] if write.method == "POST")
    assert json.loads(last.body)["note"] == note(3599)


def test_after_a_calm_time_a_new_reason_shows_at_once_again() -> None:
    desk = RecorderHarness()
    for n in range(4):
        desk.record(noted(f"reason {'x' * n}"))
        desk.send()
    for _ in range(21):
        desk.wait(30)
        desk.record(noted("reason xxx"))
        desk.send()
    desk.record(noted("another"))
    desk.send()
    assert desk.body()["note"] == "another"


def test_a_note_that_waits_is_not_lost_when_the_series_is_forgotten() -> None:
    desk = RecorderHarness(max_series=1)
    desk.record(noted("0/3 nodes"))
    desk.record(noted("0/4 nodes"))
    desk.record(replace(FAILED, regarding=replace(POD, name="other")))
    desk.send()
    assert {json.loads(write.body)["note"] for write in desk.sent} >= {"0/3 nodes", "0/4 nodes"}


def test_an_old_note_is_not_told_again_because_its_event_expired() -> None:
    desk = RecorderHarness()
    for _ in range(3):
        desk.record(noted("no members"))
        desk.send()
    desk.record(noted("no room"))
    write = desk.recorder.next()
    assert write is not None
    assert write.method == "PATCH"
    desk.recorder.on_answer(write, 404, desk.now)
    assert desk.send() == [("POST", 1)]
    assert desk.body()["note"] == "no room"


def test_a_patch_of_an_event_that_expired_creates_it_anew() -> None:
    desk = RecorderHarness()
    desk.record()
    desk.send()
    desk.record()
    write = desk.recorder.next()
    assert write is not None
    desk.recorder.on_answer(write, 404, desk.now)
    assert desk.send() == [("POST", 2)]


def test_a_create_whose_answer_was_lost_is_found_to_exist() -> None:
    desk = RecorderHarness()
    desk.record()
    assert desk.send(0) == [("POST", 1)]
    desk.record(times=2)
    desk.wait(13)
    write = desk.recorder.next()
    assert write is not None
    desk.recorder.on_answer(write, 409, desk.now)
    assert desk.send() == [("PATCH", 3)]


@pytest.mark.parametrize("status", [0, 429, 500, 503])
def test_trouble_is_tried_twelve_times_ten_seconds_apart(status: int) -> None:
    desk = RecorderHarness()
    desk.record()
    tries = []
    for _ in range(300):
        if desk.send(status):
            tries.append(desk.now)
        desk.wait(1)
    gaps = [b - a for a, b in itertools.pairwise(tries)]
    assert len(tries) == 12
    assert all(10 <= gap <= 14 for gap in gaps)
    assert desk.recorder.dropped == 1
    desk.record()
    assert desk.send() == [("POST", 1)]


def test_a_refused_event_is_dropped() -> None:
    desk = RecorderHarness()
    desk.record()
    assert desk.send(403) == [("POST", 1)]
    assert desk.recorder.dropped == 1
    desk.wait(3600)
    assert desk.send() == []


def test_the_queue_is_bounded_and_drops_the_oldest() -> None:
    desk = RecorderHarness(capacity=3)
    for number in range(5):
        desk.record(replace(FAILED, regarding=replace(POD, name=f"p{number}")))
    assert len(desk.recorder) == 3
    assert desk.recorder.dropped == 2
    desk.send()
    assert [w.series.event.regarding.name for w in desk.sent] == ["p2", "p3", "p4"]


def test_memory_is_bounded_and_counts_are_written_out_before_forgetting() -> None:
    desk = RecorderHarness(max_series=2)
    desk.record()
    desk.send()
    desk.record()
    desk.send()
    desk.record()
    for number in range(3):
        desk.record(replace(FAILED, regarding=replace(POD, name=f"p{number}")))
    assert ("PATCH", 3) in desk.send()
    desk.record()
    assert desk.send() == [("POST", 1)]


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
    desk = RecorderHarness()
    for number in range(100):
        about = replace(POD, name="x" * 253, uid=f"uid-{number}")
        desk.recorder.record(replace(FAILED, regarding=about), 0.0)
    names = set()
    while (write := desk.recorder.next()) is not None:
        names.add(json.loads(write.body)["metadata"]["name"])
    assert len(names) == 100
    assert all(len(name) <= 253 for name in names)
