"""From a reserved node to a bound pod: PreBind's writes, the Binding, and what became of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from arranger.api.effects import Ambiguous, Applied, Bind, Effect, Outcome, Refused
from arranger.api.extenders import Extender
from arranger.engine import pod_events
from arranger.engine.context import EngineContext
from arranger.engine.phases import Phase
from arranger.engine.pod.schedule_result import single_node_fit_error
from arranger.engine.queued_pod import QueuedPod
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.interface import Plugin, Wait
from arranger.framework.runtime.plugin_errors import PluginFailureError, error_text, plugin_errors
from arranger.framework.status import Code, Status

log = logging.getLogger(__name__)

#: Refusals that say nothing about the pod, or that it is not ours to speak about any more.
SILENT_REFUSALS = frozenset({"NotLeader", "Stopped", "NotFound", "Replaced", "AlreadyBound"})


@dataclass(frozen=True, slots=True)
class _PreBindWait:
    """A pod that waits for others before its Binding; after a time-out it is told why."""

    member: QueuedPod
    deadline: float
    timeout_message: str


class BindingCycle:
    """Carries reserved pods to their nodes.

    Args:
        desk: the engine's state.
        retry: queues a pod again whose binding broke off.
        reject: queues a pod again that a PreBind plugin refused.
        bound: hears of every pod that is bound.
    """

    def __init__(
        self,
        context: EngineContext,
        *,
        retry: Callable[[QueuedPod, float], None],
        reject: Callable[[QueuedPod, Status, float], None],
        bound: Callable[[QueuedPod, float], None],
    ) -> None:
        self._context = context
        self._retry = retry
        self._reject = reject
        self._bound = bound
        #: Effects that must be applied before a Binding, by identity.
        self._pre_bind_writes: dict[int, QueuedPod] = {}
        #: Members whose writes are done and whom a plugin does not let go yet, by uid.
        self._pre_bind_waits: dict[str, _PreBindWait] = {}

    def begin(self, member: QueuedPod, now: float) -> None:
        """Start writing: what PreBind wants first, then the Binding."""
        member.transition(Phase.BINDING)
        try:
            refusal = self._run_pre_bind(member)
        except PluginFailureError as error:
            self.roll_back(member, str(error), now)
            return
        if refusal is not None:
            self.reject(member, refusal, now)
        elif not member.pending_writes:
            self._continue(member, now)

    def advance(self, now: float) -> None:
        """Ask again about those that are not let go, and break off what has waited too long."""
        for uid, wait in list(self._pre_bind_waits.items()):
            if self._pre_bind_waits.get(uid) is not wait:
                continue
            if wait.deadline <= now:
                self.roll_back(wait.member, wait.timeout_message, now)
            elif self._context.recheck_permits:
                self._continue(wait.member, now)

    @property
    def has_waiting(self) -> bool:
        """Whether plugins keep pods from binding, and are to be asked after the next event."""
        return bool(self._pre_bind_waits)

    def next_timer(self) -> float | None:
        """When :meth:`next_state` will have something to break off."""
        return min((unready.deadline for unready in self._pre_bind_waits.values()), default=None)

    def awaits(self, effect: Effect) -> bool:
        """Whether something waits for the outcome of ``effect``."""
        return isinstance(effect, Bind) or id(effect) in self._pre_bind_writes

    def on_outcome(self, effect: Effect, outcome: Outcome, now: float) -> None:
        """What became of an effect."""
        if isinstance(effect, Bind):
            member = self._context.pods.get(effect.pod.uid)
            if member is not None and member.binding is effect:
                self._on_binding_outcome(member, outcome, now)
        elif id(effect) in self._pre_bind_writes:
            self._on_pre_bind_outcome(effect, outcome, now)

    def cancel(self, member: QueuedPod) -> None:
        """The pod is gone or given up; outcomes of its writes do not matter any more."""
        self._pre_bind_waits.pop(member.uid, None)
        if member.pending_writes:
            for n in member.pending_writes:
                self._pre_bind_writes.pop(n, None)

    def roll_back(
        self, member: QueuedPod, message: str, now: float, refused: Refused | None = None
    ) -> None:
        """What was begun failed for good: free the node, tell, and try again after a back-off."""
        context = self._context
        self.cancel(member)
        if member.uid not in context.cluster.assumed:
            # The watch has shown the pod on the node: it is bound, whoever did it.
            context.stop_tracking(member)
            return
        log.error("pod %s: %s", member.pod.key, message)
        context.record_attempt(member, "error")
        if context.release_node(member, now):
            if refused is None or refused.reason not in SILENT_REFUSALS:
                context.outbox += pod_events.scheduling_failed(
                    member, pod_events.SCHEDULER_ERROR, message
                )
            self._retry(member, now)

    def reject(self, member: QueuedPod, refusal: Status, now: float) -> None:
        """A plugin refuses a pod its node: the pod rests until the plugin's events."""
        if self._release_refused(member, refusal, now):
            self._reject(member, refusal, now)

    def preempt(self, member: QueuedPod, reason: str, now: float) -> None:
        """An unbound pod loses its node to another pod, and is tried again after a back-off.

        What it lacks now only a new attempt tells.
        """
        if self._release_refused(member, Status(Code.UNSCHEDULABLE, (reason,)), now):
            self._retry(member, now)

    def _release_refused(self, member: QueuedPod, refusal: Status, now: float) -> bool:
        """Take the pod's node and say why; whether the pod is to be queued again."""
        context = self._context
        self.cancel(member)
        context.record_attempt(member, "unschedulable")
        if not context.release_node(member, now):
            return False
        context.outbox += pod_events.scheduling_failed(
            member, pod_events.UNSCHEDULABLE, single_node_fit_error(refusal)
        )
        return True

    def check_consistent(self) -> None:
        """Check the prerequisites against the pods.

        Raises:
            AssertionError: one belongs to nobody.
        """
        ours = set(self._context.pods.values())
        assert set(self._pre_bind_writes.values()) <= ours, "prerequisites"
        for wait in self._pre_bind_waits.values():
            assert wait.member in ours, f"{wait.member}: not let go"
            assert wait.member.phase is Phase.BINDING, f"{wait.member}: not let go"

    # --- inside ----------------------------------------------------------------------------

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
                    member.pending_writes.add(id(effect))
                    self._pre_bind_writes[id(effect)] = member
                    self._context.outbox.append(effect)
        return None

    def _continue(self, member: QueuedPod, now: float) -> None:
        """PreBind's writes are applied: post the Binding if every plugin lets the pod go."""
        try:
            for plugin in member.profile.plugins_at("wait_pre_bind"):
                with plugin_errors(plugin.name, "PreBind"):
                    answer = plugin.wait_pre_bind(member.cycle_state, member.pod, member.node)
                if isinstance(answer, Wait):
                    if member.uid not in self._pre_bind_waits:
                        deadline = now + answer.timeout
                        timeout_message = _pre_bind_error(plugin, answer.timeout_message)
                        self._pre_bind_waits[member.uid] = _PreBindWait(
                            member, deadline, timeout_message
                        )
                    return
                if answer is not None and answer.rejected:
                    self.roll_back(member, _pre_bind_error(plugin, answer.message()), now)
                    return
        except PluginFailureError as error:
            self.roll_back(member, str(error), now)
            return
        self._pre_bind_waits.pop(member.uid, None)
        self._send_binding(member, now)

    def _send_binding(self, member: QueuedPod, now: float) -> None:
        if member.node not in self._context.cluster.table.index:
            # The API server would take the Binding: it does not look whether the node exists.
            self.roll_back(member, f'node "{member.node}" not found', now)
            return
        if (extender := self._binding_extender(member)) is not None:
            by_extender = Bind(pod_events.pod_key(member.pod.pod), member.node, extender=extender)
            member.binding = by_extender
            self._context.outbox.append(by_extender)
        else:
            self._run_bind_plugins(member, now)

    def _binding_extender(self, member: QueuedPod) -> Extender | None:
        """The extender that binds the pod in our place."""
        for extender in self._context.extenders:
            if extender.bind_verb and extender.is_interested(member.pod.pod):
                return extender
        return None

    def _run_bind_plugins(self, member: QueuedPod, now: float) -> None:
        try:
            for plugin in member.profile.plugins_at("bind"):
                with plugin_errors(plugin.name, "Bind"):
                    member.binding = plugin.bind(member.cycle_state, member.pod, member.node)
                if member.binding is not None:
                    self._context.outbox.append(member.binding)
                    return
        except PluginFailureError as error:
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
        context.outbox.append(pod_events.scheduled(member))
        context.stats.queue_seconds.append(now - member.queued_at)
        context.stats.attempts_until_bound.append(member.attempts)
        for plugin in member.profile.plugins_at("post_bind"):
            try:
                plugin.post_bind(member.cycle_state, member.pod, member.node)
            except Exception as error:
                log.error("pod %s: %s", member.pod.key, error_text(plugin.name, "PostBind", error))
        # From here on the API owns the pod. The assumption stays until the watch shows
        # it, and a pending state of this uid can only be an old one.
        del context.pods[member.uid]
        context.publish_event(ClusterEvent(ActionType.POD_ADDED, pod=member.pod.pod), now)
        self._bound(member, now)

    def _on_pre_bind_outcome(self, effect: Effect, outcome: Outcome, now: float) -> None:
        member = self._pre_bind_writes[id(effect)]
        if isinstance(outcome, Ambiguous):
            return
        del self._pre_bind_writes[id(effect)]
        member.pending_writes.discard(id(effect))
        if isinstance(outcome, Refused):
            self.roll_back(member, f"preparing to bind: {outcome.message}", now, outcome)
        elif not member.pending_writes:
            self._continue(member, now)


def _pre_bind_error(plugin: Plugin, why: str) -> str:
    return f'running PreBind plugin "{plugin.name}": {why}'
