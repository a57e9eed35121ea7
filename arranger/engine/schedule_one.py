"""One attempt to schedule an entity, and what follows from the answer (``schedule_one.go``)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from arranger.api.effects import Refused
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.entity import QueuedEntity, QueuedPod, QueueState
from arranger.engine.extenders.coordinator import ExtenderCall, ExtenderCoordinator
from arranger.engine.extenders.preemption import select_candidate, without_victims
from arranger.engine.phases import Phase
from arranger.engine.pod.binding_cycle import SILENT_REFUSALS, BindingCycle
from arranger.engine.pod.preemption_executor import PreemptionExecutor
from arranger.engine.pod.schedule_result import CycleError, Scheduled, Unschedulable
from arranger.engine.pod.scheduling_cycle import SchedulingCycle
from arranger.engine.queue.nominator import Nominator
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.preemption import EvictionPolicy

log = logging.getLogger(__name__)


class GangAttempts(Protocol):
    """Places gang groups."""

    def schedule(self, entity: QueuedEntity, now: float) -> None:
        """Try to place a group; everything that follows from the answer is done there."""


class EntityScheduler:
    """Tries the entities that the queue gives: lone pods here, gang groups by ``gangs``.

    Args:
        perf_counter: measures, in seconds, how long attempts take; no decision depends on it.
            Without one they are not measured.
    """

    def __init__(
        self,
        context: EngineContext,
        queue: SchedulingQueue,
        cycle: SchedulingCycle,
        nominator: Nominator,
        policy: EvictionPolicy,
        binding_cycle: BindingCycle,
        preemption: PreemptionExecutor,
        extenders: ExtenderCoordinator,
        gangs: GangAttempts,
        perf_counter: Callable[[], float] | None = None,
    ) -> None:
        self._context = context
        self._queue = queue
        self._cycle = cycle
        self._nominator = nominator
        self._policy = policy
        self._binding_cycle = binding_cycle
        self._preemption = preemption
        self._extenders = extenders
        self._gangs = gangs
        self._perf_counter = perf_counter

    def schedule_one(self, entity: QueuedEntity, now: float) -> None:
        """Try an entity that the queue has given, or ask extenders about it first."""
        entity.attempts += 1
        entity.last_attempt = now
        if entity.plugin_error:
            self._handle_error(entity, entity.plugin_error, now)
        elif not self._extenders.starts_for(entity, now):
            self._attempt(entity, now)

    def on_extender_result(self, call: ExtenderCall, now: float) -> None:
        """Extenders have answered about an entity, or failed to."""
        entity, events_missed = call.entity, call.event_count != self._queue.event_count
        if call.refused is not None:
            self._on_extender_failure(call, call.refused, now)
        elif call.unschedulable is not None and call.victims is not None:
            result = select_candidate(
                self._context.cluster,
                self._cycle,
                self._policy,
                entity.representative,
                call.unschedulable,
                call.victims,
            )
            self._handle_unschedulable(entity, result, now)
        else:
            with self._cycle.with_extender_results(call.results):
                self._attempt(entity, now)
        if events_missed and entity.state is QueueState.UNSCHEDULABLE:
            # What might have woken it has happened while the extenders were thinking.
            self._queue.requeue_with_backoff(entity, now)

    # --- inside ----------------------------------------------------------------------------

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

    def _attempt(self, entity: QueuedEntity, now: float) -> None:
        if self._perf_counter is None:
            self._schedule(entity, now)
            return
        before = self._perf_counter()
        self._schedule(entity, now)
        self._context.stats.attempt_seconds.append(self._perf_counter() - before)

    def _schedule(self, entity: QueuedEntity, now: float) -> None:
        if entity.group is not None:
            self._gangs.schedule(entity, now)
        else:
            self._schedule_pod(entity, now)

    def _schedule_pod(self, entity: QueuedEntity, now: float) -> None:
        member = entity.representative
        member.attempts += 1
        match self._cycle.decide(member):
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
            case Unschedulable(options=options) as result if options:
                self._extenders.start_preemption_call(entity, result, now)
            case Unschedulable() as result:
                self._handle_unschedulable(entity, result, now)
            case CycleError(message=message):
                self._handle_error(entity, message, now)

    def _handle_unschedulable(
        self, entity: QueuedEntity, result: Unschedulable, now: float
    ) -> None:
        """No node: write why, wait for events that help, and carry preemption out."""
        member, context = entity.representative, self._context
        context.record_attempt(member, "unschedulable")
        context.outbox.extend(
            pod_events.scheduling_failed(
                member,
                pod_events.UNSCHEDULABLE,
                result.message,
                self._nomination_change(member, result.nominated_node),
            )
        )
        context.outbox.extend(pod_events.plugin_events(member, result.events))
        self._queue.add_unschedulable(entity, result.rejected_by, now)
        if result.nominated_node:
            self._preemption.nominate(member, result.nominated_node, result.victims, now)
        elif result.nominated_node is not None:
            self._preemption.release_nomination(member, now)

    def _nomination_change(self, member: QueuedPod, nominated: str | None) -> str | None:
        """The nomination to write to the pod's status; None if nothing has changed."""
        if nominated is None or nominated == self._nominator.node_of(member.uid):
            return None
        return nominated

    def _handle_error(self, entity: QueuedEntity, message: str, now: float) -> None:
        """A plugin raised: write it to every pod it concerns, and try again."""
        for member in entity.members.values():
            log.error("pod %s: %s", member.pod.key, message)
            self._context.record_attempt(member, "error")
            self._context.outbox.extend(
                pod_events.scheduling_failed(member, pod_events.SCHEDULER_ERROR, message)
            )
        self._queue.requeue_with_backoff(entity, now)
