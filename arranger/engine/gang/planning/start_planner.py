"""Plans when gangs that have waited too long start, and keeps room for them until then.

The first groups of the queue that have waited so long each get the earliest time at which all of
them fits, beside those planned before. What that keeps others from is told in
:mod:`arranger.engine.pod.planned_room`; how much and how long, in
:mod:`arranger.engine.gang.planning.reservation_budget`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from arranger.backfill.planner import Claim, Planner
from arranger.backfill.run_times import Basis
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState
from arranger.engine.context.rejecters import KEPT_NODES
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.planning.promises import TOLERANCE, Promises
from arranger.engine.gang.planning.reservation_budget import ReservationBudget
from arranger.engine.gang.planning.room_search import RoomSearch
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.pod.planned_room import PlannedGang, PlannedRoom
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent

#: Seconds until nodes are looked for again for a group that would not have fitted on empty ones.
RETRY_INTERVAL: Final = 60.0
#: Pods that are followed in one step: about 20 ms.
MAX_PODS: Final = 2000
#: Where groups are that wait for room.
_WAITS: Final = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE)
#: Where they are that are not tried next.
_RESTS: Final = (QueueState.BACKOFF, QueueState.UNSCHEDULABLE)
#: Seconds between two plans for what has become free.
REPLAN_INTERVAL: Final = 1.0


@dataclass(slots=True, eq=False)
class StartPlanner:
    """Plans the starts of the first groups that have not fitted for so long.

    As long and as far as the budget allows it.
    """

    _context: EngineContext
    _queue: SchedulingQueue
    _room: PlannedRoom
    _entities: GangEntityIndex
    _search: RoomSearch
    _policy: GangPolicy
    _budget: ReservationBudget
    _promises: Promises
    #: What had become free when it was planned last, and when it may be planned again for that.
    _freed: int = field(default=0, init=False)
    #: What Reservations said then.
    _reserved: int = field(default=0, init=False)
    _next: float = field(default=-math.inf, init=False)
    #: When a plan was put off that is still to be made.
    _put_off: float | None = field(default=None, init=False)
    #: Planned group → when it was tried because it could start by the plan.
    _tried: dict[str, float] = field(default_factory=dict, init=False)

    def follow(self, now: float) -> None:
        """Plan anew when pods have ended, or Reservations have changed.

        Gangs may start earlier, before others take the room.

        A group that lacks room on all nodes together is not tried meanwhile.
        """
        if self._put_off is not None:
            self._replan(None, now)
            return
        if not self._room.plans or now < self._next:
            return
        self._next = now + REPLAN_INTERVAL
        timeline = self._room.timeline
        timeline.note_changes()
        if timeline.freed != self._freed or self._search.version != self._reserved:
            self._replan(None, now)

    def on_unschedulable(self, entity: QueuedEntity, now: float) -> None:
        """A complete group does not fit; nothing is kept if it would not fit on empty nodes."""
        if entity.group is None:
            return
        if entity.starving_since is None:
            waited = self._promises.was_planned(entity.group)
            entity.starving_since = now - (self._policy.starvation_after if waited else 0.0)
        entity.starves_at = entity.starving_since + self._policy.starvation_after
        if now < entity.starves_at or now < entity.reserve_retry_at:
            return
        plans, rank = self._room.plans, self._queue.sort_key(entity)
        if entity.key not in plans:
            if len(plans) >= self._policy.planned_gangs and all(
                rank >= plan.rank for plan in plans.values()
            ):
                return
            if not self._budget.allows(frozenset(entity.group.namespaces), now):
                return
        self._replan(entity, now)

    def on_placed(self, entity: QueuedEntity, now: float) -> None:
        """A group has got its place: it starves no more."""
        entity.starving_since = None
        if entity.group is not None:
            self._promises.on_started(entity, self._room.plans.get(entity.key))
        plan = self._room.plans.get(entity.key)
        if plan is not None:
            before = self._room.plans
            self._budget.on_started(plan.namespaces)
            self._keep([each for each in before.values() if each is not plan], before, now)
            self._plan_next(now)

    def waits_rather_than_evicts(self, entity: QueuedEntity) -> bool:
        """Whether a group starts so soon by the plan that nobody is to be evicted for it."""
        plan, within = self._room.plans.get(entity.key), self._policy.wait_instead_of_preempting
        claim = None if plan is None else plan.claim
        return claim is not None and claim.start - self._context.unix_now < within

    def told_to(self, entity: QueuedEntity) -> str:
        """What the members of a group are told about its start, "" for nothing."""
        start = next((gang.planned_start for gang in entity.gang_group.gangs), None)
        return "" if start is None else f" It {start.text(self._context.unix_now)}."

    def next_timer(self) -> float | None:
        """When what is kept is given back, or planning goes on."""
        if self._put_off is not None:
            return self._put_off
        return self._budget.ends_at() if self._room.plans else None

    def release_if_idle(self, now: float) -> None:
        """Drop the plans of groups that wait to fit no more, or all when their time is over."""
        plans = self._room.plans
        if not plans:
            return
        ends = self._budget.ends_at()
        if ends is not None and ends <= now:
            self._drop(list(plans.values()), now)
            return
        self._drop([plan for plan in plans.values() if self._is_idle(plan)], now)

    # --- inside ----------------------------------------------------------------------------

    def _is_idle(self, plan: PlannedGang) -> bool:
        entity = self._entities.by_key(plan.key)
        idle = (QueueState.GATED, QueueState.NOT_QUEUED)
        return entity is None or entity.starving_since is None or entity.state in idle

    def _drop(self, idle: Sequence[PlannedGang], now: float) -> None:
        if not idle:
            return
        left = [plan for plan in self._room.plans.values() if plan not in idle]
        if not left:
            namespaces = frozenset[str]().union(*(plan.namespaces for plan in idle))
            self._budget.on_ended_in_vain(namespaces, now)
        for plan in idle:
            entity = self._entities.by_key(plan.key)
            told = "" if entity is None else self.told_to(entity)
            self._promises.withdraw(plan, entity)
            if entity is not None:
                self._tell_members(entity, told, now)
        self._keep(left, self._room.plans, now)
        self._plan_next(now)

    def _plan_next(self, now: float) -> None:
        """Fewer are planned: it is the turn of the next ones, though nothing has them tried."""
        if self._next_in_turn(now):
            self._replan(None, now)

    def _next_in_turn(self, now: float) -> list[QueuedEntity]:
        """The first that are not planned and may be: no more of them than are planned at a time."""
        return sorted(self._starving(now), key=self._queue.sort_key)[: self._policy.planned_gangs]

    def _starving(self, now: float) -> Iterator[QueuedEntity]:
        """The groups that have not fitted for so long that they may be planned, and are not."""
        planned = self._room.plans
        for entity in self._entities:
            if entity.starving_since is None or now < max(
                entity.starves_at, entity.reserve_retry_at
            ):
                continue
            if entity.state not in _WAITS or entity.key in planned or entity.group is None:
                continue
            if self._budget.allows(frozenset(entity.group.namespaces), now):
                yield entity

    def _keep(
        self, plans: Sequence[PlannedGang], before: Mapping[str, PlannedGang], now: float
    ) -> None:
        """Keep room for these, and wake those who were kept off by what is not kept any more."""
        self._room.keep(plans)
        if plans:
            self._budget.begin(now)
        after = self._room.plans
        if any(key not in after or not plan.is_alike(after[key]) for key, plan in before.items()):
            self._queue.wake(ClusterEvent(ActionType.OTHER, resource=KEPT_NODES), now)

    def _replan(self, failed: QueuedEntity | None, now: float) -> None:
        """Plan anew: as if nothing were planned, or around promises that would not be kept.

        Put off to the next step as long as much has to be followed first.
        """
        if not self._room.follow(MAX_PODS):
            self._put_off = now
            return
        self._put_off = None
        before, budget = self._room.plans, self._budget
        known = (self._entities.by_key(key) for key in before)
        others = (*known, *self._next_in_turn(now), failed)
        found = {entity.key: entity for entity in others if entity is not None}
        waiting = sorted(found.values(), key=self._queue.sort_key)
        self._room.keep(())  # it is looked for as if none were kept
        plans = self._plan_all(waiting, failed, before, {}, now)
        if any(broken := self._promises.broken_by(plans)):
            kept = self._plan_all(waiting, failed, before, self._kept(before, waiting), now)
            plans = kept if self._promises.broken_by(kept) < broken else plans
        if before and not plans:
            namespaces = frozenset[str]().union(*(plan.namespaces for plan in before.values()))
            budget.on_ended_in_vain(namespaces, now)
        self._keep(list(plans.values()), before, now)
        until = self._until(now)
        for entity in waiting:
            if entity.key not in before and entity.key not in plans:
                continue
            plan = plans.get(entity.key)
            told = self.told_to(entity)
            self._promises.on_planned(entity, plan, before.get(entity.key), until)
            if entity is not failed:  # whose reason is being put together
                self._tell_members(entity, told, now)
                self._try_if_due(entity, plan, now)
        self._tried = {key: tried for key, tried in self._tried.items() if key in plans}
        self._freed, self._next = self._room.timeline.freed, now + REPLAN_INTERVAL
        self._reserved = self._search.version

    def _tell_members(self, entity: QueuedEntity, told: str, now: float) -> None:
        """What members are told of their start may not be what they were ``told`` any more.

        An estimate that moves is told when they are tried the next time.
        """
        tell = self.told_to(entity)
        entity.reason = entity.reason.removesuffix(told) + tell
        starts = (gang.planned_start for gang in entity.gang_group.gangs)
        is_promise = any(start is not None and start.known for start in starts)
        if tell != told and (is_promise or not tell or not told):
            self._entities.notify(entity, now)

    def _try_if_due(self, entity: QueuedEntity, plan: PlannedGang | None, now: float) -> None:
        """Have a group tried that can start now by the plan: no event may tell that it can.

        Its back-off would make it late. One that is refused nonetheless is not tried again at once.
        """
        claim = None if plan is None else plan.claim
        if claim is None or claim.start > self._context.unix_now or entity.state not in _RESTS:
            return
        if now >= self._tried.get(entity.key, -math.inf) + REPLAN_INTERVAL:
            self._tried[entity.key] = now
            self._queue.activate(entity)

    def _until(self, now: float) -> float:
        """Until when room is kept at most, in seconds since 1970."""
        ends = self._budget.ends_at()
        left = self._policy.reservation_seconds if ends is None else ends - now
        return self._context.unix_now + left

    def _plan_all(
        self,
        waiting: Sequence[QueuedEntity],
        failed: QueuedEntity | None,
        before: Mapping[str, PlannedGang],
        kept: Mapping[str, PlannedGang],
        now: float,
    ) -> dict[str, PlannedGang]:
        """Plan for the first groups, around what is ``kept``; ``failed`` does not fit now.

        One that was not planned ``before`` and cannot be waits for its next turn.
        """
        plans, until = dict(kept), self._until(now)
        most = self._budget.max_nodes(self._context.cluster.table.count)
        for entity in waiting:
            if len(plans) >= self._policy.planned_gangs:
                break
            if entity.key in plans:
                continue
            claims = [plan.claim for plan in plans.values() if plan.claim is not None]
            plan = self._plan(entity, claims, until, now_too=entity is not failed)
            others = () if plan is None else (each.nodes for each in plans.values())
            if plan is not None and len(plan.nodes.union(*others)) <= most:
                plans[entity.key] = plan
            elif entity.key not in before:
                entity.reserve_retry_at = now + RETRY_INTERVAL
        return {e.key: plans[e.key] for e in waiting if e.key in plans}

    def _plan(
        self, entity: QueuedEntity, claims: Sequence[Claim], until: float, *, now_too: bool
    ) -> PlannedGang | None:
        search, timeline, at = self._search, self._room.timeline, self._context.unix_now
        timeline.refresh(at)
        claim: Claim | None = None
        for least in (Basis.LIMIT, Basis.ESTIMATE):
            planner = Planner(timeline, at, claims, least=least)
            claim = search.earliest_start(entity, planner, now_too=now_too)
            if claim is not None and claim.start <= until:
                break  # rather a promise than an earlier start that is a guess
        if claim is not None and not search.fits_at(entity, claim, timeline, at):
            claim = None
        if claim is None:
            nodes = search.nodes_needed(entity, at)
        else:
            table = self._context.cluster.table
            nodes = frozenset(table.name(row) for row in claim.rows.tolist())
        if not nodes:
            return None
        group, rank = entity.gang_group, self._queue.sort_key(entity)
        namespaces, priority = frozenset(group.namespaces), entity.representative.pod.priority
        return PlannedGang(entity.key, rank, group.display_name, namespaces, priority, nodes, claim)

    def _kept(
        self, before: Mapping[str, PlannedGang], waiting: Sequence[QueuedEntity]
    ) -> dict[str, PlannedGang]:
        """The plans of promises that can still be kept, and that nobody above needs to break.

        Where kubelets are late, a moment later than promised.
        """
        timeline, at = self._room.timeline, self._context.unix_now
        timeline.refresh(at)
        kept: dict[str, PlannedGang] = {}
        known = {entity.key: entity for entity in waiting}
        top = max(entity.representative.pod.priority for entity in waiting)
        for key, plan in sorted(before.items(), key=lambda each: each[1].rank):
            claim = plan.claim
            entity = known.get(key)
            if claim is None or key not in self._promises.promised or plan.priority < top:
                continue
            claims = [each.claim for each in kept.values() if each.claim is not None]
            names = {
                timeline.table.name(row) for row in claim.rows.tolist() if timeline.table.alive[row]
            }
            if entity is None or names != plan.nodes:
                continue
            claim = Planner(timeline, at, claims).put_off(claim, TOLERANCE)
            if claim is None:
                continue
            start = max(claim.start, at)
            if self._search.is_open(entity, claim.rows, start) or self._search.fits_at(
                entity, claim, timeline, at
            ):
                kept[key] = replace(plan, claim=claim)
        return kept
