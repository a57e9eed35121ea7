"""A cache of function results that no single caller fills."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

#: Characters of all arguments together with which a result is kept.
MAX_LENGTH: Final = 1024
_UNKNOWN: Final = object()


def bounded_cache(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep the results of so many calls, but for those with long texts: they are worked out anew.

    The arguments are texts, numbers, types, and tuples of them. The oldest result makes room.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        results: dict[tuple[Any, ...], Any] = {}

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if kwargs:
                return function(*args, **kwargs)
            result = results.get(args, _UNKNOWN)
            if result is not _UNKNOWN:
                return cast("R", result)
            answer = function(*args, **kwargs)
            if _length(args) <= MAX_LENGTH:
                if len(results) >= maxsize:
                    del results[next(iter(results))]
                results[args] = answer
            return answer

        return call

    return decorate


def _length(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, tuple):
        return len(value) + sum(map(_length, value))
    return 0
