"""The event loop's clock and tasks, as the scheduler uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

#: How many times longer than a step of ours others may work before the next.
OTHERS_SHARE: Final = 4
#: Turns of the loop without anything heard, after which there is nothing to take in.
_IDLE_TURNS: Final = 2


def loop_time() -> float:
    """The engine's clock: the event loop's, monotonic seconds."""
    return asyncio.get_running_loop().time()


def call_later(delay: float, callback: Callable[[], None]) -> None:
    """Call something once, so many seconds from now."""
    asyncio.get_running_loop().call_later(delay, callback)


async def cancel_and_wait(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended, whatever it ends with."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


async def wait_for_first(tasks: Iterable[asyncio.Task[None]], *events: asyncio.Event) -> list[bool]:
    """Wait until one of the tasks has ended or one of the events is set; which events have been."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait({*tasks, *waiting}, return_when=asyncio.FIRST_COMPLETED)
        return [each.done() for each in waiting]
    finally:
        for each in waiting:
            each.cancel()


async def take_in(
    heard: asyncio.Event, step_began: float, perf_counter: Callable[[], float]
) -> None:
    """After a step have other tasks take in what has come: events and answers.

    Until no more is heard, for :data:`OTHERS_SHARE` times as long as the step has taken at most.
    What is not taken in waits behind all that came before it, whoever it is about.

    Args:
        heard: they set it, and so it is afterwards if they did or it was before.
        step_began: when the step did, by ``perf_counter``.
    """
    now, any_heard, idle = perf_counter(), heard.is_set(), 0
    ends = now + OTHERS_SHARE * (now - step_began)
    while idle < _IDLE_TURNS:
        heard.clear()
        await asyncio.sleep(0)
        idle = 0 if heard.is_set() else idle + 1
        any_heard = any_heard or not idle
        if perf_counter() >= ends:
            break
    if any_heard:
        heard.set()
