"""Tidal scheduling (docs/design/queues.md) by the whole scheduler, in virtual time, with kubelets.

After every test: no queue was ever over its quota at a Binding, only inference has taken and only
from less important training, every victim knew why (:mod:`tests.simulation.harnesses.queues`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.builders import PodBuilder
from tests.queueing import CARD, inference, training
from tests.simulation.harnesses.queues import CONFIG, Owner, QueueHarness

pytestmark = pytest.mark.looptime(noop_cycles=0)

HIGH, MEDIUM, LOW = 80000, 60000, 20000
HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
def sim() -> Iterator[QueueHarness]:
    """A simulation whose invariants are checked in the end."""
    sim = QueueHarness()
    yield sim
    sim.check()


def deployment(name: str, count: int, cards: int = 1, priority: int = HIGH) -> Owner:
    def make(pod: str, life: int) -> PodBuilder:
        return inference(pod, cards, priority)

    return Owner(name, count, make)


def job(name: str, count: int = 1, cards: int = 1, priority: int = LOW) -> Owner:
    def make(pod: str, life: int) -> PodBuilder:
        made = training(pod, cards, priority)
        return made.in_gang(f"{name}-life-{life}", count) if count > 1 else made

    return Owner(name, count, make, gang=count > 1)


def runs(sim: QueueHarness, **expected: int) -> bool:
    """Whether so many pods of each owner are on nodes; ``_`` for ``-``."""
    return all(sim.running(name.replace("_", "-")) == n for name, n in expected.items())


# --- the seed's cases, on one node of 8 cards ----------------------------------------------------


async def test_case_1_who_takes_from_whom(sim: QueueHarness) -> None:
    sim.queues()
    sim.gpu_nodes(1)
    async with sim.scheduler(config=CONFIG), sim.kubelets():
        sim.add_owner(job("medium", 1, 8, MEDIUM))
        await sim.until(lambda: runs(sim, medium=1))
        # Training does not take from training, nor low inference from what is more important.
        sim.add_owner(job("high", 1, 8, HIGH))
        sim.add_owner(job("low", 1, 8, LOW))
        sim.add_owner(deployment("serve-low", 1, 8, LOW))
        await asyncio.sleep(600)
        assert runs(sim, medium=1, high=0, low=0, serve_low=0)
        sim.add_owner(deployment("serve-high", 1, 8, HIGH))
        await sim.until(lambda: runs(sim, serve_high=1))
        # Inference does not take from inference.
        sim.add_owner(deployment("serve-more", 1, 8, HIGH))
        # Not a multiple of the time after which all are tried again, and then pause.
        await asyncio.sleep(500)
        assert runs(sim, serve_high=1, serve_more=0)
        assert sim.evicted_owners() == {"medium": 1}
        # What becomes free goes to inference first, then by priority.
        for leaver, follower in (
            ("serve-high", "serve-more"),
            ("serve-more", "serve-low"),
            ("serve-low", "high"),
            ("high", "medium"),
            ("medium", "low"),
        ):
            await asyncio.sleep(30)  # until nobody is backing off from his last try
            sim.scale(leaver, 0)
            await sim.until(lambda name=follower: sim.running(name) == 1, within=600)
        assert sim.evicted_owners() == {"medium": 1}


async def test_case_1_the_lowest_training_gives_way_first(sim: QueueHarness) -> None:
    sim.queues()
    sim.gpu_nodes(3)
    sim._quota["training"] = 24
    change = {"metadata": {"annotations": {"volcano.sh/card.quota": f'{{"{CARD}": 24}}'}}}
    path = "/apis/scheduling.volcano.sh/v1beta1/queues/training"
    sim.request("PATCH", path, change, "application/merge-patch+json")
    async with sim.scheduler(config=CONFIG), sim.kubelets():
        for name, priority in (("high", HIGH), ("medium", MEDIUM), ("low", LOW)):
            sim.add_owner(job(name, 1, 8, priority))
        await sim.until(lambda: runs(sim, high=1, medium=1, low=1))
        sim.add_owner(deployment("serve", 1, 8))
        await sim.until(lambda: runs(sim, serve=1))
        assert sim.evicted_owners() == {"low": 1}


async def test_case_2_as_many_as_are_needed_the_least_important_first(sim: QueueHarness) -> None:
    sim.queues()
    sim.gpu_nodes(1)
    async with sim.scheduler(config=CONFIG), sim.kubelets():
        for n in (1, 2):
            sim.add_owner(job(f"low{n}", 1, 2, LOW))
            sim.add_owner(job(f"medium{n}", 1, 2, MEDIUM))
        await sim.until(lambda: runs(sim, low1=1, low2=1, medium1=1, medium2=1))
        sim.add_owner(deployment("first", 1, 6))
        await sim.until(lambda: runs(sim, first=1))
        evicted = sim.evicted_owners()
        assert evicted.total() == 3
        assert evicted["low1"] == evicted["low2"] == 1
        sim.add_owner(deployment("second", 1, 2))
        await sim.until(lambda: runs(sim, second=1))
        assert sim.evicted_owners() == {"low1": 1, "low2": 1, "medium1": 1, "medium2": 1}


@pytest.mark.parametrize("restarts", [False, True], ids=["case 3: aborted", "case 4: restarted"])
async def test_cases_3_and_4_training_leaves_as_a_whole(restarts: bool, sim: QueueHarness) -> None:
    sim.queues()
    sim.gpu_nodes(1)
    async with sim.scheduler(config=CONFIG), sim.kubelets():
        gang = job("train", 2, 4)
        gang.restarts = restarts
        sim.add_owner(gang)
        await sim.until(lambda: runs(sim, train=2))
        sim.add_owner(deployment("serve", 1, 4))
        await sim.until(lambda: runs(sim, serve=1))
        await asyncio.sleep(600)
        # Its other half has left as well, and the four cards that are free are not enough.
        assert (sim.running("train"), sim.waiting("train")) == (0, 2 if restarts else 0)
        assert sim.used_cards() == 4
        sim.scale("serve", 0)
        await asyncio.sleep(600)
        assert sim.running("train") == (2 if restarts else 0)
        sim.check_gangs()


async def test_case_5_without_priorities_the_type_decides(sim: QueueHarness) -> None:
    sim.queues()
    sim.gpu_nodes(1)

    def plain(owner: Owner) -> Owner:
        make = owner.make

        def without_class(pod: str, life: int) -> PodBuilder:
            manifest = make(pod, life).manifest()
            del manifest["spec"]["priorityClassName"], manifest["spec"]["priority"]
            return PodBuilder(manifest)

        owner.make = without_class
        return owner

    async with sim.scheduler(config=CONFIG), sim.kubelets():
        sim.add_owner(plain(job("train", 2, 4)))
        await sim.until(lambda: runs(sim, train=2))
        sim.add_owner(plain(deployment("serve", 1, 4)))
        await sim.until(lambda: runs(sim, serve=1))
        await asyncio.sleep(600)
        assert (sim.running("train"), sim.waiting("train")) == (0, 2)


# --- the tidal day -------------------------------------------------------------------------------

NODES = 6
#: Hour of the day → replicas of each Deployment; the rest of the day as before.
TIDE: dict[int, dict[str, int]] = {
    7: {"chat": 12, "embed": 3},
    9: {"chat": 24, "embed": 5},
    11: {"chat": 28},
    14: {"chat": 24},
    18: {"chat": 28, "embed": 6},
    20: {"chat": 16},
    22: {"chat": 4, "embed": 1},
}
#: Training, more than there is room for even at night: pods and cards of each.
TRAINING = {
    **{f"large-{n}": (2, 4, MEDIUM) for n in range(3)},
    **{f"medium-{n}": (4, 1, LOW) for n in range(4)},
    **{f"small-{n}": (1, 1, LOW) for n in range(10)},
}


async def test_seven_tidal_days(sim: QueueHarness) -> None:
    sim.queues(inference=40, training=48)
    sim.gpu_nodes(NODES)
    loop = asyncio.get_running_loop()
    used = wanted = 0
    whole: Counter[int] = Counter()
    async with sim.scheduler(config=CONFIG), sim.kubelets():
        sim.add_owner(deployment("chat", 4))
        sim.add_owner(deployment("embed", 1, 2))
        for name, (count, cards, priority) in TRAINING.items():
            sim.add_owner(job(name, count, cards, priority))
        for day in range(7):
            for hour in range(24):
                for name, count in TIDE.get(hour, {}).items():
                    sim.scale(name, count)
                for minute in range(0, 60, 5):
                    await asyncio.sleep(day * DAY + hour * HOUR + minute * 60 + 299 - loop.time())
                    used += sim.used_cards()
                    wanted += min(8 * NODES, _demand(sim))
                for name in ("chat", "embed"):
                    assert sim.running(name) == sim.owners[name].count, (day, hour, name)
                whole[hour] += _training_running(sim)
    assert used >= 0.95 * wanted, f"{used} of {wanted} card-samples"
    assert sim.evictions, "nobody had to give way"
    # What gave way in the morning is back at night.
    assert whole[3] >= whole[12] + 7 * 20
    for owner, times in _times_evicted(sim).items():
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert all(gap >= HOUR for gap in gaps), f"{owner} was evicted at {times}"
    sim.check_gangs()


def _demand(sim: QueueHarness) -> int:
    cards = {"chat": 1, "embed": 2}
    serving = sum(sim.owners[name].count * each for name, each in cards.items())
    return serving + sum(count * each for count, each, _ in TRAINING.values())


def _training_running(sim: QueueHarness) -> int:
    return sum(sim.running(name) * cards for name, (_, cards, _) in TRAINING.items())


def _times_evicted(sim: QueueHarness) -> dict[str, list[float]]:
    """Owner → when it was evicted; the pods of a gang leave within a second."""
    times: dict[str, list[float]] = {}
    for at, owner in sim.evictions:
        known = times.setdefault(owner, [])
        if not known or at - known[-1] > 1:
            known.append(at)
    return times
