"""When the windows of a Reservation open and end."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from arranger.api.parsing.errors import ParseError
from arranger.api.settings.reservation_windows import WEEKDAYS, problem_of, read_windows
from arranger.api.types.reservation import ReservationSpec

START = "2026-03-02T08:00:00Z"  # a Monday


def spec(**window: Any) -> ReservationSpec:
    more = {key: window.pop(key) for key in ("drainBefore",) if key in window}
    return msgspec.convert({"window": {"start": START, **window}, **more}, ReservationSpec)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def days(*names: str, zone: str = "UTC", until: str = "") -> dict[str, Any]:
    return {"days": list(names), "timeZone": zone, "until": until}


FOUND: dict[str, tuple[dict[str, Any], str, tuple[str, str] | None]] = {
    "one that is to come": (
        {"end": "2026-03-02T10:00:00Z"},
        "2026-01-01T00:00:00Z",
        ("2026-03-02T08:00:00Z", "2026-03-02T10:00:00Z"),
    ),
    "one that holds in its last second": (
        {"duration": "2h"},
        "2026-03-02T09:59:59Z",
        ("2026-03-02T08:00:00Z", "2026-03-02T10:00:00Z"),
    ),
    "one that has ended": ({"duration": "2h"}, "2026-03-02T10:00:00Z", None),
    "the next day of the week": (
        {"duration": "2h", "recurrence": days("Monday", "Thursday")},
        "2026-03-02T10:00:00Z",
        ("2026-03-05T08:00:00Z", "2026-03-05T10:00:00Z"),
    ),
    "the next week": (
        {"duration": "2h", "recurrence": days("Monday")},
        "2026-03-02T10:00:00Z",
        ("2026-03-09T08:00:00Z", "2026-03-09T10:00:00Z"),
    ),
    "none before the first": (
        {"duration": "2h", "recurrence": days("Sunday")},
        "2020-01-01T00:00:00Z",
        ("2026-03-08T08:00:00Z", "2026-03-08T10:00:00Z"),
    ),
    "one that has begun on the day before": (
        {"start": "2026-03-02T23:00:00Z", "duration": "3h", "recurrence": days("Monday")},
        "2026-03-03T01:30:00Z",
        ("2026-03-02T23:00:00Z", "2026-03-03T02:00:00Z"),
    ),
    "none after the last": (
        {"duration": "2h", "recurrence": days(*WEEKDAYS, until="2026-03-04T00:00:00Z")},
        "2026-03-03T10:00:00Z",
        None,
    ),
    "at the same hour of clocks that are put forward": (
        {"duration": "2h", "recurrence": days("Monday", zone="Europe/Berlin")},
        "2026-03-29T12:00:00Z",
        ("2026-03-30T07:00:00Z", "2026-03-30T09:00:00Z"),
    ),
    "on the days of the zone": (
        {
            "start": "2026-03-01T20:00:00Z",
            "duration": "1h",
            "recurrence": days("Monday", zone="Asia/Shanghai"),
        },
        "2026-03-01T00:00:00Z",
        ("2026-03-01T20:00:00Z", "2026-03-01T21:00:00Z"),
    ),
}


@pytest.mark.parametrize(("window", "now", "expected"), FOUND.values(), ids=FOUND.keys())
def test_the_window_that_matters(
    window: dict[str, Any], now: str, expected: tuple[str, str] | None
) -> None:
    found = read_windows(spec(**window)).at(at(now))
    assert found == (None if expected is None else (at(expected[0]), at(expected[1])))


def test_the_calendar_ends() -> None:
    last = spec(start="9999-12-31T23:00:00Z", duration="24h", recurrence=days(*WEEKDAYS))
    found = read_windows(last).at(0)
    assert found is not None
    assert found.end - found.start == 86400
    assert read_windows(last).at(found.end) is None
    assert read_windows(last).at(1e300) is None


WRONG: dict[str, dict[str, Any]] = {
    "a start that is no time": {"start": "tomorrow", "duration": "1h"},
    "no start": {"start": "", "duration": "1h"},
    "neither end nor duration": {},
    "both": {"end": "2026-03-02T10:00:00Z", "duration": "2h"},
    "an end before the start": {"end": "2026-03-02T07:00:00Z"},
    "an end at the start": {"end": START},
    "a duration that is none": {"duration": "for ever"},
    "no duration at all": {"duration": "0s"},
    "one of more than a day that comes again": {
        "duration": "25h",
        "recurrence": days("Monday"),
    },
    "no days": {"duration": "1h", "recurrence": days()},
    "a day that is none": {"duration": "1h", "recurrence": days("Caturday")},
    "a zone that is none": {"duration": "1h", "recurrence": days("Monday", zone="Mars/Base")},
    "a zone that is a path": {"duration": "1h", "recurrence": days("Monday", zone="../../etc")},
    "a zone that is a folder": {"duration": "1h", "recurrence": days("Monday", zone="Europe")},
    "a zone with a null": {"duration": "1h", "recurrence": days("Monday", zone="a\0b")},
    "an endless zone": {"duration": "1h", "recurrence": days("Monday", zone="a" * 10**6)},
    "a drain that is no duration": {"duration": "1h", "drainBefore": "soon"},
}


@pytest.mark.parametrize("window", WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_read_is_said(window: dict[str, Any]) -> None:
    with pytest.raises(ParseError) as raised:
        read_windows(spec(**window))
    assert len(str(raised.value)) < 300


PROBLEMS: dict[str, tuple[dict[str, Any], bool]] = {
    "nodes and users": ({"nodes": {"names": ["a"]}, "users": {"queues": ["q"]}}, True),
    "nodes and nobody": ({"nodes": {"selector": {}}, "maintenance": True}, True),
    "a number of a selector": (
        {"nodes": {"selector": {}, "count": 3}, "users": {"namespaceSelector": {}}},
        True,
    ),
    "no nodes": ({"maintenance": True}, False),
    "no users": ({"nodes": {"names": ["a"]}}, False),
    "users of a maintenance": (
        {"nodes": {"names": ["a"]}, "users": {"gangs": ["a/b"]}, "maintenance": True},
        False,
    ),
    "none of a selector": ({"nodes": {"selector": {}, "count": 0}, "maintenance": True}, False),
    "a number of names": ({"nodes": {"names": ["a"], "count": 1}, "maintenance": True}, False),
    "names without end": ({"nodes": {"names": ["a"] * 5001}, "maintenance": True}, False),
}


@pytest.mark.parametrize(("stated", "good"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_what_is_reserved_and_for_whom(stated: dict[str, Any], good: bool) -> None:
    assert (problem_of(msgspec.convert(stated, ReservationSpec)) == "") is good


@pytest.mark.parametrize("seed", range(30))
def test_recurring_windows_are_those_of_a_calendar(seed: int) -> None:
    """All windows of two months, day by day, say which one matters at any moment."""
    rng = random.Random(seed)
    start = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(14 * 1440))
    seconds = rng.choice([60, 3600, 7200, 86400])
    chosen = rng.sample(WEEKDAYS, rng.randint(1, 7))
    until = start + timedelta(days=rng.randint(1, 40)) if rng.random() < 0.5 else None
    stated = spec(
        start=start.isoformat(),
        duration=f"{seconds}s",
        recurrence=days(*chosen, until=until.isoformat() if until else ""),
    )
    begins = [start + timedelta(days=n) for n in range(80)]
    begins = [b for b in begins if WEEKDAYS[b.weekday()] in chosen and (not until or b < until)]
    windows = read_windows(stated)
    for _ in range(60):
        now = datetime(2026, 2, 25, tzinfo=UTC) + timedelta(seconds=rng.randrange(55 * 86400))
        expected = next((b for b in begins if now < b + timedelta(seconds=seconds)), None)
        found = windows.at(now.timestamp())
        assert (found and found.start) == (expected and expected.timestamp()), (now, stated)
