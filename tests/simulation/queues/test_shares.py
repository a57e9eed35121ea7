"""What queues deserve and are guaranteed, by the whole scheduler, in virtual time, with kubelets.

At every eviction for another queue the loser keeps what it deserves; so it is after a kill -9.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from arranger.embedded.storage.store import Change
from tests.builders import PodBuilder, a_pod
from tests.queueing import QUEUES, a_queue_manifest
from tests.simulation.harnesses.preemption import DELETES
from tests.simulation.harnesses.queues import QUEUE, Owner, QueueHarness

pytestmark = pytest.mark.looptime(noop_cycles=0)

MERGE = "application/merge-patch+json"


class SharesHarness(QueueHarness):
    """A simulation in which queues of cpus deserve something."""

    def __init__(self) -> None:
        super().__init__()
        self._deserved: dict[str, int] = {}

    def queue(self, name: str, deserved: int = 0, **spec: Any) -> None:
        """Create or edit a queue that deserves so many cpus."""
        known = name in self._deserved
        self._deserved[name] = deserved
        spec = {**spec, "deserved": {"cpu": deserved}} if deserved else spec
        manifest = a_queue_manifest(name, **spec)
        if known:
            self.request("PATCH", f"{QUEUES}/{name}", manifest, MERGE)
        else:
            self.cluster.create(manifest)

    def used(self, queue: str) -> int:
        """Pods of one cpu of a queue that are on nodes, and do not have to leave."""
        return sum(
            p["metadata"]["annotations"].get(QUEUE) == queue
            and bool(p["spec"].get("nodeName"))
            and not p["metadata"].get("deletionTimestamp")
            for p in self.cluster.objects("pods")
        )

    def _account(self, change: Change) -> None:
        before = len(self.evictions)
        super()._account(change)
        if len(self.evictions) > before:
            queue = change.after["metadata"]["annotations"][QUEUE]
            assert self.used(queue) >= self._deserved[queue], f"{queue} has less than it deserves"

    def _check_events(self) -> None:
        assert len(self.evictions) == len(list(self.faults.applied(DELETES)))


def deployment(queue: str, count: int, name: str = "") -> Owner:
    def make(pod: str, life: int) -> PodBuilder:
        return a_pod(pod).needs(cpu=1).in_queue(queue)

    return Owner(name or queue, count, make)


def gangs(queue: str, name: str, size: int) -> Owner:
    def make(pod: str, life: int) -> PodBuilder:
        return a_pod(pod).needs(cpu=1).in_queue(queue).in_gang(f"{name}-life-{life}", size)

    return Owner(name, size, make, gang=True)


@pytest.fixture
def sim() -> Iterator[SharesHarness]:
    """A simulation whose invariants are checked in the end."""
    sim = SharesHarness()
    yield sim
    sim.check()


def uses(sim: SharesHarness, **expected: int) -> bool:
    return all(sim.used(queue) == n for queue, n in expected.items())


async def test_a_queue_takes_back_what_it_deserves_and_no_more(sim: SharesHarness) -> None:
    sim.nodes(8, 8)
    sim.queue("a", 8)
    sim.queue("b", 8)
    async with sim.scheduler(), sim.kubelets():
        sim.add_owner(deployment("a", 20))
        await sim.until(lambda: uses(sim, a=16))
        sim.add_owner(deployment("b", 12))
        await sim.until(lambda: uses(sim, a=8, b=8), within=300)
        await asyncio.sleep(1200)
        assert uses(sim, a=8, b=8)
        assert sim.evicted_owners() == {"a": 8}
        sim.scale("b", 2)
        await sim.until(lambda: uses(sim, a=14, b=2), within=600)
        sim.queue("a", 4)
        sim.queue("b", 12)
        sim.scale("b", 12)
        await sim.until(lambda: uses(sim, a=4, b=12), within=600)
        await asyncio.sleep(1200)
        assert sim.evicted_owners() == {"a": 18}


async def test_gangs_take_and_give_as_a_whole(sim: SharesHarness) -> None:
    sim.nodes(4, 4)
    sim.queue("a", 2)
    sim.queue("b", 6)
    async with sim.scheduler(), sim.kubelets():
        for name in ("a1", "a2"):
            sim.add_owner(gangs("a", name, 4))
        await sim.until(lambda: uses(sim, a=8))
        sim.add_owner(gangs("b", "b1", 4))
        await sim.until(lambda: uses(sim, a=4, b=4), within=300)
        # The other gang is all that "a" has: to lose it would leave less than it deserves.
        sim.add_owner(deployment("b", 2, "more"))
        await asyncio.sleep(1200)
        assert uses(sim, a=4, b=4)
        assert sum(sim.evicted_owners().values()) == 4


@pytest.mark.parametrize("after", [0.0, 0.5, 1.0, 2.0])
async def test_a_scheduler_that_is_killed_takes_nothing_twice(
    after: float, sim: SharesHarness
) -> None:
    sim.nodes(8)
    sim.queue("a", 4)
    sim.queue("b", 4)
    async with sim.kubelets():
        async with sim.scheduler("one"):
            sim.add_owner(deployment("a", 8))
            await sim.until(lambda: uses(sim, a=8))
            sim.add_owner(deployment("b", 6))
            await sim.until(lambda: bool(sim.evictions))
            await asyncio.sleep(after)
            sim.kill("one")
        async with sim.scheduler("two"):
            await sim.until(lambda: uses(sim, a=4, b=4), within=600)
            await asyncio.sleep(1200)
            assert uses(sim, a=4, b=4)
            assert sim.evicted_owners() == Counter(a=4)


async def test_a_guarantee_is_free_when_it_is_wanted(sim: SharesHarness) -> None:
    sim.nodes(4, 4)
    sim.queue("a", guarantee={"resource": {"cpu": 3}})
    for name in ("b", "c"):
        sim.queue(name)
        sim.add_owner(deployment(name, 6))
    async with sim.kubelets():
        async with sim.scheduler("one"):
            await sim.until(lambda: sim.used("b") + sim.used("c") == 5)
            await asyncio.sleep(600)
            assert sim.used("b") + sim.used("c") == 5
            sim.kill("one")
        async with sim.scheduler("two"):
            await asyncio.sleep(600)
            assert sim.used("b") + sim.used("c") == 5
            sim.add_owner(deployment("a", 3))
            await sim.until(lambda: uses(sim, a=3), within=5)
            sim.scale("a", 1)
            await asyncio.sleep(600)
            assert sim.used("b") + sim.used("c") == 5, "what it does not use is kept for it"
            assert not sim.evictions
