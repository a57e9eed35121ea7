"""Small worlds of cards in which services take from training, and the least that must go."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_pod, a_queue
from tests.queueing import GPU, gpu_node
from tests.unit.engine.harness import EngineHarness

CARDS = 8


@dataclass(slots=True)
class SmallWorld:
    """Nodes of 8 cards, training on them, and equal pods of a service that wait together.

    Attributes:
        victims: name → (node, cards, priority, gang or "").
        least: gang → how many of it must stay, or none.
    """

    nodes: int
    victims: dict[str, tuple[int, int, int, str]]
    takers: int
    size: int
    least: dict[str, int] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    bound: int = 0

    def run(self) -> None:
        """Let the scheduler act until it rests; who is evicted does not come back."""
        harness = EngineHarness(default_profile(), queues=QuotaConfig())
        harness.observe(a_queue("inference", reclaimable=False), a_queue("training"))
        harness.observe(*(gpu_node(f"n{n}", CARDS) for n in range(self.nodes)))
        pods: dict[str, PodBuilder] = {}
        for name, (node, cards, priority, gang) in self.victims.items():
            pod = a_pod(name).needs({GPU: cards}).in_queue("training").serving("training")
            pod = pod.with_priority(priority).on(f"n{node}")
            pods[name] = pod.in_gang(gang, self.least[gang]) if gang else pod
        for n in range(self.takers):
            pod = a_pod(f"t{n}").needs({GPU: self.size}).in_queue("inference")
            pods[f"t{n}"] = pod.serving("inference").with_priority(100)
        harness.observe(*pods.values())
        for _ in range(6 + 2 * self.takers):
            for effect in harness.run():
                if isinstance(effect, DeletePod):
                    harness.engine.on_outcome(effect, Applied(), harness.now)
                    harness.observe_deleted(pods[effect.pod.name])
                    self.evicted.append(effect.pod.name)
                elif isinstance(effect, Bind):
                    harness.engine.on_outcome(effect, Applied(), harness.now)
                    harness.observe(pods[effect.pod.name].on(effect.node))
                    self.bound += 1
            assert not harness.engine.barrier.quarantine, "our own code has raised"
            harness.now += 20

    def room(self, gone: set[str]) -> int:
        """How many takers fit when these are gone."""
        used: Counter[int] = Counter()
        for name, (node, cards, _, _) in self.victims.items():
            if name not in gone:
                used[node] += cards
        return sum((CARDS - used[node]) // self.size for node in range(self.nodes))

    def may_go(self, gone: set[str]) -> bool:
        """Whether each gang has kept its minimum, or nothing."""
        left = Counter(v[3] for name, v in self.victims.items() if name not in gone)
        lost = Counter(v[3] for name, v in self.victims.items() if name in gone)
        return all(not lost[g] or not left[g] or left[g] >= n for g, n in self.least.items())

    def cards(self, gone: Any) -> int:
        """How many cards some victims have."""
        return sum(self.victims[name][1] for name in gone)

    def subsets(self) -> list[set[str]]:
        """All that may leave together."""
        names = list(self.victims)
        chosen = itertools.chain.from_iterable(
            itertools.combinations(names, n) for n in range(len(names) + 1)
        )
        return [gone for gone in map(set, chosen) if self.may_go(gone)]


def a_small_world(seed: int, *, gangs: bool, priorities: tuple[int, ...] = (10,)) -> SmallWorld:
    """A random world in which the takers find little or no room."""
    rng = random.Random(seed)
    nodes = rng.randint(1, 4)
    free = dict.fromkeys(range(nodes), CARDS)
    world = SmallWorld(nodes, {}, rng.randint(2, 3), rng.choice((1, 2, 3, 4, 4, 6, 8)))
    while len(world.victims) < 8:
        node = max(free, key=lambda n: (free[n], n))
        if not free[node]:
            break
        cards = min(free[node], rng.choice((1, 2, 2, 4, 4, 6, 8)))
        free[node] -= cards
        gang = rng.choice(("", "g", "h")) if gangs else ""
        world.victims[f"v{len(world.victims)}"] = node, cards, rng.choice(priorities), gang
    for gang in ("g", "h"):
        members = sum(v[3] == gang for v in world.victims.values())
        if members:
            world.least[gang] = rng.randint(1, members)
    return world
