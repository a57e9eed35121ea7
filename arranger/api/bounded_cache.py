"""A cache of function results that no single caller fills."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: Characters of all arguments together with which a result is kept.
MAX_LENGTH: Final = 1024


def bounded_cache(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep the results of the last calls, but for those with long texts: they are worked out anew.

    The arguments are texts, numbers, and tuples of them.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cached: Callable[..., R] = lru_cache(maxsize=maxsize)(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if _length(args) > MAX_LENGTH:
                return function(*args, **kwargs)
            return cached(*args, **kwargs)

        return call

    return decorate


def _length(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, tuple):
        return len(value) + sum(map(_length, value))
    return 0
