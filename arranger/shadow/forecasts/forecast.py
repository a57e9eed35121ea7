"""What the scheduler would do with a cluster that nobody else changes any more.

The engine is the scheduler's own. What it asks for is done at once on the objects, and time passes
only when nothing else is left to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any, Final

import msgspec

from arranger.api.effects import DeletePod, Effect, Eviction
from arranger.api.timestamps import after
from arranger.api.types.core import Pod
from arranger.daemon.config.schema import Config
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.engine import Engine
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.engine.run_time.enforcer import RAN_TOO_LONG
from arranger.shadow.forecasts.changes import ClusterChange
from arranger.shadow.forecasts.writes import ImmediateWrites
from arranger.shadow.inputs.daemon_pods import placed_by_others
from arranger.shadow.inputs.event_feed import EventFeed, build_engine
from arranger.shadow.inputs.objects import Change, ClusterObjects, Kind, key_of

#: Seconds of its time without a Binding, eviction or nomination that end a forecast, beside what
#: gangs wait and starve.
_QUIET_SECONDS: Final = 30.0
#: Seconds without a move after which the scheduler tries what waits again, woken or not.
_FLUSH_SECONDS: Final = SchedulingQueueConfig().flush_after
#: Seconds of its time after which it ends in any case.
_SECONDS: Final = 3600.0
#: Seconds that a pod takes to end, whatever it was given: shorter than any back-off.
_TERMINATION_SECONDS: Final = 0.5
#: Seconds until a claim that was written to has its volume.
_VOLUME_SECONDS: Final = 1.0
#: Bindings and evictions after which it ends in any case: pods may evict each other for ever.
_MOVES: Final = 1_000
_MOVES_EACH: Final = 4
#: Steps of one attempt, some 20 to 80 ms each, and of each once others have taken as many: then it
#: is left undecided, so that there is an answer about what else waits.
_STEPS: Final = 128
_FEW_STEPS: Final = 4
#: Attempts, or steps of them, after which that is looked at.
_LIMIT: Final = 32
#: Of one that is left undecided.
TAKES_TOO_LONG: Final = "it takes longer to find a node than there is time for an answer"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What becomes of the pods of our schedulers.

    Attributes:
        nodes: pod that waited (``namespace/name``) → the node it goes to.
        held: pod → the node that is kept for it until others of its gang have one.
        evicted: pod → why it has to leave its node.
        waiting: pod → why it still waits, as its condition would say.
        replaced: pod that was evicted or deleted → the one that its controller makes in its place.
        unfinished: whether it was broken off: pods evict each other without an end.
        objects: as they would be then.
        engine: as it would be then.
    """

    nodes: Mapping[str, str]
    held: Mapping[str, str]
    evicted: Mapping[str, Eviction]
    waiting: Mapping[str, str]
    replaced: Mapping[str, str]
    unfinished: bool
    objects: ClusterObjects
    engine: Engine


def forecast(objects: ClusterObjects, config: Config, *, now: datetime) -> Forecast:
    """What the scheduler would do if it started with these objects; they are not changed.

    Args:
        now: the time at the beginning, with a zone.

    Extenders are not asked. Volumes are bound and made a second after a node was chosen; a pod that
    waits for others on a node counts as going there.

    Raises:
        ConfigError: the configured plugins cannot be used.
    """
    began = now.timestamp()
    engine = build_engine(config, lambda seconds: began + seconds)
    objects = objects.copy()
    EventFeed(engine, config).start(objects, 0.0)
    return Driver(engine, objects, config, now).settle()


@dataclass(slots=True, eq=False)
class Driver:
    """Drives an engine as the daemon does, with the clock in its hand.

    Args:
        engine: has been told of the objects, and is driven by nobody else from here on.
        objects: are changed.
        began: the time at the beginning, with a zone.
        now: the same in the engine's clock.
    """

    engine: Engine
    objects: ClusterObjects
    config: Config
    began: datetime
    now: float = 0.0
    writes: ImmediateWrites = field(init=False)
    _began: float = field(init=False)
    _feed: EventFeed = field(init=False)
    _moves: int = field(default=0, init=False)
    #: How many of them there had been when all that waited was last tried.
    _tried_moves: int = field(default=0, init=False)
    _moved_at: float = field(init=False)
    #: Steps that attempts may take yet that come to no end, and those that are left undecided.
    _steps_left: int = field(default_factory=lambda: _STEPS, init=False)
    _undecided: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._began = self._moved_at = self.now
        self._feed = EventFeed(self.engine, self.config)
        self.writes = ImmediateWrites(
            self.objects, lambda: after(self.began, self.now - self._began)
        )

    def change(self, changes: Sequence[ClusterChange]) -> list[Change]:
        """Make changes to the cluster; returns what they did to objects.

        Raises:
            ChangeError: one does not apply.
            ObjectError: an object that it creates cannot be read.
        """
        with self.objects.recording() as made:
            for each in changes:
                each.apply(self.objects)
        done: dict[tuple[Kind, str], Change] = {}
        for change in made:
            key = change.kind, key_of(change.before if change.after is None else change.after)
            first = done.get(key, change)
            done[key] = Change(change.kind, first.before, change.after)
        there = [each for each in done.values() if each.before is not each.after]
        shown = [self._as_written(change) for change in self._with_other_schedulers(there)]
        for change in shown:
            self._show(change)
        return shown

    def _with_other_schedulers(self, made: Sequence[Change]) -> list[Change]:
        """Changes, with new pods of DaemonSets on their nodes where others place them."""
        ours = {profile.scheduler_name for profile in self.config.profiles}
        new = [each.after for each in made if each.before is None and isinstance(each.after, Pod)]
        placed = {each.key: each for each in placed_by_others(self.objects, new, ours)}
        return [
            Change(Pod, None, placed[each.after.key])
            if each.before is None and isinstance(each.after, Pod) and each.after.key in placed
            else each
            for each in made
        ]

    def _as_written(self, change: Change) -> Change:
        """Write what a change has made of an object, as the server would show it."""
        before, after = change.before, change.after
        if after is None:
            return change
        if before is None:
            self.writes.await_volume(after)
        written = self.writes.stamped(self._dated(after, before))
        self.objects.put(written, change.kind)
        return Change(change.kind, before, written)

    def _dated(self, shown: Any, before: Any | None) -> Any:
        """An object that says not when it was created: now, as the API server would say.

        Without a time it would count as older than all others. What replaces an object keeps its
        time; a pod is another one.
        """
        if shown.metadata.creation_timestamp is not None:
            return shown
        if before is None or (isinstance(shown, Pod) and before.metadata.uid != shown.metadata.uid):
            created = self.writes.now()
        else:
            created = before.metadata.creation_timestamp
        metadata = msgspec.structs.replace(shown.metadata, creation_timestamp=created)
        return msgspec.structs.replace(shown, metadata=metadata)

    def settle(self) -> Forecast:
        """Have it decide until nothing moves any more; tells only of what moves now."""
        self.writes.begin_record()
        waited = {member.pod.key for member in self.engine.pods()}
        gangs = self.config.gangs
        quiet = _QUIET_SECONDS + max(gangs.wait_time_seconds, gangs.starvation_after_seconds)
        self._moved_at, ends = self.now, self.now + _SECONDS
        most = self._moves + _MOVES + _MOVES_EACH * len(waited)
        while self._moves < most:
            self._run_engine()
            if self._end_terminating() or self._bind_volumes():
                continue
            timer = self.engine.next_timer()
            due = inf if timer is None else timer
            if due > min(self._moved_at + _FLUSH_SECONDS, ends) and self._retry_waiting():
                continue
            if due > min(self._moved_at + quiet, ends):
                break
            self.now = max(due, self.now)
        return self._result(waited, unfinished=self._moves >= most)

    def _retry_waiting(self) -> bool:
        """Try what no event woke once more if pods moved since; False if there is nothing to try.

        The scheduler does so some minutes later: a hint may miss that a claim got its volume, and
        that victims help now. No time passes here, since it is asked what is done now.
        """
        if self._moves == self._tried_moves:
            return False
        self._tried_moves = self._moves
        found = [
            entity
            for entity in self.engine.queue.entities()
            if entity.state is QueueState.UNSCHEDULABLE
            and entity.last_attempt <= self._moved_at
            and entity.key not in self._undecided
        ]
        for entity in found:
            self.engine.queue.activate(entity)
        return bool(found)

    def _end_terminating(self) -> bool:
        """Let the time pass that pods take to end; False if none is ending."""
        changes = self.writes.end_terminating()
        if changes:
            self.now += _TERMINATION_SECONDS
        for change in changes:
            self._show(change)
        return bool(changes)

    def _bind_volumes(self) -> bool:
        """Let the time pass that volumes take; False if no claim gets one."""
        changes = self.writes.bind_volumes()
        if changes:
            self.now += _VOLUME_SECONDS
        for change in changes:
            self._show(change)
        return bool(changes)

    def _run_engine(self) -> None:
        """Run until nothing is ready."""
        while True:
            for effect in self.engine.run(self.now, limit=_LIMIT):
                if self._ends_later(effect):
                    continue
                outcome, changes = self.writes.apply(effect)
                if self.engine.awaits(effect):
                    self.engine.on_outcome(effect, outcome, self.now)
                for change in changes:
                    self._show(change)
            self._leave_undecided()
            if not self.engine.ready:
                return

    def _leave_undecided(self) -> None:
        """Try those no longer whose attempts take too many steps."""
        queue, most = self.engine.queue, max(_FEW_STEPS, self._steps_left)
        for entity in [each for each in queue.entities() if each.slices >= most]:
            if entity.state is QueueState.ACTIVE:
                self._steps_left -= entity.slices
                self._undecided.add(entity.key)
                entity.reason = TAKES_TOO_LONG
                queue.add_unschedulable(entity, frozenset(), self.now)

    def _ends_later(self, effect: Effect) -> bool:
        """Whether it ends a pod whose maximum run time is over only after the beginning.

        It is asked what is done now: nobody is placed because another one ends in some minutes.
        """
        eviction = effect.eviction if isinstance(effect, DeletePod) else None
        return eviction is not None and eviction.reason == RAN_TOO_LONG and self.now > self._began

    def _show(self, change: Change) -> None:
        """Tell the engine what a watch would."""
        before, shown = change.before, change.after
        if shown is None:
            self._feed.on_deleted(change.kind, before, self.now)
        else:
            self._feed.on_updated(change.kind, shown, self.now)
        if isinstance(before, Pod) and (shown is None or shown.spec != before.spec):
            self._moves += 1
            self._moved_at = self.now

    def _result(self, waited: set[str], *, unfinished: bool) -> Forecast:
        ours = {member.pod.key: member for member in self.engine.pods()}
        nodes: dict[str, str] = {}
        held: dict[str, str] = {}
        waiting: dict[str, str] = {}
        for key in sorted(waited | self.writes.remade.keys()):
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
            self.writes.evicted,
            waiting,
            {pod: again for again, pod in self.writes.remade.items()},
            unfinished,
            self.objects,
            self.engine,
        )


def why_waiting(member: QueuedPod) -> str:
    """Why a pod has no node, as its condition says or will say."""
    if member.last_condition is not None:
        return member.last_condition[1] or member.last_condition[0]
    entity = member.entity
    if entity is not None and entity.reason == TAKES_TOO_LONG:
        return TAKES_TOO_LONG
    for condition in member.pod.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    return (entity.reason if entity is not None else "") or "has not been tried yet"
