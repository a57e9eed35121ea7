"""CEL rules of definitions: what they refuse, what they say, which of them are refused."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.api_conformance.client import MERGE_PATCH, Api, Object
from tests.api_conformance.objects import CRDS, a_definition, an_object_of, register

WHOLE: Object = {"type": "integer"}
TEXT: Object = {"type": "string"}
LETTERS: Object = {**TEXT, "maxLength": 20}


def ruled(schema: Object, *rules: Object) -> Object:
    return {**schema, "x-kubernetes-validations": list(rules)}


def rule(text: str, message: str = "", **more: object) -> Object:
    return {"rule": text, **({"message": message} if message else {}), **more}


PART: Object = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {**TEXT, "maxLength": 5}, "size": {**WHOLE, "default": 1}},
}
SPEC: Object = ruled(
    {
        "type": "object",
        "properties": {
            "min": {**WHOLE, "minimum": 0},
            "max": WHOLE,
            "ratio": WHOLE,
            "name": ruled(
                LETTERS, rule("self.matches('^[a-z]+$')", messageExpression="'not ' + self")
            ),
            "frozen": ruled(LETTERS, rule("self == oldSelf", "it never changes")),
            "once": ruled(
                LETTERS,
                rule(
                    "!oldSelf.hasValue() || self == oldSelf.value()",
                    "it is given once",
                    optionalOldSelf=True,
                ),
            ),
            "even": {
                "type": "array",
                "maxItems": 5,
                "items": ruled(WHOLE, rule("self % 2 == 0", "it must be even")),
            },
            "weights": {
                "type": "object",
                "maxProperties": 5,
                "additionalProperties": ruled(WHOLE, rule("self > 0", "it must weigh something")),
            },
            "parts": {
                "type": "array",
                "maxItems": 5,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": ruled(PART, rule("self.size >= oldSelf.size", "parts only grow")),
            },
            "share": ruled(
                {"x-kubernetes-int-or-string": True},
                rule("type(self) == int ? self > 0 : self.endsWith('%')", "no share"),
            ),
            "part": ruled({"type": "number"}, rule("self < 2.5")),
            "until": ruled(
                {**TEXT, "format": "date-time"},
                rule("self < timestamp('2026-01-01T00:00:00Z')", "too late"),
            ),
            "my-field": WHOLE,
            "in": WHOLE,
        },
    },
    rule("!has(self.min) || !has(self.max) || self.min <= self.max", "min is above max"),
    rule("!has(self.max) || self.max < 100"),
    rule(
        "!has(self.max) || self.max != 50",
        "fifty is taken",
        reason="FieldValueForbidden",
        fieldPath=".max",
    ),
    rule("!has(self.ratio) || 1 / self.ratio < 5", "no ratio"),
    rule("!has(self.my__dash__field) || self.my__dash__field > 0", "a name with a dash"),
    rule("!has(self.__in__) || self.__in__ > 0", "a name that is a word of the language"),
    rule("!has(self.parts) || self.parts.map(p, p.size).sum() < 10", "too much"),
    rule("!has(self.even) || self.even.isSorted()", "out of order"),
    rule("!has(self.weights) || !('none' in self.weights)", "none is no name"),
    rule("!has(self.even) || size(self.even) < 4 && self.even.exists_one(e, e == 2)", "one two"),
)
ROOT = (
    rule("!self.metadata.name.startsWith('bad')", "a bad name"),
    rule("!has(self.status) || !has(self.spec.max) || self.status.n <= self.spec.max", "beyond"),
)
STATUS: Object = ruled(
    {"type": "object", "properties": {"n": WHOLE}}, rule("!has(self.n) || self.n < 5")
)


def a_ruled_definition(kind: str, spec: Object, **more: object) -> Object:
    definition = a_definition(kind)
    version = definition["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {"spec": spec, "status": STATUS},
        **more,
    }
    del version["additionalPrinterColumns"], definition["spec"]["names"]["shortNames"]
    return definition


@pytest_asyncio.fixture(loop_scope="session")
async def path(api: Api, ns: str) -> str:
    """Where objects with all these rules are."""
    root = {"x-kubernetes-validations": list(ROOT)}
    definition = a_ruled_definition("Ruled", SPEC, **root)
    return await register(api, "Ruled", definition, namespace=ns)


def invalid(field: str, message: str) -> tuple[str, str, str]:
    return "FieldValueInvalid", field, f"Invalid value: {message}"


# sentence: the spec, the causes
REFUSED: dict[str, tuple[Object, list[tuple[str, str, str]]]] = {
    "two fields that do not go together": (
        {"min": 3, "max": 2},
        [invalid("spec", "min is above max")],
    ),
    "a rule without a message": (
        {"max": 100},
        [invalid("spec", "failed rule: !has(self.max) || self.max < 100")],
    ),
    "a reason and a place of its own": (
        {"max": 50},
        [("FieldValueForbidden", "spec.max", "Forbidden: fifty is taken")],
    ),
    "a message that is made up": ({"name": "N"}, [invalid("spec.name", '"N": not N')]),
    "every item of a list": (
        {"even": [1, 2, 3]},
        [
            invalid("spec.even[0]", "1: it must be even"),
            invalid("spec.even[2]", "3: it must be even"),
        ],
    ),
    "an entry of a map": (
        {"weights": {"a": 0, "b": 1}},
        [invalid("spec.weights[a]", "0: it must weigh something")],
    ),
    "a key of a map": ({"weights": {"none": 1}}, [invalid("spec", "none is no name")]),
    "text for a share": ({"share": "5"}, [invalid("spec.share", '"5": no share')]),
    "a number for a share": ({"share": 0}, [invalid("spec.share", "0: no share")]),
    "a whole number where a part may be": (
        {"part": 3},
        [invalid("spec.part", "3: failed rule: self < 2.5")],
    ),
    "a time": (
        {"until": "2026-02-01T00:00:00Z"},
        [invalid("spec.until", '"2026-02-01T00:00:00Z": too late')],
    ),
    "a name with a dash": ({"my-field": 0}, [invalid("spec", "a name with a dash")]),
    "a name that is a word": (
        {"in": 0},
        [invalid("spec", "a name that is a word of the language")],
    ),
    "a sum": (
        {"parts": [{"name": "a", "size": 9}, {"name": "b"}]},
        [invalid("spec", "too much")],
    ),
    "an order": ({"even": [4, 2]}, [invalid("spec", "out of order")]),
    "a count": ({"even": [2, 2]}, [invalid("spec", "one two")]),
    "a rule that breaks down": (
        {"ratio": 0},
        [invalid("spec", '"object": division by zero evaluating rule: no ratio')],
    ),
    "a fault of the schema beside": (
        {"min": -1, "max": -2},
        [
            invalid("spec.min", "-1: spec.min in body should be greater than or equal to 0"),
            invalid("spec", "min is above max"),
        ],
    ),
    "a fault of the schema that stops the rules": (
        {"min": "a", "max": 100},
        [
            (
                "FieldValueTypeInvalid",
                "spec.min",
                'Invalid value: "string": spec.min in body must be of type integer: "string"',
            ),
            invalid(
                "<nil>",
                "null: some validation rules were not checked because the object was invalid;"
                " correct the existing errors to complete validation",
            ),
        ],
    ),
}


@pytest.mark.parametrize(("spec", "causes"), REFUSED.values(), ids=REFUSED)
async def test_refused(
    api: Api, path: str, spec: Object, causes: list[tuple[str, str, str]]
) -> None:
    answer = await api.call("POST", path, an_object_of("Ruled", "x", **spec))
    assert answer.refusal == (422, "Invalid")
    told = [(c["reason"], c["field"], c["message"]) for c in answer.body["details"]["causes"]]
    assert told == causes


async def test_the_name_is_seen_by_rules_on_the_whole(api: Api, path: str) -> None:
    answer = await api.call("POST", path, an_object_of("Ruled", "bad-one"))
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "<nil>")]


GOOD: Object = {
    "min": 1,
    "max": 2,
    "ratio": 7,
    "name": "good",
    "frozen": "a",
    "once": "a",
    "even": [2, 4],
    "weights": {"a": 1},
    "parts": [{"name": "a", "size": 2}, {"name": "b", "size": 2}],
    "share": "5%",
    "part": 2,
    "until": "2025-02-01T00:00:00Z",
    "my-field": 1,
    "in": 1,
}


# sentence: the change, the causes
UPDATES: dict[str, tuple[Object, list[tuple[str, str, str]]]] = {
    "what never changes stays": ({"max": 3}, []),
    "what never changes is changed": (
        {"frozen": "b"},
        [invalid("spec.frozen", '"b": it never changes')],
    ),
    "what never changes is taken away": ({"frozen": None}, []),
    "what is given once is changed": (
        {"once": "b"},
        [invalid("spec.once", '"b": it is given once')],
    ),
    "a part shrinks": (
        {"parts": [{"name": "b", "size": 1}]},
        [invalid("spec.parts[0]", "parts only grow")],
    ),
    "a part comes before one that grows": (
        {"parts": [{"name": "c", "size": 1}, {"name": "a", "size": 3}]},
        [],
    ),
    "a rule on one value is held against every update": (
        {"max": 0},
        [invalid("spec", "min is above max")],
    ),
}


@pytest.mark.parametrize(("change", "causes"), UPDATES.values(), ids=UPDATES)
async def test_updates(
    api: Api, path: str, change: Object, causes: list[tuple[str, str, str]]
) -> None:
    made = await api.create(path, an_object_of("Ruled", "x", **GOOD))
    assert made["spec"] == GOOD
    answer = await api.call("PATCH", f"{path}/x", {"spec": change}, content_type=MERGE_PATCH)
    if not causes:
        assert answer.status == 200, answer.body
        return
    told = [(c["reason"], c["field"], c["message"]) for c in answer.body["details"]["causes"]]
    assert told == causes


# sentence: the status, the causes
STATUSES: dict[str, tuple[Object, list[tuple[str, str, str]]]] = {
    "small enough": ({"n": 2}, []),
    "against its own rule": (
        {"n": 9},
        [
            invalid("<nil>", "beyond"),
            invalid("status", "failed rule: !has(self.n) || self.n < 5"),
        ],
    ),
    "against a rule on the whole": ({"n": 3}, [invalid("<nil>", "beyond")]),
}


@pytest.mark.parametrize(("status", "causes"), STATUSES.values(), ids=STATUSES)
async def test_statuses(
    api: Api, path: str, status: Object, causes: list[tuple[str, str, str]]
) -> None:
    await api.create(path, an_object_of("Ruled", "x", **GOOD))
    body = {"status": status}
    answer = await api.call("PATCH", f"{path}/x/status", body, content_type=MERGE_PATCH)
    if not causes:
        assert answer.status == 200, answer.body
        return
    told = [(c["reason"], c["field"], c["message"]) for c in answer.body["details"]["causes"]]
    assert told == causes


# sentence: the rule, the cause's reason and field within the rule
NO_RULES: dict[str, tuple[Object, tuple[str, str]]] = {
    "half a sentence": (rule("self.min <="), ("FieldValueInvalid", "rule")),
    "a field nobody declared": (rule("self.nope > 1"), ("FieldValueInvalid", "rule")),
    "a field of a part nobody declared": (
        rule("self.parts.all(p, p.nope > 1)"),
        ("FieldValueInvalid", "rule"),
    ),
    "a function nobody knows": (rule("nofun(self.min)"), ("FieldValueInvalid", "rule")),
    "a variable nobody knows": (rule("other.x > 1"), ("FieldValueInvalid", "rule")),
    "nothing at all": (rule(" "), ("FieldValueRequired", "rule")),
    "two lines without a message": (rule("true &&\ntrue"), ("FieldValueRequired", "message")),
    "a message of two lines": (rule("true", "a\nb"), ("FieldValueInvalid", "message")),
    "a reason of its own": (
        rule("true", reason="Odd"),
        ("FieldValueNotSupported", "reason"),
    ),
    "a field that is not below": (
        rule("true", fieldPath=".nope"),
        ("FieldValueInvalid", "fieldPath"),
    ),
    "half a message": (
        rule("true", messageExpression="'a' +"),
        ("FieldValueInvalid", "messageExpression"),
    ),
    "a former value that may be missing and is not looked at": (
        rule("true", optionalOldSelf=True),
        ("FieldValueInvalid", "optionalOldSelf"),
    ),
}


@pytest.mark.parametrize(("given", "cause"), NO_RULES.values(), ids=NO_RULES)
async def test_no_rule(api: Api, ns: str, given: Object, cause: tuple[str, str]) -> None:
    parts = {"type": "array", "maxItems": 5, "items": PART}
    spec = {"type": "object", "properties": {"min": WHOLE, "parts": parts}}
    kind = f"Bad{ns.removeprefix('suite-')}"
    definition = a_ruled_definition(kind, ruled(spec, given))
    answer = await api.call("POST", CRDS, definition)
    assert answer.refusal == (422, "Invalid")
    reason, field = cause
    where = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]"
    assert answer.causes == [(reason, f"{where}.{field}")]


async def test_items_of_a_plain_list_have_no_former_value(api: Api, ns: str) -> None:
    items = ruled(WHOLE, rule("self >= oldSelf"))
    numbers = {"type": "array", "maxItems": 3, "items": items}
    spec = {"type": "object", "properties": {"numbers": numbers}}
    kind = f"Bad{ns.removeprefix('suite-')}"
    answer = await api.call("POST", CRDS, a_ruled_definition(kind, spec))
    assert answer.refusal == (422, "Invalid")
    where = "spec.validation.openAPIV3Schema.properties[spec].properties[numbers].items"
    assert answer.causes == [("FieldValueInvalid", f"{where}.x-kubernetes-validations[0].rule")]
