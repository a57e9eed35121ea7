"""What CEL rules can say: the functions beyond the language, and how values get there."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.embedded.crd import cel_rules
from arranger.embedded.crd.cel_rules import SchemaError
from arranger.embedded.crd.schema import CustomSchema
from tests.differential.cel.rules.questions import OBJECT, PROPERTIES

Object = dict[str, Any]


def schema(*rules: str) -> CustomSchema:
    spec = {
        "type": "object",
        "properties": PROPERTIES,
        "x-kubernetes-validations": [{"rule": rule} for rule in rules],
    }
    return CustomSchema.parse({"type": "object", "properties": {"spec": spec}})


#: More of them are in ``tests/differential/cel/rules``.
TRUE = (
    "self.text.lowerAscii() == 'hello, world'",
    "self.list.sum() == 6",
    "self.wait > duration('1h')",
    "self.day < timestamp('2026-01-03T00:00:00Z')",
    "self.bytes == b'ab'",
    "self.a__dot__b__slash__c__dash__d == 4",
    "self.x__underscores__y == 5",
    "self.pod.kind == 'Pod' && self.pod.metadata.name == 'p'",
    "quantity('1Gi') == quantity('1024Mi')",
    "self.?text.orValue('') == 'Hello, world'",
    "semver('1.0.0') == semver('1.0.0')",
    "isURL('https://example.com') && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
)


@pytest.mark.parametrize("rule", TRUE)
def test_true(rule: str) -> None:
    assert schema(rule, f"!({rule})").validate(an_object(OBJECT)) != []
    assert schema(rule).validate(an_object(OBJECT)) == []


def an_object(spec: Object) -> Object:
    return {"apiVersion": "a.io/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


# rule: what is said of it
UNDECLARED = {
    "self.nope == 1": "undefined field 'nope'",
    "self.list.all(x, y > 1)": "undeclared reference to 'y'",
    "self.text.nope()": "undeclared reference to 'nope'",
    "self.pod.spec == {}": "undefined field 'spec'",
    "self.free == 1": "undefined field 'free'",
    "self.text.length == 1": "type 'string' does not support field selection",
    "self.list.all(1, true)": "argument is not an identifier",
    "self.number > 'x'": "found no matching overload for '_>_' applied to '(double, string)'",
    "quantity('1') < quantity('2')": "found no matching overload",
    "cel.bind(x, 1, x == 1)": "undeclared reference to 'cel'",
}


@pytest.mark.parametrize(("rule", "why"), UNDECLARED.items())
def test_undeclared(rule: str, why: str) -> None:
    with pytest.raises(SchemaError, match="compilation failed") as refused:
        schema(rule)
    assert why in refused.value.message


def test_a_rule_must_be_a_truth() -> None:
    with pytest.raises(SchemaError, match="cel expression must evaluate to a bool"):
        schema("self.text")


LOST = {
    "self.list.all(x, 1 / 0 == x)": "division by zero",
    " && ".join(["1 / 0 == 1"] * 60): "division by zero",
    " || ".join(["1 / 0 == 1"] * 60): "division by zero",
    "[" + ", ".join(map(str, range(100))) + "].exists(x, 1 / 0 == x)": "division by zero",
}


@pytest.mark.parametrize(("rule", "why"), LOST.items())
def test_of_many_errors_the_first_is_told(rule: str, why: str) -> None:
    [error] = schema(rule).validate(an_object(OBJECT))
    assert why in error.message
    assert len(error.message) < 2500


FOUND = (
    "self.words.exists(x, x == 'b' || 1 / 0 == 1)",
    "!self.words.all(x, x == 'b' && 1 / 0 == 1)",
    "true || 1 / 0 == 1",
    "1 / 0 == 1 || true",
    "!(1 / 0 == 1 && false)",
    "[].all(x, 1 / 0 == x) && ![].exists(x, 1 / 0 == x)",
)


@pytest.mark.parametrize("rule", FOUND)
def test_an_error_that_does_not_matter_is_none(rule: str) -> None:
    assert schema(rule).validate(an_object(OBJECT)) == []


def test_a_rule_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cel_rules, "MAX_COST", 100)
    long = "self.list.all(x, self.list.all(y, self.list.all(z, self.list.all(u, x + y > 0))))"
    [error] = schema(f"{long} || true").validate(an_object(OBJECT))
    assert "call cost exceeds limit" in error.message


def test_rules_on_one_object_have_a_budget_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [f"self.list.all(x, x != {n})" for n in range(9, 30)]
    assert schema(*rules, "false").validate(an_object(OBJECT)) != []
    root = schema(*rules, "false").rules
    assert root is not None
    budget = cel_rules.Budget(left=100)
    found = []
    with pytest.raises(cel_rules.BudgetSpentError):
        found += root.violations(an_object(OBJECT), {}, budget=budget)
    assert budget.left < 0


def test_rules_say_nothing_of_what_is_not_there() -> None:
    rule = "self.number == 1.0"
    bare = {"apiVersion": "a.io/v1", "kind": "X", "metadata": {"name": "x"}}
    assert schema(rule).validate(an_object(OBJECT)) != []
    assert schema(rule).validate(bare) == []
