"""The scheduler's core: events in, effects out.

The engine never awaits, opens nothing and reads no clock: whoever drives it passes ``now`` (any
clock that does not run backwards, in seconds), carries the effects out, and reports what became
of them with :meth:`Engine.on_outcome`.
"""

from __future__ import annotations

import logging

from arranger.api.effects import Effect, Outcome, Refused, ReleaseClaim, ReserveClaim
from arranger.engine import pod_events
from arranger.engine.context import Stats
from arranger.engine.entity import QueuedEntity, QueueState
from arranger.engine.event_handlers import EventHandlers
from arranger.engine.extenders.coordinator import ExtenderCall
from arranger.engine.extenders.preemption import select_candidate, without_victims
from arranger.engine.phases import HOLDS_NODE, Phase
from arranger.engine.pod.binding_cycle import SILENT_REFUSALS
from arranger.engine.pod.schedule_result import CycleError, PermitWait, Scheduled, Unschedulable
from arranger.engine.queued_pod import QueuedPod
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.framework.status import Code, Status

log = logging.getLogger(__name__)


class Engine(EventHandlers):
    """Decides; see :class:`~arranger.engine.event_handlers.EventHandlers` for what it is told."""

    # --- deciding --------------------------------------------------------------------------

    def run(self, now: float, *, limit: int = 256) -> list[Effect]:
        """Try at most ``limit`` pods, or one gang; returns what is to be done.

        Call again at once while :attr:`ready`, and at :meth:`next_timer` at the latest.
        """
        if not self._started:
            self._started = True
            self.registry.initial_sync_done()
        self.ledger.refresh()
        self._context.cycle.now = now
        for answered in self._extender_calls.advance(now):
            self._on_extender_result(answered, now)
        self.queue.advance(now)
        self._quota_timers.advance(now)
        self._gangs.advance(now)
        self._binding_cycle.advance(now)
        self._process_waiting_pods(now)
        while limit > 0:
            self._gangs.process_changes(now)
            entity = self.queue.pop()
            if entity is None:
                break
            limit -= len(entity.members)
            self._schedule_one(entity, now)
        self._extender_calls.start_waiting(now)
        self._context.outbox += self.cluster.devices.claim_tracker.take_effects()
        effects, self._context.outbox = self._context.outbox, []
        return effects

    @property
    def ready(self) -> bool:
        """Whether :meth:`run` has something to do now."""
        asking = self._context.recheck_permits and (
            bool(self._context.waiting_pods) or self._binding_cycle.has_waiting
        )
        asking = asking or self._extender_calls.ready
        return asking or self.queue.ready or bool(self._context.outbox)

    def next_timer(self) -> float | None:
        """When something will be due without any event."""
        timers = [member.deadline for member in self._context.waiting_pods.values()]
        parts = (
            self.queue,
            self._gangs,
            self._binding_cycle,
            self._extender_calls,
            self._quota_timers,
        )
        others = [part.next_timer() for part in parts]
        return min([*timers, *(due for due in others if due is not None)], default=None)

    def take_stats(self) -> Stats:
        """The statistics since the last call."""
        stats, self._context.stats = self._context.stats, Stats()
        return stats

    def _schedule_one(self, entity: QueuedEntity, now: float) -> None:
        entity.attempts += 1
        entity.last_attempt = now
        if entity.plugin_error:
            self._handle_error(entity, entity.plugin_error, now)
        elif not self._extender_calls.starts_for(entity, now):
            self._run_cycle(entity, now)

    def _run_cycle(self, entity: QueuedEntity, now: float) -> None:
        if self._perf_counter is None:
            self._decide(entity, now)
            return
        before = self._perf_counter()
        self._decide(entity, now)
        self._context.stats.attempt_seconds.append(self._perf_counter() - before)

    def _decide(self, entity: QueuedEntity, now: float) -> None:
        if entity.group is not None:
            self._gangs.attempt(entity, now)
        else:
            self._schedule_pod(entity, now)

    def _on_extender_result(self, call: ExtenderCall, now: float) -> None:
        """Extenders have answered about an entity, or failed to."""
        entity, events_missed = call.entity, call.event_count != self._context.event_count
        if call.refused is not None:
            self._on_extender_failure(call, call.refused, now)
        elif call.unschedulable is not None and call.victims is not None:
            decision = select_candidate(
                self._context, entity.representative, call.unschedulable, call.victims
            )
            self._handle_unschedulable(entity, decision, now)
        else:
            with self._context.cycle.with_extender_results(call.results):
                self._run_cycle(entity, now)
        if events_missed and entity.state is QueueState.UNSCHEDULABLE:
            # What might have woken it has happened while the extenders were thinking.
            self.queue.requeue_with_backoff(entity, now)

    def _on_extender_failure(self, call: ExtenderCall, refused: Refused, now: float) -> None:
        entity = call.entity
        if refused.reason in SILENT_REFUSALS:
            self.queue.requeue_with_backoff(entity, now)
        elif call.unschedulable is None:
            self._handle_error(entity, refused.message, now)
        else:
            self._handle_unschedulable(
                entity, without_victims(call.unschedulable, refused.message), now
            )
            self.queue.requeue_with_backoff(entity, now)

    def _schedule_pod(self, entity: QueuedEntity, now: float) -> None:
        member = entity.representative
        member.attempts += 1
        match self._context.cycle.decide(member):
            case Scheduled(held=held):
                member.transition(Phase.RESERVED)
                self._context.record_attempt(member, "scheduled")
                if held is None:
                    self._binding_cycle.begin(member, now)
                    return
                member.transition(Phase.WAITING)
                member.permit_plugin, member.permit_timeout = held.plugin, held.timeout
                member.deadline = now + held.timeout
                self._context.waiting_pods[member.uid] = member
            case Unschedulable(options=options) as decision if options:
                self._extender_calls.start_preemption_call(entity, decision, now)
            case Unschedulable() as decision:
                self._handle_unschedulable(entity, decision, now)
            case CycleError(message=message):
                self._handle_error(entity, message, now)

    def _handle_unschedulable(
        self, entity: QueuedEntity, result: Unschedulable, now: float
    ) -> None:
        member = entity.representative
        self._context.record_attempt(member, "unschedulable")
        self._context.outbox += pod_events.scheduling_failed(
            member,
            pod_events.UNSCHEDULABLE,
            result.message,
            self._nomination_change(member, result.nominated_node),
        )
        self._context.outbox += pod_events.plugin_events(member, result.events)
        self.queue.add_unschedulable(entity, result.rejected_by, now)
        if result.nominated_node:
            self._preemption.nominate(member, result.nominated_node, result.victims, now)
        elif result.nominated_node is not None:
            self._preemption.release_nomination(member, now)

    def _nomination_change(self, member: QueuedPod, nominated: str | None) -> str | None:
        """What the pod's status must be told of its nomination; None if that is no news."""
        if nominated is None or nominated == self._context.cycle.nominator.node_of(member.uid):
            return None
        return nominated

    def _handle_error(self, entity: QueuedEntity, message: str, now: float) -> None:
        """A plugin raised: tell every pod it concerns, and try again."""
        for member in entity.members.values():
            log.error("pod %s: %s", member.pod.key, message)
            self._context.record_attempt(member, "error")
            self._context.outbox += pod_events.scheduling_failed(
                member, pod_events.SCHEDULER_ERROR, message
            )
        self.queue.requeue_with_backoff(entity, now)

    def _process_waiting_pods(self, now: float) -> None:
        overdue = [m for m in self._context.waiting_pods.values() if m.deadline <= now]
        for member in overdue:
            if member.uid not in self._context.waiting_pods:
                continue  # its gang has fallen with another
            waited = f"{member.permit_timeout:g}s at plugin {member.permit_plugin}"
            reason = f"rejected due to timeout after waiting {waited}"
            refusal = Status(Code.UNSCHEDULABLE, (reason,), member.permit_plugin)
            self._binding_cycle.reject(member, refusal, now)
        if not self._context.recheck_permits:
            return
        self._context.recheck_permits = False
        for member in list(self._context.waiting_pods.values()):
            if member.uid not in self._context.waiting_pods:
                continue
            try:
                answer = self._context.cycle.run_permit(member)
            except PluginFailureError as error:
                self._binding_cycle.roll_back(member, str(error), now)
                continue
            if isinstance(answer, Status):
                self._binding_cycle.reject(member, answer, now)
            elif not isinstance(answer, PermitWait):
                del self._context.waiting_pods[member.uid]
                if not self._gangs.on_permitted(member, now):
                    self._binding_cycle.begin(member, now)

    # --- outcomes --------------------------------------------------------------------------

    def on_outcome(self, effect: Effect, outcome: Outcome, now: float) -> None:
        """What became of an effect; ``Ambiguous`` will be followed by a definite outcome."""
        if isinstance(effect, ReserveClaim | ReleaseClaim):
            claims = self.cluster.devices.claim_tracker
            if claims.on_outcome(effect, outcome):
                self._context.publish_event(
                    ClusterEvent(ActionType.OTHER, resource="ResourceClaim"), now
                )
            self._context.outbox += claims.take_effects()
        if self._preemption.awaits(effect):
            self._preemption.on_outcome(effect, outcome, now)
            self._gangs.process_changes(now)
        elif self._extender_calls.awaits(effect):
            self._extender_calls.on_outcome(effect, outcome)
        else:
            self._binding_cycle.on_outcome(effect, outcome, now)

    def awaits(self, effect: Effect) -> bool:
        """Whether something waits for the outcome of ``effect``."""
        if isinstance(effect, ReserveClaim | ReleaseClaim):
            return True
        parts = (self._binding_cycle, self._preemption, self._extender_calls)
        return any(part.awaits(effect) for part in parts)

    # --- for people and tests --------------------------------------------------------------

    def pods(self) -> list[QueuedPod]:
        """Every pod of ours that is not bound or gone."""
        return list(self._context.pods.values())

    def summary(self) -> dict[str, int]:
        """How much of everything the core holds."""
        return {
            "nodes": self.cluster.table.count,
            "placed": len(self.cluster),
            "assumed": len(self.cluster.assumed),
            "gangs": len(self.registry.gangs),
            "queues": len(self.ledger.queues),
            "promises": len(self._context.cycle.nominator),
            "waiting": len(self._context.waiting_pods),
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
        self._binding_cycle.check_consistent()
        self._extender_calls.check_consistent()
        self._gangs.check_consistent()
        self._context.cycle.nominator.check_consistent()
        waiting = self._context.waiting_pods
        for uid, member in self._context.pods.items():
            assert member.uid == uid, f"{member} is filed under {uid}"
            entity = member.entity
            if member.phase is Phase.QUEUED:
                assert entity is not None, f"{member}: no entity"
                assert uid in entity.members, f"{member}: not in its entity"
                assert entity.key in self.queue, f"{member}: queue"
            elif entity is not None:
                assert entity.key not in self.queue, f"{member}: queue"
                assert entity.state is QueueState.NOT_QUEUED, f"{member}: part"
            has_room = member.phase in HOLDS_NODE or uid in self._context.cycle.nominator
            assert has_room == (uid in self.cluster), f"{member}: reservation"
            held = uid in waiting or self._gangs.is_held(member)
            assert (member.phase is Phase.WAITING) == held, f"{member}: waiting"
        queued = {uid for entity in self.queue.entities() for uid in entity.members}
        assert queued <= self._context.pods.keys(), "the queue holds strangers"
