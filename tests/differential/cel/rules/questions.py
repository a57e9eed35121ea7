"""Schemas with rules, and objects: what the API server's own package is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

#: Rules on :data:`OBJECT`, one a line.
RULES: Final = Path(__file__).parent / "rules.txt"
PROPERTIES: Final[Json] = {
    "text": {"type": "string"},
    "number": {"type": "number"},
    "list": {"type": "array", "items": {"type": "integer"}},
    "words": {"type": "array", "items": {"type": "string"}},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "wait": {"type": "string", "format": "duration"},
    "day": {"type": "string", "format": "date"},
    "since": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "share": {"x-kubernetes-int-or-string": True},
    "maybe": {"type": "string", "nullable": True},
    "free": {"x-kubernetes-preserve-unknown-fields": True},
    "a.b/c-d": {"type": "integer"},
    "x__y": {"type": "integer"},
    "namespace": {"type": "string"},
    "pod": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "parts": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        },
    },
}
OBJECT: Final[Json] = {
    "text": "Hello, world",
    "number": 2,
    "list": [3, 1, 2],
    "words": ["a", "b"],
    "map": {"k": 1},
    "wait": "1h30m",
    "day": "2026-01-02",
    "since": "2026-01-02T03:04:05.6+01:00",
    "bytes": "YWI=",
    "share": "50%",
    "maybe": None,
    "free": {"x": [1, {"y": "z"}]},
    "a.b/c-d": 4,
    "x__y": 5,
    "namespace": "n",
    "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
    "parts": [{"name": "a", "size": 1}, {"name": "b"}],
}
_TEXT: Final[Json] = {"type": "string"}


def questions() -> Iterator[Json]:
    """All of them."""
    for rule in RULES.read_text().splitlines():
        yield about(rule)
    yield from _MORE


def about(*rules: str | Json, old: Json | None = None) -> Json:
    """A question about rules on :data:`OBJECT`."""
    given = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    schema = {"type": "object", "properties": PROPERTIES, "x-kubernetes-validations": given}
    return {"schema": schema, "object": OBJECT, **({} if old is None else {"old": old})}


def within(schema: Json, value: Any, old: Any = None) -> Json:
    """A question about a field that has rules."""
    whole = {
        "type": "object",
        "properties": {"f": schema},
        "x-kubernetes-validations": [{"rule": "true"}],
    }
    return {"schema": whole, "object": {"f": value}, **({} if old is None else {"old": {"f": old}})}


def _ruled(schema: Json, *rules: Json) -> Json:
    return {**schema, "x-kubernetes-validations": list(rules)}


_EVEN: Final = {"rule": "self % 2 == 0"}
_NUMBERS: Final = {"type": "array", "items": _ruled({"type": "integer"}, _EVEN)}
_NESTED: Final = "self.list.all(x, self.list.all(y, self.list.all(z, x + y + z > 0)))"
_DEAR: Final = (
    "lists.range(1000).all(x, lists.range(1000).all(y, lists.range(1000).all(z, x + y + z >= 0)))"
)
#: Texts, their formats, and rules on them.
_FORMATTED: Final = (
    ("2026-01-02T03:04:05Z", "datetime", "self.startsWith('2026')"),
    ("2026-01-02T03:04:05", "date-time", "self == timestamp('2026-01-02T03:04:05Z')"),
    ("2026-01-02T03:04:05.5", "date-time", "self == timestamp('2026-01-02T03:04:05.5Z')"),
    ("", "date-time", "self == timestamp(0)"),
    ("-_-_", "byte", "self.size() == 3"),
    ("YW\r\nI=", "byte", "self == b'ab'"),
)
_MORE: Final[tuple[Json, ...]] = (
    *(
        within(_ruled({"type": "string", "format": form}, {"rule": rule}), text)
        for text, form, rule in _FORMATTED
    ),
    about("oldSelf.number == self.number"),
    about("oldSelf.number == self.number", old=OBJECT),
    about("oldSelf.number == self.number", old={**OBJECT, "number": 3}),
    about({"rule": "oldSelf.hasValue()", "optionalOldSelf": True}),
    about({"rule": "oldSelf.hasValue()", "optionalOldSelf": True}, old=OBJECT),
    about({"rule": "oldSelf.?text.orValue('') == 'x'", "optionalOldSelf": True}, old=OBJECT),
    about({"rule": "false", "message": "no"}),
    about({"rule": "false", "message": " no "}),
    about({"rule": "false", "messageExpression": "'no ' + self.text"}),
    about({"rule": "false", "messageExpression": "'no %d'.format([self.list[0]])"}),
    about({"rule": "false", "messageExpression": "''", "message": "else"}),
    about({"rule": "false", "messageExpression": r"'a\nb'", "message": "else"}),
    about({"rule": "false", "messageExpression": "self.text.substring(99)", "message": "else"}),
    about({"rule": "false", "reason": "FieldValueForbidden"}),
    about({"rule": "false", "reason": "FieldValueRequired", "message": "give it"}),
    about(
        {"rule": "false", "message": "a"}, {"rule": "1 / (self.list[0] - 3) > 0", "message": "b"}
    ),
    about("self.share == 50"),
    about("self.share > 50"),
    about("type(self.share) == int ? self.share > 0 : self.share.endsWith('%')"),
    about(_NESTED),
    about({"rule": _DEAR, "message": "dear"}, "false"),
    within(_NUMBERS, [1, 2, 3]),
    within(_ruled({"type": "string"}, {"rule": "self != 'x'"}), "x"),
    within(_ruled({"type": "string"}, {"rule": "self == oldSelf"}), "x", "y"),
    within(_ruled({"type": "number"}, {"rule": "self < 2.5"}), 3),
    within(_ruled({"type": "boolean"}, {"rule": "self"}), False),
    within(
        {"type": "object", "additionalProperties": _ruled({"type": "integer"}, _EVEN)},
        {"a": 1, "b": 2, "c": 3},
    ),
    within(
        {
            "type": "string",
            "format": "date-time",
            "x-kubernetes-validations": [
                {"rule": "self < timestamp('2026-01-01T00:00:00Z')"},
            ],
        },
        "2026-02-01T00:00:00Z",
    ),
    within(
        _ruled(
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
            {"rule": "self.kind == 'Job' && self.metadata.name == 'x'"},
        ),
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
    ),
    within(
        _ruled(
            {"type": "object", "properties": {"a": _TEXT}},
            {"rule": "self.a == 'b'", "fieldPath": ".a", "reason": "FieldValueInvalid"},
        ),
        {"a": "c"},
    ),
)
