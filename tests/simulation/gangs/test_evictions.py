"""Gangs evicted as a whole whose owner replaces each pod as soon as it terminates, as Jobs do.

After every test the invariants of :mod:`.preemption_stage` and :mod:`.gang_stage` hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from arranger.embedded.storage.store import Change
from tests.builders import PodBuilder, a_node
from tests.simulation.harnesses.gangs import members
from tests.simulation.harnesses.preemption import (
    PreemptionHarness,
    pod,
    slow_to_terminate,
    with_priority,
)
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

pytestmark = VIRTUAL_TIME

SIZE = 4


@pytest.fixture
def stage() -> Iterator[PreemptionHarness]:
    """A stage on which everything must be in order in the end."""
    stage = PreemptionHarness()
    yield stage
    stage.check()


def gang(first: int = 0) -> list[PodBuilder]:
    """Members that take 5, 10, 15 and 20 s to terminate."""
    pods = members("g", SIZE, first=first)
    return [
        slow_to_terminate(5.0 * (n + 1), each) for n, each in enumerate(with_priority(0, *pods))
    ]


def owner(stage: PreemptionHarness) -> None:
    """As a Job does, create another pod, of another name, as soon as one begins to terminate."""
    to_come, replaced = iter(gang(first=SIZE)), set[str]()

    def replace(change: Change) -> None:
        meta = change.after["metadata"]
        if change.resource != "/pods" or not meta["name"].startswith("g-"):
            return
        if meta.get("deletionTimestamp") and meta["uid"] not in replaced:
            replaced.add(meta["uid"])
            again = next(to_come)
            asyncio.get_running_loop().call_soon(stage.create, again)

    stage.cluster.store.subscribe(replace)


def successors(stage: PreemptionHarness) -> set[str]:
    """Names of those that are bound."""
    return stage.placed("g") - {f"g-{n}" for n in range(SIZE)}


@pytest.mark.parametrize("another", [False, True], ids=["by one scheduler", "by its successor"])
async def test_its_pods_come_back_together_however_long_each_old_one_takes(
    stage: PreemptionHarness, another: bool
) -> None:
    stage.create(a_node("n0").offers(cpu=SIZE), *gang())
    async with AsyncExitStack() as stack, stage.kubelets():
        await stack.enter_async_context(stage.scheduler())
        await stage.until_settled(SIZE)
        owner(stage)
        stage.create(pod("vip", 9, SIZE))
        await stage.until(lambda: len(stage.evicted()) == SIZE)
        stage.create(a_node("n1").offers(cpu=SIZE - 1))
        if another:
            stage.kill()
            await stack.enter_async_context(stage.scheduler("two"))
        await stage.until(lambda: stage.node_of("vip") == "n0", within=90)
        await asyncio.sleep(120)
        assert not successors(stage), "there is room for all but one"
        stage.create(a_node("n2").offers(cpu=1))
        await stage.until(lambda: len(successors(stage)) == SIZE)


async def test_while_one_of_its_pods_stays_another_is_replaced_at_once(
    stage: PreemptionHarness,
) -> None:
    stage.create(*(a_node(f"n{n}").offers(cpu=SIZE) for n in range(2)), *gang())
    async with stage.scheduler(), stage.kubelets():
        await stage.until_settled(SIZE)
        owner(stage)
        stage.delete("pod", "g-3", grace=20)
        await stage.until(lambda: len(successors(stage)) == 1, within=10)
        assert len(stage.placed("g")) == SIZE + 1, "the old one still terminates"
