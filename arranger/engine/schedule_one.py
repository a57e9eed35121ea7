"""One attempt to schedule an entity, and what follows from the answer (``schedule_one.go``)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from arranger.api.effects import Refused
from arranger.api.tracing import AttemptAttributes
from arranger.api.unsatisfiable import unsatisfiable_message
from arranger.cluster.pod_info import PodInfo
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity
from arranger.engine.context.phases import Phase
from arranger.engine.context.queue_state import QueueState
from arranger.engine.extenders.calls import ExtenderCall
from arranger.engine.extenders.coordinator import ExtenderCoordinator
from arranger.engine.extenders.preemption import AgreedVictims, without_victims
from arranger.engine.gang.scheduler import GangScheduler
from arranger.engine.pod.binding_cycle import SILENT_REFUSALS, BindingCycle
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.pod.satisfiability import Satisfiability
from arranger.engine.pod.schedule_result import CycleError, Scheduled, Unfinished, Unschedulable
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.attempt_start import AttemptStart
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class EntityScheduler:
    """Tries the entities that the queue gives: lone pods here, gang groups by ``gangs``.

    Args:
        queue_name: the quota queue of a pod.
        perf_counter: measures, in seconds, how long attempts take; no decision depends on it.
            Without one they are not measured.
    """

    _context: EngineContext
    _queue: SchedulingQueue
    _cycle: SchedulingCycle
    _nominator: Nominator
    _agreed_victims: AgreedVictims
    _binding_cycle: BindingCycle
    _preemption: PreemptionExecutor
    _extenders: ExtenderCoordinator
    _gangs: GangScheduler
    _satisfiability: Satisfiability
    _queue_name: Callable[[PodInfo], str]
    _perf_counter: Callable[[], float] | None = None

    def schedule_one(self, entity: QueuedEntity, now: float, *, in_steps: bool = False) -> None:
        """Try an entity that the queue has given, or ask extenders about it first.

        ``in_steps``: others are to have their turn in between if it is a gang group of which that
        takes long.
        """
        start, call = self._queue.begin_attempt(entity), None
        if entity.group is None or (
            self._gangs.is_admitted(entity, now)
            and not (start.woken_from is not None and self._gangs.stays_unschedulable(entity, now))
        ):
            call = self._extenders.answers_for(entity)
            self._try(entity, call, now, in_steps=in_steps)
        self._on_tried(entity, start, call, now)

    def _on_tried(
        self, entity: QueuedEntity, start: AttemptStart, call: ExtenderCall | None, now: float
    ) -> None:
        """A step has been taken, with the answers to a call if it is given."""
        if entity.slices and entity.state is QueueState.NOT_QUEUED:
            if call is not None:
                self._extenders.keep_answers(call)
            self._queue.go_on(entity, start)
            return
        self._queue.on_tried(entity, start, now)
        unasked = call is not None and start.events != call.event_count
        if unasked and entity.state is QueueState.UNSCHEDULABLE:
            # What might have woken it has happened while they were asked: of nodes that have come
            # since they know nothing.
            self._queue.requeue_with_backoff(entity, now)

    def _try(
        self, entity: QueuedEntity, call: ExtenderCall | None, now: float, *, in_steps: bool
    ) -> None:
        entity.attempts += not entity.slices
        entity.last_attempt = now
        if entity.plugin_fault is not None:
            self._context.record_failure(entity.representative.pod.pod, entity.plugin_fault)
            entity.plugin_fault = None
        with self._context.tracer.attempt(partial(self._describe, entity)):
            if entity.plugin_error:
                self._handle_error(entity, entity.plugin_error, now)
            elif call is not None:
                self._go_on_after(call, now, in_steps=in_steps)
            elif not self._extenders.starts_for(entity, now):
                self._attempt(entity, now, in_steps=in_steps)

    def on_extender_result(self, call: ExtenderCall, now: float, *, in_steps: bool = False) -> None:
        """Extenders have answered about an entity, or failed to; see :meth:`schedule_one`."""
        entity, start = call.entity, self._queue.begin_attempt(call.entity)
        with self._context.tracer.attempt(partial(self._describe, entity)):
            self._go_on_after(call, now, in_steps=in_steps)
        self._on_tried(entity, start, call, now)

    # --- inside ----------------------------------------------------------------------------

    def _describe(self, entity: QueuedEntity) -> AttemptAttributes:
        """What a trace tells of an entity; of a gang, with the member it goes by in the queue."""
        pod = entity.representative.pod
        known: dict[str, str | int] = {
            "pod": pod.pod.metadata.name,
            "namespace": pod.pod.metadata.namespace,
            "queue": self._queue_name(pod),
            "profile": entity.profile.scheduler_name,
            "attempt": entity.attempts,
        }
        if entity.group is not None:
            known |= {"gang": entity.group.name, "members": len(entity.members)}
        return known

    def _go_on_after(self, call: ExtenderCall, now: float, *, in_steps: bool) -> None:
        if call.refused is not None:
            self._on_extender_failure(call, call.refused, now)
        elif call.unschedulable is not None and call.victims is not None:
            self._preempt_with(call, call.unschedulable, now)
        else:
            self._attempt_with(call, now, in_steps=in_steps)

    def _preempt_with(self, call: ExtenderCall, unschedulable: Unschedulable, now: float) -> None:
        """Evict whom extenders have agreed to, if that helps as things are now."""
        entity = call.entity
        result = self._agreed_victims.select(entity.representative, unschedulable, call)
        if isinstance(result, Unfinished):
            entity.slices += 1
            return
        entity.slices = 0
        if result is None:
            self._queue.requeue_with_backoff(entity, now)
        else:
            self._handle_unschedulable(entity, result, now)

    def _attempt_with(self, call: ExtenderCall, now: float, *, in_steps: bool) -> None:
        with self._cycle.with_extender_results(call.answers):
            self._attempt(call.entity, now, call, in_steps=in_steps)

    def _on_extender_failure(self, call: ExtenderCall, refused: Refused, now: float) -> None:
        entity = call.entity
        if refused.reason in SILENT_REFUSALS:
            self._queue.requeue_with_backoff(entity, now)
        elif call.unschedulable is None:
            self._handle_error(entity, refused.message, now)
        else:
            result = without_victims(call.unschedulable, refused.message)
            self._handle_unschedulable(entity, result, now)
            self._queue.requeue_with_backoff(entity, now)

    def _attempt(
        self,
        entity: QueuedEntity,
        now: float,
        call: ExtenderCall | None = None,
        *,
        in_steps: bool = False,
    ) -> None:
        started = self._perf_counter() if self._perf_counter is not None else 0.0
        if entity.group is not None:
            steps, entity.slices = entity.slices, 0
            # A plan looks at its members where its victims are gone.
            ready = self._gangs.is_planning(entity) or self._cycle.prepare(
                entity.one_of_each_class()
            )
            if not (ready and self._gangs.schedule(entity, now, in_steps=in_steps)):
                entity.slices = steps + 1
        else:
            self._schedule_pod(entity, call, now)
        if self._perf_counter is not None:
            self._context.stats.attempt_seconds.append(self._perf_counter() - started)

    def _schedule_pod(self, entity: QueuedEntity, call: ExtenderCall | None, now: float) -> None:
        member = entity.representative
        member.attempts += not entity.slices
        nominated = self._nominator.node_of(member.uid)
        result = self._cycle.decide(member)
        if isinstance(result, Unfinished):
            entity.slices += 1
            return
        entity.slices = 0
        match result:
            case Scheduled(held=held):
                member.transition(Phase.RESERVED)
                self._preemption.release_unused(member, nominated, now)
                self._context.record_attempt(member, "scheduled")
                if held is None:
                    self._binding_cycle.begin(member, now)
                    return
                member.transition(Phase.WAITING)
                member.permit_plugin, member.permit_timeout = held.plugin, held.timeout
                member.deadline = now + held.timeout
                self._context.waiting_pods[member.uid] = member
            case Unschedulable(options=options) as result if options:
                self._extenders.start_preemption_call(entity, result, call, now)
            case Unschedulable() as result:
                self._handle_unschedulable(entity, result, now)
            case CycleError(message=message):
                self._handle_error(entity, message, now)

    def _handle_unschedulable(
        self, entity: QueuedEntity, result: Unschedulable, now: float
    ) -> None:
        """No node: write why, wait for events that help, and carry preemption out."""
        pod, context, node = entity.representative, self._context, result.nominated_node
        change = None if node == self._nominator.node_of(pod.uid) else node
        why = self._satisfiability.why_never(entity)
        reason, message = pod_events.UNSCHEDULABLE, unsatisfiable_message(why, result.message)
        context.record_attempt(pod, "unschedulable", message)
        context.outbox.extend(pod_events.scheduling_failed(pod, reason, message, change))
        context.outbox.extend(pod_events.plugin_events(pod, result.events))
        self._gangs.on_member_unschedulable(pod.uid, message)
        self._queue.add_unschedulable(entity, result.rejected_by, now)
        if node:
            self._preemption.nominate(pod, node, result.victims, now)
        elif node is not None:
            self._preemption.release_nomination(pod, now)
        if not node:
            context.cluster.devices.claim_tracker.give_up(pod.uid)

    def _handle_error(self, entity: QueuedEntity, message: str, now: float) -> None:
        """A plugin raised: write it to every pod it concerns, and try again."""
        for member in entity.members.values():
            log.error("pod %s: %s", member.pod.key, message)
            self._context.record_attempt(member, "error", message)
            failed = pod_events.scheduling_failed(
                member, pod_events.SCHEDULER_ERROR, message, now=now
            )
            self._context.outbox.extend(failed)
            self._context.cluster.devices.claim_tracker.give_up(member.uid)
        self._queue.requeue_with_backoff(entity, now)
