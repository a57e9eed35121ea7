"""Fields: those nobody knows, and values of another type than theirs."""

from __future__ import annotations

import pytest

from tests.api_conformance.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api, Object
from tests.api_conformance.objects import LEASES, a_lease, a_pod, a_widget, pods

STRICT = {"fieldValidation": "Strict"}
NESTED = a_pod("web", containers=[{"name": "main", "image": "pause", "zap": 1}])


async def test_unknown_fields_are_named_all_at_once(api: Api, ns: str) -> None:
    body = a_pod("web", nonsense=1) | {"rubbish": {"a": 1}}
    answer = await api.call("POST", pods(ns), body, query=STRICT)
    assert answer.refusal == (400, "BadRequest")
    assert answer.body["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.nonsense", unknown field "rubbish"'
    )


async def test_unknown_fields_are_found_inside_lists(api: Api, ns: str) -> None:
    answer = await api.call("POST", pods(ns), NESTED, query=STRICT)
    assert answer.body["message"].endswith('unknown field "spec.containers[0].zap"')


@pytest.mark.parametrize("asked", [{}, {"fieldValidation": "Warn"}], ids=["unasked", "asked"])
async def test_unknown_fields_are_dropped_with_a_warning(
    api: Api, ns: str, asked: dict[str, str]
) -> None:
    answer = await api.call("POST", pods(ns), NESTED, query=asked)
    assert answer.status == 201
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.containers[0].zap\\""'
    assert "zap" not in answer.body["spec"]["containers"][0]


async def test_unknown_fields_are_dropped_in_silence_when_asked(api: Api, ns: str) -> None:
    answer = await api.call("POST", pods(ns), NESTED, query={"fieldValidation": "Ignore"})
    assert answer.status == 201
    assert "warning" not in answer.headers
    assert "zap" not in answer.body["spec"]["containers"][0]


async def test_a_strictness_nobody_knows_is_refused(api: Api, ns: str) -> None:
    answer = await api.call("POST", pods(ns), NESTED, query={"fieldValidation": "Odd"})
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [("FieldValueNotSupported", "fieldValidation")]


PATCHES: dict[str, tuple[str, object]] = {
    "a merge patch": (MERGE_PATCH, {"spec": {"nonsense": 1}}),
    "a strategic patch": (STRATEGIC_PATCH, {"spec": {"nonsense": 1}}),
    "a JSON patch": (JSON_PATCH, [{"op": "add", "path": "/spec/nonsense", "value": 1}]),
}


@pytest.mark.parametrize(("content_type", "body"), PATCHES.values(), ids=PATCHES)
async def test_patches_are_held_to_the_fields_too(
    api: Api, ns: str, content_type: str, body: object
) -> None:
    path = f"{pods(ns)}/web"
    made = await api.create(pods(ns), a_pod("web"))
    answer = await api.call("PATCH", path, body, query=STRICT, content_type=content_type)
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "patch")]
    assert 'strict decoding error: unknown field "spec.nonsense"' in answer.body["message"]
    answer = await api.call("PATCH", path, body, content_type=content_type)
    assert (answer.status, answer.body) == (200, made)
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.nonsense\\""'


async def test_a_replacement_is_held_to_the_fields_too(api: Api, ns: str) -> None:
    pod = await api.create(pods(ns), a_pod("web"))
    pod["spec"]["nonsense"] = 1
    answer = await api.call("PUT", f"{pods(ns)}/web", pod, query=STRICT)
    assert answer.refusal == (400, "BadRequest")


# sentence: the pod
MISTYPED: dict[str, Object] = {
    "text for a number": a_pod("x", priority="high"),
    "a number for text": a_pod("x", schedulerName=5),
    "text for a truth": a_pod("x", hostNetwork="true"),
    "a fraction for a whole number": a_pod("x", terminationGracePeriodSeconds=1.5),
    "a number for a label": a_pod("x", metadata={"labels": {"a": 1}}),
    "text for annotations": a_pod("x", metadata={"annotations": "x"}),
    "text for a list of finalizers": a_pod("x", metadata={"finalizers": "x"}),
    "an object for a list": a_pod("x", containers={}),
    "a list for an object": a_pod("x", nodeSelector=[]),
    "text for a container": a_pod("x", containers=["x"]),
    "text for a time": a_pod("x", metadata={"creationTimestamp": "yesterday"}),
}


@pytest.mark.parametrize("pod", MISTYPED.values(), ids=MISTYPED)
async def test_a_value_of_another_type_is_refused(api: Api, ns: str, pod: Object) -> None:
    answer = await api.call("POST", pods(ns), pod)
    assert answer.refusal == (400, "BadRequest")
    assert answer.body["message"].startswith('Pod in version "v1" cannot be handled as a Pod: ')


@pytest.mark.parametrize("body", [[1], "x", 5], ids=["a list", "text", "a number"])
async def test_what_is_no_object_is_refused(api: Api, ns: str, body: object) -> None:
    assert (await api.call("POST", pods(ns), body)).refusal == (400, "BadRequest")


async def test_a_time_that_is_none_is_refused(api: Api, ns: str) -> None:
    answer = await api.call("POST", LEASES.format(ns), a_lease("l", renewTime="yesterday"))
    assert answer.refusal == (400, "BadRequest")


async def test_a_body_of_another_version_is_refused(api: Api, ns: str) -> None:
    answer = await api.call("POST", LEASES.format(ns), a_lease("l") | {"apiVersion": "v1"})
    assert answer.refusal == (400, "BadRequest")


async def test_an_amount_may_be_a_number(api: Api, ns: str) -> None:
    resources = {"requests": {"cpu": 1}}
    container = {"name": "main", "image": "pause", "resources": resources}
    pod = await api.create(pods(ns), a_pod("web", containers=[container]))
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


# --- custom kinds -------------------------------------------------------------------------------


async def test_unknown_fields_of_a_widget_are_refused_when_asked(api: Api, widgets: str) -> None:
    body = a_widget("w", nonsense=1) | {"rubbish": 1}
    body["metadata"]["zap"] = 1
    answer = await api.call("POST", widgets, body, query=STRICT)
    assert answer.refusal == (400, "BadRequest")
    for field in ("metadata.zap", "rubbish", "spec.nonsense"):
        assert f'unknown field "{field}"' in answer.body["message"]


async def test_unknown_fields_of_a_patched_widget_are_refused_when_asked(
    api: Api, widgets: str
) -> None:
    await api.create(widgets, a_widget("w"))
    body = {"spec": {"nonsense": 2}}
    answer = await api.call("PATCH", f"{widgets}/w", body, query=STRICT, content_type=MERGE_PATCH)
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "patch")]


async def test_the_metadata_of_a_widget_have_types_as_well(api: Api, widgets: str) -> None:
    body = a_widget("w")
    for labels in ({"a": 1}, "x"):
        body["metadata"]["labels"] = labels
        assert (await api.call("POST", widgets, body)).refusal == (400, "BadRequest")


async def test_nulls_stay_only_where_nobody_looks(api: Api, widgets: str) -> None:
    body = a_widget("w", parts=None, colour=None, limit=None, extra={"a": None})
    made = await api.create(widgets, body)
    assert made["spec"] == {"size": 1, "colour": "red", "extra": {"a": None}}


async def test_a_status_is_held_against_the_schema(api: Api, widgets: str) -> None:
    await api.create(widgets, a_widget("w"))
    path = f"{widgets}/w/status"
    body = {"status": {"ready": "x"}}
    answer = await api.call("PATCH", path, body, content_type=MERGE_PATCH)
    assert answer.refusal == (422, "Invalid")
    assert answer.causes == [("FieldValueTypeInvalid", "status.ready")]
    after = await api.patch(path, {"status": {"ready": 1, "odd": 1}})
    assert after["status"] == {"ready": 1}
