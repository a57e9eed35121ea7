"""Where requests alone say that a gang cannot fit, nobody is placed to see that; and they are
right.

Random worlds in which gangs come one after the other, while others are nominated, or leave: each
denial is tried by placing the gang all the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.cluster.pod_info import PodInfo
from arranger.engine.gang.preemption import plan_search
from arranger.engine.gang.preemption.dry_placement import DryPlacement
from arranger.engine.gang.preemption.plan_search import PlanSearch
from arranger.engine.gang.preemption.trial import PlanSteps
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.queueing import CARD, gpu_node, inference, training
from tests.unit.engine.harness import EngineHarness, of_kind

#: Worlds of one test, and denials that all of them together are to have.
WORLDS, ENOUGH = 30, 60


class Denials:
    """Questions that requests alone deny.

    Attributes:
        count: how many there were; ``beside_nominees`` while others were nominated.
        wrong: pods without whom it would have fitted.
    """

    def __init__(self) -> None:
        self.count = self.beside_nominees = 0
        self.wrong = list[list[str]]()

    def note(self, nominees: int) -> None:
        self.count += 1
        self.beside_nominees += bool(nominees)


@pytest.fixture
def denials(monkeypatch: pytest.MonkeyPatch) -> Denials:
    """Each is tried."""
    found, real = Denials(), PlanSearch.may_do

    def tried(search: PlanSearch, group: DryPlacement, pods: Sequence[PodInfo]) -> PlanSteps[bool]:
        if (yield from real(search, group, pods)):
            return True
        found.note(len(search._leaving._nominator))
        if (yield from group.fits_without(pods)):  # what is raised here the engine would take
            found.wrong.append([pod.key for pod in pods])
        return False

    monkeypatch.setattr(PlanSearch, "may_do", tried)
    return found


def a_world(rng: random.Random) -> tuple[EngineHarness, list[list[PodBuilder]]]:
    """Nodes on which others run, and the gangs and pods that come."""
    harness = EngineHarness(default_profile(), queues=QuotaConfig())
    names = ("a", "b") if rng.random() < 0.6 else ()
    for name in names:
        harness.observe(a_queue(name, reclaimable=True, priority=rng.choice((1, 2))))

    def a_name() -> str:
        return rng.choice(names) if names else ""

    nodes = [f"n{n}" for n in range(rng.randint(3, 7))]
    harness.observe(*(a_node(name).offers(cpu=4, pods=20) for name in nodes))
    for n in range(4 * len(nodes)):
        pod = a_pod(f"r{n}").needs(cpu=1).on(nodes[n // 4]).with_priority(rng.choice((0, 0, 0, 2)))
        pod = pod.in_queue(queue) if (queue := a_name()) else pod
        if rng.random() < 0.5:
            pod = pod.in_gang(f"r{n % len(nodes)}", rng.choice((1, 2, 3)))
        if rng.random() < 0.9:
            harness.observe(pod)
    waves = []
    for wave in range(rng.randint(2, 5)):
        size, cpu = rng.randint(1, 4), rng.choice((1, 2, 3, 4))
        queue, priority = a_name(), rng.choice((1, 2) if wave < 2 else (3, 4))
        pods = [a_pod(f"g{wave}-{n}").needs(cpu=cpu).with_priority(priority) for n in range(size)]
        pods = [pod.in_gang(f"g{wave}", size) for pod in pods] if size > 1 else pods
        waves.append([pod.in_queue(queue) for pod in pods] if queue else pods)
    return harness, waves


def live(harness: EngineHarness, rng: random.Random, waves: list[list[PodBuilder]]) -> int:
    """The gangs come, and some of the victims leave in between; how many had to leave."""
    harness.start()
    harness.run()
    victims = list[Any]()
    for pods in [*waves, []]:
        harness.effects.clear()
        harness.observe(*pods)
        harness.advance_to(harness.now + 30)
        victims += of_kind(DeletePod, harness.effects)
        rng.shuffle(victims)
        for victim in victims[: rng.randint(0, len(victims) // 4)]:
            harness.engine.handlers.on_pod_deleted(
                f"{victim.pod.namespace}/{victim.pod.name}", harness.now
            )
        harness.engine.check_consistent()
    return len(victims)


@pytest.mark.parametrize("first", range(0, 4 * WORLDS, WORLDS))
@pytest.mark.parametrize("many", [False, True], ids=["all sets", "as for many"])
def test_what_requests_deny_cannot_be(
    first: int, many: bool, denials: Denials, monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        monkeypatch.setattr(plan_search, "MAX_SEARCH_COST", 0)
    evicted = 0
    for seed in range(first, first + WORLDS):
        rng = random.Random(seed)
        harness, waves = a_world(rng)
        evicted += live(harness, rng, waves)
    assert denials.wrong == []
    assert denials.count > ENOUGH
    assert denials.beside_nominees > ENOUGH // 4
    assert evicted > WORLDS


def test_nobody_is_placed_where_requests_deny_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gangs of whole nodes take them from gangs that each have a part of four, one after the other:
    those before are nominated still, and do not step aside."""
    denied, real = list[int](), DryPlacement.fits_without

    def fits(group: DryPlacement, pods: Sequence[PodInfo]) -> PlanSteps[bool]:
        fits = yield from real(group, pods)
        if pods and not fits:
            denied.append(len(pods))
        return fits

    monkeypatch.setattr(DryPlacement, "fits_without", fits)
    harness = EngineHarness(default_profile(), queues=QuotaConfig(preempt_within_queue=False))
    nodes, size = 24, 3
    for name, priority in (("inference", 80000), ("training", 20000)):
        harness.observe(a_queue(name, cards={CARD: 8 * nodes}, priority=priority))
    harness.observe(*(gpu_node(f"n{n}") for n in range(nodes)))
    running = [
        training(f"t{n}", cards=2).in_gang(f"t{n // 16}-{n % 4}", 4).on(f"n{n // 4}")
        for n in range(4 * nodes)
    ]
    harness.observe(*running)
    harness.start()
    harness.run()
    for gang in range(4):
        pods = [inference(f"i{gang}-{n}", 8).in_gang(f"i{gang}", size) for n in range(size)]
        harness.observe(*pods)
    harness.run()
    assert len(of_kind(DeletePod, harness.effects)) == 3 * 16
    assert denied == []
    for effect in of_kind(Bind, harness.effects):
        harness.engine.on_outcome(effect, Applied(), harness.now)
    harness.engine.check_consistent()
