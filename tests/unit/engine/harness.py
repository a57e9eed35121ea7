"""Drives an engine as the daemon does, with the clock in the test's hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest

from arranger.api.effects import (
    Applied,
    Bind,
    Effect,
    ObjectKey,
    Outcome,
    PatchPodStatus,
    PublishEvent,
    Refused,
)
from arranger.api.extenders import Extender
from arranger.api.quarantine import UnreadableError
from arranger.api.tracing import NO_TRACER, Tracer
from arranger.api.types.queue import Queue
from arranger.backfill import planner
from arranger.cluster.nodes.node_view import NodeInfo
from arranger.cluster.pod_info import PodInfo
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.engine import Engine
from arranger.engine.gang.planning import needs, trials
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.framework.cluster_event import ActionType, QueueingHint
from arranger.framework.interface import DependsOn, Plugin, QueueSortInput, SpecOnlyPlugin
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.framework.status import CycleState, Status
from arranger.gangs.workloads.kinds import WorkloadKind
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import NodeBuilder, PodBuilder, PodGroupBuilder
from tests.unit.engine.gang_server import GangServer, GangWrite

E = TypeVar("E", bound=Effect)

CONFLICT = Refused(409, "Conflict", "the object has been modified")


class FirstCome(SpecOnlyPlugin):
    def sort_key(self, queued: QueueSortInput) -> float:
        return queued.queued_at


class CpuFit(SpecOnlyPlugin):
    """Enough cpu, and nothing else."""

    depends_on = DependsOn.USAGE
    queueing_hints = (QueueingHint(ActionType.CAPACITY_FREED),)

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if pod.requests.get("cpu", 0) > node.free("cpu"):
            return self.reject("Insufficient cpu")
        return None


class BindAll(SpecOnlyPlugin):
    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Bind:
        meta = pod.pod.metadata
        return Bind(ObjectKey(meta.namespace, meta.name, meta.uid), node)


def small_profile(*more: Plugin, name: str = "arranger") -> Profile:
    """First come first served by cpu, and ``more``."""
    plugins: Sequence[Plugin] = (FirstCome(), CpuFit(), *more, BindAll())
    return Profile(name, [PluginWeight(plugin) for plugin in plugins])


class EngineHarness:
    """An engine, what it has asked for, and the time."""

    def __init__(
        self,
        *profiles: Profile,
        gangs: GangPolicy | None = None,
        queues: QuotaConfig | None = None,
        extenders: Sequence[Extender] = (),
        parallel: int = 1,
        workloads: Sequence[WorkloadKind] = (),
        queue_config: SchedulingQueueConfig | None = None,
        max_checkpoint_time: float = 0.0,
        max_grace_period: int | None = None,
        unix_start: float = 0.0,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self.engine = Engine(
            EngineSettings(
                profiles,
                queue_config=queue_config or SchedulingQueueConfig(),
                gang_policy=gangs or GangPolicy(),
                quota_config=queues or QuotaConfig(),
                workload_kinds=workloads,
                extenders=extenders,
                parallel_extender_calls=parallel,
                max_checkpoint_time=max_checkpoint_time,
                max_grace_period=max_grace_period,
                to_unix_time=lambda now: unix_start + now,
                tracer=tracer,
            )
        )
        self.now = 0.0
        self.effects: list[Effect] = []
        self.gang_server = GangServer()
        #: Whether something is to be set aside: then it may be in quarantine at the end.
        self.expects_faults = False

    # --- what happens ------------------------------------------------------------------------

    def start(self) -> None:
        """All that was there at the start has been shown; what comes now is news."""
        self.engine.handlers.start(self.now)

    def observe(self, *objects: NodeBuilder | PodBuilder | PodGroupBuilder | Queue) -> None:
        """The watch shows objects, new or edited."""
        for obj in objects:
            if isinstance(obj, NodeBuilder):
                self.engine.handlers.on_node_updated(obj.build(), self.now)
            elif isinstance(obj, Queue):
                self.engine.handlers.on_queue_updated(obj, self.now)
            elif isinstance(obj, PodGroupBuilder):
                self.engine.handlers.on_pod_group_updated(obj.build(), self.now)
            else:
                self.engine.handlers.on_pod_updated(obj.build(), self.now)
            self.engine.check_consistent()

    def observe_unreadable(
        self, obj: NodeBuilder | PodBuilder, before: NodeBuilder | PodBuilder | None = None
    ) -> None:
        """The watch shows what cannot be read of an object that was in order ``before``."""
        self.expects_faults = True
        state = obj.build()
        kind = self.engine.handlers.kinds[type(state)]
        with pytest.raises(UnreadableError) as raised:
            kind.updated(state, self.now)
        known = None if before is None else before.build()
        self.engine.barrier.on_update_fault(kind, state, known, raised.value, self.now)
        self.engine.check_consistent()

    def observe_deleted(self, *objects: NodeBuilder | PodBuilder | PodGroupBuilder) -> None:
        """The watch shows that objects were deleted."""
        for obj in objects:
            meta = obj.manifest()["metadata"]
            if isinstance(obj, PodGroupBuilder):
                self.engine.handlers.on_pod_group_deleted(obj.build(), self.now)
            elif isinstance(obj, NodeBuilder):
                self.engine.handlers.on_node_deleted(meta["name"], self.now)
            else:
                self.engine.handlers.on_pod_deleted(f"{meta['namespace']}/{meta['name']}", self.now)
            self.engine.check_consistent()

    def advance_to(self, now: float) -> list[Effect]:
        """Let time pass without anything happening; returns what the engine then asks for."""
        self.now = now
        return self.run()

    def run(self) -> list[Effect]:
        """Run until nothing is ready; returns what the engine asks for."""
        said: list[Effect] = self.engine.run(self.now)
        self.engine.check_consistent()
        while self.engine.ready:
            said += self.engine.run(self.now)
            self.engine.check_consistent()
        self.effects += said
        return said

    def settle(self, effect: Effect, outcome: Outcome | None = None) -> list[Effect]:
        """An effect has ended, well unless said otherwise; returns what the engine then wants."""
        self.engine.on_outcome(effect, outcome or Applied(), self.now)
        self.engine.check_consistent()
        return self.run()

    def settle_all(self, effects: Sequence[Effect]) -> None:
        """All Bindings among the effects are taken by the server, and seen."""
        for bind in of_kind(Bind, effects):
            self.settle(bind)

    def settle_gangs(self, effects: Sequence[Effect] | None = None) -> list[GangWrite]:
        """Writes to Gang objects are carried out and seen, until no more follow; returns them."""
        effects, done = self.effects if effects is None else effects, []
        taken = set(map(id, self.gang_server.writes))
        todo = [e for e in effects if isinstance(e, GangWrite) and id(e) not in taken]
        for effect in todo:
            done.append(effect)
            name, outcome = self.gang_server.apply(effect)
            self.engine.on_outcome(effect, outcome, self.now)
            if name in self.gang_server.objects:
                self.engine.handlers.on_gang_updated(self.gang_server.get(name), self.now)
            self.engine.check_consistent()
        if todo:
            done += self.settle_gangs(self.run())
        return done

    # --- what the engine says ----------------------------------------------------------------

    def binding(self, name: str) -> Bind:
        """The last Binding posted for a pod."""
        return [bind for bind in of_kind(Bind, self.effects) if bind.pod.name == name][-1]

    def queued_pod(self, name: str) -> QueuedPod:
        """The engine's record of a pod that is neither bound nor gone."""
        (member,) = [m for m in self.engine.pods() if m.pod.pod.metadata.name == name]
        return member

    def entity(self, name: str) -> QueuedEntity:
        """What the queue holds for a pod that has no node."""
        entity = self.queued_pod(name).entity
        assert entity is not None
        return entity

    def queue_state(self, name: str) -> QueueState:
        """Where in the queue it is; OUT for a pod that has a node."""
        entity = self.queued_pod(name).entity
        return QueueState.NOT_QUEUED if entity is None else entity.state

    def phase(self, name: str) -> Phase:
        return self.queued_pod(name).phase

    def node_of(self, pod: PodBuilder) -> str | None:
        return self.engine.cluster.node_of(pod.manifest()["metadata"]["uid"])


def of_kind(kind: type[E], effects: Sequence[Effect]) -> list[E]:
    """The effects of one kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def placements(effects: Sequence[Effect]) -> list[tuple[str, str]]:
    """(pod, node) of each Binding, in order."""
    return [(bind.pod.name, bind.node) for bind in of_kind(Bind, effects)]


def event_notes(effects: Sequence[Effect]) -> list[tuple[str, str]]:
    """(reason, text) of each Event, in order."""
    return [(event.reason, event.note) for event in of_kind(PublishEvent, effects)]


def conditions(effects: Sequence[Effect]) -> list[tuple[str, str]]:
    """(reason, text) of each PodScheduled condition written, in order."""
    patched = [p.condition for p in of_kind(PatchPodStatus, effects) if p.condition is not None]
    assert all((c.type, c.status) == ("PodScheduled", "False") for c in patched)
    return [(c.reason, c.message) for c in patched if c is not None]


def plan_starts_in_tiny_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the starts of gangs are planned in as many steps as can be."""
    monkeypatch.setattr(trials, "STEP_UNITS", 1)
    monkeypatch.setattr(trials, "MANY_MEMBERS", 0)
    for module in (planner, needs):  # as if there were many nodes
        monkeypatch.setattr(module, "_ROWS_PER_UNIT", 1)
    monkeypatch.setattr(planner, "_PODS_PER_UNIT", 1)
