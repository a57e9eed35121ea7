"""Plans when gangs that have waited too long start, and keeps room for them until then.

The first groups of the queue that have waited so long each get the earliest time at which all of
them fits, beside those planned before. What that keeps others from is told in
:mod:`arranger.engine.pod.planned_room`; how much and how long, in
:mod:`arranger.engine.gang.planning.reservation_budget`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.queue_state import QueueState
from arranger.engine.context.rejecters import KEPT_NODES
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.planning.promises import Promises
from arranger.engine.gang.planning.reservation_budget import ReservationBudget
from arranger.engine.gang.planning.start_search import StartSearch, facts_of
from arranger.engine.gang.planning.starving_gangs import StarvingGangs
from arranger.engine.gang.planning.trials import STEP_UNITS, OutdatedError, Repetitions
from arranger.engine.gang.preemption.trial import PlanSteps
from arranger.engine.gang.state.policy import GangPolicy
from arranger.engine.pod.planned_room import PlannedGang, PlannedRoom
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent

#: Pods that are followed in one step: about 20 ms.
MAX_PODS: Final = 2000
#: Where they are that are not tried next.
_RESTS: Final = (QueueState.BACKOFF, QueueState.UNSCHEDULABLE)
#: Seconds between two plans for what has become free.
REPLAN_INTERVAL: Final = 1.0


class _Planning(NamedTuple):
    """Plans that are being made.

    Attributes:
        waiting: for whom, in the order of the queue; ``keys`` are theirs.
        before: those that were in force at the beginning.
        facts: what these groups were then.
    """

    steps: PlanSteps[dict[str, PlannedGang]]
    waiting: Sequence[QueuedEntity]
    before: Mapping[str, PlannedGang]
    keys: frozenset[str]
    facts: Hashable


@dataclass(slots=True, eq=False)
class StartPlanner:
    """Plans the starts of the first groups that have not fitted for so long.

    As long and as far as the budget allows it.
    """

    _context: EngineContext
    _queue: SchedulingQueue
    _room: PlannedRoom
    _entities: GangEntityIndex
    _search: StartSearch
    _policy: GangPolicy
    _budget: ReservationBudget
    _promises: Promises
    _starving: StarvingGangs
    #: What had become free when it was planned last, and when it may be planned again for that.
    _freed: int = field(default=0, init=False)
    #: What Reservations said then.
    _reserved: int = field(default=0, init=False)
    _next: float = field(default=-math.inf, init=False)
    #: When a plan was put off that is still to be made.
    _put_off: float | None = field(default=None, init=False)
    #: Planned group → when it was tried because it could start by the plan.
    _tried: dict[str, float] = field(default_factory=dict, init=False)
    #: Plans that are being made, whether others are to be made after them, and units that they and
    #: those begun before them have taken.
    _planning: _Planning | None = field(default=None, init=False)
    _asked_again: bool = field(default=False, init=False)
    _spent: int = field(default=0, init=False)
    #: How often they have been begun anew.
    _repeated: int = field(default=0, init=False)
    #: Who evicts nobody before it is known when it starts → how many plans were made since; and who
    #: has heard, and is tried for that.
    _wait_to_hear: dict[str, int] = field(default_factory=dict, init=False)
    _has_heard: set[str] = field(default_factory=set, init=False)
    #: Whether anything may have happened since it was looked whether to plan anew.
    _may_look: bool = field(default=False, init=False)

    def follow(self, now: float) -> None:
        """Plan anew when pods have ended, Reservations have changed, or the budget allows more.

        Gangs may start earlier, before others take the room. A group that lacks room on
        all nodes together is not tried meanwhile.
        """
        if self._planning is not None:
            return
        if self._put_off is not None:
            self._replan(None, now)
            return
        if now >= self._starving.allowed_at:
            self._plan_next(now)
            return
        self._may_look = bool(self._room.plans) and now < self._next
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
            if not self._starving.is_allowed(entity.group, now):
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
            others = [each for each in before.values() if each is not plan]
            of_others = frozenset[str]().union(*(each.namespaces for each in others))
            self._budget.on_started(plan.key, plan.namespaces, of_others)
            self._keep(others, before, now)
            self._plan_next(now)

    def waits_rather_than_evicts(self, entity: QueuedEntity) -> bool:
        """Whether a group starts so soon by the plan that nobody is to be evicted for it."""
        plan, within = self._room.plans.get(entity.key), self._policy.wait_instead_of_preempting
        if plan is None and within and entity.key in self._has_heard:
            self._has_heard.discard(entity.key)
            return False
        if plan is None and within and self._planning is not None:
            self._wait_to_hear.setdefault(entity.key, 0)
            return True
        return self._is_soon(plan)

    def _is_soon(self, plan: PlannedGang | None) -> bool:
        """Whether a gang starts so soon by its plan that nobody is evicted for it."""
        claim = None if plan is None else plan.claim
        within = self._policy.wait_instead_of_preempting
        return claim is not None and claim.start - self._context.unix_now < within

    def told_to(self, entity: QueuedEntity) -> str:
        """What the members of a group are told about its start, "" for nothing."""
        start = next((gang.planned_start for gang in entity.gang_group.gangs), None)
        return "" if start is None else f" It {start.text(self._context.unix_now)}."

    @property
    def ready(self) -> bool:
        """Whether plans are being made."""
        return self._planning is not None or self._put_off is not None

    def next_timer(self) -> float | None:
        """When what is kept is given back, or planning goes on."""
        if self._put_off is not None:
            return self._put_off
        plans = self._room.plans
        ends = self._budget.ends_at() if plans else None
        times = (self._starving.allowed_at, ends, self._next if plans and self._may_look else None)
        due = min(time for time in times if time is not None)
        return None if math.isinf(due) else due

    def go_on(self, now: float) -> None:
        """The next step of the plans that are being made."""
        planning = self._planning
        if planning is None or not self._room.follow(MAX_PODS):
            return
        known = self._entities.by_key
        if all(known(entity.key) is entity and entity.members for entity in planning.waiting):
            self._step(now)
        else:
            self._planning, self._put_off = None, now

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

    def _has_gone(self, plan: PlannedGang) -> bool:
        entity = self._entities.by_key(plan.key)
        return entity is None or not entity.members

    def _drop(self, idle: Sequence[PlannedGang], now: float) -> None:
        if idle:
            self._withdraw(idle, now)
            self._plan_next(now)

    def _withdraw(self, idle: Sequence[PlannedGang], now: float) -> None:
        """Keep no room for these any more."""
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
                self._try_if_it_waited(entity, plan, None)
        self._keep(left, self._room.plans, now)

    def _plan_next(self, now: float) -> None:
        """Fewer are planned: it is the turn of the next ones, though nothing has them tried."""
        self._starving.begin_anew()
        if self._starving.next_in_turn(now):
            self._replan(None, now)

    def _keep(
        self, plans: Sequence[PlannedGang], before: Mapping[str, PlannedGang], now: float
    ) -> None:
        """Keep room for these, and wake those who were kept off by what is not kept any more."""
        self._room.keep(plans)
        self._budget.keep({plan.key for plan in plans}, now)
        after = self._room.plans
        if any(key not in after or not plan.is_alike(after[key]) for key, plan in before.items()):
            self._queue.wake(ClusterEvent(ActionType.OTHER, resource=KEPT_NODES), now)

    def _replan(self, failed: QueuedEntity | None, now: float) -> None:
        """Plan anew; what is not done in this step is in the next ones.

        Put off to the next step as long as much has to be followed first.
        """
        if self._planning is not None:
            if failed is not None and failed.key not in self._planning.keys:
                self._asked_again = True  # it is its turn after that
            return
        self._put_off = None
        if not self._room.follow(MAX_PODS):
            self._put_off = now
            return
        self._withdraw([plan for plan in self._room.plans.values() if self._has_gone(plan)], now)
        known = (self._entities.by_key(key) for key in self._room.plans)
        others = (*known, *self._starving.next_in_turn(now), failed)
        found = {entity.key: entity for entity in others if entity is not None}
        waiting = sorted(found.values(), key=self._queue.sort_key)
        if not waiting:
            self._asked_again = False
            self._tell_who_waits(())
            return
        before = self._room.plans
        steps = self._search.best(waiting, failed, before, now, Repetitions(self._repeated))
        self._planning = _Planning(steps, waiting, before, frozenset(found), facts_of(waiting))
        self._asked_again = False
        self._step(now, failed)

    def _step(self, now: float, failed: QueuedEntity | None = None) -> None:
        """Another step of the plan that is being made; ``failed``: whose attempt ends with it."""
        planning, work = self._planning, self._context.cluster.work
        assert planning is not None, "no plan is being made"
        self._put_off, self._planning, before = None, None, work.spent
        plans: dict[str, PlannedGang] | None = None
        try:
            next(planning.steps)
        except OutdatedError:
            pass
        except StopIteration as end:
            same = self._room.plans is planning.before
            same &= facts_of(planning.waiting) == planning.facts
            if same and (failed or self._search.hold(end.value)):
                plans = end.value
        except Exception:
            self._spent, self._repeated, self._asked_again = 0, 0, False
            self._tell_who_waits(())
            raise
        else:
            self._put_off, self._planning = now, planning
        self._spent += work.spent - before
        if plans is not None:
            self._put_in_force(planning, plans, failed, now)
            self._put_off = now if self._asked_again else None
        elif self._planning is None:  # begun anew in the next step
            self._repeated += 1
            self._put_off = now

    def _put_in_force(
        self,
        planning: _Planning,
        plans: Mapping[str, PlannedGang],
        failed: QueuedEntity | None,
        now: float,
    ) -> None:
        before, budget = planning.before, self._budget
        if before and not plans:
            namespaces = frozenset[str]().union(*(plan.namespaces for plan in before.values()))
            budget.on_ended_in_vain(namespaces, now)
        self._keep(list(plans.values()), before, now)
        until = self._search.until(now)
        for entity in planning.waiting:
            if entity.key not in before and entity.key not in plans:
                continue
            plan = plans.get(entity.key)
            told = self.told_to(entity)
            self._promises.on_planned(entity, plan, before.get(entity.key), until)
            if entity is not failed:  # whose reason is being put together
                self._tell_members(entity, told, now)
                self._try_if_due(entity, plan, now)
                self._try_if_it_waited(entity, before.get(entity.key), plan)
        self._tell_who_waits(planning.keys)
        self._tried = {key: tried for key, tried in self._tried.items() if key in plans}
        # What takes more than a step is not done as often.
        interval = REPLAN_INTERVAL * max(1.0, self._spent / STEP_UNITS)
        self._spent = self._repeated = 0
        self._freed, self._next = self._room.timeline.freed, now + interval
        self._reserved = self._search.version

    def _tell_who_waits(self, keys: Collection[str]) -> None:
        """Have those tried that were planned for, or have waited for another plan already."""
        waiting, self._wait_to_hear = self._wait_to_hear, {}
        self._has_heard.clear()
        for key, plans in waiting.items():
            entity = self._entities.by_key(key)
            if key not in keys and not plans and self._asked_again:
                self._wait_to_hear[key] = 1
            elif entity is not None and entity.state in _RESTS:
                self._has_heard.add(key)
                self._queue.activate(entity)

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

    def _try_if_it_waited(
        self, entity: QueuedEntity, before: PlannedGang | None, plan: PlannedGang | None
    ) -> None:
        """Have a group tried that evicted nobody as its start was near, and is so no more."""
        if self._is_soon(before) and not self._is_soon(plan) and entity.state in _RESTS:
            self._queue.activate(entity)
