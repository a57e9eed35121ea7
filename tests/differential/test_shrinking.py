"""What is left of a snapshot that shows a difference."""

from __future__ import annotations

from typing import Any

import pytest

from tests.differential.generator import random_snapshot
from tests.differential.shrinking import shrink

Json = dict[str, Any]


def _node(name: str) -> Json:
    return {"metadata": {"name": name, "labels": {"a": "1", "b": "2"}}, "spec": {}}


CASES = {
    "elements that do not matter go, and what they hold with them": (
        {"nodes": [_node("n0"), _node("n1"), _node("n2")], "pods": [{"metadata": {}}]},
        lambda value: any(n["metadata"]["name"] == "n1" for n in value["nodes"]),
        {"nodes": [{"metadata": {"name": "n1"}, "spec": {}}]},
    ),
    "a field deep inside stays alone": (
        {"nodes": [_node("n0")]},
        lambda value: value["nodes"][0]["metadata"].get("labels", {}).get("b") == "2",
        {"nodes": [{"metadata": {"name": "n0", "labels": {"b": "2"}}, "spec": {}}]},
    ),
    "what the API requires stays though nothing asks for it": (
        {"nodes": [_node("n0")], "pending": [{"spec": {"containers": [{"name": "c"}] * 2}}]},
        lambda value: bool(value["pending"]),
        {
            "nodes": [{"metadata": {"name": "n0"}, "spec": {}}],
            "pending": [{"spec": {"containers": [{"name": "c"}]}}],
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_shrinking(case: str) -> None:
    value, shows, smallest = CASES[case]
    assert shrink(value, shows) == smallest


def test_a_seed_makes_one_snapshot() -> None:
    assert random_snapshot(7) == random_snapshot(7) != random_snapshot(8)
