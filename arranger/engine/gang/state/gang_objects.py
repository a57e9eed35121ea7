"""Writes to Gang objects what the scheduler must know again after a restart.

Whether a gang has had its minimum (``resourceSatisfied``) does not follow from pods that were
deleted since, nor do bundles whose pods are gone; only the scheduler knows since when a gang holds
nodes (``waitingSince``) and how often it was tried (``schedulingCycle``). The controllers write
counts, phases and ``spec``, and may not be running: a Gang that is missing after
:data:`MISSING_DELAY` is created here, and one without pods is deleted.

A gang that is placed at once costs one write some time later, at a bounded rate. What must not wait
is the opposite: a gang that has lost all its nodes is not tried again before its object has ceased
to say that it had its minimum: else a crash amid its next Bindings looked like lost members.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from arranger.api.effects import (
    Ambiguous,
    Applied,
    CreateObject,
    DeleteObject,
    Effect,
    Outcome,
    PatchObject,
    Refused,
    Write,
)
from arranger.api.timestamps import second_time
from arranger.api.types.core import Pod
from arranger.api.types.pod_groups import POD_GROUPS, GangObject
from arranger.engine.context.deadlines import DeadlineSet
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.gang.state import observed_gang
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.gang.state.observed_gang import ObservedGang, shown_start
from arranger.engine.gang.state.policy import GangPolicy
from arranger.gangs.gang import Gang
from arranger.gangs.gang_object import (
    MANAGED_BY,
    bundles_of,
    dialect_of,
    gang_manifest,
    gang_object_spec,
    gang_path,
    gangs_path,
    is_defined_by_pods,
    named_bundles,
)
from arranger.gangs.group import GangGroup
from arranger.gangs.registry import GangRegistry

#: Seconds that a gang is left alone after a change, which is rarely the only one.
SETTLE_DELAY: Final = 1.0
#: Seconds after which a Gang is made that the controllers have not made.
MISSING_DELAY: Final = 2.0
#: Seconds after which a Gang without pods is deleted that the controllers have not deleted.
ORPHAN_DELAY: Final = 30.0
#: Seconds between two writes about one gang that is only tried again and again.
MIN_WRITE_INTERVAL: Final = 300.0
#: Seconds between any two writes while pods wait, and while none do.
_PACE: Final = (0.1, 0.02)
#: Seconds until a write is tried again that was refused.
_RETRY_DELAY: Final = 60.0


@dataclass(slots=True, eq=False)
class GangObjects:
    """Keeps Gang objects true where only the scheduler can.

    Args:
        schedulers: whose pods are ours; the first one signs Gangs.
        keeps_records: whether to write what is to be known after a restart; if not, only what keeps
            a gang from being tried.
    """

    _context: EngineContext
    _effects: PendingEffects
    _registry: GangRegistry
    _holds: GangHolds
    _policy: GangPolicy
    _schedulers: Sequence[str]
    _keeps_records: bool = True
    _observed: dict[str, ObservedGang] = field(default_factory=dict, init=False)
    #: Gang → the status that is on its way to its object, empty for a create or delete.
    _in_flight: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False)
    #: Gangs without an object, or objects without a gang → since when that is known; infinity for
    #: an object that we have created and not seen yet.
    _unpaired: dict[str, float] = field(default_factory=dict, init=False)
    _due: DeadlineSet = field(default_factory=DeadlineSet, init=False)
    #: Gangs whose time has come, first come first served; the urgent ones before.
    _ready: dict[str, None] = field(default_factory=dict, init=False)
    _urgent: dict[str, None] = field(default_factory=dict, init=False)
    _next_write: float = field(default=float("-inf"), init=False)
    #: When to create objects again, after the server has refused one.
    _create_after: float = field(default=float("-inf"), init=False)
    #: Gangs that may be blocked, or not blocked any more, for :meth:`take_changed`.
    _changed: set[str] = field(default_factory=set, init=False)
    #: Gangs whose PodGroup's phase says that they have had their minimum, until the start.
    _phase_reached: set[str] = field(default_factory=set, init=False)
    _running: bool = field(default=False, init=False)

    def __len__(self) -> int:
        known = len(self._observed) + len(self._unpaired) + len(self._phase_reached)
        return known + len(self._due) + len(self._ready) + len(self._urgent) + len(self._in_flight)

    # --- events ----------------------------------------------------------------------------

    def on_updated(self, saved: GangObject) -> None:
        """A Gang object appeared or was edited."""
        name, status = saved.key, saved.status
        observed = self._observed.get(name)
        appeared = observed is None or observed.uid != saved.metadata.uid
        if observed is None or appeared:
            observed = self._observed[name] = ObservedGang(saved)
            self._unpaired.pop(name, None)
        observed.saved = saved
        observed.managed = saved.metadata.labels.get(MANAGED_BY) == self._schedulers[0]
        observed.minimums = saved.recorded_minimums
        # It may be older than our last write.
        observed.scheduling_cycle = max(observed.scheduling_cycle, status.scheduling_cycle)
        if name not in self._in_flight:
            since = status.waiting_since
            observed.waiting_since = int(since.timestamp()) if since is not None else None
            observed.planned_start = shown_start(status)
            if observed.satisfied != status.resource_satisfied:
                observed.satisfied = status.resource_satisfied
                self._changed.add(name)
        gang = self._registry.gangs.get(name)
        if appeared or gang is None or self._status_change(gang, observed):
            self.mark((name,))

    def names_other_bundles(self, saved: GangObject) -> bool:
        """Whether somebody has edited the bundles of a Gang object that is known."""
        known = self._observed.get(saved.key)
        if known is None or known.uid != saved.metadata.uid:
            return False
        return known.minimums != saved.recorded_minimums

    def on_deleted(self, name: str) -> None:
        """A Gang object was deleted."""
        if self._observed.pop(name, None) is not None:
            self._changed.add(name)
            self.mark((name,))

    def on_minimum_reached(self, name: str) -> None:
        """What the phase of a PodGroup says at the start; a Gang object knows better."""
        self._phase_reached.add(name)

    def on_member_lost(self, gang: Gang) -> None:
        """A pod that counted is gone, leaves or has failed: the others do not tell of a minimum."""
        if observed_gang.says_too_little(gang, self._observed.get(gang.name)):
            self._urgent[gang.name] = None

    def start(self) -> None:
        """All that there was at the start has been seen."""
        self._running = True
        recorded = {name: observed.satisfied for name, observed in self._observed.items()}
        for name in recorded.keys() | self._phase_reached:
            satisfied = recorded.get(name)
            if satisfied or (satisfied is None and name in self._phase_reached):
                self._changed |= self._registry.mark_previously_satisfied(name)
        self._phase_reached.clear()
        self._changed |= self._registry.initial_sync_done()
        self._changed |= {name for name in self._observed if self._is_outdated(name)}
        self.mark({*self._registry.gangs, *self._observed})

    def mark(self, names: Iterable[str]) -> None:
        """Something about these gangs may have to be written."""
        due = self._context.clock.now + SETTLE_DELAY
        for name in sorted(names) if self._running else ():
            gang, observed = self._registry.gangs.get(name), self._observed.get(name)
            if self._is_outdated(name) or observed_gang.has_raised_minimum(gang, observed):
                self._urgent[name] = None
            elif self._keeps_records:
                self._due.schedule(name, due)

    def record_attempt(self, group: GangGroup) -> None:
        """An attempt to place the group begins; after a restart the counts of its gangs go on."""
        for gang in group.gangs:
            observed = self._observed.get(gang.name)
            written = observed.scheduling_cycle if observed is not None else 0
            gang.scheduling_cycle = max(gang.scheduling_cycle, written) + 1
            if observed is not None:
                self.mark((gang.name,))

    # --- what others ask -------------------------------------------------------------------

    def blocks(self, group: GangGroup) -> bool:
        """Whether the group is not to be tried before its objects are corrected."""
        return any(self._is_outdated(gang.name) for gang in group.gangs)

    def saved(self, name: str) -> GangObject | None:
        """The object of a gang as it was last seen."""
        return observed.saved if (observed := self._observed.get(name)) is not None else None

    def recorded_wait(self, name: str) -> int | None:
        """When the wait time of a gang began by its object, in seconds since 1970."""
        observed = self._observed.get(name)
        return None if observed is None else observed.waiting_since

    def is_planned(self, name: str) -> bool:
        """Whether a gang's start is planned by its object."""
        observed = self._observed.get(name)
        return observed is not None and bool(observed.planned_start)

    def take_changed(self) -> set[str]:
        """The gangs for which :meth:`blocks` may answer otherwise than before."""
        if not (changed := self._changed):
            return changed
        self._changed = set()
        return changed

    def _is_outdated(self, name: str) -> bool:
        """Whether the object says that a gang has had its minimum which it has not."""
        observed = self._observed.get(name)
        if observed is None or not observed.satisfied or not self._running:
            return False
        if observed.retry_at > self._context.clock.now:
            return False  # who does not let us write must not keep the gang from being placed
        gang = self._registry.gangs.get(name)
        return gang is not None and not gang.satisfied

    # --- writing ---------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """When :meth:`write_due` will have something to do."""
        if self._urgent:
            return self._context.clock.now
        times = (self._due.next_deadline(), self._next_write if self._ready else None)
        return min((due for due in times if due is not None), default=None)

    def write_due(self, now: float) -> None:
        """Write what is urgent, and of what is due as much as the pace allows."""
        for name in list(self._urgent):
            del self._urgent[name]
            self._ready.pop(name, None)
            self._reconcile(name, now, urgent=True)
        self._ready.update(dict.fromkeys(self._due.pop_due(now)))
        for name in list(islice(self._ready, 500)):  # many thousands may be due at once
            if now < self._next_write:
                break
            del self._ready[name]
            if self._reconcile(name, now):
                self._next_write = now + (_PACE[0] if self._context.pods else _PACE[1])

    def on_outcome(self, effect: Effect, outcome: Outcome, subject: str, now: float) -> None:
        """What became of a write about the gang ``subject``."""
        if isinstance(outcome, Ambiguous):
            return
        status = self._in_flight.pop(subject, {})
        observed = self._observed.get(subject)
        if isinstance(effect, PatchObject) and observed is not None:
            if effect.change["metadata"]["uid"] != observed.uid:
                observed = None  # it was about an object that is gone
            elif isinstance(outcome, Applied):
                observed.satisfied = status.get("resourceSatisfied", observed.satisfied)
            elif isinstance(outcome, Refused) and outcome.reason == "DeadlineExceeded":
                observed.unknown = True
            else:
                observed.unknown, observed.retry_at = True, now + _RETRY_DELAY
        elif isinstance(effect, CreateObject) and not isinstance(outcome, Applied):
            self._create_after = self._unpaired[subject] = now + _RETRY_DELAY
        self._changed.add(subject)
        if isinstance(outcome, Applied):
            self.mark((subject,))
        else:
            self._due.schedule(subject, now + _RETRY_DELAY)

    def _reconcile(self, name: str, now: float, *, urgent: bool = False) -> bool:
        """Write what a gang lacks; returns whether anything was written."""
        gang, observed = self._registry.gangs.get(name), self._observed.get(name)
        if name in self._in_flight:
            return False  # its outcome brings it back
        if gang is None and observed is None:
            self._unpaired.pop(name, None)
        elif gang is None and observed is not None:
            return self._delete(name, observed, now)
        elif gang is not None and observed is None:
            return self._create(gang, now, urgent=urgent)
        elif gang is not None and observed is not None and self._is_ours(gang, observed):
            self._unpaired.pop(name, None)
            return self._update(gang, observed, now)
        return False

    def _update(self, gang: Gang, observed: ObservedGang, now: float) -> bool:
        status = self._status_change(gang, observed)
        cycle = max(gang.scheduling_cycle, observed.scheduling_cycle)
        bundles = self._unrecorded_bundles(gang, observed)
        due = observed.written_at + MIN_WRITE_INTERVAL
        if observed.retry_at > now:
            self._due.schedule(gang.name, observed.retry_at)
            return False
        if cycle > observed.scheduling_cycle:
            if status or now >= due:
                status["schedulingCycle"] = cycle
            else:
                self._due.schedule(gang.name, due)
        path = gang_path(gang.name)
        if status:
            observed.satisfied = status.get("resourceSatisfied") or observed.satisfied
            observed.scheduling_cycle = status.get("schedulingCycle", observed.scheduling_cycle)
            observed.waiting_since = self._waiting_since(gang)
            if "plannedStart" in status:
                observed.planned_start = shown_start(gang.planned_start)
            observed.written_at, observed.unknown = now, False
            change = {"metadata": {"uid": observed.uid}, "status": status}
            self._send(PatchObject(f"{path}/status", change), gang.name, status)
        elif bundles:
            change = {"metadata": {"uid": observed.uid}, "spec": {"bundles": bundles}}
            self._send(PatchObject(path, change), gang.name, {})
        return bool(status or bundles)

    def _create(self, gang: Gang, now: float, *, urgent: bool) -> bool:
        worth_it = gang.satisfied or self._waiting_since(gang) or named_bundles(gang)
        pods = [pod for uid in gang.memberships if (pod := self._pod(uid)) is not None]
        ours = any(pod.spec.scheduler_name in self._schedulers for pod in pods)
        if not worth_it or not ours:
            self._unpaired.pop(gang.name, None)
            return False
        since = self._unpaired.setdefault(gang.name, now)
        if since == math.inf:
            return False  # it has been created, and the watch will show it
        due = max(self._create_after, since if urgent else since + MISSING_DELAY)
        if now < due:
            self._due.schedule(gang.name, due)
            return False
        self._unpaired[gang.name] = math.inf
        sources = (dialect_of(pod, gang.memberships[pod.metadata.uid]) for pod in pods)
        spec = gang_object_spec(gang.settings, sources=sources, wait_time=self._policy.wait_time)
        manifest = gang_manifest(gang.name, spec, managed_by=self._schedulers[0])
        path = gangs_path(gang.name.partition("/")[0])
        self._send(CreateObject(path, manifest), gang.name, {})
        return True

    def _delete(self, name: str, observed: ObservedGang, now: float) -> bool:
        """Delete an object whose gang has lost its last pod, if the controllers do not.

        By it they know after a restart that a PodGroup without pods is theirs to write.
        """
        if not observed.managed or any(self._registry.pod_group(k, name) for k in POD_GROUPS):
            return False
        due = self._unpaired.setdefault(name, now) + ORPHAN_DELAY
        if now < due:
            self._due.schedule(name, due)
            return False
        self._send(DeleteObject(gang_path(name), observed.uid), name, {})
        return True

    def _send(self, effect: Write, name: str, status: Mapping[str, Any]) -> None:
        self._in_flight[name] = status
        self._effects.send(effect, self, name)

    # --- what is to be written -------------------------------------------------------------

    def _status_change(self, gang: Gang, observed: ObservedGang) -> dict[str, Any]:
        """What must be written at once of a gang's status: all but the count of attempts."""
        status: dict[str, Any] = {}
        if observed.unknown or bool(observed.satisfied) != gang.satisfied:
            status["resourceSatisfied"] = gang.satisfied
        since = self._waiting_since(gang)
        if observed.unknown or since != observed.waiting_since:
            moment = None if since is None else datetime.fromtimestamp(since, UTC)
            status["waitingSince"] = moment and second_time(moment)
        planned = shown_start(gang.planned_start)
        if observed.unknown or planned.outdates(observed.planned_start, self._context.unix_now):
            status |= {"plannedStart": planned.at, "startBasis": planned.basis}
        return status

    def _waiting_since(self, gang: Gang) -> int | None:
        """When the wait time of the gang's group began, in seconds since 1970."""
        hold = self._holds.get(self._registry.group_of(gang).name)
        return None if hold is None else hold.unix_since

    def _unrecorded_bundles(self, gang: Gang, observed: ObservedGang) -> Sequence[Any]:
        """The bundles of a gang if its object names others.

        Where it knows more than we do after a restart, that is written, too: controllers that have
        lived through it put it there again, and then it counts.
        """
        if not is_defined_by_pods(gang) or named_bundles(gang) == observed.minimums:
            return ()
        return bundles_of(gang.settings)

    def _is_ours(self, gang: Gang, observed: ObservedGang) -> bool:
        if observed.managed:
            return True
        pods = map(self._pod, gang.memberships)
        return any(pod is not None and pod.spec.scheduler_name in self._schedulers for pod in pods)

    def _pod(self, uid: str) -> Pod | None:
        member = self._context.pods.get(uid)
        info = member.pod if member is not None else self._context.cluster.pod(uid)
        return None if info is None else info.pod
