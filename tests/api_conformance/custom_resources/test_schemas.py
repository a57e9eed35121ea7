"""Schemas of definitions: formats, bounds, lists that are sets or maps, combinations."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.api_conformance.client import MERGE_PATCH, Api, Object
from tests.api_conformance.objects import CRDS, GROUP, a_definition, an_object_of, register
from tests.controlplane.harness import until

WHOLE: Object = {"type": "integer"}
TEXT: Object = {"type": "string"}
TWO: Object = {"type": "object", "properties": {"a": WHOLE, "b": WHOLE}}
PROPERTIES: Object = {
    "int32": {**WHOLE, "format": "int32"},
    "text": {**TEXT, "minLength": 2, "maxLength": 3},
    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": TEXT},
    "map": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": TEXT},
    "pattern": {**TEXT, "pattern": "^a+$"},
    "between": {
        "type": "number",
        "minimum": 1,
        "exclusiveMinimum": True,
        "maximum": 5,
        "exclusiveMaximum": True,
    },
    "triple": {**WHOLE, "multipleOf": 3},
    **{
        name: {**TEXT, "format": name}
        for name in (
            *("date-time", "date", "duration", "byte", "ipv4", "ipv6", "uuid", "email"),
            *("uri", "hostname", "oddity"),
        )
    },
    "any": {**TWO, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "one": {**TWO, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "all": {**TWO, "allOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 3}}}]},
    "not": {**TWO, "not": {"required": ["a"]}},
    "percent": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+%$"},
    "five": {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "maximum": 5,
    },
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "keyed": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a", "b"],
        "items": {
            "type": "object",
            "required": ["a"],
            "properties": {"a": TEXT, "b": {**WHOLE, "default": 1}, "c": WHOLE},
        },
    },
    "choice": {**WHOLE, "enum": [1, 2]},
    "nullable": {**TEXT, "nullable": True},
    "truth": {"type": "boolean"},
    "embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "records": {
        "type": "array",
        "items": {"type": "object", "properties": {"x": {**WHOLE, "maximum": 5}}},
    },
    "amounts": {"type": "object", "additionalProperties": {**WHOLE, "maximum": 5}},
}

VALUE, TYPE = "FieldValueInvalid", "FieldValueTypeInvalid"
TWICE, MISSING = "FieldValueDuplicate", "FieldValueRequired"
NOWHERE = "<nil>"


def a_schematic(kind: str, spec: Object) -> Object:
    definition = a_definition(kind)
    version = definition["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {"spec": spec}}
    del version["additionalPrinterColumns"], definition["spec"]["names"]["shortNames"]
    return definition


@pytest_asyncio.fixture(loop_scope="session")
async def path(api: Api, ns: str) -> str:
    """Where objects with all these fields are."""
    spec = {"type": "object", "properties": PROPERTIES}
    return await register(api, "Schematic", a_schematic("Schematic", spec), namespace=ns)


# sentence: field, value, causes
REFUSED: dict[str, tuple[str, object, list[tuple[str, str]]]] = {
    "a number that is too large": ("int32", 2**31, [(VALUE, NOWHERE)]),
    "text that is too long": ("text", "abcd", [("FieldValueTooLong", "spec.text")]),
    "text that is too short": ("text", "a", [(VALUE, "spec.text")]),
    "too many items": ("list", ["a", "b", "c"], [("FieldValueTooMany", "spec.list")]),
    "too few items": ("list", [], [(VALUE, "spec.list")]),
    "too many entries": (
        "map",
        {"a": "", "b": "", "c": ""},
        [("FieldValueTooMany", "spec.map")],
    ),
    "too few entries": ("map", {}, [(VALUE, "spec.map")]),
    "text of another pattern": ("pattern", "b", [(VALUE, "spec.pattern")]),
    "the least where it does not count": ("between", 1, [(VALUE, "spec.between")]),
    "the most where it does not count": ("between", 5, [(VALUE, "spec.between")]),
    "no multiple": ("triple", 4, [(VALUE, "spec.triple")]),
    "no time": ("date-time", "x", [(TYPE, "spec.date-time")]),
    "a time without a zone": ("date-time", "2026-01-01T00:00:00", [(TYPE, "spec.date-time")]),
    "no date": ("date", "x", [(TYPE, "spec.date")]),
    "no duration": ("duration", "x", [(TYPE, "spec.duration")]),
    "no base64": ("byte", "!!", [(TYPE, "spec.byte")]),
    "no address": ("ipv4", "1.2.3", [(TYPE, "spec.ipv4")]),
    "no new address": ("ipv6", "1.2.3.4", [(TYPE, "spec.ipv6")]),
    "no uuid": ("uuid", "x", [(TYPE, "spec.uuid")]),
    "no mail address": ("email", "x", [(TYPE, "spec.email")]),
    "no uri": ("uri", "x", [(TYPE, "spec.uri")]),
    "no host": ("hostname", "_x", [(TYPE, "spec.hostname")]),
    "none of any": ("any", {}, [(VALUE, NOWHERE), (MISSING, "spec.any.a")]),
    "none of one": ("one", {}, [(VALUE, NOWHERE), (MISSING, "spec.one.a")]),
    "two of one": ("one", {"a": 1, "b": 1}, [(VALUE, NOWHERE)]),
    "not all": (
        "all",
        {"b": 1},
        [(MISSING, "spec.all.a"), (VALUE, "spec.all.b"), (VALUE, NOWHERE)],
    ),
    "what must not be": ("not", {"a": 1}, [(VALUE, NOWHERE)]),
    "text of another pattern where a number may be": ("percent", "x", [(VALUE, "spec.percent")]),
    "a number above where text may be": ("five", 9, [(VALUE, "spec.five")]),
    "neither a number nor text": ("percent", {}, [(TYPE, "spec.percent")]),
    "an item twice": ("set", ["a", "b", "a", "a"], [(TWICE, "spec.set[2]")]),
    "a key twice, by default": (
        "keyed",
        [{"a": "x"}, {"a": "x", "b": 1, "c": 1}, {"a": "y"}],
        [(TWICE, "spec.keyed[1]")],
    ),
    "no choice": ("choice", 3, [("FieldValueNotSupported", "spec.choice")]),
    "text for a truth": ("truth", "x", [(TYPE, "spec.truth")]),
    "a number for text": ("text", 5, [(TYPE, "spec.text")]),
    "a list for an object": ("map", [], [(TYPE, "spec.map")]),
    "an object that does not say what it is": (
        "embedded",
        {"a": 1},
        [(MISSING, "spec.embedded.apiVersion"), (MISSING, "spec.embedded.kind")],
    ),
    "a fault in a record": ("records", [{"x": 6}], [(VALUE, "spec.records[0].x")]),
    "a fault in an entry": ("amounts", {"k": 6}, [(VALUE, "spec.amounts.k")]),
}


@pytest.mark.parametrize(("field", "value", "causes"), REFUSED.values(), ids=REFUSED)
async def test_refused(
    api: Api, path: str, field: str, value: object, causes: list[tuple[str, str]]
) -> None:
    body = an_object_of("Schematic", "x", **{field: value})
    answer = await api.call("POST", path, body)
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == causes


ACCEPTED: Object = {
    "int32": 2**31 - 1,
    "text": "ab",
    "between": 1.5,
    "triple": 9,
    "date-time": "2026-01-01T00:00:00.5Z",
    "date": "2026-01-01",
    "duration": "1h30m",
    "byte": "YQ==",
    "ipv4": "10.0.0.1",
    "ipv6": "::1",
    "uuid": "8c2a9b64-6f0f-4f3e-9d5b-0f3c3a1f5f10",
    "email": "a@b.io",
    "uri": "https://a.io/b",
    "hostname": "a-b.io",
    "oddity": "x",
    "any": {"b": 1},
    "one": {"b": 1},
    "all": {"a": 1, "b": 3},
    "not": {"b": 1},
    "percent": 5,
    "five": "9",
    "set": ["a", "b"],
    "choice": 2,
    "nullable": None,
    "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"y": 1}},
}


async def test_all_that_fits_is_kept(api: Api, path: str) -> None:
    made = await api.create(path, an_object_of("Schematic", "x", **ACCEPTED))
    assert made["spec"] == ACCEPTED


async def test_what_an_update_does_not_change_is_let_stand(api: Api, ns: str) -> None:
    kind = f"Tight{ns.removeprefix('suite-')}"
    fields = {"size": WHOLE, "name": {**TEXT, "pattern": "^a+$"}}
    spec: Object = {"type": "object", "properties": fields}
    path = await register(api, kind, a_schematic(kind, spec), namespace=ns)
    await api.create(path, an_object_of(kind, "x", size=1, name="aa"))

    fields["name"] = {**TEXT, "pattern": "^b+$"}
    spec["required"] = ["colour"]
    fields["colour"] = TEXT
    where = f"{CRDS}/{kind.lower()}s.{GROUP}"
    definition = a_schematic(kind, spec)
    version = (await api.get(where))["metadata"]["resourceVersion"]
    definition["metadata"]["resourceVersion"] = version
    await api.put(where, definition)
    await _refused_by_now(api, path, an_object_of(kind, "y", size=1, name="aa", colour="red"))

    labelled = {"metadata": {"labels": {"a": "b"}}}
    assert (await api.patch(f"{path}/x", labelled))["metadata"]["labels"] == {"a": "b"}
    answer = await api.call("PATCH", f"{path}/x", {"spec": {"size": 2}}, content_type=MERGE_PATCH)
    assert answer.causes == [(MISSING, "spec.colour")]
    body = {"spec": {"size": 2, "colour": "red"}}
    assert (await api.patch(f"{path}/x", body))["spec"]["name"] == "aa"
    answer = await api.call(
        "PATCH", f"{path}/x", {"spec": {"name": "aaa"}}, content_type=MERGE_PATCH
    )
    assert answer.causes == [(VALUE, "spec.name")]


async def _refused_by_now(api: Api, path: str, body: Object) -> None:
    """Wait until the server holds objects against the schema that refuses this one."""

    async def refused() -> bool:
        answer = await api.call("POST", path, body, query={"dryRun": "All"})
        return answer.status == 422

    await until(refused, what="the new schema")
