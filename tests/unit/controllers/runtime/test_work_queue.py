"""When keys are reconciled, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from arranger.api.effects import ObjectReference, PublishEvent
from arranger.controllers.runtime.barrier import ObjectBarrier
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.work_queue import MAX_AT_ONCE, Result, WorkQueue
from arranger.controllers.runtime.writer import StatusError
from arranger.kube.client.transport import TransportError

pytestmark = pytest.mark.looptime(noop_cycles=0)


class Reconciled:
    """Notes when which key was reconciled, and answers as told."""

    def __init__(self, answer: Callable[[int], Result | float]) -> None:
        self.told: list[PublishEvent] = []
        self.queue = WorkQueue(
            ControllerOptions(rng=random.Random(1), barrier=ObjectBarrier(self.told.append)),
            "test",
            lambda key: ObjectReference("v1", "Test", "", key),
        )
        self.log: list[tuple[float, str]] = []
        self.at_work: set[str] = set()
        self._answer = answer

    async def reconcile(self, key: str) -> Result | float:
        assert key not in self.at_work, "twice at a time"
        self.log.append((round(asyncio.get_running_loop().time(), 3), key))
        self.at_work.add(key)
        await asyncio.sleep(0.1)
        self.at_work.discard(key)
        return self._answer(len(self.log))

    @asynccontextmanager
    async def running(self, *synced: asyncio.Event) -> AsyncIterator[None]:
        task = asyncio.create_task(self.queue.run(self.reconcile, caches_synced=synced))
        yield
        assert not self.queue.panics
        task.cancel()
        await asyncio.wait({task})

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.log]


@pytest.mark.parametrize(
    ("code", "told"),
    [(422, ["it is too long"]), (500, []), (403, [])],
    ids=["for good", "for now", "as a right is missing"],
)
async def test_an_owner_is_told_what_the_server_refuses_for_good(
    code: int, told: list[str]
) -> None:
    def answer(times: int) -> Result:
        if times == 1:
            raise StatusError(code, "it is too long")
        return Result.DONE

    seen = Reconciled(answer)
    async with seen.running():
        seen.queue.enqueue({"a"})
        await asyncio.sleep(5)
    assert [event.note for event in seen.told] == told
    assert all(event.regarding.name == "a" for event in seen.told)


async def test_changes_of_a_key_are_gathered() -> None:
    seen = Reconciled(lambda _: Result.DONE)
    async with seen.running():
        seen.queue.enqueue({"a"})
        await asyncio.sleep(0.3)
        seen.queue.enqueue({"a", "b"})
        await asyncio.sleep(5)
    assert seen.log == [(0.5, "a"), (0.8, "b")]
    assert seen.queue.idle


async def test_a_key_that_changes_while_it_is_reconciled_is_reconciled_again() -> None:
    seen = Reconciled(lambda _: Result.DONE)
    async with seen.running():
        seen.queue.enqueue({"a"})
        await asyncio.sleep(0.55)
        seen.queue.enqueue({"a"})
        await asyncio.sleep(5)
    assert seen.times == [0.5, 1.05]


async def test_nothing_is_reconciled_before_the_caches_are_synced() -> None:
    seen, synced = Reconciled(lambda _: Result.DONE), asyncio.Event()
    async with seen.running(synced):
        seen.queue.enqueue({"a"})
        await asyncio.sleep(10)
        assert not seen.log
        synced.set()
        await asyncio.sleep(1)
    assert seen.times == [10.0]


async def test_seconds_are_a_further_visit_and_a_change_comes_before_it() -> None:
    seen = Reconciled(lambda times: 30.0 if times == 1 else Result.DONE)
    async with seen.running():
        seen.queue.enqueue({"a"})
        await asyncio.sleep(60)
        assert seen.times == [0.5, 30.6]
        seen.log.clear()
        seen.queue.enqueue({"a"})
        await asyncio.sleep(5)
        seen.queue.enqueue({"a"})
        await asyncio.sleep(60)
    assert seen.times == [60.5, 65.5]


async def test_no_seconds_at_all_let_other_keys_go_first() -> None:
    seen = Reconciled(lambda times: 0.0 if times < 10 else Result.DONE)
    async with seen.running():
        seen.queue.enqueue(["a", "b", "c", "d", "e"])
        await asyncio.sleep(5)
    assert {key for _, key in seen.log[:5]} == {"a", "b", "c", "d", "e"}
    assert len(seen.log) > 10


async def test_who_is_undone_by_somebody_does_not_go_on_at_once_for_ever() -> None:
    seen = Reconciled(lambda _: 0.0)
    async with seen.running():
        seen.queue.enqueue(["a"])
        await asyncio.sleep(60)
    gaps = [later - earlier for earlier, later in pairwise(seen.times)]
    assert max(gaps[: MAX_AT_ONCE - 1]) < 0.2
    assert min(gaps[MAX_AT_ONCE:]) >= 0.5
    assert len(seen.times) < 200


@pytest.mark.parametrize("error", [StatusError(500, "not well"), TransportError("reset"), None])
async def test_a_key_that_fails_waits_ever_longer_whatever_changes(error: Exception | None) -> None:
    def answer(times: int) -> Result:
        if times == 4:
            return Result.DONE
        if error is not None:
            raise error
        return Result.BACKOFF

    seen = Reconciled(answer)
    async with seen.running():
        seen.queue.enqueue({"a"})
        for _ in range(60):
            await asyncio.sleep(0.25)
            seen.queue.enqueue(set() if len(seen.log) >= 4 else {"a"})
        assert seen.queue.idle
    # From the end of one to the next: 0.8 seconds, 1.6 and 3.2, each a quarter more or less.
    waits = [later - earlier - 0.1 for earlier, later in pairwise(seen.times)]
    assert len(waits) == 3
    for wait, expected in zip(waits, (0.8, 1.6, 3.2), strict=True):
        assert wait == pytest.approx(expected, rel=0.25)


async def test_a_defect_ends_nothing_but_its_own_try() -> None:
    def fail(attempt: int) -> Result:
        if attempt == 1:
            raise RuntimeError("a defect")
        return Result.DONE

    seen = Reconciled(fail)
    async with seen.running():
        seen.queue.enqueue({"a"})
        await asyncio.sleep(0.7)
        assert [str(error) for error in seen.queue.panics.values()] == ["a defect"]
        seen.queue.enqueue({"b"})
        await asyncio.sleep(5)
        assert not seen.queue.panics
        assert seen.queue.idle


async def test_a_change_during_the_try_that_succeeds_after_failures_is_reconciled() -> None:
    seen = Reconciled(lambda times: Result.BACKOFF if times == 1 else Result.DONE)
    async with seen.running():
        seen.queue.enqueue({"a"})
        while len(seen.log) < 2:  # noqa: ASYNC110 — polling costs nothing in virtual time
            await asyncio.sleep(0.01)
        assert seen.at_work
        seen.queue.enqueue({"a"})
        await asyncio.sleep(5)
    assert len(seen.log) == 3
    assert seen.queue.idle


async def test_reconciles_of_one_namespace_that_hang_keep_no_other_waiting() -> None:
    seen, hung, waits = Reconciled(lambda _: Result.DONE), list[str](), list[float]()
    loop = asyncio.get_running_loop()

    async def reconcile(key: str) -> Result:
        if key.startswith("hangs/"):
            hung.append(key)
            await asyncio.sleep(30)
        else:
            waits.append(loop.time() - began)
        return Result.DONE

    task = asyncio.create_task(seen.queue.run(reconcile))
    seen.queue.enqueue({f"hangs/{n}" for n in range(200)})
    await asyncio.sleep(1.5)
    for n in range(50):
        began = loop.time()
        seen.queue.enqueue({f"other/{n}"})
        await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait({task})
    assert len(waits) == 50
    assert max(waits) <= 1
    assert len(hung) >= 20  # and they go on as well
