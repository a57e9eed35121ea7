"""What CEL rules can say: the functions beyond the language, and how values get there."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.embedded.crd import cel_evaluator
from arranger.embedded.crd.cel_rules import SchemaError
from arranger.embedded.crd.schema import CustomSchema

Object = dict[str, Any]
PROPERTIES: Object = {
    "text": {"type": "string"},
    "number": {"type": "number"},
    "list": {"type": "array", "items": {"type": "integer"}},
    "words": {"type": "array", "items": {"type": "string"}},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "wait": {"type": "string", "format": "duration"},
    "day": {"type": "string", "format": "date"},
    "bytes": {"type": "string", "format": "byte"},
    "free": {"x-kubernetes-preserve-unknown-fields": True},
    "a.b/c-d": {"type": "integer"},
    "x__y": {"type": "integer"},
    "pod": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
SPEC: Object = {
    "text": "Hello, world",
    "number": 2,
    "list": [3, 1, 2],
    "words": ["a", "b"],
    "map": {"k": 1},
    "wait": "1h30m",
    "day": "2026-01-02",
    "bytes": "YWI=",
    "free": {"x": [1, {"y": "z"}]},
    "a.b/c-d": 4,
    "x__y": 5,
    "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
}


def schema(*rules: str) -> CustomSchema:
    spec = {
        "type": "object",
        "properties": PROPERTIES,
        "x-kubernetes-validations": [{"rule": rule} for rule in rules],
    }
    return CustomSchema.parse({"type": "object", "properties": {"spec": spec}})


TRUE = (
    "self.text.lowerAscii() == 'hello, world'",
    "self.text.upperAscii().startsWith('HELLO')",
    "self.text.replace('Hello', 'Bye') == 'Bye, world'",
    "self.text.split(', ') == ['Hello', 'world']",
    "self.words.join('+') == 'a+b'",
    "self.words.join() == 'ab'",
    "self.text.substring(7) == 'world'",
    "self.text.substring(0, 5) == 'Hello'",
    "self.text.charAt(1) == 'e'",
    "self.text.indexOf('o') == 4",
    "self.text.lastIndexOf('o') == 8",
    "self.text.indexOf('x') == -1",
    "' a '.trim() == 'a'",
    "self.text.find('[a-z]+') == 'ello'",
    "self.text.find('[0-9]+') == ''",
    "self.text.findAll('o') == ['o', 'o']",
    "!self.list.isSorted()",
    "self.list.sum() == 6",
    "self.list.filter(x, x > 9).sum() == 0",
    "self.list.min() == 1 && self.list.max() == 3",
    "self.list.indexOf(1) == 1 && self.list.lastIndexOf(9) == -1",
    "self.number > 1.5",
    "self.map.all(k, self.map[k] == 1)",
    "self.map.k == 1",
    "self.wait > duration('1h')",
    "self.day < timestamp('2026-01-03T00:00:00Z')",
    "self.bytes == b'ab'",
    "self.free.x[1].y == 'z'",
    "self.a__dot__b__slash__c__dash__d == 4",
    "self.x__underscores__y == 5",
    "self.pod.kind == 'Pod' && self.pod.metadata.name == 'p'",
    "dyn(self.text) == 'Hello, world'",
    "has(self.free) && !has(self.free.zzz)",
    "quantity('1Gi') == quantity('1024Mi') && quantity('1') == quantity('1000m')",
    "quantity('1.5Gi').isLessThan(quantity('1600Mi'))",
    "!quantity('1').isLessThan(quantity('1000m'))",
    "quantity('1G').isGreaterThan(quantity('0.9G'))",
    "quantity('-1').compareTo(quantity('0')) == -1 && quantity('2').compareTo(quantity('1')) == 1",
    "quantity(string(1)).compareTo(quantity('1e0')) == 0",
    "quantity('1n').compareTo(quantity('2n')) == -1",
    "isQuantity('1.3Gi') && isQuantity('-5m') && !isQuantity('1.3GB') && !isQuantity('')",
    "quantity('1').add(quantity('500m')) == quantity('1.5') && quantity('1').add(1).sign() == 1",
    "quantity('1').sub(quantity('2')).sign() == -1 && quantity('1').sub(1).sign() == 0",
    "quantity('2k').isInteger() && quantity('2k').asInteger() == 2000",
    "!quantity('1m').isInteger() && quantity('500m').asApproximateFloat() == 0.5",
)


@pytest.mark.parametrize("rule", TRUE)
def test_true(rule: str) -> None:
    assert schema(rule, f"!({rule})").validate(an_object(SPEC)) != []
    assert schema(rule).validate(an_object(SPEC)) == []


def an_object(spec: Object) -> Object:
    return {"apiVersion": "a.io/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


# rule: what is said of it
UNDECLARED = {
    "self.nope == 1": "undefined field 'nope'",
    "self.list.all(x, y > 1)": "undeclared reference to 'y'",
    "self.text.nope()": "undeclared reference to 'nope'",
    "self.map.all(k, k.nope == 1) || self.pod.spec": "undefined field 'spec'",
    "self.text.length == 1": "no field 'length' here",
    "self.list.all(1, true)": "needs a name",
    "self.?text.orValue('') == ''": "Syntax error",
    "semver('1.0.0') == semver('1.0.0')": "undeclared reference to 'semver'",
}


@pytest.mark.parametrize(("rule", "why"), UNDECLARED.items())
def test_undeclared(rule: str, why: str) -> None:
    with pytest.raises(SchemaError, match="compilation failed") as refused:
        schema(rule)
    assert why in refused.value.message


def test_a_rule_that_is_no_truth_refuses_the_object() -> None:
    [error] = schema("self.number > 'x'").validate(an_object(SPEC))
    assert (error.type, error.field) == ("FieldValueInvalid", "spec")
    assert "no matching overload" in error.message


#: rule: why it cannot be told.
UNTOLD = {
    "quantity(self.text) == quantity('1')": "is not a quantity",
    "quantity('1m').asInteger() == 1": "cannot convert value to integer",
    "quantity('1') < quantity('2')": "no matching overload",
    "quantity('1').compareTo('2') == 1": "no such overload",
}


@pytest.mark.parametrize(("rule", "why"), UNTOLD.items())
def test_what_is_no_quantity_refuses_the_object(rule: str, why: str) -> None:
    [error] = schema(rule).validate(an_object(SPEC))
    assert error.type == "FieldValueInvalid"
    assert why in error.message


LOST = {
    "self.list.all(x, 1 / 0 == x)": "division by zero",
    " && ".join(["1 / 0 == 1"] * 60): "division by zero",
    " || ".join(["1 / 0 == 1"] * 60): "division by zero",
    "[" + ", ".join(map(str, range(100))) + "].exists(x, 1 / 0 == x)": "division by zero",
    "self.words.all(x, x)": "no such overload",
}


@pytest.mark.parametrize(("rule", "why"), LOST.items())
def test_of_many_errors_the_first_is_told(rule: str, why: str) -> None:
    [error] = schema(rule).validate(an_object(SPEC))
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
    assert schema(rule).validate(an_object(SPEC)) == []


def test_a_rule_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cel_evaluator, "MAX_STEPS", 1_000)
    long = "self.list.all(x, self.list.all(y, self.list.all(z, self.list.all(u, x + y > 0))))"
    [error] = schema(f"{long} || true").validate(an_object(SPEC))
    assert "call cost exceeds limit" in error.message


def test_rules_say_nothing_of_what_is_not_there() -> None:
    rule = "self.number == 1.0"
    bare = {"apiVersion": "a.io/v1", "kind": "X", "metadata": {"name": "x"}}
    assert schema(rule).validate(an_object(SPEC)) != []
    assert schema(rule).validate(bare) == []
