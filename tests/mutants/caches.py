"""Forgets what functions have worked out: a mutant would be told the results of the source."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import FunctionType
from typing import Final, Protocol, runtime_checkable

#: The file whose functions remember their results in ``results``.
_BOUNDED_CACHE: Final = "arranger/api/bounded_cache.py"


@runtime_checkable
class _Cached(Protocol):
    """What :func:`functools.lru_cache` makes of a function."""

    def cache_clear(self) -> None:
        """Forget all results."""

    def cache_info(self) -> object:
        """How many there are."""


def caches() -> list[Callable[[], None]]:
    """What clears the cache of each function that has one, ours and others'."""
    found: list[Callable[[], None]] = []
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            if each.__code__.co_filename.endswith(_BOUNDED_CACHE) and each.__closure__:
                for name, cell in zip(each.__code__.co_freevars, each.__closure__, strict=True):
                    if name == "results":
                        found.append(cell.cell_contents.clear)
        elif type(each).__name__ == "_lru_cache_wrapper" and isinstance(each, _Cached):
            found.append(each.cache_clear)
    return found
