"""Finds plans for the starts of gangs, in steps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from arranger.backfill.planner import Claim, Planner
from arranger.backfill.run_times import Basis
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.gang.planning.promises import TOLERANCE, Promises
from arranger.engine.gang.planning.reservation_budget import ReservationBudget
from arranger.engine.gang.planning.room_search import RoomSearch
from arranger.engine.gang.planning.trials import Repetitions
from arranger.engine.gang.preemption.trial import PlanSteps
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.pod.planned_room import PlannedGang, PlannedRoom
from arranger.engine.queue.scheduling_queue import SchedulingQueue

#: Seconds until nodes are looked for again for a group that would not have fitted on empty ones.
RETRY_INTERVAL: Final = 60.0


@dataclass(frozen=True, slots=True)
class StartSearch:
    """Looks for the starts of groups as if no room were kept for any, or around some."""

    _context: EngineContext
    _queue: SchedulingQueue
    _room: PlannedRoom
    _search: RoomSearch
    _policy: GangPolicy
    _budget: ReservationBudget
    _promises: Promises

    @property
    def version(self) -> int:
        """See :attr:`RoomSearch.version`."""
        return self._search.version

    def best(
        self,
        waiting: Sequence[QueuedEntity],
        failed: QueuedEntity | None,
        before: Mapping[str, PlannedGang],
        now: float,
        repeated: Repetitions,
    ) -> PlanSteps[dict[str, PlannedGang]]:
        """The plans of the first groups: as if nothing were planned, or around those of ``before``
        that are promises and would not be kept. ``failed`` does not fit now.

        Raises:
            OutdatedError: they have to be looked for anew.
        """
        plan_all = partial(self._plan_all, waiting, failed, before, now=now, repeated=repeated)
        plans = yield from plan_all({})
        if any(broken := self._promises.broken_by(plans)):
            kept = yield from plan_all((yield from self._kept(before, waiting, repeated)))
            plans = kept if self._promises.broken_by(kept) < broken else plans
        return plans

    def hold(self, plans: Mapping[str, PlannedGang]) -> bool:
        """Whether the room of all of these is there still, after others have been decided."""
        timeline, at, claims = self._room.timeline, self._context.unix_now, list[Claim]()
        self._room.follow()
        table = timeline.table
        for plan in plans.values():
            if not plan.is_there(table):
                return False
            if plan.claim is not None:
                if not Planner(timeline, at, claims).still_fits(plan.claim):
                    return False
                claims.append(plan.claim)
        return True

    def until(self, now: float) -> float:
        """Until when room is kept at most, in seconds since 1970."""
        ends = self._budget.ends_at()
        left = self._policy.reservation_seconds if ends is None else ends - now
        return self._context.unix_now + left

    # --- inside ----------------------------------------------------------------------------

    def _plan_all(
        self,
        waiting: Sequence[QueuedEntity],
        failed: QueuedEntity | None,
        before: Mapping[str, PlannedGang],
        kept: Mapping[str, PlannedGang],
        *,
        now: float,
        repeated: Repetitions,
    ) -> PlanSteps[dict[str, PlannedGang]]:
        """Plan for the first groups, around what is ``kept``; ``failed`` does not fit now.

        One that was not planned ``before`` and cannot be waits for its next turn.
        """
        plans, until = dict(kept), self.until(now)
        most = self._budget.max_nodes(self._context.cluster.table.count)
        for entity in waiting:
            if len(plans) >= self._policy.planned_gangs:
                break
            if entity.key in plans:
                continue
            claims = [plan.claim for plan in plans.values() if plan.claim is not None]
            now_too = entity is not failed
            plan = yield from self._plan(entity, claims, until, repeated, now_too=now_too)
            others = () if plan is None else (each.nodes for each in plans.values())
            if plan is not None and len(plan.nodes.union(*others)) <= most:
                plans[entity.key] = plan
            elif entity.key not in before:
                entity.reserve_retry_at = now + RETRY_INTERVAL
        return {e.key: plans[e.key] for e in waiting if e.key in plans}

    def _plan(
        self,
        entity: QueuedEntity,
        claims: Sequence[Claim],
        until: float,
        repeated: Repetitions,
        *,
        now_too: bool,
    ) -> PlanSteps[PlannedGang | None]:
        search, timeline = self._search, self._room.timeline
        self._room.follow()
        claim: Claim | None = None
        needs = yield from search.needed(entity, repeated)
        for least in (Basis.LIMIT, Basis.ESTIMATE):
            planner = Planner(timeline, self._context.unix_now, claims, least=least)
            claim = yield from search.earliest_start(
                entity, needs, planner, repeated, now_too=now_too
            )
            if claim is not None and claim.start <= until:
                break  # rather a promise than an earlier start that is a guess
        at = self._context.unix_now
        if claim is not None and repeated.tried:
            fits = yield from search.fits_at(entity, claim, timeline, at)
            claim = claim if fits else None
        elif claim is not None:
            claim = replace(claim, known=False)  # it may not fit there, so nothing is promised
        if claim is None:
            nodes = yield from search.nodes_needed(entity, needs, at, repeated)
        else:
            table = self._context.cluster.table
            nodes = frozenset(table.name(row) for row in claim.rows.tolist() if table.alive[row])
        if not nodes:
            return None
        group, rank = entity.gang_group, self._queue.sort_key(entity)
        namespaces, priority = frozenset(group.namespaces), entity.representative.pod.priority
        return PlannedGang(entity.key, rank, group.display_name, namespaces, priority, nodes, claim)

    def _kept(
        self,
        before: Mapping[str, PlannedGang],
        waiting: Sequence[QueuedEntity],
        repeated: Repetitions,
    ) -> PlanSteps[dict[str, PlannedGang]]:
        """The plans of promises that can still be kept, and that nobody above needs to break.

        Where kubelets are late, a moment later than promised.
        """
        timeline, at = self._room.timeline, self._context.unix_now
        self._room.follow()
        kept: dict[str, PlannedGang] = {}
        known = {entity.key: entity for entity in waiting}
        top = max(entity.representative.pod.priority for entity in waiting)
        for key, plan in sorted(before.items(), key=lambda each: each[1].rank):
            claim = plan.claim
            entity = known.get(key)
            if claim is None or key not in self._promises.promised or plan.priority < top:
                continue
            claims = [each.claim for each in kept.values() if each.claim is not None]
            if entity is None or not plan.is_there(timeline.table):
                continue
            claim = Planner(timeline, at, claims).put_off(claim, TOLERANCE)
            if claim is None:
                continue
            start = max(claim.start, at)
            fits = not repeated.tried or self._search.is_open(entity, claim.rows, start)
            if fits or (yield from self._search.fits_at(entity, claim, timeline, at)):
                kept[key] = replace(plan, claim=claim)
        return kept


def facts_of(entities: Iterable[QueuedEntity]) -> Hashable:
    """Another value whenever any of these groups needs something else."""
    return tuple(
        (entity.revision, tuple(gang.settings for gang in entity.group.gangs))
        for entity in entities
        if entity.group is not None
    )
