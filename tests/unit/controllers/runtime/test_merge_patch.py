from __future__ import annotations

from typing import Any

import pytest

from arranger.controllers.runtime.objects import merge_patch, untouched

Object = dict[str, Any]


@pytest.mark.parametrize(
    ("current", "desired", "patch"),
    [
        ({"a": 1}, {"a": 1, "b": None}, {}),
        ({"a": 1, "c": 3}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"m": {"x": 1, "y": 2}}, {"m": {"x": 1}}, {"m": {"y": None}}),
        ({"m": {"x": {"y": 1, "z": 1}}}, {"m": {"x": {"y": 1}}}, {"m": {"x": {"z": None}}}),
        ({}, {"m": {"x": 1}}, {"m": {"x": 1}}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": [1, 2]}),
    ],
)
def test_only_what_differs_is_in_the_patch(current: Object, desired: Object, patch: Object) -> None:
    assert merge_patch(current, desired) == patch


@pytest.mark.parametrize(
    ("current", "patch", "left"),
    [
        ({"a": 1, "b": 2}, {"a": 3}, {"b": 2}),
        ({"a": 1}, {"a": None}, {}),
        ({"m": {"x": 1, "y": 2}, "l": [1]}, {"m": {"x": 3}}, {"m": {"y": 2}, "l": [1]}),
        ({"m": 1}, {"m": {"x": 1}}, {}),
        ({}, {"a": 1}, {}),
    ],
)
def test_what_a_patch_leaves_as_it_is(current: Object, patch: Object, left: Object) -> None:
    assert untouched(current, patch) == left


PATCHES: dict[str, tuple[Object, Object, Object]] = {
    "equal": ({"a": {"b": 1}}, {"a": {"b": 1}}, {}),
    "fields that are not named stay": ({"a": 1, "b": 2}, {"a": 3}, {"a": 3}),
    "entries that are not named go": ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, {"a": {"b": None}}),
    "a map that was not there": ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    "a map that must not be there": ({"a": {"b": 1}}, {"a": None}, {"a": None}),
    "what must not be there and is not": ({}, {"a": None}, {}),
    "an empty map that was not there": ({}, {"a": {}}, {"a": {}}),
    "inside a map": ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, {"a": {"b": {"c": 2}}}),
}


@pytest.mark.parametrize("case", PATCHES.values(), ids=PATCHES.keys())
def test_patches(case: tuple[Object, Object, Object]) -> None:
    there, wanted, expected = case
    assert merge_patch(there, wanted) == expected
