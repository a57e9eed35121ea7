"""The readers of others' texts: what they take, and that all else is one short line of ours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from arranger.api.parsing.duration import (
    lasting_duration_of,
    parse_duration,
    parse_lasting_duration,
)
from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.json_text import MAX_DEPTH, MAX_ELEMENTS, MAX_LENGTH, parse_json
from arranger.api.parsing.objects import MAX_PARTS, convert_object, decode_object
from arranger.api.parsing.scalars import MAX_INT64, MIN_INT64, parse_bool, parse_int, parse_int_or
from arranger.api.parsing.timestamps import parse_time, parse_zone
from arranger.api.quantity import milli_value, parse_quantity, value


class Colour(Enum):
    RED = "red"


class Thing(msgspec.Struct):
    name: str = ""
    number: int = 0
    colour: Colour = Colour.RED


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


TAKEN: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "a number": (parse_int, "007", 7),
    "the largest number": (parse_int, str(MAX_INT64), MAX_INT64),
    "a number with a sign": (lambda text: parse_int(text, minimum=MIN_INT64), "-12", -12),
    "no number, for which there is a default": (lambda text: parse_int_or(text, 3), "x", 3),
    "a truth value in capitals": (parse_bool, "TRUE", True),
    "a duration of parts": (parse_duration, "1h30m", 5400.0),
    "a number of seconds": (parse_duration, "2.5", 2.5),
    "a time in another zone": (
        parse_time,
        "2026-01-31T02:00:00+02:00",
        datetime(2026, 1, 31, tzinfo=UTC),
    ),
    "a time without a zone": (parse_time, "2026-01-31T00:00:00", datetime(2026, 1, 31, tzinfo=UTC)),
    "brackets, commas and digits in a string": (
        parse_json,
        '{"[[[[,,' + "9" * 30 + '\\"": 1}',
        {"[[[[,," + "9" * 30 + '"': 1},
    ),
    "JSON as deep as may be": (lambda text: parse_json(text) is not None, nested(MAX_DEPTH), True),
    "as many elements as may be": (
        lambda text: len(parse_json(text)),
        f"[{'1,' * (MAX_ELEMENTS - 1)}1]",
        MAX_ELEMENTS,
    ),
    "a duration of a second, where it has to last": (parse_lasting_duration, "1s", 1.0),
    "a duration of an annotation": (
        lambda text: lasting_duration_of({"a": "2h", "b": text}, "b"),
        "1m30s",
        90.0,
    ),
    "an annotation that says nothing": (lambda text: lasting_duration_of({}, text), "b", None),
    "an annotation with a duration that does not last": (
        lambda text: lasting_duration_of({"b": text}, "b"),
        "999ms",
        None,
    ),
    "a zone that every machine knows": (parse_zone, "UTC", UTC),
    "a zone of the database": (parse_zone, "Europe/Berlin", ZoneInfo("Europe/Berlin")),
    "an object of a server": (
        lambda text: decode_object(text.encode(), Thing),
        '{"name": "a", "other": {}}',
        Thing("a"),
    ),
    "an object in which null stands for what is left out": (
        lambda text: decode_object(text.encode(), Thing),
        '{"name": "a", "number": null}',
        Thing("a"),
    ),
    "an object with something deep in it, which is cut": (
        lambda text: decode_object(text.encode(), Thing, cut=True),
        f'{{"deep": {nested(5000)}, "name": "a"}}',
        Thing("a"),
    ),
}

REFUSED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "no number": (parse_int, "seven"),
    "nothing": (parse_int, ""),
    "a number of another alphabet": (parse_int, "٣"),
    "a raised digit": (parse_int, "²"),
    "a number with a line break": (parse_int, "7\n"),
    "a number in parts": (parse_int, "1_000"),
    "a negative number": (parse_int, "-1"),
    "a number of 65 bits": (parse_int, str(MAX_INT64 + 1)),
    "5,000 digits": (parse_int, "9" * 5000),
    "5,000 zeros": (parse_int, "0" * 5000),
    "neither true nor false": (parse_bool, "yes"),
    "a long truth value": (parse_bool, "true" * 10_000),
    "a letter that is true in small letters only": (parse_bool, "FALſE"),
    "no duration": (parse_duration, "soon"),
    "a duration of another century": (parse_duration, "9999999h"),
    "a duration with 100,000 digits": (parse_duration, "9" * 100_000),
    "a duration of 100,000 parts": (parse_duration, "1s" * 100_000),
    "a duration that does not last": (parse_lasting_duration, "999ms"),
    "no duration where it has to last": (parse_lasting_duration, "soon"),
    "no time": (parse_time, "now"),
    "no zone": (parse_zone, "Middle/Earth"),
    "a zone with 100,000 letters": (parse_zone, "Europe/" + "x" * 100_000),
    "a zone outside of the database": (parse_zone, "../../etc/passwd"),
    "a time before the first year": (parse_time, "0001-01-01T00:00:00+14:00"),
    "a time after the last year": (parse_time, "9999-12-31T23:59:59-12:00"),
    "a long time": (parse_time, "2026-01-31T00:00:00." + "0" * 10_000 + "Z"),
    "no JSON": (parse_json, "{"),
    "JSON that does not end": (parse_json, '["' + '\\"' * 30_000),
    "a constant of JavaScript": (parse_json, "NaN"),
    "a number with 4,298 digits": (parse_json, f'{{"a": {"9" * 4298}}}'),
    "a number beyond what floats are": (parse_json, "1e999"),
    "100,000 brackets": (parse_json, "[" * 100_000),
    "60,000 brackets": (parse_json, "[" * 60_000),
    "one level too many": (parse_json, nested(MAX_DEPTH + 1)),
    "one element too many": (parse_json, f"[{'1,' * MAX_ELEMENTS}1]"),
    "a long string": (parse_json, '"' + "a" * MAX_LENGTH + '"'),
    "half a character": (parse_json, '"\ud800"'),
    "an object that is too deep": (
        lambda text: decode_object(text.encode(), Thing),
        f'{{"deep": {nested(5000)}}}',
    ),
    "an object with null, and too many lists to look through": (
        lambda text: decode_object(text.encode(), Thing),
        f'{{"number": null, "other": [{"[]," * (MAX_PARTS // 2)}[]]}}',
    ),
    "an object with null, and too many objects to look through": (
        lambda text: decode_object(text.encode(), Thing),
        f'{{"number": null, "other": [{"{}," * (MAX_PARTS // 2)}[]]}}',
    ),
    "an object of another shape": (lambda text: decode_object(text.encode(), Thing), '{"name": 5}'),
    "a value that is none of some": (
        lambda given: convert_object(given, Thing),
        {"colour": "\x1b[2J\n" * 1000},
    ),
    "no object": (lambda text: decode_object(text.encode(), Thing), "<html>"),
    "what has another shape": (lambda given: convert_object(given, Thing), {"name": 5}),
    "a mapping with a number as a key": (lambda given: convert_object(given, Thing), {5: 5}),
    "a text of 5,000 digits for a number": (
        lambda given: convert_object(given, Thing, strict=False),
        {"number": "9" * 5000},
    ),
    "no quantity": (value, "a\x1b[2Jb"),
    "an exponent of 65 bits": (milli_value, f"1e{MAX_INT64 + 1}"),
    "a quantity with 1,000,000 letters": (parse_quantity, "k" * 1_000_000),
}


@pytest.mark.parametrize(("read", "text", "expected"), TAKEN.values(), ids=TAKEN)
def test_what_is_read(read: Callable[[Any], Any], text: Any, expected: Any) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(("read", "text"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_told_in_a_short_line(read: Callable[[Any], Any], text: Any) -> None:
    with pytest.raises(ParseError) as raised:
        read(text)
    assert str(raised.value).isprintable()
    assert str(raised.value) != "None"
    assert len(str(raised.value)) < 250
