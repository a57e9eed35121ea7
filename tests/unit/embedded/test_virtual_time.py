"""Work that is done in threads takes no virtual time, whichever loop keeps that time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from arranger.embedded.virtual_time import run_virtual
from tests.swarm.clock import run

Run = Callable[[Coroutine[Any, Any, Any]], Any]

LOOPS = {"of simulations": run_virtual, "of the swarm": run}


def _work(number: int) -> int:
    if number < 0:
        raise ValueError("less than nothing")
    return sum(range(number))


async def _beside_a_timer(number: int) -> tuple[int, float]:
    """The result, and when it is there, while somebody wakes every second."""

    loop = asyncio.get_running_loop()

    def wake() -> None:
        nonlocal waking
        waking = loop.call_later(1, wake)

    waking = loop.call_later(1, wake)
    try:
        return await asyncio.to_thread(_work, number), loop.time()
    finally:
        waking.cancel()


@pytest.mark.parametrize("name", LOOPS)
def test_no_time_passes_while_a_thread_works(name: str) -> None:
    assert LOOPS[name](_beside_a_timer(3_000_000)) == (sum(range(3_000_000)), 0.0)


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_thread_raises_is_raised(name: str) -> None:
    with pytest.raises(ValueError, match="less than nothing"):
        LOOPS[name](_beside_a_timer(-1))
