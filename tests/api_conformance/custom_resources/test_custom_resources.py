"""Kinds that a CustomResourceDefinition adds: schema, defaults, pruning, status, patches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_conformance.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api, Object
from tests.api_conformance.objects import CRDS, GROUP, a_definition, a_widget, register


async def test_a_definition_is_established(api: Api) -> None:
    await register(api, "Widget")
    definition = await api.get(f"{CRDS}/widgets.{GROUP}")
    conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert definition["status"]["acceptedNames"]["kind"] == "Widget"
    assert definition["status"]["storedVersions"] == ["v1"]


async def test_a_definition_must_be_named_after_what_it_defines(api: Api) -> None:
    body = a_definition("Gadget")
    body["metadata"]["name"] = "gadgets"
    assert (await api.call("POST", CRDS, body)).refusal == (422, "Invalid")


async def test_a_widget_is_created_with_defaults_and_without_what_nobody_knows(
    api: Api, widgets: str
) -> None:
    body = a_widget("w", nonsense=1, options={"a": "b"}, extra={"free": {"form": [1]}}, limit="5%")
    made = await api.create(widgets, body | {"status": {"phase": "Done"}, "rubbish": 2})
    assert (made["kind"], made["apiVersion"]) == ("Widget", f"{GROUP}/v1")
    assert made["metadata"]["generation"] == 1
    assert made["spec"] == {
        "size": 1,
        "colour": "red",
        "options": {"a": "b"},
        "extra": {"free": {"form": [1]}},
        "limit": "5%",
    }
    assert "status" not in made
    assert "rubbish" not in made


# sentence: spec, the cause's reason and field
INVALID: dict[str, tuple[Object, tuple[str, str]]] = {
    "a size below the least": (
        {"size": 0},
        ("FieldValueInvalid", "spec.size"),
    ),
    "a colour that is none": (
        {"size": 1, "colour": "mauve"},
        ("FieldValueNotSupported", "spec.colour"),
    ),
    "a size that is text": ({"size": "big"}, ("FieldValueTypeInvalid", "spec.size")),
    "no size": ({}, ("FieldValueRequired", "spec.size")),
    "a part that is a number": (
        {"size": 1, "parts": ["a", 2]},
        ("FieldValueTypeInvalid", "spec.parts[1]"),
    ),
}


@pytest.mark.parametrize(("spec", "cause"), INVALID.values(), ids=INVALID)
async def test_the_schema_refuses(
    api: Api, widgets: str, spec: Object, cause: tuple[str, str]
) -> None:
    answer = await api.call("POST", widgets, {**a_widget("w"), "spec": spec})
    assert answer.refusal == (422, "Invalid")
    assert cause in answer.causes
    details = answer.body["details"]
    assert (details["group"], details["kind"], details["name"]) == (GROUP, "Widget", "w")


async def test_a_patch_is_held_against_the_schema_too(api: Api, widgets: str) -> None:
    await api.create(widgets, a_widget("w"))
    body = {"spec": {"size": -1}}
    answer = await api.call("PATCH", f"{widgets}/w", body, content_type=MERGE_PATCH)
    assert answer.refusal == (422, "Invalid")


HEADS: dict[str, tuple[Object, int, str]] = {
    "no kind": ({"apiVersion": f"{GROUP}/v1"}, 400, "BadRequest"),
    "another kind": ({"apiVersion": f"{GROUP}/v1", "kind": "Gadget"}, 422, "Invalid"),
    "another version": ({"apiVersion": f"{GROUP}/v2", "kind": "Widget"}, 400, "BadRequest"),
}


@pytest.mark.parametrize(("head", "code", "reason"), HEADS.values(), ids=HEADS)
async def test_a_widget_must_say_what_it_is(
    api: Api, widgets: str, head: Object, code: int, reason: str
) -> None:
    body = {**head, "metadata": {"name": "w"}, "spec": {"size": 1}}
    assert (await api.call("POST", widgets, body)).refusal == (code, reason)


async def test_the_status_is_isolated_both_ways(api: Api, widgets: str) -> None:
    made = await api.create(widgets, a_widget("w"))
    both: Object = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"size": 2},
        "status": {"phase": "Done"},
    }
    after = await api.patch(f"{widgets}/w/status", both)
    assert after["status"] == {"phase": "Done"}
    assert after["spec"]["size"] == 1
    assert "labels" not in after["metadata"]
    assert after["metadata"]["generation"] == made["metadata"]["generation"]
    both["status"] = {"phase": "Again"}
    after = await api.patch(f"{widgets}/w", both)
    assert after["status"] == {"phase": "Done"}
    assert after["spec"]["size"] == 2
    assert after["metadata"]["labels"] == {"a": "b"}
    assert after["metadata"]["generation"] == 2


async def test_labels_change_no_generation(api: Api, widgets: str) -> None:
    await api.create(widgets, a_widget("w"))
    after = await api.patch(f"{widgets}/w", {"metadata": {"labels": {"a": "b"}}})
    assert after["metadata"]["generation"] == 1


async def test_a_replacement_must_name_the_version(api: Api, widgets: str) -> None:
    made = await api.create(widgets, a_widget("w"))
    answer = await api.call("PUT", f"{widgets}/w", a_widget("w", size=2))
    assert answer.refusal == (422, "Invalid")
    made["spec"]["size"] = 2
    assert (await api.put(f"{widgets}/w", made))["spec"]["size"] == 2
    assert (await api.call("PUT", f"{widgets}/w", made)).refusal == (409, "Conflict")


async def test_a_strategic_patch_is_not_spoken(api: Api, widgets: str) -> None:
    await api.create(widgets, a_widget("w"))
    body: dict[str, Any] = {"spec": {"size": 2}}
    answer = await api.call("PATCH", f"{widgets}/w", body, content_type=STRATEGIC_PATCH)
    assert answer.refusal == (415, "UnsupportedMediaType")


async def test_lists_are_replaced_by_a_merge_patch_and_extended_by_a_json_patch(
    api: Api, widgets: str
) -> None:
    await api.create(widgets, a_widget("w", parts=["a", "b"]))
    after = await api.patch(f"{widgets}/w", {"spec": {"parts": ["c"]}})
    assert after["spec"]["parts"] == ["c"]
    body = [{"op": "add", "path": "/spec/parts/-", "value": "d"}]
    after = await api.patch(f"{widgets}/w", body, JSON_PATCH)
    assert after["spec"]["parts"] == ["c", "d"]


async def test_a_cleared_field_takes_its_default_again(api: Api, widgets: str) -> None:
    await api.create(widgets, a_widget("w", colour="blue"))
    after = await api.patch(f"{widgets}/w", {"spec": {"colour": None}})
    assert after["spec"]["colour"] == "red"


async def test_widgets_are_watched_like_anything_else(api: Api, widgets: str) -> None:
    version = (await api.get(widgets))["metadata"]["resourceVersion"]
    async with api.watch(widgets, resourceVersion=version) as watch:
        await api.create(widgets, a_widget("w"))
        await api.patch(f"{widgets}/w/status", {"status": {"ready": 1}})
        answer = await api.delete(f"{widgets}/w")
        kinds = await watch.names(3)
    assert kinds == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]
    assert (answer["kind"], answer["status"]) == ("Status", "Success")


async def test_only_names_and_namespaces_select_widgets(api: Api, widgets: str) -> None:
    for name in ("a", "b"):
        await api.create(widgets, a_widget(name))
    assert await api.names(widgets, fieldSelector="metadata.name=b") == ["b"]
    answer = await api.call("GET", widgets, query={"fieldSelector": "spec.size=1"})
    assert answer.refusal == (400, "BadRequest")


async def test_nothing_is_served_below_a_kind_nobody_defined(api: Api, widgets: str) -> None:
    answer = await api.call("GET", widgets.replace("widgets", "gadgets"))
    assert answer.status == 404
