"""What the owner of a Queue is told of values that older definitions have let pass."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.quota.queue_spec import read_queue
from tests.builders import a_queue

MANY = {f"example.com/r{n}": "1" for n in range(65)}
#: What a Queue says → what its owner is told; "" for nothing.
TOLD: dict[str, tuple[dict[str, Any], str]] = {
    "an amount": ({"capability": {"cpu": "1"}}, ""),
    "64 amounts": ({"capability": dict(list(MANY.items())[:64])}, ""),
    "one more": ({"capability": MANY}, "spec.capability: 65 amounts, and at most 64 are allowed"),
    "less than nothing": (
        {"deserved": {"cpu": "-1"}},
        "spec.deserved: 'cpu': less than nothing, counts as nothing",
    ),
    "more than there can be": (
        {"guarantee": {"resource": {"memory": "9" * 5000}}},
        "spec.guarantee: 'memory': more than 9223372036854775807, counts as that",
    ),
    "a strategy of Volcano's": ({"dequeueStrategy": "traverse"}, ""),
    "no strategy": ({"dequeueStrategy": ""}, ""),
    "another strategy": ({"dequeueStrategy": "x"}, "spec.dequeueStrategy: 'x' is unknown"),
    "a priority": ({"maxPriority": 2**31 - 1}, ""),
    "a priority that no pod has": (
        {"maxPriority": 2**31},
        "spec.maxPriority: beyond the priorities that pods have",
    ),
    "too many labels": (
        {"namespaceSelector": {"matchLabels": MANY}},
        "spec.namespaceSelector: 65 labels, and at most 64 are allowed",
    ),
    "a label that nothing has": (
        {"namespaceSelector": {"matchLabels": {"a": "x" * 64}}},
        "spec.namespaceSelector: 'a': matches nothing",
    ),
}


@pytest.mark.parametrize(("spec", "told"), TOLD.values(), ids=TOLD)
def test_the_owner_is_told(spec: dict[str, Any], told: str) -> None:
    assert read_queue(a_queue("q", **spec)).problems == ([told] if told else [])


def test_less_than_nothing_is_nothing() -> None:
    read = read_queue(a_queue("q", capability={"cpu": "-1", "memory": "-1Gi"}))
    assert read.capability == {"cpu": 0, "memory": 0}
