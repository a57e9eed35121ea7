"""Random worlds of two namespaces that come to rest again and again, decided in small steps.

Whoever waits at rest is tried once more: if anything comes of that, something has happened by which
it could have been placed, and it was not told. But who will be tried by the clock is not forgotten.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from arranger.api.effects import (
    Applied,
    Bind,
    DeletePod,
    Effect,
    PatchObject,
    ReleaseClaim,
    ReserveClaim,
)
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.context.queue_state import QueueState
from arranger.engine.engine import Engine
from arranger.engine.gang.state.policy import GangPolicy
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins import DEFAULT_PLUGINS
from arranger.plugins.topology.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder
from tests.simulation.at_rest.devices import Devices
from tests.simulation.at_rest.focuses import FOCUSES, NEVER
from tests.simulation.at_rest.pods import ZONE, Arrivals, smaller
from tests.simulation.at_rest.surroundings import Surroundings
from tests.simulation.at_rest.told import Told
from tests.simulation.at_rest.volumes import Volumes

#: Seconds in which back-offs end.
_BACK_OFF: Final = 12.0
_MOST_STEPS: Final = 3000
#: Kinds of events in worlds that always have queues.
_NEED_QUEUES: Final = frozenset({"owner", "group", "queue changes"})


class Forgotten(NamedTuple):
    """What came of trying those again that waited at rest.

    Attributes:
        after: what had happened since the rest before.
        done: who was bound or evicted.
    """

    after: list[str]
    done: list[str]


class RestingWorld:
    """One world.

    Args:
        seed: says all that happens in it.
        focus: of :data:`~tests.simulation.at_rest.focuses.FOCUSES`.
    """

    def __init__(self, seed: int, focus: str) -> None:
        self._rng = rng = random.Random(seed)
        self._focus = kind = FOCUSES[focus]
        keeps = kind.starvation_after < NEVER
        policy = GangPolicy(
            starvation_after=kind.starvation_after,
            reservation_seconds=20.0,
            wait_time=30.0 if keeps else 10_000.0,
            on_timeout="Retry",
        )
        self._engine = Engine(
            EngineSettings(
                [_profile(spread=rng.random() < 0.5 or "service" in kind.events)],
                gang_policy=policy,
                quota_config=QuotaConfig(),
                perf_counter=lambda: 0.0,
            )
        )
        self._now = 0.0
        #: namespace/name → pod, as the server has it; of those that run, where.
        self._pods: dict[str, PodBuilder] = {}
        self._node_of: dict[str, str] = {}
        self._leaving: dict[str, float] = {}
        has_queues = rng.random() < 0.5 or not _NEED_QUEUES.isdisjoint(kind.events)
        told, nodes = Told(self._engine, self._time), rng.randint(2, 5)
        self._volumes, self._devices = Volumes(rng, told, nodes), Devices(rng, told, nodes)
        self._around = Surroundings(
            rng, self._engine, told, self._time, nodes, has_queues=has_queues
        )
        self._arrivals = Arrivals(rng, kind, self._volumes, self._devices, has_queues=has_queues)
        self._around.begin()
        if "volume" in kind.events:
            self._volumes.begin()
        if "slice" in kind.events:
            self._devices.begin()
        self._engine.handlers.start(0.0)
        for _ in range(rng.randint(2, 5)):
            self._arrives()

    def play(self) -> list[Forgotten]:
        """Let things happen and come to rest, again and again."""
        rng, found = self._rng, list[Forgotten]()
        for rest in range(12):
            after: list[str] = []
            for _ in range(rng.choice((1, 1, 1, 2, 3) if rest else (3, 8))):
                after.append(self._something_happens())
                for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
                    self._step()
                self._now += rng.choice((0.0, 0.0, 0.1, 0.5))
            self._settle(_BACK_OFF)
            self._engine.check_consistent()
            for entity in list(self._engine.queue.entities()):
                by_the_clock = max(entity.evict_after, entity.plan_again_at) > self._now
                if entity.state is QueueState.UNSCHEDULABLE and not by_the_clock:
                    self._engine.queue.activate(entity)
            if done := self._settle(0.0):
                found.append(Forgotten(after, done))
        return found

    # --- time --------------------------------------------------------------------------------

    def _time(self) -> float:
        return self._now

    def _settle(self, seconds: float) -> list[str]:
        """Until nothing is to be done for so long; returns what was done."""
        done, until, steps = list[str](), self._now + seconds, 0
        while True:
            due = any(when <= self._now for when in self._leaving.values())
            if self._engine.ready or due:
                steps += 1
                assert steps < _MOST_STEPS, "it never comes to an end"
                done += self._step()
            elif self._now >= until:
                return done
            else:
                self._now += 0.5
                done += self._step()

    def _step(self) -> list[str]:
        """One step of the engine; what it asks for is done at once."""
        engine, done = self._engine, list[str]()
        for key in [key for key, when in self._leaving.items() if when <= self._now]:
            self._gone(key)
        for effect in engine.run(self._now, limit=1, seconds=1e9):
            if engine.awaits(effect):
                engine.on_outcome(effect, Applied(), self._now)
            if text := self._carry_out(effect):
                done.append(text)
        return done

    def _carry_out(self, effect: Effect) -> str:
        """What the server and its controllers make of it; who was bound or evicted by it."""
        match effect:
            case Bind():
                key = f"{effect.pod.namespace}/{effect.pod.name}"
                self._node_of[key] = effect.node
                self._show(key)
                return f"Bind {key}"
            case DeletePod():
                key = f"{effect.pod.namespace}/{effect.pod.name}"
                self._leaving[key] = self._now + self._rng.choice((0.0, 0.3, 2.0))
                return f"DeletePod {key}"
            case ReserveClaim():
                self._devices.on_reserved(effect)
            case ReleaseClaim():
                self._devices.on_released(effect)
            case PatchObject() if "/persistentvolume" in effect.path:
                self._volumes.on_written(effect)
        return ""

    # --- what happens ------------------------------------------------------------------------

    def _something_happens(self) -> str:
        rng, events = self._rng, self._focus.events
        what = rng.choices(list(events), list(events.values()))[0]
        own: Mapping[str, Callable[[], None]] = {
            "ends": lambda: self._some_go(sorted(self._node_of)),
            "goes": lambda: self._some_go(sorted(self._pods.keys() - self._node_of.keys())),
            "arrives": self._arrives,
            "edited": lambda: self._is_edited(sorted(self._pods.keys() - self._node_of.keys())),
            "shrinks": lambda: self._shrinks(sorted(self._node_of)),
            "time": self._time_passes,
        }
        every = {**own, **self._around.events, **self._volumes.events, **self._devices.events}
        every[what]()
        return what

    def _time_passes(self) -> None:
        self._settle(self._rng.choice((3.0, 10.0, 30.0)))

    def _some_go(self, keys: list[str]) -> None:
        if keys:
            self._gone(self._rng.choice(keys))

    def _is_edited(self, keys: list[str]) -> None:
        if keys:
            key = self._rng.choice(keys)
            self._pods[key] = self._arrivals.edited(self._pods[key])
            self._show(key)

    def _shrinks(self, keys: list[str]) -> None:
        """One that runs requests less, or one that waits."""
        keys += sorted(self._pods.keys() - self._node_of.keys())
        if keys:
            key = self._rng.choice(keys)
            self._pods[key] = smaller(self._pods[key])
            self._show(key)

    # --- pods --------------------------------------------------------------------------------

    def _arrives(self) -> None:
        for pod in self._arrivals.next(self._around.a_group):
            key = pod.build().key
            self._pods[key] = pod
            self._show(key)

    def _show(self, key: str) -> None:
        pod = self._pods[key]
        if node := self._node_of.get(key):
            pod = pod.on(node)
        self._engine.handlers.on_pod_updated(pod.build(), self._now)

    def _gone(self, key: str) -> None:
        self._leaving.pop(key, None)
        self._node_of.pop(key, None)
        if (pod := self._pods.pop(key, None)) is not None:
            self._engine.handlers.on_pod_deleted(key, self._now)
            meta = pod.build().metadata
            self._devices.on_pod_gone(meta.uid, meta.name)


def _profile(*, spread: bool) -> Profile:
    """The default one; with hard spreading over zones by default, where it is ``spread``."""
    made: list[PluginWeight] = []
    for plugin, weight in DEFAULT_PLUGINS:
        if plugin is PodTopologySpread and spread:
            constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            args = {"defaultingType": "List", "defaultConstraints": [constraint]}
            made.append(PluginWeight(plugin(PodTopologySpreadArgs.model_validate(args)), weight))
        else:
            made.append(PluginWeight(plugin(), weight))
    return Profile("arranger", made)
