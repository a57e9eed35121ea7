"""The expressions of the configuration: what they give, what is refused, and what is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.gangs.workloads.expressions import (
    MAX_ELEMENTS,
    Expression,
    ExpressionError,
    ExpressionValueError,
)

WORDS = frozenset({"spec", "status"})
SCOPE = {
    "spec": {
        "size": 3,
        "none": 0,
        "text": "12",
        "name": "Blue",
        "on": True,
        "annotations": {"example.com/queue": "q"},
        "roles": [{"count": 2}, {"count": 5}, "odd", {"other": 1}],
    }
}

VALUES: dict[str, tuple[str, Any]] = {
    "a path": ("spec.size", 3),
    "a path to nothing": ("spec.colour", None),
    "a path through nothing": ("spec.colour.shade", None),
    "a path through a number": ("spec.size.shade", None),
    "a part that is not there": ("status.size", None),
    "a key that is no name": ('spec.annotations["example.com/queue"]', "q"),
    "a path through a list gives what its elements have": ("spec.roles.count", [2, 5]),
    "a path through a list to nothing": ("spec.roles.colour", None),
    "a product": ("spec.size * 2", 6),
    "a number written as text": ("spec.text - 1", 11),
    "what is worked out from nothing is absent": ("spec.size + spec.colour", None),
    "the first that is there": ("first(spec.colour, spec.none, 7)", 0),
    "the first of what is not there": ("first(spec.colour, spec.shade)", None),
    "the largest number": ("spec.none + 1000000000", 10**9),
    "a text": ("'Blue'", "Blue"),
    "a sum": ("spec.size + 4", 7),
    "equal": ('spec.name == "Blue"', True),
    "not unequal": ('spec.name != "Blue"', False),
    "any of two": ("spec.none or spec.on", True),
    "all of two": ("spec.size and spec.none", False),
    "not what is there": ("not spec.none", True),
    "one of two, the second": ("1 if spec.none else spec.size", 3),
    "the least": ("min(spec.size, 2)", 2),
    "the least of what is not all there": ("min(spec.size, spec.colour)", None),
    "the most": ("max(spec.size, 2)", 3),
    "a condition that holds": ('1 if spec.name == "Blue" else 2', 1),
    "a condition that does not": ("1 if not spec.on else 2", 2),
    "an empty list is no reason": ("spec.on and spec.none or spec.colour", False),
}


@pytest.mark.parametrize(("text", "value"), VALUES.values(), ids=VALUES.keys())
def test_a_value(text: str, value: Any) -> None:
    assert Expression(text, WORDS).value(SCOPE) == value


REFUSED = {
    "no expression": ("spec.", "cannot be read"),
    "two": ("spec.a; spec.b", "cannot be read"),
    "an unknown beginning": ("metadata.name", "metadata is none of spec, status"),
    "a function that there is not": ("len(spec.roles)", "'len\\(spec.roles\\)' is not understood"),
    "an argument by name": ("max(a=1)", "is not understood"),
    "a division": ("spec.size / 2", "is not understood"),
    "a power": ("spec.size ** 9", "is not understood"),
    "a loop": ("[x for x in spec.roles]", "x is none of"),
    "a comparison that is none of ours": ("spec.size < 3", "is not understood"),
    "a call of what was read": ("spec.size()", "is not understood"),
    "a truth value": ("True", "is not understood"),
    "a part of a sum": ("spec.a + (spec.b < 1)", "'spec.a \\+ \\(spec.b < 1\\)': 'spec.b < 1'"),
    "the other part": ("(spec.b < 1) + spec.a", "'\\(spec.b < 1\\) \\+ spec.a': 'spec.b < 1'"),
    "a part of a comparison": ("spec.a == (spec.b < 1)", "'spec.a == \\(spec.b < 1\\)': 'spec.b"),
    "the other part of it": ("(spec.b < 1) == spec.a", "'\\(spec.b < 1\\) == spec.a': 'spec.b"),
    "what is denied": ("not spec.b < 1", "'not spec.b < 1': 'spec.b < 1'"),
    "one of two": ("spec.a or spec.b < 1", "'spec.a or spec.b < 1': 'spec.b < 1'"),
    "a condition": ("1 if spec.b < 1 else 2", "'1 if spec.b < 1 else 2': 'spec.b < 1'"),
    "an argument": ("first(spec.b < 1)", "'first\\(spec.b < 1\\)': 'spec.b < 1'"),
    "a part of a path": ("(spec.b < 1).a", "'\\(spec.b < 1\\).a': 'spec.b < 1'"),
    "a part of one with a key": ('(spec.b < 1)["a"]', "< 1\\)\\[\"a\"\\]': 'spec.b < 1'"),
    "no arguments": ("first()", "'first\\(\\)' is not understood"),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_before_anything_starts(text: str, why: str) -> None:
    with pytest.raises(ExpressionError, match=why):
        Expression(text, WORDS)


NO_NUMBERS: dict[str, tuple[Any, str]] = {
    "text": ("many", "'many' is not a number"),
    "a fraction": (0.5, "0.5 is not a number"),
    "a truth value": (True, "True is not a number"),
    "a list": ([1], "a list is not a number"),
    "an object": ({"a": 1}, "an object is not a number"),
    "a number beyond all clusters": (10**9 + 1, "the number is larger than 1000000000"),
    "one with more digits than can be written": (10**5000, "the number is larger"),
}


@pytest.mark.parametrize(("value", "why"), NO_NUMBERS.values(), ids=NO_NUMBERS.keys())
@pytest.mark.parametrize("text", ["spec.size", "spec.size * 1", "max(spec.size, 1)"])
def test_what_is_no_number_is_told_and_nothing_else_happens(
    text: str, value: Any, why: str
) -> None:
    with pytest.raises(ExpressionValueError, match=why):
        Expression(text, WORDS).number({"spec": {"size": value}})


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("spec.name", ""),
        ("spec.name + 1", "spec.name: "),
        ("1 - spec.name", "spec.name: "),
        ("min(1, spec.name)", "spec.name: "),
        ("max(spec.annotations.x, 1) if spec.none else spec.name * 2", "spec.name: "),
    ],
)
def test_where_there_is_no_number_is_told(text: str, where: str) -> None:
    with pytest.raises(ExpressionValueError) as error:
        Expression(text, WORDS).number(SCOPE)
    assert str(error.value) == f"{where}'Blue' is not a number"


def test_no_number_is_negative() -> None:
    assert Expression("1 - spec.size", WORDS).number(SCOPE) == 0


def test_only_the_first_elements_of_a_list_are_looked_at() -> None:
    long = {"spec": {"roles": [{"count": 1}] * (2 * MAX_ELEMENTS)}}
    assert len(Expression("spec.roles.count", WORDS).value(long)) == MAX_ELEMENTS


@pytest.mark.parametrize(
    ("text", "name"), [("spec.name", "Blue"), ("spec.size", "3"), ("spec.roles", "")]
)
def test_a_name(text: str, name: str) -> None:
    assert Expression(text, WORDS).name(SCOPE) == name
