"""A scheduler that starts now decides as the one that saw everything happen.

A scheduler lives in a random world for a while. Then a second engine is given what the API server
has at that moment, in random order, and both decide what is next, when all back-offs have ended.
What only the first one knows is listed in docs/decisions/0007-restart-is-the-normal-case.md.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from arranger.api.types.pod_groups import GangObject
from arranger.daemon.config.schema import Config, GangConfig, LeaderElectionConfig
from arranger.daemon.informers import COLLECTION_PATHS
from arranger.engine.engine import Engine
from arranger.engine.handlers.initial_objects import WatchedObject
from arranger.engine.phases import Phase
from arranger.kube.client.transport import Request
from tests.builders import a_node
from tests.queueing import CARD, GPU
from tests.simulation.harnesses.preemption import PreemptionHarness
from tests.simulation.harnesses.volumes import VolumeHarness
from tests.simulation.warm_cold.engines import an_engine, decide, state_of, tell, typed
from tests.simulation.warm_cold.worlds import WorldBuilder, shuffled

pytestmark = pytest.mark.looptime(noop_cycles=0)

VOLCANO = "scheduling.volcano.sh"
#: No gang is starved or has waited too long while we look: the time of that is not in the API.
CONFIG = Config(
    leader_election=LeaderElectionConfig(resource_namespace="kube-system"),
    gangs=GangConfig(starvation_after_seconds=1e6, wait_time_seconds=1e6),
)
#: Seconds until the next decisions: all that waits is due again.
LATER = 400.0
#: Seconds from the last creation to the restart.
WAITS = (0.01, 0.05, 0.3, 1.1, 4.3, 60.3)
#: Seconds in which Gang objects are written, after which nothing of them is left out.
GANGS_WRITTEN = 4.0
#: Of twenty worlds, in how many the two may know different things.
MOST_LEFT_OUT = 4


class Lives:
    """A world that goes on, and what there is in it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sim = PreemptionHarness(seed)
        builder = WorldBuilder(seed, past=False)
        self.world = builder.build()
        self.important = builder.important_pods(3)
        self.killed_soon = False

    async def live(self) -> tuple[Engine, list[WatchedObject], float]:
        """Let a scheduler live for a random time; returns it, what the API has, and the time."""
        sim, rng = self.sim, self.rng
        for manifest in self.world.early:
            self._create(manifest)
        kubelets, volumes = sim.kubelets(), VolumeHarness(sim).loop.running()
        async with sim.scheduler(config=CONFIG) as scheduler, kubelets, volumes:
            await asyncio.sleep(1)
            for manifest in self.world.late[: rng.randint(2, len(self.world.late))]:
                self._create(manifest)
                await asyncio.sleep(rng.choice([1.0, 2.0, 5.0, 30.0]))
                self._something_happens()
            for manifest in self.important:
                self._create(manifest)
                await asyncio.sleep(1.0)
            wait = rng.choice(WAITS)
            self.killed_soon = wait < GANGS_WRITTEN
            await asyncio.sleep(wait)
            sim.kill()
            scheduler.engine.check_consistent()
            now = asyncio.get_running_loop().time()
            return scheduler.engine, self._present(), now

    def _create(self, manifest: dict[str, Any]) -> None:
        for key in ("uid", "resourceVersion", "creationTimestamp"):
            manifest["metadata"].pop(key, None)
        self.sim.cluster.create(manifest)

    def _something_happens(self) -> None:
        sim, rng = self.sim, self.rng
        pods = [p for p in sim.cluster.objects("pods") if not _leaves(p) and not _is_a_bundle(p)]
        chance = rng.random()
        if chance < 0.15 and pods:
            sim.delete("pod", rng.choice(pods)["metadata"]["name"], grace=rng.choice([0, 3]))
        elif chance < 0.25 and (running := [p for p in pods if p["spec"].get("nodeName")]):
            ended = {"status": {"phase": rng.choice(["Succeeded", "Failed"])}}
            sim.patch("pod", rng.choice(running)["metadata"]["name"], ended, sub="/status")
        elif chance < 0.3 and (queues := sim.cluster.objects("queues", VOLCANO)):
            queue = rng.choice(queues)["metadata"]["name"]
            path = f"/apis/{VOLCANO}/v1beta1/queues/{queue}"
            if rng.random() < 0.2:
                sim.request("DELETE", path)
            else:
                edit = {"spec": {"priority": rng.choice([20000, 90000])}}
                sim.request("PATCH", path, edit, "application/merge-patch+json")

    def _present(self) -> list[WatchedObject]:
        found: list[WatchedObject] = []
        for kind, path in COLLECTION_PATHS.items():
            answer = self.sim.cluster.handle(Request("GET", path))
            if answer.status == 200:
                items = answer.body["items"]
                found += [msgspec.convert(item, kind) for item in items]
        return found


def _is_a_bundle(pod: dict[str, Any]) -> bool:
    """Whether no other pod says what its bundle needs."""
    return pod["metadata"].get("annotations", {}).get("gang.koordinater.io/bundleName") == "ps"


def _leaves(pod: dict[str, Any]) -> bool:
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return ended or "deletionTimestamp" in pod["metadata"]


@pytest.mark.parametrize("first", range(0, int(os.environ.get("WARM_COLD_WORLDS", "40")), 20))
async def test_after_a_restart_the_next_decisions_are_the_same(first: int) -> None:
    left_out = Counter(
        [why for seed in range(first, first + 20) if (why := await _why_not_compared(seed))]
    )
    assert left_out.total() <= MOST_LEFT_OUT, left_out


async def _why_not_compared(seed: int) -> str:
    """Compare in one world; returns why that cannot be done, "" if it could."""
    lives = Lives(seed)
    warm, present, now = await lives.live()
    if any(pod.phase not in (Phase.QUEUED, Phase.WAITING) for pod in warm.pods()):
        return "a Binding is on its way"
    cold = an_engine(CONFIG.gang_policy())
    tell(cold, shuffled(present, seed), now)
    for change in (_nothing, _a_node_comes, _pods_end, _a_larger_node_comes):
        now += LATER
        expected, decided = [], []
        for engine, decisions in ((warm, expected), (cold, decided)):
            change(engine, random.Random(seed), now)
            decisions += decide(engine, now)
        if change is _nothing and _gangs_of(cold) != _gangs_of(warm):
            if lives.killed_soon:
                return "the Gang objects were not written yet"
            if any(_is_older_than_its_pods(each, cold) for each in present):
                return "a bundle without pods may be of an earlier gang of that name"
        if change is _nothing and _evicts_less(decided, expected):
            return "a gang waits for victims that may be its own"
        where = f"world {seed}, {change.__name__}"
        assert decided == expected, where
        assert state_of(cold) == state_of(warm), where
    return ""


def _is_older_than_its_pods(obj: WatchedObject, engine: Engine) -> bool:
    if not isinstance(obj, GangObject) or obj.key not in engine.registry.gangs:
        return False
    created = obj.metadata.creation_timestamp
    assert created is not None, "what a server has is dated"
    later = engine.registry.gangs[obj.key].created_at > created.timestamp()
    return later and bool(obj.recorded_minimums)


def _gangs_of(engine: Engine) -> object:
    return state_of(engine)["gangs"]


def _evicts_less(decided: list[str], expected: list[str]) -> bool:
    return set(decided) < set(expected) and all("evict" in each for each in expected)


def _nothing(engine: Engine, rng: random.Random, now: float) -> None:
    """Only time passes."""


def _a_node_comes(engine: Engine, rng: random.Random, now: float) -> None:
    node = a_node("more").in_zone("a").labelled({f"{GPU}.product": CARD})
    tell(engine, typed([node.offers({GPU: 2}, cpu=2).manifest()]), now)


def _pods_end(engine: Engine, rng: random.Random, now: float) -> None:
    placed = sorted(pod.key for pod, _ in engine.cluster.placed_pods())
    for key in rng.sample(placed, len(placed) // 2):
        engine.handlers.on_pod_deleted(key, now)


def _a_larger_node_comes(engine: Engine, rng: random.Random, now: float) -> None:
    node = a_node("most").in_zone("b").labelled({f"{GPU}.product": CARD})
    tell(engine, typed([node.offers({GPU: 8}, cpu=16).manifest()]), now)
