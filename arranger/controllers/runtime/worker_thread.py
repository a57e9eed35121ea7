"""Large pieces of pure work, away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

#: Pods up to which work is done at once: it takes some milliseconds then.
_LARGE: Final = 500
#: Bytes of a spec that take as long as a pod.
_BYTES_AS_A_POD: Final = 1024


class RunAside(Protocol):
    """How large pieces of pure work are done."""

    def __call__(self, work: Callable[[], T], /, *, size: int) -> Awaitable[T]:
        """The result of some work; see :func:`run_aside`."""


def size_of(pods: int, spec_bytes: int) -> int:
    """The size of work that looks at pods and goes through the spec that they are made from."""
    return pods + spec_bytes // _BYTES_AS_A_POD


async def at_once(work: Callable[[], T], /, *, size: int) -> T:
    """The result of pure work, however large: for clocks that do not wait for threads."""
    del size
    return work()


async def run_aside(work: Callable[[], T], /, *, size: int) -> T:
    """The result of pure work, during which others go on if it is large.

    What it reads must not change meanwhile.

    Args:
        size: the number of pods that it looks at, or :func:`size_of` it.
    """
    return work() if size <= _LARGE else await asyncio.to_thread(work)
