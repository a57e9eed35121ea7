"""Random busy worlds: pods end on all nodes at all times, and entities of all kinds wait."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from arranger.api.effects import Applied, Bind, DeletePod, Effect, Refused
from arranger.api.types.pod_groups import SigsPodGroup, VolcanoPodGroup
from arranger.api.types.queue import Queue
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, a_pod_group, a_queue
from tests.simulation.harnesses.engine_trace import EngineTrace
from tests.simulation.queue_order.judge import Judge
from tests.specification.premises import Premises

CONFLICT = Refused(409, "Conflict", "the object has been modified")
DIALECTS = ("annotations", "bundles", "sigs", "volcano", "job")
ZONE = "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"
MODELS = ("H100", "L40")


@dataclass
class BusyWorld:
    """A cluster in which something always ends, and more waits than fits."""

    seed: int
    steps: int = 30
    now: float = 0.0
    born: int = 0
    nodes: dict[str, NodeBuilder] = field(default_factory=dict)
    #: Name → pod, as the server has it.
    pods: dict[str, PodBuilder] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    leaving: dict[str, float] = field(default_factory=dict)
    queues: tuple[str, ...] = ()
    queue_objects: list[Queue] = field(default_factory=list)
    #: Whether pods ask for accelerators, of which queues have quotas by model.
    cards: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        #: Says what is particular to queues, so that worlds without them are as they were.
        self.queue_rng = random.Random(f"queues {self.seed}")
        # A starving gang has nodes kept free for it: said in docs/design/queue-order.md.
        policy = GangPolicy(starvation_after=float("inf"), wait_time=30.0)
        asked = SchedulingQueueConfig(questions_at_once=self._questions_at_once())
        self.engine = Engine(
            EngineSettings(
                [default_profile()],
                queue_config=asked,
                gang_policy=policy,
                quota_config=QuotaConfig(),
                perf_counter=lambda: 0.0,  # attempts are counted
            )
        )
        self.judge = Judge(self.engine)
        # A Binding in 33 is refused.
        premises = Premises(writes_may_fail=True, bind_seconds=float("inf"))
        self.trace = EngineTrace(premises)
        if self.rng.random() < 0.3:
            self.queues = ("red", "blue")
            self._create_queues()
        for n in range(self.rng.randint(2, 4)):
            self._set_node(f"n{n}")
        for _ in range(self.rng.randint(2, 6)):
            self._arrives()

    def _questions_at_once(self) -> int:
        """Whether those that wait are asked one by one or all at once, the order is the same."""
        return (512, 1, 2)[self.seed % 3]

    def _create_queues(self) -> None:
        more = self.queue_rng
        parent = {"parent": "all"} if more.random() < 0.5 else {}
        self.cards, reclaimable = more.random() < 0.4, more.random() < 0.5
        found = [a_queue("all", capability={"cpu": more.randint(6, 12)})] if parent else []
        for name in self.queues:
            limit: dict[str, Any] = {**parent, "reclaimable": reclaimable}
            if self.rng.random() >= 0.5:
                limit["capability"] = {"cpu": self.rng.randint(3, 8)}
            if self.cards and more.random() < 0.8:
                limit["cards"] = {model: more.randint(1, 4) for model in MODELS}
            found.append(a_queue(name, **limit))
        self.queue_objects = found
        for queue in found:
            self.engine.handlers.on_queue_updated(queue, self.now)
            head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
            self.trace.shows({**msgspec.to_builtins(queue), **head}, self.now)

    def play(self) -> Judge:
        """Let it be busy for a while; returns what the judge has seen."""
        for _ in range(self.steps):
            for _ in range(self.rng.randint(1, 2)):
                self._something_happens()
            self._decide()
            self.now += self.rng.choice((0.0, 0.1, 0.25, 0.5, 1.0, 3.0))
        self.engine.check_consistent()
        self.trace.check(self.now)
        return self.judge

    # --- what happens ----------------------------------------------------------------------------

    def _something_happens(self) -> None:
        match self.rng.choices(("ends", "arrives", "node", "edit", "goes"), (10, 5, 1, 1, 1))[0]:
            case "ends" if self.running:
                self._gone(self.rng.choice(sorted(self.running)))
            case "arrives":
                self._arrives()
            case "node":
                self._set_node(self.rng.choice(["n0", "n1", "n2", "n3"]))
            case "edit":
                self._edit()
            case "goes":
                waiting = sorted(self.pods.keys() - self.running.keys())
                if waiting:
                    self._gone(self.rng.choice(waiting))

    def _decide(self) -> None:
        for name in [name for name, when in self.leaving.items() if when <= self.now]:
            del self.leaving[name]
            if name in self.pods:
                self._gone(name)
        for effects in self._decisions():
            for effect in effects:
                self._carry_out(effect)

    def _decisions(self) -> Iterator[list[Effect]]:
        """What is asked for, one decision after the other."""
        return self.judge.decide(self.now)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Bind):
            name = effect.pod.name
            if self.rng.random() < 0.03:
                self.engine.on_outcome(effect, CONFLICT, self.now)
                gang = self.engine.registry.gang_of(effect.pod.uid)
                self.judge.refused |= {effect.pod.uid, *(gang.memberships if gang else ())}
                return
            self.trace.applied(effect, self.now)
            self.engine.on_outcome(effect, Applied(), self.now)
            self.running[name] = effect.node
            self._show(name)
        elif isinstance(effect, DeletePod):
            self.trace.applied(effect, self.now)
            self.engine.on_outcome(effect, Applied(), self.now)
            self.leaving[effect.pod.name] = self.now + self.rng.choice((0.0, 0.3, 2.0))
        else:
            self.trace.applied(effect, self.now)
            if self.engine.awaits(effect):
                self.engine.on_outcome(effect, Applied(), self.now)

    def _gone(self, name: str) -> None:
        self.pods.pop(name)
        self.running.pop(name, None)
        self.trace.gone(name, self.now)
        self.engine.handlers.on_pod_deleted(f"default/{name}", self.now)

    def _show(self, name: str) -> None:
        pod = self.pods[name]
        if name in self.running:
            pod = pod.on(self.running[name])
        self.trace.shows(pod.manifest(), self.now)
        self.engine.handlers.on_pod_updated(pod.build(), self.now)

    def _edit(self) -> None:
        waiting = sorted(self.pods.keys() - self.running.keys())
        if waiting:
            name = self.rng.choice(waiting)
            self.pods[name] = self.pods[name].labelled(edited=str(self.born))
            self._show(name)

    def _set_node(self, name: str) -> None:
        node = a_node(name).offers(cpu=self.rng.choice((1, 2, 4, 4, 6)))
        node = node.labelled({ZONE: self.rng.choice(("z0", "z1"))}).saying(Ready="True")
        if self.cards:
            model = self.queue_rng.choice(MODELS)
            node = node.labelled({f"{GPU}.product": model}).offers({GPU: 4})
        self.nodes[name] = node
        self.trace.shows(node.manifest(), self.now)
        self.engine.handlers.on_node_updated(node.build(), self.now)

    # --- who arrives -----------------------------------------------------------------------------

    def _arrives(self) -> None:
        self.born += 1
        kind = self.rng.choice(("pod", "pod", *DIALECTS))
        if kind == "pod":
            self._create([self._pod(f"p{self.born}")])
            return
        name, rng = f"g{self.born}", self.rng
        count = rng.randint(1, 4)
        least = rng.randint(1, count)
        mixed = rng.random() < 0.25
        common = self._traits(rng.randint(1, 2))
        pods = [
            (
                self._pod(f"{name}-{n}", common)
                if not mixed
                else self._pod(f"{name}-{n}", self._traits(rng.randint(1, 3), common))
            )
            for n in range(count)
        ]
        self._create(self._in_gang(kind, name, pods, least))

    def _traits(self, cpu: int, like: dict[str, Any] | None = None) -> dict[str, Any]:
        rng = self.rng
        known = like or {
            "priority": rng.choice((0, 0, 0, 10, 100)),
            "queue": rng.choice(self.queues or ("",)),
        }
        where = rng.choices(("", "zone", "spread", "apart"), (8, 1, 1, 1))[0]
        gpu = like["gpu"] if like else self.cards and self.queue_rng.choice((0, 1, 1, 2))
        return {**known, "cpu": cpu, "where": where, "gpu": gpu}

    def _pod(self, name: str, traits: dict[str, Any] | None = None) -> PodBuilder:
        given = traits or self._traits(self.rng.choice((1, 1, 2, 3)))
        created = datetime.fromtimestamp(1_700_000_000 + int(self.now), UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
        pod = a_pod(name).needs(cpu=given["cpu"]).with_priority(given["priority"]).created(created)
        if given["queue"]:
            pod = pod.in_queue(given["queue"])
            pod = pod.serving("inference" if given["queue"] == "red" else "training")
            if given["gpu"]:
                pod = pod.needs({GPU: given["gpu"]}, cpu=given["cpu"])
        match given["where"]:
            case "zone":
                return pod.selects({ZONE: "z0"})
            case "spread":
                return pod.labelled(app="s").spreads(ZONE, over={"app": "s"})
            case "apart":
                return pod.labelled(app="a").apart("kubernetes.io/hostname", {"app": "a"})
        return pod

    def _in_gang(
        self, dialect: str, name: str, pods: list[PodBuilder], least: int
    ) -> list[PodBuilder]:
        rng = self.rng
        mode = rng.choice(("Strict", "Strict", "NonStrict"))
        match dialect:
            case "bundles":
                cut = rng.randint(1, len(pods))
                parts = [("a", pods[:cut]), ("b", pods[cut:])]
                return [
                    p.in_bundle(name, b, rng.randint(1, len(part)))
                    for b, part in parts
                    for p in part
                ]
            case "sigs":
                group = a_pod_group(name, least=least)
                self.trace.shows(group.manifest(), self.now)
                self.engine.handlers.on_pod_group_updated(group.build(SigsPodGroup), self.now)
                return [pod.in_pod_group(name) for pod in pods]
            case "volcano":
                group = a_pod_group(name, least=least)
                if self.cards:
                    queue = self.queue_rng.choice(self.queues)
                    request = {self.queue_rng.choice(MODELS): self.queue_rng.randint(1, 2)}
                    group = a_pod_group(name, least=least, queue=queue)
                    group = group.annotated({"volcano.sh/card.request": json.dumps(request)})
                    pods = [pod.in_queue(queue) for pod in pods]
                head = {"apiVersion": "scheduling.volcano.sh/v1beta1"}
                self.trace.shows({**group.manifest(), **head}, self.now)
                self.engine.handlers.on_pod_group_updated(group.build(VolcanoPodGroup), self.now)
                return [pod.annotated({"scheduling.k8s.io/group-name": name}) for pod in pods]
            case "job":
                notes = {"arranger.io/job-priority": str(rng.choice((1, 5, 10)))}
                if rng.random() < 0.3:
                    notes["arranger.io/job-queue-policy"] = "DRF"
                return [pod.of_tyjob(name).in_gang(name, least).annotated(notes) for pod in pods]
        return [pod.in_gang(name, least, mode=mode) for pod in pods]

    def _create(self, pods: list[PodBuilder]) -> None:
        for pod in pods:
            name = pod.manifest()["metadata"]["name"]
            self.pods[name] = pod
            self._show(name)
