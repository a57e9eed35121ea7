"""When a note that changes makes another event, and how long a note may be."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from arranger.api.effects import PublishEvent
from arranger.kube.events import FINISH_TIME, REPEAT_TIME, SWEEP_INTERVAL, truncate_note
from tests.unit.kube.event_recorder import FAILED, POD, RecorderHarness


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
    "ever other pods": lambda n: f"blocked by pod {'x' * n}",
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
    assert harness.newest() == truncate_note(note(3599))


ALTERNATING = {
    "two in turn": (1, lambda n: ["no room"] if n % 2 else ["no members"]),
    "two at each attempt": (300, lambda n: ["quota of A", "quota of B"]),
    "five at each attempt, in another order": (
        300,
        lambda n: [f"of {'abcde'[(i * n) % 5]}" for i in range(1, 6)],
    ),
    "numbers in turn": (10, lambda n: [f"0/{n % 3} nodes are available"]),
    "twenty at random": (300, lambda n: [f"blocked by {'x' * (n * n % 20)}"]),
    "one alone": (300, lambda n: ["no room"]),
}


@pytest.mark.parametrize("case", ALTERNATING.values(), ids=ALTERNATING.keys())
def test_notes_that_alternate_have_one_event_each_and_end(
    case: tuple[float, Callable[[int], list[str]]],
) -> None:
    every, notes = case
    harness, told, writes = RecorderHarness(), set(), []
    for n in range(int(2 * REPEAT_TIME / every)):
        for note in notes(n):
            harness.record(noted(note))
            told.add(note)
        writes += [(harness.now, method) for method, _ in harness.send()]
        harness.wait(every)
    created = [at for at, method in writes if method == "POST"]
    assert len(created) == len(told) == len(harness.events)
    hours = REPEAT_TIME / 3600
    assert len(writes) <= len(told) * (2 * hours + 10), "about two refreshes an hour"
    assert writes[-1][0] <= created[-1] + REPEAT_TIME + every
    harness.wait(FINISH_TIME + SWEEP_INTERVAL)
    harness.send()
    assert harness.newest() == notes(n)[-1]
    assert harness.recorder.next_due() == float("inf"), "nothing is left to do"


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
    harness = RecorderHarness(max_aggregates=1)
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
