"""Readers of others' texts at their bounds: the last that is taken, and what is said of the first
that is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from arranger.api.parsing.duration import MAX_DURATION, parse_duration
from arranger.api.parsing.errors import ParseError, cut_message
from arranger.api.parsing.json_text import MAX_LENGTH, parse_json
from arranger.api.parsing.nesting import CUT, cut_deep_parts
from arranger.api.parsing.objects import convert_object, decode_object
from arranger.api.parsing.scalars import parse_bool, parse_int
from arranger.api.parsing.timestamps import parse_time
from arranger.api.quantity import parse_quantity, value

MAX_INT64 = 2**63 - 1


class Thing(msgspec.Struct):
    name: str = ""
    number: int = 0


class Deep(msgspec.Struct):
    a: Deep | None = None


def deep_value(levels: int) -> Any:
    found: Any = None
    for _ in range(levels):
        found = {"a": found}
    return found


def nested(levels: int, inside: str = "") -> str:
    return "[" * levels + inside + "]" * levels


def nested_objects(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def reads(kind: Any = Thing, **how: Any) -> Callable[[Any], Any]:
    return lambda given: convert_object(given, kind, **how)


TAKEN: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "zero": (parse_int, "0", 0),
    "what is not true": (parse_bool, "False", False),
    "a duration of as many characters as may be": (parse_duration, "90".zfill(1000), 90.0),
    "a duration of as many parts as may be": (parse_duration, "1s" * 500, 500.0),
    "the longest duration": (parse_duration, str(int(MAX_DURATION)), MAX_DURATION),
    "an exponent with zeros before it": (value, "1e" + "2".zfill(40), 100),
    "the largest exponent, of an amount that is cut": (
        value,
        f"1e{str(MAX_INT64).zfill(40)}",
        MAX_INT64,
    ),
    "the largest exponent below zero": (value, f"1e-{str(MAX_INT64).zfill(40)}", 1),
    "an exponent of minus zero": (value, f"7e-{'0' * 40}", 7),
    "less than a billionth, rounded up": (parse_quantity, "0.0000000001", Decimal("1e-9")),
    "less than nothing, rounded away from it": (parse_quantity, "-0.0000000019", Decimal("-2e-9")),
    "JSON as long as may be": (
        lambda text: len(parse_json(text)),
        '"' + "a" * (MAX_LENGTH - 2) + '"',
        MAX_LENGTH - 2,
    ),
    "JSON of many lists beside each other": (parse_json, nested(2, "[],[],[],[{}],[]"), None),
    "JSON of objects": (parse_json, nested_objects(16), None),
    "a value of its type": (reads(), {"name": "a", "number": 5}, Thing("a", 5)),
    "a number as a text": (reads(strict=False), {"number": "5"}, Thing("", 5)),
}


@pytest.mark.parametrize("what", TAKEN)
def test_it_takes(what: str) -> None:
    read, text, expected = TAKEN[what]
    found = read(text)
    if expected is None:
        expected = msgspec.json.decode(text)
    assert (type(found), found) == (type(expected), expected)


SAYS: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "no number": (parse_int, "x", f"'x' is not a whole number from 0 to {MAX_INT64}"),
    "no truth value": (parse_bool, "yes", "'yes' is neither true nor false"),
    "no duration": (parse_duration, "soon", "'soon' is not a duration such as 90s or 1h30m"),
    "a long duration": (parse_duration, "99999999h", "'99999999h' is longer than 290 years"),
    "a long text": (
        parse_json,
        '"' + "a" * MAX_LENGTH + '"',
        f"'\"{'a' * 59}'... has more than {MAX_LENGTH} characters",
    ),
    "a long number": (
        parse_json,
        "1" * 20,
        f"'{'1' * 20}' has a number with more than 19 digits",
    ),
    "too many brackets": (parse_json, nested(17), f"'{nested(17)}' is nested more than 16 deep"),
    "too many braces": (
        parse_json,
        nested_objects(17),
        f"'{nested_objects(17)[:60]}'... is nested more than 16 deep",
    ),
    "a deep list after a flat one": (
        parse_json,
        f"[[], {nested(16)}]",
        f"'[[], {nested(16)}]' is nested more than 16 deep",
    ),
    "a deep list after a flat one within others": (
        parse_json,
        nested(9, f"[], {nested(8)}"),
        f"'{nested(9, f'[], {nested(8)}')}' is nested more than 16 deep",
    ),
    "too many elements": (
        lambda text: parse_json(text, max_elements=2),
        "[1,2,3]",
        "'[1,2,3]' has more than 2 elements",
    ),
    "no JSON": (parse_json, "{", "'{' is not JSON"),
    "no time": (parse_time, "now", "'now' is not a time such as 2026-01-31T12:00:00Z"),
    "a number as a text": (reads(), {"number": "5"}, "Expected `int`, got `str` - at `$.number`"),
    "an object of another shape": (
        lambda text: decode_object(text.encode(), Thing),
        '{"name": 5}',
        "Expected `str`, got `int` - at `$.name`",
    ),
    "a value that is too deep": (reads(Deep), deep_value(5000), "it is nested too deeply"),
    "an object that is too deep": (
        lambda text: decode_object(text.encode()),
        nested(5000),
        "it is nested too deeply",
    ),
}


@pytest.mark.parametrize("what", SAYS)
def test_it_says_of(what: str) -> None:
    read, text, expected = SAYS[what]
    with pytest.raises(ParseError) as refused:
        read(text)
    assert str(refused.value) == expected


def test_a_message_of_a_library_is_short_and_on_one_line() -> None:
    assert cut_message("a" * 200) == "a" * 200
    assert cut_message("a" * 201) == "a" * 200 + "..."
    assert cut_message("C:\\new") == "C:\\new"
    assert cut_message("it's \x1b[2J") == r"it's \x1b[2J"


@pytest.mark.parametrize("nest", [nested, nested_objects])
def test_only_what_is_nested_too_deeply_is_cut(nest: Callable[[int], str]) -> None:
    whole, deep, cut = nest(64).encode(), nest(65).encode(), CUT.decode()
    assert cut_deep_parts(whole) == whole
    assert cut_deep_parts(deep) != deep
    beside = cut_deep_parts(f"[{nest(70)},{nest(3)},{nest(70)}]".encode()).decode()
    first, second, third = msgspec.json.decode(beside)
    assert second == msgspec.json.decode(nest(3))
    assert first == third
    assert beside.count(cut) == 2


@pytest.mark.parametrize("depth", [0, 3, 62, 63, 64, 200])
def test_after_so_many_brackets_all_is_cut_and_what_came_first_stays(depth: int) -> None:
    """Who fills an object with brackets would hold up all others while they are looked at."""
    text = '{"metadata":{"name":"a"},"spec":' + "[" * depth + "[" + "{},[]," * 50
    for more in ("{", '"]', '"' + "x" * 9):  # whatever comes after, it is not looked at
        cut = cut_deep_parts((text + more).encode(), depth + 20)
        found = msgspec.json.decode(cut)
        assert found["metadata"] == {"name": "a"}
        assert CUT in cut
        assert cut == cut_deep_parts(text.encode(), depth + 20)


def test_as_many_brackets_as_are_looked_at_are_kept() -> None:
    text = b'{"a":[{},{}],"b":1}'
    assert cut_deep_parts(text, 4) == text
    assert msgspec.json.decode(cut_deep_parts(text, 3)) == {"a": [{}, msgspec.json.decode(CUT)]}


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_greenwich")
@pytest.mark.parametrize("text", ["2026-01-31T00:00:00", "2026-01-31T09:00:00+09:00"])
def test_a_time_is_in_utc_wherever_we_are(text: str) -> None:
    moment = parse_time(text)
    assert moment == datetime(2026, 1, 31, tzinfo=UTC)
    assert moment.tzinfo is UTC


def test_a_time_is_as_long_as_may_be() -> None:
    def of_length(length: int) -> str:
        return "2026-01-31T00:00:00." + "0" * (length - 21) + "Z"

    assert parse_time(of_length(64)) == datetime(2026, 1, 31, tzinfo=UTC)
    with pytest.raises(ParseError):
        parse_time(of_length(65))
