"""Patches: directives of strategic merges, edges of the others."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.embedded.errors import ApiError
from arranger.embedded.handlers.patch import apply_patch

Object = dict[str, Any]
JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def containers(*names: str) -> Object:
    return {"containers": [{"name": name, "image": "old"} for name in names]}


# sentence: before, the patch, after
STRATEGICALLY: dict[str, tuple[Object, Object, Object]] = {
    "an item is changed by its key": (
        containers("a", "b"),
        {"containers": [{"name": "b", "image": "new"}]},
        {"containers": [{"name": "a", "image": "old"}, {"name": "b", "image": "new"}]},
    ),
    "an item of a new key is added at the end": (
        containers("a"),
        {"containers": [{"name": "b", "image": "new"}]},
        {"containers": [{"name": "a", "image": "old"}, {"name": "b", "image": "new"}]},
    ),
    "an item is deleted": (
        containers("a", "b"),
        {"containers": [{"name": "a", "$patch": "delete"}]},
        containers("b"),
    ),
    "an item that is not there is deleted": (
        containers("a"),
        {"containers": [{"name": "x", "$patch": "delete"}]},
        containers("a"),
    ),
    "a list is replaced": (
        containers("a", "b"),
        {"containers": [{"name": "c"}, {"$patch": "replace"}]},
        {"containers": [{"name": "c"}]},
    ),
    "an object is replaced": (
        {"spec": {"a": 1, "b": 2}},
        {"spec": {"$patch": "replace", "c": 3}},
        {"spec": {"c": 3}},
    ),
    "an object is emptied": ({"spec": {"a": 1}}, {"spec": {"$patch": "delete"}}, {"spec": {}}),
    "only some keys are kept": (
        {"strategy": {"a": 1, "b": 2}},
        {"strategy": {"$retainKeys": ["a", "c"], "c": 3}},
        {"strategy": {"a": 1, "c": 3}},
    ),
    "plain items are taken out": (
        {"finalizers": ["a", "b"]},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"finalizers": ["b"]},
    ),
    "plain items are added once": (
        {"finalizers": ["a"]},
        {"finalizers": ["b", "a"]},
        {"finalizers": ["a", "b"]},
    ),
    "a list without a key is replaced": ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
    "ports of containers go by the port inside": (
        {"ports": [{"containerPort": 1, "name": "a"}]},
        {"ports": [{"containerPort": 1, "name": "b"}]},
        {"ports": [{"containerPort": 1, "name": "b"}]},
    ),
    "ports of services go by the port outside": (
        {"ports": [{"port": 1}]},
        {"ports": [{"port": 2}]},
        {"ports": [{"port": 1}, {"port": 2}]},
    ),
    "the order of items is no matter here": (
        containers("a", "b"),
        {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
        containers("a", "b"),
    ),
    "null takes away": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
}


@pytest.mark.parametrize(("before", "patch", "after"), STRATEGICALLY.values(), ids=STRATEGICALLY)
def test_strategic(before: Object, patch: Object, after: Object) -> None:
    kept = repr(before), repr(patch)
    assert apply_patch(before, patch, STRATEGIC, group="") == after
    assert (repr(before), repr(patch)) == kept


MERGED: dict[str, tuple[Object, Object, Object]] = {
    "lists are replaced": ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    "an object takes the place of a value": ({"a": 1}, {"a": {"b": None, "c": 2}}, {"a": {"c": 2}}),
    "null takes away what is not there": ({}, {"a": None}, {}),
    "directives are fields like others": ({}, {"a": {"$patch": "x"}}, {"a": {"$patch": "x"}}),
}


@pytest.mark.parametrize(("before", "patch", "after"), MERGED.values(), ids=MERGED)
def test_merge(before: Object, patch: Object, after: Object) -> None:
    assert apply_patch(before, patch, MERGE, group="") == after


# sentence: content type, group, patch, code
REFUSED: dict[str, tuple[str, str, object, int]] = {
    "a strategic patch of a custom kind": (STRATEGIC, "a.io", {}, 415),
    "a custom group that ends like a built-in": (STRATEGIC, "x.y.k8s.io", {}, 415),
    "a patch of no known type": ("text/plain", "", {}, 415),
    "a merge patch that is a list": (MERGE, "", [], 400),
    "a strategic patch that is text": (STRATEGIC, "", "x", 400),
    "a JSON patch that is an object": (JSON, "", {}, 400),
    "an operation nobody knows": (JSON, "", [{"op": "odd", "path": "/a"}], 400),
    "a path that is none": (JSON, "", [{"op": "add", "path": "a", "value": 1}], 400),
    "a place that is not there": (JSON, "", [{"op": "replace", "path": "/a/b", "value": 1}], 422),
    "a test that fails": (JSON, "", [{"op": "test", "path": "/x", "value": 2}], 422),
    "an item without its key": (STRATEGIC, "", {"containers": [{"image": "i"}]}, 500),
}


@pytest.mark.parametrize(("content_type", "group", "patch", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(content_type: str, group: str, patch: object, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        apply_patch({"x": 1}, patch, content_type, group=group)
    assert refused.value.code == code
