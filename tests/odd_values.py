"""Objects with something odd in them, as a definition that keeps unknown fields lets through."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

ODD: list[Any] = [None, 5, -1, 0.5, True, "", "x", [], [5], ["x"], [[]], {}, {"a": 1}, {"name": 5}]


def spoil(value: Any, rng: random.Random, odd: Sequence[Any] = ODD) -> Any:
    """The value with one part somewhere in it replaced by something odd, or taken away."""
    if not value or not isinstance(value, dict | list) or rng.random() < 0.15:
        return rng.choice(odd)
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if isinstance(value, dict) and rng.random() < 0.1:
        return {name: part for name, part in value.items() if name != key}
    copy: Any = value.copy()
    copy[key] = spoil(value[key], rng, odd)
    return copy


def spoilt_everywhere(value: Any, odd: Any) -> Iterator[Any]:
    """The value with each of its parts in turn, itself included, replaced by something odd."""
    yield odd
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            for part in spoilt_everywhere(value[key], odd):
                copy: Any = value.copy()
                copy[key] = part
                yield copy
