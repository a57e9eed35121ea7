from __future__ import annotations

from typing import Any

import pytest

from arranger.controllers.runtime.objects import merge_patch

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
