"""Pods with resource claims from their creation to their Binding, and what may go wrong."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import PodBuilder, a_node, a_pod
from tests.devices import a_claim, a_device_class, a_slice, claiming, claiming_from
from tests.faults.injector import BINDINGS, WRITES, for_resource
from tests.faults.kinds import ConcurrentAction, Delay, DropConnection, Reply
from tests.simulation.harnesses.devices import CLAIMS, DeviceHarness
from tests.simulation.harnesses.simulation import MERGE, VIRTUAL_TIME, SimulationHarness

pytestmark = VIRTUAL_TIME

ONE_CARD = a_claim().asks().manifest()["spec"]
CLAIM_WRITES = WRITES & for_resource("resourceclaims")
NODES = 3
PER_NODE = 2


@pytest.fixture
def cards(sim: SimulationHarness) -> Iterator[DeviceHarness]:
    """Three nodes of two cards each, and the controller that looks after claims."""
    cards = DeviceHarness(sim, ONE_CARD)
    sim.create(a_device_class())
    for n in range(NODES):
        sim.create(a_node(f"n{n}").offers(cpu=8), a_slice(f"n{n}", "a", "b"))
    yield cards
    cards.check()


def worker(number: int) -> PodBuilder:
    """A pod with one card, by a template."""
    return claiming_from(a_pod(f"w{number}").needs(cpu=1), "card")


async def test_pods_get_cards_of_their_own_and_one_too_many_waits(
    sim: SimulationHarness, cards: DeviceHarness
) -> None:
    sim.create(*(worker(n) for n in range(7)))
    async with cards.loop.running(), sim.scheduler():
        await sim.until(lambda: sim.bound() == 6)
        waiting = next(n for n in range(7) if not sim.node_of(f"w{n}"))
        await sim.until(lambda: bool(sim.message(f"w{waiting}")))
        assert sim.message(f"w{waiting}").startswith(
            "0/3 nodes are available: 3 cannot allocate all claims."
        )
        sim.delete("pod", f"w{(waiting + 1) % 7}")
        await sim.until_settled(6)
        assert sim.node_of(f"w{waiting}")
    assert len({d for devices in cards.allocated_devices().values() for d in devices}) == 6
    for claim in cards.claims().values():
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


async def test_a_claim_that_is_deleted_with_its_pod_leaves_its_card_free(
    sim: SimulationHarness, cards: DeviceHarness
) -> None:
    sim.create(*(worker(n) for n in range(6)))
    async with cards.loop.running(), sim.scheduler():
        await sim.until_settled(6)
        for n in range(6):
            sim.delete("pod", f"w{n}")
        await sim.until(lambda: not cards.allocated_devices())
        sim.create(*(worker(n) for n in range(10, 16)))
        await sim.until_settled(6)


FAULTS: dict[str, Any] = {
    "the request is lost": DropConnection.BEFORE,
    "the answer is lost": DropConnection.AFTER,
    "no connection is made": DropConnection.REFUSED,
    "500 instead of the act": Reply(500, "InternalError"),
    "500 in spite of the act": Reply(500, "InternalError", after=True),
    "409 instead of the act": Reply(409, "Conflict"),
    "429": Reply(429, "TooManyRequests", retry_after=3),
    "the answer takes 40 s": Delay(40, after=True),
    "the request takes 40 s": Delay(40),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_claims_are_written_whatever_becomes_of_the_requests(
    sim: SimulationHarness, cards: DeviceHarness, fault: Any
) -> None:
    sim.create(*(worker(n) for n in range(6)))
    sim.faults.inject(CLAIM_WRITES, fault, probability=0.5, times=8)
    async with cards.loop.running(), sim.scheduler():
        await sim.until_settled(6, within=400)
    assert len(cards.allocated_devices()) == 6


async def test_a_claim_that_is_refused_is_tried_again(
    sim: SimulationHarness, cards: DeviceHarness
) -> None:
    sim.create(worker(0))
    refused = Reply(403, "Forbidden", message="not yet")
    sim.faults.inject(CLAIM_WRITES, refused, times=2)
    async with cards.loop.running(), sim.scheduler():
        await sim.until_settled(1)


CRASHES: dict[str, tuple[Any, int, bool]] = {
    "before the first write": (CLAIM_WRITES, 0, False),
    "after the finalizer": (CLAIM_WRITES, 0, True),
    "after some allocations": (CLAIM_WRITES, 8, True),
    "before a Binding": (BINDINGS, 2, False),
    "after a Binding": (BINDINGS, 2, True),
}


@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES.keys())
async def test_after_a_crash_no_card_is_given_twice(
    sim: SimulationHarness, cards: DeviceHarness, crash: tuple[Any, int, bool]
) -> None:
    where, skip, after = crash
    sim.create(*(worker(n) for n in range(6)))
    killed = asyncio.Event()

    def kill() -> None:
        if not killed.is_set():
            sim.kill("one")
            killed.set()

    sim.faults.inject(where, ConcurrentAction(kill, after=after), skip=skip, times=1)
    async with cards.loop.running():
        async with sim.scheduler("one"):
            await asyncio.wait_for(killed.wait(), 120)
        async with sim.scheduler("two"):
            await sim.until_settled(6, within=200)
    assert len({d for devices in cards.allocated_devices().values() for d in devices}) == 6


async def test_a_refused_binding_gives_the_card_back(
    sim: SimulationHarness, cards: DeviceHarness
) -> None:
    sim.create(worker(0), worker(1))
    gone: list[dict[str, list[str]]] = []
    sim.faults.inject(BINDINGS, Reply(403, "Forbidden"), times=2)
    sim.cluster.store.subscribe(lambda _: gone.append(cards.allocated_devices()))
    async with cards.loop.running(), sim.scheduler():
        await sim.until_settled(2, within=120)
    most = next(n for n, given in enumerate(gone) if len(given) == 2)
    assert any(len(given) < 2 for given in gone[most:]), "taken back in between"
    assert len(cards.allocated_devices()) == 2


async def test_pods_share_a_claim(sim: SimulationHarness, cards: DeviceHarness) -> None:
    sim.create(a_claim("shared").asks())
    sim.create(*(claiming(a_pod(f"p{n}").needs(cpu=1), "shared") for n in range(5)))
    async with cards.loop.running(), sim.scheduler():
        await sim.until_settled(5)
        assert len({sim.node_of(f"p{n}") for n in range(5)}) == 1
        for n in range(5):
            sim.delete("pod", f"p{n}")
        await sim.until(lambda: not cards.allocated_devices())


async def test_somebody_else_is_faster(sim: SimulationHarness, cards: DeviceHarness) -> None:
    """Another scheduler has allocated the claim; ours follows it."""
    theirs = a_claim("shared").asks().given("b", pool="n2", on="n2").manifest()["status"]

    def allocate() -> None:
        sim.request("PATCH", f"{CLAIMS}/shared/status", {"status": theirs}, MERGE)

    sim.create(a_claim("shared").asks(), claiming(a_pod("p").needs(cpu=1), "shared"))
    sim.faults.inject(CLAIM_WRITES, ConcurrentAction(allocate), times=1)
    async with cards.loop.running(), sim.scheduler():
        await sim.until_settled(1)
    assert sim.node_of("p") == "n2"
    assert cards.allocated_devices() == {"shared": ["n2/b"]}


async def test_a_gang_gets_all_its_cards_or_none(
    sim: SimulationHarness, cards: DeviceHarness
) -> None:
    sim.create(*(worker(n) for n in range(10, 13)))
    async with cards.loop.running(), sim.scheduler():
        await sim.until_settled(3)
        sim.create(*(worker(n).in_gang("g", 4) for n in range(4)))
        await asyncio.sleep(30)
        assert sim.bound() == 3
        assert len(cards.allocated_devices()) == 3, "none of the gang has a card"
        sim.delete("pod", "w10")
        await sim.until_settled(6)
    assert all(sim.node_of(f"w{n}") for n in range(4))
    assert len(cards.allocated_devices()) == 6


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_no_card_is_given_twice(
    sim: SimulationHarness, cards: DeviceHarness, seed: int
) -> None:
    rng = random.Random(seed)
    rules = [sim.faults.inject(CLAIM_WRITES, fault, probability=0.08) for fault in FAULTS.values()]
    rules += [
        sim.faults.inject(BINDINGS, fault, probability=0.08)
        for name, fault in FAULTS.items()
        if not name.startswith("409")  # which says that a Binding on its way will fail, too
    ]
    sim.writes_per_pod = 60
    pods: list[str] = []

    async def live(steps: int) -> None:
        for _ in range(steps):
            number = len(sim.history)
            if rng.random() < 0.3:
                made = [worker(number * 10 + n).in_gang(f"g{number}", 2) for n in range(2)]
            else:
                made = [worker(number * 10 + n) for n in range(rng.randrange(3))]
            sim.create(*made)
            pods.extend(pod.build().metadata.name for pod in made)
            for _ in range(rng.randrange(3)):
                if pods:
                    sim.delete("pod", pods.pop(rng.randrange(len(pods))))
            await asyncio.sleep(rng.random() * 20)

    async with cards.loop.running():
        async with sim.scheduler("one"):
            await live(12)
            sim.kill("one")
        async with sim.scheduler("two"):
            await live(12)
            for rule in rules:
                rule.stop()
            while len(pods) > NODES * PER_NODE:
                sim.delete("pod", pods.pop())
            await sim.until(lambda: not _lonely(sim), within=900)
            await sim.until(
                lambda: set(cards.allocated_devices()) <= {f"{name}-card" for name in pods}
            )


def _lonely(sim: SimulationHarness) -> list[str]:
    """Pods without a node, but for those whose gang has lost a member for good."""
    waiting = [p for p in sim.cluster.objects("pods") if "nodeName" not in p["spec"]]
    gangs = Counter(_gang(pod) for pod in sim.cluster.objects("pods"))
    return [p["metadata"]["name"] for p in waiting if not _gang(p) or gangs[_gang(p)] == 2]


def _gang(pod: dict[str, Any]) -> str:
    notes: dict[str, str] = pod["metadata"].get("annotations") or {}
    return notes.get("gang.scheduling.koordinator.sh/name", "")
