"""Random worlds of two namespaces that come to rest again and again, decided in small steps.

Whoever waits at rest is tried once more: if anything comes of that, something has happened by which
it could have been placed, and it was not told.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.api.types.core import Namespace
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.api.types.workloads import Owner, ReplicaSet, Service
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.context.queue_state import QueueState
from arranger.engine.engine import Engine
from arranger.engine.gang.state.policy import GangPolicy
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins import DEFAULT_PLUGINS
from arranger.plugins.topology.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group, a_queue

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
SPACES: Final = ("a", "b")
QUEUES: Final = ("red", "blue")
PREEMPTABLE: Final = "volcano.sh/preemptable"
#: Seconds in which back-offs end.
_BACK_OFF: Final = 12.0
_MOST_STEPS: Final = 3000
#: What happens → how often.
EVENTS: Final[Mapping[str, float]] = {
    "ends": 6,
    "arrives": 4,
    "node": 2,
    "namespace": 3,
    "service": 2,
    "replica set": 1,
    "owner": 2,
    "group": 3,
    "queue": 1,
    "goes": 1,
}


#: How pods choose their nodes → how often.
TRAITS: Final[Mapping[str, float]] = {"": 6, "spread": 2, "apart": 3, "near": 1, "owned": 3}


class Focus(NamedTuple):
    """What happens, and how pods are, in worlds in which few kinds of events wake anybody."""

    events: Mapping[str, float]
    traits: Mapping[str, float]


_FEW: Final = {"arrives": 3, "ends": 1}
#: Of one world after the other.
FOCUSES: Final = (
    Focus(EVENTS, TRAITS),
    Focus({**_FEW, "service": 6, "replica set": 4}, {"": 1, "owned": 8}),
    Focus({**_FEW, "owner": 8}, {"": 1, "owned": 9}),
    Focus({**_FEW, "group": 8}, {"": 8, "owned": 1}),
    Focus({**_FEW, "namespace": 8}, {"": 2, "apart": 6, "near": 3}),
)


class Forgotten(NamedTuple):
    """What came of trying those again that waited at rest.

    Attributes:
        after: what had happened since the rest before.
        done: who was bound or evicted.
    """

    after: list[str]
    done: list[str]


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


class RestingWorld:
    """One world."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = random.Random(seed)
        self._focus, never = FOCUSES[seed % len(FOCUSES)], float("inf")
        self._engine = Engine(
            EngineSettings(
                [_profile(spread=rng.random() < 0.5 or "service" in self._focus.events)],
                gang_policy=GangPolicy(starvation_after=never, wait_time=10_000.0),
                quota_config=QuotaConfig(),
                perf_counter=lambda: 0.0,
            )
        )
        self._handlers = self._engine.handlers
        self._now, self._born = 0.0, 0
        #: namespace/name → pod, as the server has it; of those that run, where.
        self._pods: dict[str, PodBuilder] = {}
        self._node_of: dict[str, str] = {}
        self._leaving: dict[str, float] = {}
        self._groups: list[tuple[str, str]] = []
        self._has_queues = rng.random() < 0.5 or not {"owner", "group"}.isdisjoint(
            self._focus.events
        )
        for name in SPACES:
            self._namespace(name)
        for name in ("default", *QUEUES) if self._has_queues else ():
            self._queue(name)
        self._nodes = rng.randint(2, 5)
        for number in range(self._nodes):
            self._node(number)
        self._handlers.start(0.0)
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
                if entity.state is QueueState.UNSCHEDULABLE:
                    self._engine.queue.activate(entity)
            if done := self._settle(0.0):
                found.append(Forgotten(after, done))
        return found

    # --- time --------------------------------------------------------------------------------

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
            if isinstance(effect, Bind | DeletePod):
                key = f"{effect.pod.namespace}/{effect.pod.name}"
                engine.on_outcome(effect, Applied(), self._now)
                if isinstance(effect, Bind):
                    self._node_of[key] = effect.node
                    self._show(key)
                else:
                    self._leaving[key] = self._now + self._rng.choice((0.0, 0.3, 2.0))
                done.append(f"{type(effect).__name__} {key}")
            elif engine.awaits(effect):
                engine.on_outcome(effect, Applied(), self._now)
        return done

    # --- what happens ------------------------------------------------------------------------

    def _something_happens(self) -> str:
        rng = self._rng
        running = sorted(self._node_of)
        waiting = sorted(self._pods.keys() - self._node_of.keys())
        events = self._focus.events
        what = rng.choices(list(events), list(events.values()))[0]
        space = rng.choice(SPACES)
        match what:
            case "ends" if running:
                self._gone(rng.choice(running))
            case "arrives":
                self._arrives()
            case "node":
                self._node(rng.randrange(self._nodes))
            case "namespace":
                self._namespace(space)
            case "service":
                self._service(space)
            case "replica set":
                selector = {"matchLabels": {"app": rng.choice("st")}}
                made = _made(ReplicaSet, f"rs-{space}", space, spec={"selector": selector})
                self._handlers.on_object_updated(made, self._now)
            case "owner":
                self._owner(space)
            case "group" if self._groups:
                self._group(*rng.choice(self._groups))
            case "queue" if self._has_queues:
                self._queue(rng.choice(QUEUES))
            case "goes" if waiting:
                self._gone(rng.choice(waiting))
        return what

    def _namespace(self, name: str) -> None:
        labels = self._rng.choice(({"team": "x"}, {"team": "y"}, {}))
        meta = {"name": name, "uid": f"uid-{name}", "labels": labels}
        self._handlers.on_object_updated(msgspec.convert({"metadata": meta}, Namespace), self._now)

    def _queue(self, name: str) -> None:
        rng = self._rng
        spec: dict[str, Any] = {"reclaimable": rng.random() < 0.5}
        if name != "default" and rng.random() < 0.6:
            spec["capability"] = {"cpu": rng.randint(3, 9)}
        self._handlers.on_queue_updated(a_queue(name, **spec), self._now)

    def _node(self, number: int) -> None:
        rng = self._rng
        node = a_node(f"n{number}").offers(cpu=rng.choice((1, 2, 4, 4)))
        node = node.labelled({ZONE: f"z{number % 2}"})
        self._handlers.on_node_updated(node.build(), self._now)

    def _service(self, space: str) -> None:
        rng = self._rng
        service = _made(Service, "s", space, spec={"selector": {"app": rng.choice("st")}})
        if rng.random() < 0.5:
            self._handlers.on_object_updated(service, self._now)
        else:
            self._handlers.on_object_deleted(service, self._now)

    def _owner(self, space: str) -> None:
        """The ReplicaSet of a namespace says something else of its pods."""
        rng, notes = self._rng, dict[str, str]()
        if rng.random() < 0.6:
            notes[PREEMPTABLE] = rng.choice(("true", "false"))
        if rng.random() < 0.4:
            notes["volcano.sh/service.type"] = rng.choice(("inference", "training"))
        meta = {"name": f"rs-{space}", "namespace": space, "uid": f"uid-ReplicaSet-rs-{space}"}
        owner = msgspec.convert({"metadata": {**meta, "annotations": notes}}, Owner)
        self._engine.owner_handlers.on_updated(owner, self._now)

    # --- pods --------------------------------------------------------------------------------

    def _arrives(self) -> None:
        rng = self._rng
        self._born += 1
        space, name = rng.choice(SPACES), f"g{self._born}"
        if rng.random() < 0.5:
            self._create([self._pod(f"p{self._born}", space, self._traits())])
            return
        traits, count = self._traits(), rng.randint(2, 4)
        pods = [self._pod(f"{name}-{n}", space, traits) for n in range(count)]
        if rng.random() < 0.4:
            self._groups.append((space, name))
            self._group(space, name)
            pods = [pod.annotated({"scheduling.k8s.io/group-name": name}) for pod in pods]
        else:
            least = rng.randint(1, count)
            pods = [pod.in_gang(name, least) for pod in pods]
        self._create(pods)

    def _traits(self) -> dict[str, Any]:
        rng = self._rng
        wanted = {"cpu": rng.choice(("500m", "1", "1", "2", "3"))}
        return {**wanted, "priority": rng.choice((0, 0, 10)), "queue": rng.choice(("", *QUEUES))}

    def _pod(self, name: str, space: str, traits: Mapping[str, Any]) -> PodBuilder:
        rng = self._rng
        pod = a_pod(name).in_namespace(space).needs(cpu=traits["cpu"])
        pod = pod.with_priority(traits["priority"]).labelled(app=rng.choice("st"))
        if self._has_queues and traits["queue"]:
            pod = pod.in_queue(traits["queue"])
        if self._has_queues and rng.random() < 0.3:
            pod = pod.annotated({PREEMPTABLE: rng.choice(("true", "false"))})
        others = {"app": rng.choice("st")}
        teams = {"namespaceSelector": {"matchLabels": {"team": rng.choice("xy")}}}
        traits_of = self._focus.traits
        match rng.choices(list(traits_of), list(traits_of.values()))[0]:
            case "spread":
                return pod.spreads(rng.choice((ZONE, HOST)), over=others)
            case "apart":
                return pod.apart(rng.choice((HOST, ZONE)), others, **rng.choice(({}, teams)))
            case "near":
                return pod.near(ZONE, others, **teams)
            case "owned":
                return pod.owned_by("ReplicaSet", f"rs-{space}")
        return pod

    def _group(self, space: str, name: str) -> None:
        """The PodGroup of a gang appears, or says something else."""
        rng = self._rng
        group = a_pod_group(name, least=rng.randint(1, 4))
        if self._has_queues:
            group = group._set("spec", queue=rng.choice(QUEUES))
        if rng.random() < 0.3:
            group = group.annotated({PREEMPTABLE: rng.choice(("true", "false"))})
        made = group._set("metadata", namespace=space).build(VolcanoPodGroup)
        self._handlers.on_pod_group_updated(made, self._now)

    def _create(self, pods: list[PodBuilder]) -> None:
        for pod in pods:
            key = pod.build().key
            self._pods[key] = pod
            self._show(key)

    def _show(self, key: str) -> None:
        pod = self._pods[key]
        if node := self._node_of.get(key):
            pod = pod.on(node)
        self._handlers.on_pod_updated(pod.build(), self._now)

    def _gone(self, key: str) -> None:
        self._leaving.pop(key, None)
        self._node_of.pop(key, None)
        if self._pods.pop(key, None) is not None:
            self._handlers.on_pod_deleted(key, self._now)


def _made(kind: type[Any], name: str, space: str, **more: Any) -> Any:
    meta = {"name": name, "namespace": space, "uid": f"uid-{kind.__name__}-{name}"}
    return msgspec.convert({"metadata": meta, **more}, kind)
