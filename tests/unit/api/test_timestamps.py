"""The ends of the calendar are no end of the process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from arranger.api.timestamps import after, micro_time, second_time

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))


@pytest.mark.parametrize(
    ("moment", "seconds", "expected"),
    [
        (FIRST, 60.0, FIRST.replace(minute=1)),
        (LAST, 60.0, datetime.max.replace(tzinfo=UTC)),
        (LAST, 2**31, datetime.max.replace(tzinfo=UTC)),
        (FIRST, 1e300, datetime.max.replace(tzinfo=UTC)),
        (FIRST, 10**30, datetime.max.replace(tzinfo=UTC)),
        (FIRST, -60.0, FIRST),
    ],
)
def test_later(moment: datetime, seconds: float, expected: datetime) -> None:
    assert after(moment, seconds) == expected


def test_times_that_another_zone_puts_off_the_calendar_are_written_as_its_ends() -> None:
    assert second_time(FIRST.replace(tzinfo=EAST)) == "0001-01-01T00:00:00Z"
    assert micro_time(LAST.replace(tzinfo=WEST)) == "9999-12-31T23:59:59.999999Z"
