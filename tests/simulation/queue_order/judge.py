"""Who may go first, and who would fit: asked of the engine's state, without its queue's opinion.

An overtaking: an entity gets a node while a higher one of the same quota queue waits that would
have fitted in its place. A forgotten one: it rests though it would fit, and nothing is going on.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from arranger.api.annotations import JOB_PRIORITY, JOB_QUEUE_POLICY
from arranger.api.effects import DeletePod
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.queue_state import QueueState
from arranger.engine.engine import Engine
from arranger.engine.gang.placement.boards import SearchEffort
from arranger.engine.gang.steps import at_once
from arranger.engine.pod.schedule_result import Scheduled, Unschedulable
from arranger.engine.queue.order.job_shares import JobShares

#: What a job without a priority counts as (docs/design/queue-order.md).
DEFAULT_JOB_PRIORITY = 5
WAITING = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE)


# --- the order -----------------------------------------------------------------------------------


def level(entity: QueuedEntity) -> tuple[Any, ...]:
    """What counts before all ages: urgency, the pods' priority, the job's."""
    pod = max((m.pod for m in entity.members.values()), key=lambda pod: pod.priority)
    text = pod.pod.metadata.annotations.get(JOB_PRIORITY, "")
    job = int(text) if text else DEFAULT_JOB_PRIORITY
    return not entity.urgent, -pod.priority, -job


def age(entity: QueuedEntity) -> tuple[Any, ...]:
    """Creation, then arrival, then the name."""
    sort = entity.sort_input(lambda _: 0.0)
    return sort.created, sort.queued_at, sort.name


def asks_for_share(entity: QueuedEntity) -> bool:
    notes = entity.representative.pod.pod.metadata.annotations
    return notes.get(JOB_QUEUE_POLICY) == "DRF"


def share(engine: Engine, entity: QueuedEntity) -> float:
    """As it was read when the entity was queued to be tried, or as it would be read now."""
    if entity.state is QueueState.ACTIVE and entity.turn is not None:
        return entity.turn[1]
    return JobShares(engine.cluster).share_of(entity)


def precedes(engine: Engine, first: QueuedEntity, second: QueuedEntity) -> bool:
    """Whether the first goes before the second whoever else there is.

    One that asks for fair shares and one that does not change places as others come, so that
    neither always goes before the other.
    """
    if level(first) != level(second):
        return level(first) < level(second)
    if asks_for_share(first) != asks_for_share(second):
        return False
    if asks_for_share(first):
        shares = share(engine, first), share(engine, second)
        if shares[0] != shares[1]:
            return shares[0] < shares[1]
    return age(first) < age(second)


# --- who would fit -------------------------------------------------------------------------------


@contextmanager
def all_ready(entity: QueuedEntity) -> Iterator[None]:
    """As when it is tried: then its edited members are asked about again; no plugin is here."""
    edited = entity.unchecked()
    for member in edited:
        entity.mark_ready(member)
    yield
    for member in edited:
        entity.recheck_member(member)


def would_fit(engine: Engine, entity: QueuedEntity) -> bool:
    """Whether an attempt now would place it; nothing is changed."""
    if entity.group is not None:
        with all_ready(entity):
            return _gang_would_fit(engine, entity)
    return _pod_would_fit(engine, entity.representative)


def _pod_would_fit(engine: Engine, member: QueuedPod) -> bool:
    cycle, nominator = engine._scheduler._cycle, engine._nominator
    nominated = nominator.node_of(member.uid)
    fits = isinstance(cycle.place(member), Scheduled)
    if fits:
        cycle.unreserve(member)
        if nominated:
            nominator.nominate(member, nominated)
    return fits


def _gang_would_fit(engine: Engine, entity: QueuedEntity) -> bool:
    cycle = engine._gang_scheduler._cycle
    for row_mask in cycle.row_masks(entity):
        with cycle.dry_run(entity):
            result = at_once(cycle.place_steps(entity, row_mask, effort=SearchEffort()))
            placed = bool(result.placed)
            cycle.unreserve_all(result)
        if result.complete and placed:
            return True
    return False


def would_evict(engine: Engine, entity: QueuedEntity) -> bool:
    """Whether an attempt now would evict somebody for it; nothing is changed.

    Of gangs that luck may help (see :class:`Judge`) it is not said.
    """
    gangs, nominator = engine._gang_scheduler._preemption, engine._nominator
    if entity.group is not None:
        leaving = entity.victims & nominator.terminating_victims
        if leaving or entity.evict_after > entity.last_attempt:
            return False
        if depends_on_luck(entity):
            return False
        with all_ready(entity):
            return bool(gangs._plans.planner.plan(entity).victims)
    decided = engine._scheduler._cycle.decide(entity.representative)
    return isinstance(decided, Unschedulable) and bool(decided.victims)


def would_be_admitted(engine: Engine, entity: QueuedEntity) -> bool:
    """Whether its queue would admit a waiting gang now, and keep what it has admitted."""
    gate, now = engine._gang_scheduler._quota, engine._context.clock.now
    asking = [g.pod_group for g in entity.gang_group.gangs if g.pod_group and not g.satisfied]
    admission = copy.copy(gate._admission)
    admission._reservations = dict(admission._reservations)
    admission._last_event, admission._events = {}, []
    kept = set(admission._reservations)
    refusal = admission.admit(asking, lambda: engine.queue.sort_key(entity), now)
    return not refusal and kept <= admission._reservations.keys()


def depends_on_luck(entity: QueuedEntity) -> bool:
    """Whether where one member goes may decide whether the others fit."""
    pods = [member.pod for member in entity.one_of_each_class()]
    spread = any(p.affinity_terms or p.pod.spec.topology_spread_constraints for p in pods)
    return len(pods) > 1 or spread


# --- the judge -----------------------------------------------------------------------------------


@dataclass
class Judge:
    """Lets an engine decide one entity at a time, and looks at each decision.

    Attributes:
        refused: uids of pods whose Binding was refused; their back-off is their own affair.
        overtakings, forgotten: what was found.
        tries, placements: attempts of ``pods`` and of ``gangs``, and how many of them placed one.
    """

    engine: Engine
    refused: set[str] = field(default_factory=set)
    overtakings: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    moments: int = 0
    tries: Counter[str] = field(default_factory=Counter)
    placements: Counter[str] = field(default_factory=Counter)
    lucky: int = 0
    #: Keys of gangs that fit since others were placed, until they are tried or fit no more.
    _lucky: set[str] = field(default_factory=set)
    _known: dict[str, bool] = field(default_factory=dict)

    def decide(self, now: float) -> Iterator[list[Any]]:
        """The effects of one decision after the other, until there is nothing to decide."""
        yield self.engine.run(now, limit=0)
        self._known.clear()
        while self.engine.ready:
            yield self._decide_one(now)
        self._look_for_forgotten()

    def _decide_one(self, now: float) -> list[Any]:
        engine, queue = self.engine, self.engine.queue
        waiting = [e for e in queue.entities() if e.state in WAITING]
        fitting = [e for e in waiting if self._matters(e, waiting) and self._fits(e)]
        tried, members = (
            {e.key: e.attempts for e in waiting},
            {e.key: list(e.members.values()) for e in waiting},
        )
        before = {
            (h.key, e.key): (str(h.state), h.representative.pod.key)
            for h in fitting
            for e in waiting
            if h is not e
            and not self._is_excused(h)
            and self._lane(h) == self._lane(e)
            and precedes(self.engine, h, e)
        }
        names = {e.key: e.representative.pod.key for e in waiting}
        gangs = {e.key for e in waiting if e.group is not None}
        effects = engine.run(now, limit=1)
        changed = False
        for entity in waiting:
            if entity.attempts == tried[entity.key] and (entity.members or not members[entity.key]):
                continue
            key = entity.key
            self._lucky.discard(key)
            self.refused -= {m.uid for m in members[key]}
            placed = any(m.node or m.phase.name != "QUEUED" for m in members[key])
            kind = "gangs" if key in gangs else "pods"
            self.tries[kind] += 1
            self.placements[kind] += placed
            if placed:
                self.moments += 1
                changed = True
                for (_, lower), (state, name) in before.items():
                    if lower == key:
                        self.overtakings.append(
                            f"{now:g}: {names[key]} before {name}, which fits ({state})"
                        )
        if changed or any(isinstance(effect, DeletePod) for effect in effects):
            self._note_luck(waiting, fitting)
        if changed or effects:
            self._known.clear()
        return effects

    def _matters(self, entity: QueuedEntity, waiting: list[QueuedEntity]) -> bool:
        """Whether it could be overtaken now, or be lucky after that."""
        return depends_on_luck(entity) or any(
            other.state is QueueState.ACTIVE
            and other is not entity
            and self._lane(entity) == self._lane(other)
            and precedes(self.engine, entity, other)
            for other in waiting
        )

    def _lane(self, entity: QueuedEntity) -> str:
        return (
            self.engine.ledger.queue_name(entity.representative.pod)
            if self.engine.ledger.active
            else ""
        )

    def _is_excused(self, entity: QueuedEntity) -> bool:
        """Whether neither its back-off nor its rest is to blame for its waiting."""
        if entity.state is QueueState.BACKOFF:
            timed_out = entity.group is not None and not entity.group.is_strict
            return timed_out or not self.refused.isdisjoint(entity.members)
        return entity.key in self._lucky

    def _note_luck(self, waiting: list[QueuedEntity], fitted: list[QueuedEntity]) -> None:
        """Something was placed or nominated, and nothing else: who fits only now is lucky.

        Members of different kinds are placed one after the other, each on the best node for itself;
        less room elsewhere may lead one of them to where it is in nobody's way.
        """
        for entity in waiting:
            if entity.group is None or entity in fitted or entity.state not in WAITING:
                continue
            if depends_on_luck(entity) and would_fit(self.engine, entity):
                self._lucky.add(entity.key)
                self.lucky += 1

    def _fits(self, entity: QueuedEntity) -> bool:
        if entity.key not in self._known:
            self._known[entity.key] = would_fit(self.engine, entity)
            if not self._known[entity.key]:
                self._lucky.discard(entity.key)
        return self._known[entity.key]

    def _yields(self, entity: QueuedEntity) -> bool:
        """Whether it leaves room to another for a moment, or the first of its class does."""
        first = [e for version, e in self.engine.queue._yielding if e.heap_version == version]
        rests = entity.state is QueueState.UNSCHEDULABLE
        return any(e is entity or (rests and e.woken_from == entity.wakeup_group) for e in first)

    def _look_for_forgotten(self) -> None:
        self._known.clear()
        for entity in list(self.engine.queue.entities()):
            name = entity.representative.pod.key
            if entity.state is QueueState.GATED and entity.rejected_by == {"CapacityCard"}:
                if would_be_admitted(self.engine, entity):
                    self.forgotten.append(f"{name} is not admitted, and would be")
            elif (
                entity.state is QueueState.UNSCHEDULABLE
                and not self._yields(entity)
                and not self._fits(entity)
                and would_evict(self.engine, entity)
            ):
                self.forgotten.append(f"{name} rests, and others could be evicted for it")
            if (
                entity.state in WAITING
                and not self._yields(entity)
                and not self._is_excused(entity)
                and self._fits(entity)
            ):
                self.forgotten.append(
                    f"{entity.representative.pod.key} rests ({entity.state.value}), and fits"
                )
