"""In which order keys are reconciled that are due at the same time."""

from __future__ import annotations

import asyncio

import pytest

from arranger.controllers.runtime.work_queue import DueKeys
from arranger.controllers.runtime.worker_thread import at_once, run_aside

#: Sentence → keys as they come, and in which order they are taken.
ORDERS: dict[str, tuple[list[str], list[str]]] = {
    "of one namespace, first come first served": (["a/1", "a/2", "a/3"], ["a/1", "a/2", "a/3"]),
    "of several, in turn": (
        ["a/1", "a/2", "a/3", "b/1", "c/1", "b/2"],
        ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"],
    ),
    "what has no namespace is of one": (["q1", "q2", "a/1"], ["q1", "a/1", "q2"]),
}


@pytest.mark.parametrize("case", ORDERS.values(), ids=ORDERS.keys())
def test_the_order(case: tuple[list[str], list[str]]) -> None:
    given, taken = case
    queue = DueKeys()
    for key in given:
        queue.put(key)
    assert [queue.take() for _ in given] == taken


def test_a_namespace_that_has_been_served_waits_for_the_others() -> None:
    queue = DueKeys()
    for key in ("a/1", "a/2", "b/1"):
        queue.put(key)
    assert queue.take() == "a/1"
    queue.put("c/1")
    assert [queue.take() for _ in range(4)] == ["b/1", "a/2", "c/1", None]


def test_who_may_not_now_keeps_its_place() -> None:
    queue = DueKeys()
    for key in ("a/1", "b/1", "a/2"):
        queue.put(key)
    assert [queue.take(lambda namespace: namespace != "a") for _ in range(2)] == ["b/1", None]
    assert [queue.take() for _ in range(2)] == ["a/1", "a/2"]


@pytest.mark.parametrize("size", [1, 10_000])
async def test_large_work_is_done_beside_the_loop(size: int) -> None:
    loop = asyncio.get_running_loop()

    def work() -> bool:
        try:
            return asyncio.get_running_loop() is loop
        except RuntimeError:
            return False

    assert await run_aside(work, size=size) is (size == 1)
    assert await at_once(work, size=size)
