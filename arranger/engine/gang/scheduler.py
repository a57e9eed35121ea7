"""Attempts to place gang groups, and does what follows from each result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from arranger.api.unsatisfiable import unsatisfiable_message
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.phases import Phase
from arranger.engine.gang.attempt.attempts import GangAttempts
from arranger.engine.gang.attempt.group_attempt import GangScheduleResult
from arranger.engine.gang.attempt.scheduling_cycle import GangSchedulingCycle
from arranger.engine.gang.entities import GangEntityIndex
from arranger.engine.gang.manager import GangManager
from arranger.engine.gang.notifier import GangNotifier
from arranger.engine.gang.planning.start_planner import StartPlanner
from arranger.engine.gang.preemption.executor import GangPreemptionExecutor
from arranger.engine.gang.preemption.planner import PreemptionPlan
from arranger.engine.gang.preemption.plans import PlanState, SuspendedPlan
from arranger.engine.gang.state.gang_objects import GangObjects
from arranger.engine.gang.state.holds import GangHolds
from arranger.engine.pod.binding_cycle import BindingCycle
from arranger.engine.pod.possible_room import PossibleRoom
from arranger.engine.pod.satisfiability import Satisfiability
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.quota.gate import QuotaGate
from arranger.framework.preemption import EvictionPolicy
from arranger.framework.status import Code, Status
from arranger.gangs import messages
from arranger.gangs.group import GangGroup

#: Members from which on a plan begins in a step of its own: to be told that they do not fit is work
#: enough for one.
MANY_MEMBERS: Final = 256
#: Members of as many classes are asked whom they might evict, so that their group is admitted.
_TAKERS: Final = 8


@dataclass(frozen=True, slots=True)
class GangScheduler:
    """Places gang groups, and starts the bindings of those that are complete."""

    _context: EngineContext
    _queue: SchedulingQueue
    _attempts: GangAttempts
    _cycle: GangSchedulingCycle
    _entities: GangEntityIndex
    _holds: GangHolds
    _manager: GangManager
    _binding_cycle: BindingCycle
    _preemption: GangPreemptionExecutor
    _start_planner: StartPlanner
    _gang_objects: GangObjects
    _notifier: GangNotifier
    _satisfiability: Satisfiability
    _quota: QuotaGate
    _policy: EvictionPolicy

    def is_admitted(self, entity: QueuedEntity, now: float) -> bool:
        """Whether its queue admits the group; if not, it waits until something may help.

        Asked at each attempt, since these come in the order of the queue, and queues come and go.
        """
        group = entity.gang_group
        first, some = entity.representative, entity.one_of_each_class()[:_TAKERS]
        others = (each for each in some if each.equivalence_key != first.equivalence_key)
        takers = [member.pod for member in (first, *others)]
        refusal = self._quota.admit(group, partial(self._queue.sort_key, entity), takers)
        entity.lacks = frozenset() if refusal is None else refusal.lacks
        if refusal is None:
            return True
        held = self._holds.members_of(entity)
        text = f"{group.display_name} waits: {refusal.text}"
        text = unsatisfiable_message(self._satisfiability.why_never(entity, held), text)
        # The plugin's queueing hints say what may help.
        plugin = entity.profile.quota_plugin
        self._queue.gate(entity, Status(Code.UNSCHEDULABLE, (text,), plugin))
        self._entities.notify_after_arrivals(entity, now)
        return False

    def stays_unschedulable(self, entity: QueuedEntity, now: float) -> bool:
        """Whether others have taken the room that woke a group, so that it stays so untried.

        One that is told that it can never fit is tried, as that may not be true any more.
        """
        room = PossibleRoom(self._context, self._policy)
        if entity.never or entity.starves_at <= now or not room.is_hopeless(entity):
            return False
        self._queue.add_unschedulable(entity, entity.rejected_by, now)
        return True

    def is_planning(self, entity: QueuedEntity) -> bool:
        """Whether the next step of its attempt is one of a plan whom to evict."""
        return isinstance(entity.suspended, SuspendedPlan)

    def schedule(self, entity: QueuedEntity, now: float, *, in_steps: bool) -> bool:
        """Try to place the group, and do what follows from the result.

        Returns whether the attempt is over; if not, it is to go on in another step.
        """
        manager, group = self._manager, entity.gang_group
        hold = self._holds.get(group.name)
        if hold is not None and manager.requeue_lost(hold, now):
            return True
        if self.is_planning(entity):
            return self._preempt(entity, now, in_steps=in_steps)
        held = self._holds.members_of(entity)
        if entity.suspended is None:
            self._gang_objects.record_attempt(group)
        nominated = self._preemption.nominations_of(entity)
        result = self._attempts.go_on(entity, in_steps=in_steps)
        if result is None:
            return False
        for member, _ in result.placed:
            entity.remove_member(member)
            member.transition(Phase.RESERVED)
            member.attempts = entity.attempts
            self._context.record_attempt(member, "scheduled")
        placed = [member for member, _ in result.placed]
        self._preemption.release_unused(entity, placed, nominated, now)
        waits = any(permit for _, permit in result.placed)
        waits = waits or any(m.uid in self._context.waiting_pods for m in held)
        if result.complete and not waits:
            manager.bind_all([*held, *(member for member, _ in result.placed)], hold)
        elif result.placed:
            manager.hold_placed(entity, result.placed, now)
        elif not result.complete and self._holds.is_urgent(group):
            manager.begin_hold(entity, now)  # holds no node, but the wait time runs
        self.bind_ready(now)
        if result.complete:
            self._start_planner.on_placed(entity, now)
        if result.error:
            self._on_error(entity, result, now)
        elif entity.key in self._queue:
            pass  # a binding could not be started, and its pod has been queued again
        elif entity.ready_count() and result.complete and manager.on_complete(group, now):
            pass  # they are queued one by one
        elif entity.ready_count():
            return self._on_infeasible(entity, result, now, in_steps=in_steps)
        else:
            entity.reason = ""
            entity.count_success()
            if entity.members:
                self._entities.enqueue(entity, now)  # PreEnqueue plugins gate the rest
        self._start_planner.release_if_idle(now)
        return True

    def bind_ready(self, now: float) -> None:
        """Start the bindings of groups that have become complete."""
        while members := self._manager.take_ready_to_bind():
            self._binding_cycle.begin_all(members, now)

    def on_gangs_changed(self, names: set[str], now: float) -> None:
        """The members of gangs, their settings or their partners have changed."""
        self._manager.on_gangs_changed(names, now)
        self.bind_ready(now)

    def on_member_unschedulable(self, uid: str, message: str) -> None:
        """A pod that is placed by itself found no node."""
        self._manager.on_member_unschedulable(uid, message)

    def on_node_deleted(self, node: str, now: float) -> None:
        """A node is gone, and no more in the node table."""
        self._manager.on_node_deleted(node, now)
        self.bind_ready(now)

    def process_changes(self, now: float) -> None:
        """Do what follows for gangs of which pods are being evicted, or could not be."""
        self._manager.process_changes(now)
        self.bind_ready(now)
        self._start_planner.follow(now)

    def on_permitted(self, member: QueuedPod, now: float) -> bool:
        """A Permit plugin lets a member go; True if its group keeps it until it is complete."""
        held = self._manager.on_permitted(member, now)
        self.bind_ready(now)
        return held

    def advance(self, now: float) -> None:
        """End the holds whose wait time is over, and write the notices that are due."""
        self._manager.advance(now)
        self._start_planner.go_on(now)
        self._start_planner.release_if_idle(now)
        self._notifier.notify_due(now)
        self._gang_objects.write_due(now)

    @property
    def ready(self) -> bool:
        """Whether there is something to go on with now."""
        return self._start_planner.ready

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to do."""
        times = (
            self._holds.next_deadline(),
            self._entities.next_notice(),
            self._notifier.next_timer(),
            self._gang_objects.next_timer(),
            self._start_planner.next_timer(),
        )
        return min((due for due in times if due is not None), default=None)

    def next_deadline(self) -> float | None:
        """When a group that holds nodes will have waited too long."""
        return self._holds.next_deadline()

    # --- inside ----------------------------------------------------------------------------

    def _on_error(self, entity: QueuedEntity, result: GangScheduleResult, now: float) -> None:
        assert result.blocker is not None, "an error without a member that was tried"
        group = entity.gang_group
        which = messages.member_title(group, result.blocker.pod.key)
        text = f"{result.error} ({group.display_name}, {which})"
        self._context.record_attempt(result.blocker, "error", text)
        for member in entity.members.values():
            self._context.outbox.extend(
                pod_events.scheduling_failed(member, pod_events.SCHEDULER_ERROR, text, now=now)
            )
        self._give_up_claims(entity)
        self._queue.requeue_with_backoff(entity, now)

    def _on_infeasible(
        self, entity: QueuedEntity, result: GangScheduleResult, now: float, *, in_steps: bool
    ) -> bool:
        if result.blocker is not None and not result.complete:
            self._context.outbox.extend(pod_events.plugin_events(result.blocker, result.events))
            if result.infeasible is not None:
                self._cycle.run_post_filter(result.blocker, result.infeasible)
        self._context.stats.bounded_gang_attempts += result.bounded
        entity.blockers, entity.rejected_by = result.blockers, result.rejected_by
        entity.reason = self._explain(entity, result)
        for member in entity.ready():
            self._context.record_attempt(member, "unschedulable", entity.reason)
        if not result.complete:
            self._preemption.give_up_refused(entity, now)
            self._start_planner.on_unschedulable(entity, now)
            entity.reason += self._start_planner.told_to(entity)
            if not self._start_planner.waits_rather_than_evicts(
                entity
            ) and self._preemption.may_plan(entity, now):
                return self._preempt(entity, now, in_steps=in_steps)
        self._keep_waiting(entity, None, now)
        return True

    def _preempt(self, entity: QueuedEntity, now: float, *, in_steps: bool) -> bool:
        """Plan whom to evict for the group, and evict them; whether its attempt is over."""
        begins = in_steps and entity.suspended is None and len(entity.members) > MANY_MEMBERS
        with self._context.tracer.long_step("PostFilter"):
            plan = self._preemption.plan(entity, in_steps=in_steps, begin_later=begins)
        if isinstance(plan, PlanState):
            return False
        self._keep_waiting(entity, plan, now)
        return True

    def _keep_waiting(self, entity: QueuedEntity, plan: PreemptionPlan | None, now: float) -> None:
        if plan is not None:
            entity.rejected_by |= plan.rejected_by
            self._preemption.plan_again_later(entity, plan, now)
        self._queue.add_unschedulable(entity, entity.rejected_by, now)
        if plan is not None:
            self._preemption.carry_out(entity, plan, now)
        if not self._preemption.nominations_of(entity):
            self._give_up_claims(entity)
        self._entities.notify(entity, now)
        self._notifier.notify_due(now)
        self._start_planner.release_if_idle(now)

    def _give_up_claims(self, entity: QueuedEntity) -> None:
        """Let others have what an earlier life of ours has reserved for members without a node."""
        for uid in entity.members:
            self._context.cluster.devices.claim_tracker.give_up(uid)

    def _explain(self, entity: QueuedEntity, result: GangScheduleResult) -> str:
        group = entity.gang_group
        if result.complete:
            text = "placed, with no room for the members beyond its minimum"
        else:
            arrived = messages.arrival_summary(group, self._holds.arrived_counts(entity))
            text = f"{arrived}, {result.placeable} placeable now"
        if result.blocker is not None and not result.complete:
            text += f", blocked by {messages.member_title(group, result.blocker.pod.key)}"
        text = f"{_told_to_all(group, result)} {group.display_name}: {text}.".lstrip()
        if result.bounded:
            text += f" {messages.TOO_MANY_WAYS}."
        if result.complete:
            return text
        held = self._holds.members_of(entity)
        return unsatisfiable_message(self._satisfiability.why_never(entity, held), text)


def _told_to_all(group: GangGroup, result: GangScheduleResult) -> str:
    """Why the blocker does not fit; what may name its claims is said in its namespace only."""
    found = result.infeasible
    generic = found is not None and found.diagnosis.pre_filter_status is None
    return result.message if generic or not group.spans_namespaces else ""
