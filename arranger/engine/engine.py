"""The scheduler's core: events in, effects out.

The engine never awaits, opens nothing and reads no clock: whoever drives it passes ``now`` (any
clock that does not run backwards, in seconds), carries the effects out, and reports what became
of them with :meth:`Engine.settle`.
"""

from __future__ import annotations

import logging

from arranger.api.effects import Effect, Outcome, Refused, ReleaseClaim, ReserveClaim
from arranger.engine import pod_events
from arranger.engine.context import Stats
from arranger.engine.entity import Entity, Part
from arranger.engine.event_handlers import Intake
from arranger.engine.extenders.coordinator import Round
from arranger.engine.extenders.preemption import choose, without_victims
from arranger.engine.phases import HOLDING, Phase
from arranger.engine.pod.binding_cycle import SAYS_NOTHING
from arranger.engine.pod.schedule_result import Broken, Held, Placed, Unplaced
from arranger.engine.queued_pod import Member
from arranger.framework.cluster_event import ClusterEvent, EventKind
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.framework.status import Code, Status

log = logging.getLogger(__name__)


class Engine(Intake):
    """Decides; see :class:`~arranger.engine.event_handlers.Intake` for what it is told."""

    # --- deciding --------------------------------------------------------------------------

    def run(self, now: float, *, limit: int = 256) -> list[Effect]:
        """Try at most ``limit`` pods, or one gang; returns what is to be done.

        Call again at once while :attr:`ready`, and at :meth:`next_timer` at the latest.
        """
        if not self._started:
            self._started = True
            self.registry.all_seen()
        self.ledger.refresh()
        self._desk.cycle.now = now
        for answered in self._consulting.advance(now):
            self._advised(answered, now)
        self.queue.advance(now)
        self._queue_timers.advance(now)
        self._gangs.advance(now)
        self._binder.advance(now)
        self._run_waiting(now)
        while limit > 0:
            self._gangs.catch_up(now)
            entity = self.queue.pop()
            if entity is None:
                break
            limit -= len(entity.members)
            self._attempt(entity, now)
        self._consulting.give_turns(now)
        self._desk.outbox += self.cluster.devices.claims.take_effects()
        effects, self._desk.outbox = self._desk.outbox, []
        return effects

    @property
    def ready(self) -> bool:
        """Whether :meth:`run` has something to do now."""
        asking = self._desk.ask_waiting and (bool(self._desk.waiting) or self._binder.asking)
        asking = asking or self._consulting.ready
        return asking or self.queue.ready or bool(self._desk.outbox)

    def next_timer(self) -> float | None:
        """When something will be due without any event."""
        timers = [member.deadline for member in self._desk.waiting.values()]
        parts = (self.queue, self._gangs, self._binder, self._consulting, self._queue_timers)
        others = [part.next_timer() for part in parts]
        return min([*timers, *(due for due in others if due is not None)], default=None)

    def take_stats(self) -> Stats:
        """The statistics since the last call."""
        stats, self._desk.stats = self._desk.stats, Stats()
        return stats

    def _attempt(self, entity: Entity, now: float) -> None:
        entity.attempts += 1
        entity.last_attempt = now
        if entity.broken:
            self._broken(entity, entity.broken, now)
        elif not self._consulting.takes(entity, now):
            self._place(entity, now)

    def _place(self, entity: Entity, now: float) -> None:
        if self._perf_counter is None:
            self._decide(entity, now)
            return
        before = self._perf_counter()
        self._decide(entity, now)
        self._desk.stats.durations.append(self._perf_counter() - before)

    def _decide(self, entity: Entity, now: float) -> None:
        if entity.group is not None:
            self._gangs.attempt(entity, now)
        else:
            self._attempt_pod(entity, now)

    def _advised(self, answered: Round, now: float) -> None:
        """Extenders have answered about an entity, or failed to."""
        entity, missed = answered.entity, answered.happenings != self._desk.happenings
        if answered.refused is not None:
            self._unadvised(answered, answered.refused, now)
        elif answered.unplaced is not None and answered.victims is not None:
            decision = choose(self._desk, entity.lead, answered.unplaced, answered.victims)
            self._unplaced(entity, decision, now)
        else:
            with self._desk.cycle.counselled(answered.counsels):
                self._place(entity, now)
        if missed and entity.part is Part.UNSCHEDULABLE:
            # What might have woken it has happened while the extenders were thinking.
            self.queue.retry(entity, now)

    def _unadvised(self, answered: Round, refused: Refused, now: float) -> None:
        entity = answered.entity
        if refused.reason in SAYS_NOTHING:
            self.queue.retry(entity, now)
        elif answered.unplaced is None:
            self._broken(entity, refused.message, now)
        else:
            self._unplaced(entity, without_victims(answered.unplaced, refused.message), now)
            self.queue.retry(entity, now)

    def _attempt_pod(self, entity: Entity, now: float) -> None:
        member = entity.lead
        member.tries += 1
        match self._desk.cycle.decide(member):
            case Placed(held=held):
                member.move(Phase.RESERVED)
                self._desk.count(member, "scheduled")
                if held is None:
                    self._binder.begin(member, now)
                    return
                member.move(Phase.WAITING)
                member.held_by, member.held_for = held.plugin, held.timeout
                member.deadline = now + held.timeout
                self._desk.waiting[member.uid] = member
            case Unplaced(options=options) as decision if options:
                self._consulting.ask_about_victims(entity, decision, now)
            case Unplaced() as decision:
                self._unplaced(entity, decision, now)
            case Broken(message=message):
                self._broken(entity, message, now)

    def _unplaced(self, entity: Entity, decision: Unplaced, now: float) -> None:
        member = entity.lead
        self._desk.count(member, "unschedulable")
        self._desk.outbox += pod_events.failed(
            member,
            pod_events.UNSCHEDULABLE,
            decision.message,
            self._change_of_nomination(member, decision.nominated),
        )
        self._desk.outbox += pod_events.further(member, decision.events)
        self.queue.rest(entity, decision.rejected_by, now)
        if decision.nominated:
            self._preempting.nominate(member, decision.nominated, decision.victims, now)
        elif decision.nominated is not None:
            self._preempting.release(member, now)

    def _change_of_nomination(self, member: Member, nominated: str | None) -> str | None:
        """What the pod's status must be told of its nomination; None if that is no news."""
        if nominated is None or nominated == self._desk.cycle.nominations.node_of(member.uid):
            return None
        return nominated

    def _broken(self, entity: Entity, message: str, now: float) -> None:
        """A plugin raised: tell every pod it concerns, and try again."""
        for member in entity.members.values():
            log.error("pod %s: %s", member.pod.key, message)
            self._desk.count(member, "error")
            self._desk.outbox += pod_events.failed(member, pod_events.SCHEDULER_ERROR, message)
        self.queue.retry(entity, now)

    def _run_waiting(self, now: float) -> None:
        overdue = [m for m in self._desk.waiting.values() if m.deadline <= now]
        for member in overdue:
            if member.uid not in self._desk.waiting:
                continue  # its gang has fallen with another
            waited = f"{member.held_for:g}s at plugin {member.held_by}"
            reason = f"rejected due to timeout after waiting {waited}"
            refusal = Status(Code.UNSCHEDULABLE, (reason,), member.held_by)
            self._binder.reject(member, refusal, now)
        if not self._desk.ask_waiting:
            return
        self._desk.ask_waiting = False
        for member in list(self._desk.waiting.values()):
            if member.uid not in self._desk.waiting:
                continue
            try:
                answer = self._desk.cycle.permit(member)
            except PluginFailureError as error:
                self._binder.roll_back(member, str(error), now)
                continue
            if isinstance(answer, Status):
                self._binder.reject(member, answer, now)
            elif not isinstance(answer, Held):
                del self._desk.waiting[member.uid]
                if not self._gangs.permitted(member, now):
                    self._binder.begin(member, now)

    # --- outcomes --------------------------------------------------------------------------

    def settle(self, effect: Effect, outcome: Outcome, now: float) -> None:
        """What became of an effect; ``Ambiguous`` will be followed by a definite outcome."""
        if isinstance(effect, ReserveClaim | ReleaseClaim):
            claims = self.cluster.devices.claims
            if claims.settle(effect, outcome):
                self._desk.happened(ClusterEvent(EventKind.OTHER, resource="ResourceClaim"), now)
            self._desk.outbox += claims.take_effects()
        if self._preempting.awaits(effect):
            self._preempting.settle(effect, outcome, now)
            self._gangs.catch_up(now)
        elif self._consulting.awaits(effect):
            self._consulting.settle(effect, outcome)
        else:
            self._binder.settle(effect, outcome, now)

    def awaits(self, effect: Effect) -> bool:
        """Whether something waits for the outcome of ``effect``."""
        if isinstance(effect, ReserveClaim | ReleaseClaim):
            return True
        parts = (self._binder, self._preempting, self._consulting)
        return any(part.awaits(effect) for part in parts)

    # --- for people and tests --------------------------------------------------------------

    def members(self) -> list[Member]:
        """Every pod of ours that is not bound or gone."""
        return list(self._desk.members.values())

    def summary(self) -> dict[str, int]:
        """How much of everything the core holds."""
        return {
            "nodes": self.cluster.table.count,
            "placed": len(self.cluster),
            "assumed": len(self.cluster.assumed),
            "gangs": len(self.registry.gangs),
            "queues": len(self.ledger.queues),
            "promises": len(self._desk.cycle.nominations),
            "waiting": len(self._desk.waiting),
            **{part.value: count for part, count in self.queue.count().items()},
        }

    def check_consistent(self) -> None:
        """Check every invariant of the core.

        Raises:
            AssertionError: one is broken.
        """
        self.cluster.check_consistent()
        self.ledger.check_consistent()
        self.queue.check_consistent()
        self._binder.check_consistent()
        self._consulting.check_consistent()
        self._gangs.check_consistent()
        self._desk.cycle.nominations.check_consistent()
        waiting = self._desk.waiting
        for uid, member in self._desk.members.items():
            assert member.uid == uid, f"{member} is filed under {uid}"
            entity = member.entity
            if member.phase is Phase.QUEUED:
                assert entity is not None, f"{member}: no entity"
                assert uid in entity.members, f"{member}: not in its entity"
                assert entity.key in self.queue, f"{member}: queue"
            elif entity is not None:
                assert entity.key not in self.queue, f"{member}: queue"
                assert entity.part is Part.OUT, f"{member}: part"
            has_room = member.phase in HOLDING or uid in self._desk.cycle.nominations
            assert has_room == (uid in self.cluster), f"{member}: reservation"
            held = uid in waiting or self._gangs.holds(member)
            assert (member.phase is Phase.WAITING) == held, f"{member}: waiting"
        queued = {uid for entity in self.queue.entities() for uid in entity.members}
        assert queued <= self._desk.members.keys(), "the queue holds strangers"
