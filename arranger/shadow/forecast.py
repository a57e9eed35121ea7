"""What the scheduler would do with a cluster that nobody else changes any more.

The engine is the scheduler's own, fed with copies of the objects. What it asks for is done at once
on these copies, and time passes only when nothing else is left to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from arranger.api.effects import Eviction
from arranger.api.timestamps import after
from arranger.api.types.core import Pod
from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config
from arranger.daemon.informers import STORED_OWNERS
from arranger.engine.engine import Engine
from arranger.engine.entity import QueuedPod
from arranger.engine.phases import Phase
from arranger.shadow.objects import ClusterObjects
from arranger.shadow.writes import Change, ImmediateWrites

#: Seconds of its time without a Binding, eviction or nomination that end a forecast, beside what
#: gangs wait and starve.
_QUIET_SECONDS: Final = 30.0
#: Seconds that a pod takes to end, whatever it was given: shorter than any back-off.
_TERMINATION_SECONDS: Final = 0.5
#: Bindings and evictions after which it ends in any case: pods may evict each other for ever.
_MOVES: Final = 1_000
_MOVES_EACH: Final = 4


@dataclass(frozen=True, slots=True)
class Forecast:
    """What becomes of the pods of our schedulers.

    Attributes:
        nodes: pod that waited (``namespace/name``) → the node it goes to.
        held: pod → the node that is kept for it until others of its gang have one.
        evicted: pod → why it has to leave its node.
        waiting: pod → why it still waits, as its condition would say.
        remade: the pods among them that are made in place of evicted ones.
        unfinished: whether it was broken off: pods evict each other without an end.
        objects: as they would be then.
        engine: as it would be then.
    """

    nodes: Mapping[str, str]
    held: Mapping[str, str]
    evicted: Mapping[str, Eviction]
    waiting: Mapping[str, str]
    remade: frozenset[str]
    unfinished: bool
    objects: ClusterObjects
    engine: Engine


def forecast(
    objects: ClusterObjects, config: Config, *, now: datetime, seconds: float = 3600.0
) -> Forecast:
    """What the scheduler would do with these objects; they are not changed.

    Args:
        now: the time at the beginning, with a zone.
        seconds: of its own time, after which it ends.

    Extenders are not asked, and nobody provisions volumes: a pod that waits for its volumes on a
    node counts as going there.

    Raises:
        ConfigError: the configured plugins cannot be used.
    """
    return _Driver(objects.copy(), config, now).run(seconds)


@dataclass(slots=True, eq=False)
class _Driver:
    """Drives an engine as the daemon does, with the clock in its hand."""

    objects: ClusterObjects
    config: Config
    began: datetime
    now: float = field(default=0.0, init=False)
    engine: Engine = field(init=False)
    writes: ImmediateWrites = field(init=False)
    moves: int = field(default=0, init=False)
    moved_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        config, began = self.config, self.began.timestamp()
        queue = replace(config.scheduling_queue_config(), flush_after=float("inf"))
        self.engine = Engine(
            build_profiles(config),
            queue_config=queue,
            gang_policy=config.gang_policy(),
            quota_config=config.quota_config(),
            workload_kinds=config.workload_kinds(),
            to_unix_time=lambda now: began + now,
        )
        self.writes = ImmediateWrites(self.objects, lambda: after(self.began, self.now))

    def run(self, seconds: float) -> Forecast:
        self._feed()
        waited = [pod.key for pod in self.objects.of(Pod) if not pod.spec.node_name]
        gangs = self.config.gangs
        quiet = _QUIET_SECONDS + max(gangs.wait_time_seconds, gangs.starvation_after_seconds)
        most = _MOVES + _MOVES_EACH * len(waited)
        while self.moves < most:
            self._run_engine()
            if self._end_terminating():
                continue
            due = self.engine.next_timer()
            if due is None or due > min(self.moved_at + quiet, seconds):
                break
            self.now = max(due, self.now)
        return self._result(waited, unfinished=self.moves >= most)

    def _end_terminating(self) -> bool:
        """Let the time pass that pods take to end; False if none is ending."""
        changes = self.writes.end_terminating()
        if changes:
            self.now += _TERMINATION_SECONDS
        for change in changes:
            self._show(change)
        return bool(changes)

    def _feed(self) -> None:
        """Tell the engine of all there is, as the informers do at a start."""
        engine, now = self.engine, self.now
        workloads = engine.workload_handlers
        for kind in workloads.kinds:
            workloads.on_served(kind, now, served=kind.paths[0] in self.objects.served)
            for workload in self.objects.workloads(kind):
                workloads.on_updated(kind, workload, now)
        for owner in self.objects.owners(self.config.queues.owner_resources):
            engine.owner_handlers.on_updated(owner, now)
        for of, watched in engine.handlers.kinds.items():
            for obj in self.objects.of(of):
                engine.barrier.hand_on(watched, obj, now)
                if of in STORED_OWNERS:
                    engine.owner_handlers.on_updated(obj, now)

    def _run_engine(self) -> None:
        """Run until nothing is ready."""
        while True:
            for effect in self.engine.run(self.now):
                outcome, changes = self.writes.apply(effect)
                if self.engine.awaits(effect):
                    self.engine.on_outcome(effect, outcome, self.now)
                for change in changes:
                    self._show(change)
            if not self.engine.ready:
                return

    def _show(self, change: Change) -> None:
        """Tell the engine what a watch would."""
        before, shown = change.before, change.after
        if isinstance(change.kind, str):
            return
        kind = self.engine.handlers.kinds[change.kind]
        if shown is None:
            kind.deleted(before, self.now)
        else:
            self.engine.barrier.hand_on(kind, shown, self.now)
        if isinstance(before, Pod) and (shown is None or shown.spec != before.spec):
            self.moves += 1
            self.moved_at = self.now

    def _result(self, waited: list[str], *, unfinished: bool) -> Forecast:
        ours = {member.pod.key: member for member in self.engine.pods()}
        nodes: dict[str, str] = {}
        held: dict[str, str] = {}
        waiting: dict[str, str] = {}
        for key in sorted({*waited, *self.writes.remade}):
            pod = self.objects.get(Pod, key)
            if pod is None:
                continue
            member = ours.get(key)
            if pod.spec.node_name:
                nodes[key] = pod.spec.node_name
            elif member is not None and member.phase is Phase.WAITING:
                held[key] = member.node
                waiting[key] = why_waiting(member)
            elif member is not None and member.node:
                nodes[key] = member.node
            elif member is not None:
                waiting[key] = why_waiting(member)
        return Forecast(
            nodes,
            held,
            dict(self.writes.evicted),
            waiting,
            frozenset(self.writes.remade),
            unfinished,
            self.objects,
            self.engine,
        )


def why_waiting(member: QueuedPod) -> str:
    """Why a pod has no node, as its condition says or will say."""
    if member.last_condition is not None:
        return member.last_condition[1] or member.last_condition[0]
    for condition in member.pod.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    entity = member.entity
    return (entity.reason if entity is not None else "") or "has not been tried yet"
