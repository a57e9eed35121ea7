"""What is put into a field, by its type. Each value comes with the words that name it."""

from __future__ import annotations

from typing import Any, Final

from tests.hostile.expansion import deep_list, deep_object, digits, exponent, long_text

#: Wrong wherever an object or a list is expected, and often elsewhere.
WRONG: Final[dict[str, Any]] = {
    "null": None,
    "a number": 5,
    "a word": "x",
    "a truth": True,
    "an empty list": [],
    "an empty object": {},
    "a list of null": [None],
    "an object of null": {"a": None},
    "4,900 lists": deep_list(4_900),
    "4,900 objects": deep_object(4_900),
}
_NUMBERS: Final[dict[str, Any]] = {
    "zero": 0,
    "minus one": -1,
    "2^31": 2**31,
    "2^63 - 1": 2**63 - 1,
    "-2^63": -(2**63),
    "2^64": 2**64,
    "a million digits": digits(1_000_000),
    "1e308": exponent(308),
    "a half": 0.5,
    "a word": "x",
    "null": None,
}
_TEXTS: Final[dict[str, Any]] = {
    "nothing": "",
    "5,000 digits": "9" * 5_000,
    "20,000 letters": long_text(20_000),
    "control characters": "\x1b]0;owned\x07\x00\n\r\u202e[/bold]",
    "a path": "../../../nodes/node-0",
    "somebody else's": "neighbour/pod-1",
    "a template": "{0} %s {{x}} ${HOME}",
    "a number": 5,
    "null": None,
}
_QUANTITIES: Final[dict[str, Any]] = {
    "1e1000000": "1e1000000",
    "1e-1000000": "1e-1000000",
    "9E": "9E",
    "minus one": "-1",
    "zero": "0",
    "5,000 digits": "9" * 5_000,
    "a word": "x",
    "2^64": 2**64,
    "1e308": exponent(308),
    "a list": [],
}
_TIMES: Final[dict[str, Any]] = {
    "the year 1": "0001-01-01T00:00:00Z",
    "the year 9999": "9999-12-31T23:59:59Z",
    "the year 10000": "10000-01-01T00:00:00Z",
    "nothing": "",
    "no zone": "2026-01-01T00:00:00",
    "a zone of a day": "2026-01-01T00:00:00+23:59",
    "a number": 5,
}
_MANY: Final[dict[str, Any]] = {
    "5,000 entries": {f"k{n}": "v" for n in range(5_000)},
    "5,000 amounts": {f"example.com/r{n}": "1" for n in range(5_000)},
}
_LONG: Final[dict[str, Any]] = {
    "5,000 empty objects": [{}] * 5_000,
    "5,000 words": ["x"] * 5_000,
    "5,000 nulls": [None] * 5_000,
}

#: Type of a field → what is put there.
VALUES: Final[dict[str, dict[str, Any]]] = {
    "string": _TEXTS,
    "integer": _NUMBERS,
    "number": _NUMBERS,
    "boolean": {"null": None, "a word": "true", "a number": 1},
    "quantity": _QUANTITIES,
    "time": _TIMES,
    "object": WRONG | _MANY,
    "array": WRONG | _LONG,
    "any": WRONG | _NUMBERS | _TEXTS,
}
