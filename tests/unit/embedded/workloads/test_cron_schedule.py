"""When schedules are due, as robfig/cron reads them for kube-controller-manager."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from arranger.embedded.workloads.cron_schedule import last_due, parse_schedule

START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday

#: Schedule, time zone, and the first times after the start of 2026.
DUE: dict[str, tuple[str, str, list[str]]] = {
    "every quarter of an hour": ("*/15 * * * *", "", ["01-01 00:15", "01-01 00:30"]),
    "a step from a number goes to the end": ("50/5 * * * *", "", ["01-01 00:50", "01-01 00:55"]),
    "a range with a step": ("0 8-18/5 * * *", "", ["01-01 08:00", "01-01 13:00", "01-01 18:00"]),
    "lists and names": ("0 0 * FEB,apr Mon", "", ["02-02 00:00", "02-09 00:00"]),
    "either day where both are named": ("0 0 3 * 0", "", ["01-03 00:00", "01-04 00:00"]),
    "both where one is a star": ("0 0 * * 0", "", ["01-04 00:00", "01-11 00:00"]),
    "a star with a step names days": ("0 0 */30 * 6", "", ["01-03 00:00", "01-10 00:00"]),
    "a question mark is a star": ("0 0 ? * 5", "", ["01-02 00:00", "01-09 00:00"]),
    "daily": ("@daily", "", ["01-02 00:00", "01-03 00:00"]),
    "at equal distances": ("@every 1h30m", "", ["01-01 01:30", "01-01 03:00"]),
    "in a zone": ("30 1 * * *", "America/New_York", ["01-01 06:30", "01-02 06:30"]),
    "not at a time that the clock skips": (
        *("30 2 7,8,9 3 *", "America/New_York"),
        ["03-07 07:30", "03-09 06:30"],
    ),
    "twice at one that it shows twice": (
        *("30 1 1 11 *", "America/New_York"),
        ["11-01 05:30", "11-01 06:30"],
    ),
}


@pytest.mark.parametrize("case", DUE)
def test_when_it_is_due(case: str) -> None:
    text, zone, expected = DUE[case]
    schedule, found, moment = parse_schedule(text, zone), [], START
    for _ in expected:
        due = schedule.after(moment)
        assert due is not None
        moment = due
        found.append(f"{due.astimezone(UTC):%m-%d %H:%M}")
    assert found == expected


UNREADABLE = [
    *("", "* * * *", "* * * * * *", "60 * * * *", "* * * * 7", "5-1 * * * *", "*/0 * * * *"),
    *("x * * * *", "@often", "@every 1", "@every -1h", "TZ=UTC * * * * *", "-1 * * * *"),
    *("1,, * * * *", "\u0663 * * * *", "1" * 5_000, "*," * 2_000 + "* * * * *"),
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"spec\.schedule"):
        parse_schedule(text)


@pytest.mark.parametrize("zone", ["Mars", "../../etc/passwd", "\0", "a" * 10_000])
def test_zones_that_nobody_knows(zone: str) -> None:
    with pytest.raises(ValueError, match=r"spec\.timeZone"):
        parse_schedule("@daily", zone)


def test_a_day_that_no_month_has_is_never_due() -> None:
    assert parse_schedule("* * 30 2 *").after(START) is None
    assert last_due(parse_schedule("* * 30 2 *"), START, START + timedelta(days=900)) is None


def _random_field(rng: random.Random, least: int, most: int) -> str:
    first = rng.randint(least, most)
    last = rng.randint(first, most)
    return rng.choice(["*", "*", f"{first}", f"{first}-{last}", f"*/{rng.randint(1, 9)}"])


def _matches(text: str, least: int, most: int, n: int) -> bool:
    span, _, step = text.partition("/")
    low, _, high = (f"{least}-{most}" if span == "*" else span).partition("-")
    return int(low) <= n <= int(high or low) and (n - int(low)) % int(step or 1) == 0


def test_it_is_due_at_each_minute_that_matches_and_at_no_other() -> None:
    """The judge looks at every minute."""
    bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]
    for seed in range(40):
        rng = random.Random(seed)
        fields = [_random_field(rng, *each) for each in bounds]
        begin = START + timedelta(days=rng.randint(0, 360), minutes=rng.randint(0, 1439))
        schedule, expected = parse_schedule(" ".join(fields)), []
        for n in range(1, 3 * 1440):
            at = begin + timedelta(minutes=n)
            shown = (at.minute, at.hour, at.day, at.month, at.isoweekday() % 7)
            is_on = [_matches(f, *b, n) for f, b, n in zip(fields, bounds, shown, strict=True)]
            stars = [f in ("*", "*/1") for f in fields]
            day = is_on[2] and is_on[4] if stars[2] or stars[4] else is_on[2] or is_on[4]
            if is_on[0] and is_on[1] and is_on[3] and day:
                expected.append(at)
        moment = begin
        for due in expected[:50]:
            assert schedule.after(moment) == due, f"{fields} after {moment}"
            moment = due
        for one, two in list(pairwise([begin, *expected]))[:20]:
            last = last_due(schedule, begin, two - timedelta(minutes=1))
            assert last == (one if one != begin else None), f"{fields} until {two}"
