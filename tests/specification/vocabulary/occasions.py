"""Occasions: classes of facts whose own functions are the rules that are asked then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Wrong = Iterator[str]
Rule = Callable[[Any], Wrong]

#: What a rule raises about an object that is not as Kubernetes would have it.
UNREADABLE = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)


_RULES: dict[type, tuple[Rule, ...]] = {}


def rules_of(occasion: type) -> tuple[Rule, ...]:
    """The rules of an occasion, in their order."""
    if (found := _RULES.get(occasion)) is None:
        own = vars(occasion).items()
        found = _RULES[occasion] = tuple(each for name, each in own if is_rule(name, each))
    return found


def is_rule(name: str, value: object) -> bool:
    """Whether what a class has under a name is a rule."""
    return callable(value) and not name.startswith("_")
