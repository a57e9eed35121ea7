"""From a reserved node to a bound pod: PreBind's writes, the Binding, and their outcomes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from arranger.api.effects import Ambiguous, Applied, Bind, Effect, Outcome, Refused
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.pending_effects import PendingEffects
from arranger.engine.context.phases import Phase
from arranger.engine.pod.node_release import NodeRelease
from arranger.engine.pod.requeue import PodRequeuer
from arranger.engine.pod.schedule_result import single_node_fit_error
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.interface import Plugin, Wait
from arranger.framework.runtime.plugin_errors import PluginFailureError, error_text, plugin_errors
from arranger.framework.status import Status

log = logging.getLogger(__name__)

#: Refusals that say nothing about the pod, or that it is not ours to speak about any more.
SILENT_REFUSALS = frozenset({"NotLeader", "Stopped", "NotFound", "Replaced", "AlreadyBound"})
#: Bindings of gangs that begin in one step; to begin all 8,000 of one took 150 to 300 milliseconds.
BINDINGS_PER_STEP: Final = 1000


@dataclass(frozen=True, slots=True)
class _PreBindWait:
    """A pod that a plugin makes wait before its Binding, and the message if that is too long."""

    member: QueuedPod
    deadline: float
    timeout_message: str


class BoundListener(Protocol):
    """Follows how far gangs have come."""

    def on_bound(self, member: QueuedPod, now: float) -> None:
        """A pod has been bound."""


@dataclass(slots=True, eq=False)
class BindingCycle:
    """Carries reserved pods to their nodes.

    Args:
        effects: sends the writes, and brings their outcomes back to :meth:`on_outcome`.
        release: frees the nodes of pods that do not get them.
        requeuer: queues these pods again.
        gangs: follows which pods are bound.
    """

    _context: EngineContext
    _queue: SchedulingQueue
    _effects: PendingEffects
    _release: NodeRelease
    _requeuer: PodRequeuer
    _gangs: BoundListener
    #: How many cluster events there had been when the waits were last looked at.
    _events_seen: int = field(default=0, init=False)
    #: Pods whose PreBind writes are applied and that a plugin makes wait, by uid.
    _pre_bind_waits: dict[str, _PreBindWait] = field(default_factory=dict, init=False)
    #: Members of complete gangs for which nothing has been written yet, by uid, in their order.
    _unbegun: dict[str, QueuedPod] = field(default_factory=dict, init=False)
    #: How many of these have begun in this step.
    _begun: int = field(default=0, init=False)

    def begin(self, member: QueuedPod, now: float) -> None:
        """Start writing: what PreBind wants first, then the Binding."""
        member.transition(Phase.BINDING)
        self._write(member, now)

    def begin_all(self, members: Iterable[QueuedPod], now: float) -> None:
        """As :meth:`begin`, for members of gangs that are complete.

        Where that are more than :data:`BINDINGS_PER_STEP` in this step, they begin in the next
        ones, by :meth:`advance`. For all others they are being bound from now on.
        """
        for member in members:
            member.transition(Phase.BINDING)
            self._unbegun[member.uid] = member
        if self._begun + len(self._unbegun) <= BINDINGS_PER_STEP:
            self.begin_more(now)

    def begin_more(self, now: float) -> None:
        """Begin as many as may begin in one step of those that are to begin."""
        for uid, member in list(islice(self._unbegun.items(), BINDINGS_PER_STEP)):
            if self._unbegun.pop(uid, None) is not None:
                self._begun += 1
                self._write(member, now)

    def _write(self, member: QueuedPod, now: float) -> None:
        self._context.tracer.begin_binding(member.pod.pod, member.node)
        try:
            refusal = self._run_pre_bind(member)
        except PluginFailureError as error:
            self._context.record_failure(member.pod.pod, error)
            self.roll_back(member, str(error), now)
            return
        if refusal is not None:
            self.reject(member, refusal, now)
        elif not member.pending_writes:
            self._continue(member, now)

    def advance(self, now: float) -> None:
        """Begin more bindings, ask WaitPreBind again after events, and roll back pods that have
        waited too long."""
        self._begun = 0
        self.begin_more(now)
        recheck = self._events_seen != self._queue.event_count
        self._events_seen = self._queue.event_count
        for uid, wait in list(self._pre_bind_waits.items()):
            if self._pre_bind_waits.get(uid) is not wait:
                continue
            if wait.deadline <= now:
                self.roll_back(wait.member, wait.timeout_message, now)
            elif recheck:
                self._continue(wait.member, now)

    @property
    def ready(self) -> bool:
        """Whether bindings are to begin, or plugins to be asked again after an event."""
        recheck = self._events_seen != self._queue.event_count
        return bool(self._unbegun) or (bool(self._pre_bind_waits) and recheck)

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to begin or to break off."""
        if self._unbegun:
            return self._context.clock.now
        return min((unready.deadline for unready in self._pre_bind_waits.values()), default=None)

    def on_outcome(self, effect: Effect, outcome: Outcome, subject: QueuedPod, now: float) -> None:
        """What became of a write for the pod ``subject``."""
        if isinstance(effect, Bind):
            if subject.binding is effect:  # else another Binding was sent in its place
                self._on_binding_outcome(subject, outcome, now)
        else:
            self._on_pre_bind_outcome(subject, effect, outcome, now)

    def cancel(self, member: QueuedPod) -> None:
        """The pod is gone or loses its node; outcomes of its writes do not matter any more."""
        self._context.tracer.end_binding(member.pod.pod, "canceled")
        self._unbegun.pop(member.uid, None)
        self._pre_bind_waits.pop(member.uid, None)
        for effect in member.pending_writes:
            self._effects.cancel(effect)
        if member.binding is not None:
            self._effects.cancel(member.binding)

    def roll_back(
        self, member: QueuedPod, message: str, now: float, refused: Refused | None = None
    ) -> None:
        """Binding failed for good: free the node, write why, and try again after a back-off."""
        context = self._context
        context.tracer.end_binding(member.pod.pod, "error", message)
        self.cancel(member)
        if member.uid not in context.cluster.assumed:
            # The watch has shown the pod on the node: it is bound, whoever did it.
            self._release.stop_tracking(member)
            return
        if refused is None:
            # What the server refuses, the driver has in its log, and not without bounds.
            log.error("pod %s: %s", member.pod.key, message)
        context.record_attempt(member, "error", message)
        if self._release.release_node(member, now):
            if refused is None or refused.reason not in SILENT_REFUSALS:
                failed = pod_events.scheduling_failed(member, pod_events.SCHEDULER_ERROR, message)
                context.outbox.extend(failed)
            self._requeuer.requeue_with_backoff(member, now)

    def reject(self, member: QueuedPod, refusal: Status, now: float) -> None:
        """A plugin took back what the cycle had granted: wait for the events it asks for."""
        if self._give_up_node(member, refusal, now):
            self._requeuer.requeue_unschedulable(member, refusal.plugin, now)

    def preempt(self, member: QueuedPod, refusal: Status, now: float) -> None:
        """Another pod gets the node: try again after a back-off, to see what is lacking then."""
        if self._give_up_node(member, refusal, now):
            self._requeuer.requeue_with_backoff(member, now)

    def check_consistent(self) -> None:
        """Check the pods whose binding has not begun, or whose PreBind is not over.

        Raises:
            AssertionError: one belongs to nobody.
        """
        ours = set(self._context.pods.values())
        waits = [wait.member for wait in self._pre_bind_waits.values()]
        for member in (*waits, *self._unbegun.values()):
            assert member in ours, f"{member}: not let go"
            assert member.phase is Phase.BINDING, f"{member}: not let go"
            assert member.binding is None, f"{member}: its Binding has been sent"

    # --- inside ----------------------------------------------------------------------------

    def _give_up_node(self, member: QueuedPod, refusal: Status, now: float) -> bool:
        """Free the pod's node and write why; whether the pod is to be queued again."""
        text = single_node_fit_error(refusal)
        self._context.tracer.end_binding(member.pod.pod, "unschedulable", text)
        self.cancel(member)
        self._context.record_attempt(member, "unschedulable", text)
        if not self._release.release_node(member, now):
            return False
        failed = pod_events.scheduling_failed(member, pod_events.UNSCHEDULABLE, text)
        self._context.outbox.extend(failed)
        return True

    def _run_pre_bind(self, member: QueuedPod) -> Status | None:
        """Send off what PreBind wants done; returns its refusal if it refuses."""
        for plugin in member.profile.plugins_at("pre_bind"):
            with plugin_errors(plugin.name, "PreBind"):
                answer = plugin.pre_bind(member.cycle_state, member.pod, member.node)
                if isinstance(answer, Status):
                    if answer.rejected:
                        return Status(answer.code, answer.reasons, plugin.name)
                    continue
                for effect in answer or ():
                    member.pending_writes.append(effect)
                    self._effects.send(effect, self, member)
        return None

    def _continue(self, member: QueuedPod, now: float) -> None:
        """PreBind's writes are applied: send the Binding if no plugin makes the pod wait."""
        try:
            for plugin in member.profile.plugins_at("wait_pre_bind"):
                with plugin_errors(plugin.name, "PreBind"):
                    answer = plugin.wait_pre_bind(member.cycle_state, member.pod, member.node)
                if isinstance(answer, Wait):
                    if member.uid not in self._pre_bind_waits:
                        message = _pre_bind_error(plugin, answer.timeout_message)
                        wait = _PreBindWait(member, now + answer.timeout, message)
                        self._pre_bind_waits[member.uid] = wait
                    return
                if answer is not None and answer.rejected:
                    self.roll_back(member, _pre_bind_error(plugin, answer.message()), now)
                    return
        except PluginFailureError as error:
            self._context.record_failure(member.pod.pod, error)
            self.roll_back(member, str(error), now)
            return
        self._pre_bind_waits.pop(member.uid, None)
        self._context.tracer.mark_binding(member.pod.pod, "Bind")
        self._send_binding(member, now)

    def _send_binding(self, member: QueuedPod, now: float) -> None:
        if member.node not in self._context.cluster.table.index:
            # The API server would take the Binding: it does not look whether the node exists.
            self.roll_back(member, f'node "{member.node}" not found', now)
            return
        for extender in self._context.extenders:
            if extender.bind_verb and extender.is_interested(member.pod.pod):
                key = pod_events.pod_key(member.pod.pod)
                member.binding = Bind(key, member.node, extender=extender)
                self._effects.send(member.binding, self, member)
                return
        self._run_bind_plugins(member, now)

    def _run_bind_plugins(self, member: QueuedPod, now: float) -> None:
        try:
            for plugin in member.profile.plugins_at("bind"):
                with plugin_errors(plugin.name, "Bind"):
                    member.binding = plugin.bind(member.cycle_state, member.pod, member.node)
                if member.binding is not None:
                    self._effects.send(member.binding, self, member)
                    return
        except PluginFailureError as error:
            self._context.record_failure(member.pod.pod, error)
            self.roll_back(member, str(error), now)
            return
        self.roll_back(member, "no Bind plugin took the pod", now)

    def _on_binding_outcome(self, member: QueuedPod, outcome: Outcome, now: float) -> None:
        binding = member.binding
        if binding is not None and binding.extender is not None and binding.extender.ignorable:
            silent = isinstance(outcome, Refused) and outcome.reason in SILENT_REFUSALS
            if not silent and not isinstance(outcome, Applied):
                # It may be bound by now: the API server then says to which node.
                self._run_bind_plugins(member, now)
                return
        match outcome:
            case Applied():
                self._on_bound(member, now)
            case Ambiguous():
                if member.phase is Phase.BINDING:
                    member.transition(Phase.UNKNOWN)
            case Refused():
                self.roll_back(member, f"binding rejected: {outcome.message}", now, outcome)

    def _on_bound(self, member: QueuedPod, now: float) -> None:
        context = self._context
        member.transition(Phase.BOUND)
        context.tracer.end_binding(member.pod.pod, "bound")
        context.outbox.append(pod_events.scheduled(member))
        context.stats.record_bound(member.pod.key, now - member.queued_at, member.attempts)
        for plugin in member.profile.plugins_at("post_bind"):
            try:
                plugin.post_bind(member.cycle_state, member.pod, member.node)
            except Exception as error:
                log.error("pod %s: %s", member.pod.key, error_text(plugin.name, "PostBind", error))
        # From here on the API owns the pod. The assumption stays until the watch shows
        # it, and a pending state of this uid can only be an old one.
        del context.pods[member.uid]
        self._queue.wake(ClusterEvent(ActionType.POD_ADDED, pod=member.pod.pod), now)
        self._gangs.on_bound(member, now)
        member.entity = None  # a reference cycle would be left

    def _on_pre_bind_outcome(
        self, member: QueuedPod, effect: Effect, outcome: Outcome, now: float
    ) -> None:
        if isinstance(outcome, Ambiguous):
            return
        member.pending_writes = [each for each in member.pending_writes if each is not effect]
        if isinstance(outcome, Refused):
            self.roll_back(member, f"preparing to bind: {outcome.message}", now, outcome)
        elif not member.pending_writes:
            self._continue(member, now)


def _pre_bind_error(plugin: Plugin, why: str) -> str:
    return f'running PreBind plugin "{plugin.name}": {why}'
