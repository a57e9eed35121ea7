"""Gangs evicted as a whole whose owner replaces each pod as soon as it terminates, as Jobs do.

After every test the invariants of evictions and of gangs hold (:mod:`tests.simulation.harnesses`).
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
def sim() -> Iterator[PreemptionHarness]:
    """A simulation whose invariants are checked in the end."""
    sim = PreemptionHarness()
    yield sim
    sim.check()


def gang(first: int = 0) -> list[PodBuilder]:
    """Members that take 5, 10, 15 and 20 s to terminate."""
    pods = members("g", SIZE, first=first)
    return [
        slow_to_terminate(5.0 * (n + 1), each) for n, each in enumerate(with_priority(0, *pods))
    ]


def owner(sim: PreemptionHarness) -> None:
    """As a Job does, create another pod, of another name, as soon as one begins to terminate."""
    to_come, replaced = iter(gang(first=SIZE)), set[str]()

    def replace(change: Change) -> None:
        meta = change.after["metadata"]
        if change.resource != "/pods" or not meta["name"].startswith("g-"):
            return
        if meta.get("deletionTimestamp") and meta["uid"] not in replaced:
            replaced.add(meta["uid"])
            again = next(to_come)
            asyncio.get_running_loop().call_soon(sim.create, again)

    sim.cluster.store.subscribe(replace)


def successors(sim: PreemptionHarness) -> set[str]:
    """Names of those that are bound."""
    return sim.placed("g") - {f"g-{n}" for n in range(SIZE)}


@pytest.mark.parametrize("another", [False, True], ids=["by one scheduler", "by its successor"])
async def test_its_pods_come_back_together_however_long_each_old_one_takes(
    sim: PreemptionHarness, another: bool
) -> None:
    sim.create(a_node("n0").offers(cpu=SIZE), *gang())
    async with AsyncExitStack() as stack, sim.kubelets():
        await stack.enter_async_context(sim.scheduler())
        await sim.until_settled(SIZE)
        owner(sim)
        sim.create(pod("vip", 9, SIZE))
        await sim.until(lambda: len(sim.evicted()) == SIZE)
        sim.create(a_node("n1").offers(cpu=SIZE - 1))
        if another:
            sim.kill()
            await stack.enter_async_context(sim.scheduler("two"))
        await sim.until(lambda: sim.node_of("vip") == "n0", within=90)
        await asyncio.sleep(120)
        assert not successors(sim), "there is room for all but one"
        sim.create(a_node("n2").offers(cpu=1))
        await sim.until(lambda: len(successors(sim)) == SIZE)


async def test_while_one_of_its_pods_stays_another_is_replaced_at_once(
    sim: PreemptionHarness,
) -> None:
    sim.create(*(a_node(f"n{n}").offers(cpu=SIZE) for n in range(2)), *gang())
    async with sim.scheduler(), sim.kubelets():
        await sim.until_settled(SIZE)
        owner(sim)
        sim.delete("pod", "g-3", grace=20)
        await sim.until(lambda: len(successors(sim)) == 1, within=10)
        assert len(sim.placed("g")) == SIZE + 1, "the old one still terminates"
