"""Random worlds of queues, cards and gangs in which nothing happens but what the engine does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from arranger.api.effects import Applied, Bind, DeletePod, Effect, PublishEvent
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.queueing import GPU, gpu_node
from tests.unit.engine.harness import EngineHarness

QUEUES = ("inference", "training", "part")
CARDS = ("A", "B", "A|B", "B|A", "H2000", "|", "A|H2000")


@dataclass(slots=True)
class StandstillWorld:
    """A cluster whose objects nobody changes but the scheduler.

    Attributes:
        told: (moment, effect) of all that the engine asked for.
    """

    rng: random.Random
    harness: EngineHarness = field(init=False)
    pods: dict[str, PodBuilder] = field(default_factory=dict)
    told: list[tuple[float, Effect]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng
        times = QuotaConfig(
            reclaim_min_runtime=rng.choice((0.0, 0.0, 600.0)),
            eviction_cool_down=rng.choice((0.0, 0.0, 300.0)),
            exempt_card_pods=rng.random() < 0.5,
            respect_priority=rng.random() < 0.8,
        )
        gangs = GangPolicy(starvation_after=rng.choice((600.0, float("inf"))))
        self.harness = EngineHarness(default_profile(), queues=times, gangs=gangs)
        for n in range(rng.randint(0, 4)):
            card = rng.choice(("A", "B", ""))
            node = gpu_node(f"n{n}", rng.randint(1, 4), card) if card else a_node(f"n{n}")
            self.harness.observe(node.offers(cpu=rng.choice((2, 8))))
        for name in QUEUES[: rng.randint(0, 3)]:
            self.harness.observe(self._queue(name))
        if rng.random() < 0.4:
            earlier = a_pod("earlier").needs({GPU: 1}, cpu=1).in_queue("training")
            self.harness.observe(earlier.serving("inference").on(rng.choice(("n0", "gone"))))
        number = 0
        while number < rng.randint(1, 10):
            size = rng.choice((1, 1, 1, 2, 3))
            made = self._pod()
            for n in range(size):
                name = f"p{number}"
                pod = PodBuilder(made.manifest())
                manifest = pod.manifest()
                manifest["metadata"] |= {"name": name, "uid": f"uid-{name}"}
                pod = PodBuilder(manifest)
                if size > 1:
                    mode = rng.choice(("Strict", "NonStrict"))
                    least = rng.randint(2, size + 1)
                    pod = pod.in_gang(f"g{number - n}", least, mode=mode)
                self.pods[name] = pod
                number += 1
        for pod in self.pods.values():
            self.harness.observe(pod)

    def _queue(self, name: str) -> Any:
        rng = self.rng
        spec: dict[str, Any] = {
            "priority": rng.choice((20000, 80000)),
            "reclaimable": rng.random() < 0.7,
            "parent": rng.choice(("", "", "training", "nowhere")) if name == "part" else "",
        }
        if rng.random() < 0.5:
            limits = {"cpu": rng.choice((0.5, 1, 4)), "memory": "1Gi", GPU: rng.randint(0, 4)}
            chosen = rng.sample(sorted(limits), rng.randint(1, 3))
            spec["capability"] = {what: limits[what] for what in chosen}
        if rng.random() < 0.2:
            spec["guarantee"] = {"resource": {GPU: 1}}
        cards = None
        if rng.random() < 0.7:
            cards = {card: rng.randint(0, 4) for card in ("A", "B") if rng.random() < 0.8}
        state = "Closed" if rng.random() < 0.1 else "Open"
        return a_queue(name, cards=cards, state=state, **spec)

    def _pod(self) -> PodBuilder:
        rng = self.rng
        asks = {"cpu": rng.choice((0.1, 1, 3)), "memory": rng.choice(("100Mi", "2Gi"))}
        pod = a_pod()
        if rng.random() < 0.9:
            pod = pod.needs(asks)
        if rng.random() < 0.7:
            pod = pod.needs({GPU: rng.randint(1, 4)})
        if rng.random() < 0.5:
            pod = pod.annotated({"volcano.sh/card.name": rng.choice(CARDS)})
        if rng.random() < 0.8:
            pod = pod.in_queue(rng.choice((*QUEUES, "nowhere")))
        if rng.random() < 0.8:
            pod = pod.serving(rng.choice(("inference", "training", "other")))
        if rng.random() < 0.2:
            pod = pod.annotated({"volcano.sh/preemptable": rng.choice(("false", "perhaps"))})
        if rng.random() < 0.1:
            pod = pod.selects(zone="nowhere")
        if rng.random() < 0.1:
            pod = pod.annotated({"arranger.io/placement": "BinPack,NoSuch"})
        return pod.with_priority(rng.choice((0, 0, 20000, 80000)))

    def run_until(self, end: float) -> None:
        """Let time pass; bindings and evictions are carried out at once."""
        harness = self.harness
        while True:
            effects = harness.run()
            self.told += [(harness.now, effect) for effect in effects]
            if self._carry_out(effects):
                continue
            due = harness.engine.next_timer()
            if due is None or due > end:
                break
            harness.now = max(due, harness.now + 0.1)
        harness.now = end

    def _carry_out(self, effects: Sequence[Effect]) -> bool:
        done = False
        for effect in effects:
            if isinstance(effect, PublishEvent):
                continue
            if isinstance(effect, DeletePod):
                self.harness.engine.on_outcome(effect, Applied(), self.harness.now)
                self.harness.observe_deleted(self.pods.pop(effect.pod.name))
                done = True
            elif isinstance(effect, Bind):
                self.harness.engine.on_outcome(effect, Applied(), self.harness.now)
                bound = self.pods[effect.pod.name] = self.pods[effect.pod.name].on(effect.node)
                self.harness.observe(bound)
                done = True
            elif self.harness.engine.awaits(effect):
                self.harness.engine.on_outcome(effect, Applied(), self.harness.now)
                done = True
        return done
