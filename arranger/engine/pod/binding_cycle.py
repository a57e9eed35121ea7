"""From a reserved node to a bound pod: PreBind's writes, the Binding, and what became of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from arranger.api.effects import Ambiguous, Applied, Bind, Effect, Outcome, Refused
from arranger.api.extenders import Extender
from arranger.engine import pod_events
from arranger.engine.context import Desk
from arranger.engine.phases import Phase
from arranger.engine.pod.schedule_result import refused_node
from arranger.engine.queued_pod import Member
from arranger.framework.cluster_event import ClusterEvent, EventKind
from arranger.framework.interface import Plugin, Wait
from arranger.framework.runtime.plugin_errors import PluginFailureError, failure, running
from arranger.framework.status import Status

log = logging.getLogger(__name__)

#: Refusals that say nothing about the pod, or that it is not ours to speak about any more.
SAYS_NOTHING = frozenset({"NotLeader", "Stopped", "NotFound", "Replaced", "AlreadyBound"})


@dataclass(frozen=True, slots=True)
class _Unready:
    """A pod that waits for others before it can be bound; ``late`` tells when it was in vain."""

    member: Member
    deadline: float
    late: str


class Binder:
    """Carries reserved pods to their nodes.

    Args:
        desk: the engine's state.
        retry: queues a pod again whose binding broke off.
        reject: queues a pod again that a PreBind plugin refused.
        bound: hears of every pod that is bound.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        retry: Callable[[Member, float], None],
        reject: Callable[[Member, Status, float], None],
        bound: Callable[[Member, float], None],
    ) -> None:
        self._desk = desk
        self._retry = retry
        self._reject = reject
        self._bound = bound
        #: Effects that must be applied before a Binding, by identity.
        self._prerequisites: dict[int, Member] = {}
        #: Members whose writes are done and whom a plugin does not let go yet, by uid.
        self._unready: dict[str, _Unready] = {}

    def begin(self, member: Member, now: float) -> None:
        """Start writing: what PreBind wants first, then the Binding."""
        member.move(Phase.BINDING)
        try:
            refusal = self._prepare(member)
        except PluginFailureError as error:
            self.roll_back(member, str(error), now)
            return
        if refusal is not None:
            self.reject(member, refusal, now)
        elif not member.awaiting:
            self._go_on(member, now)

    def advance(self, now: float) -> None:
        """Ask again about those that are not let go, and break off what has waited too long."""
        for uid, unready in list(self._unready.items()):
            if self._unready.get(uid) is not unready:
                continue
            if unready.deadline <= now:
                self.roll_back(unready.member, unready.late, now)
            elif self._desk.ask_waiting:
                self._go_on(unready.member, now)

    @property
    def asking(self) -> bool:
        """Whether plugins keep pods from binding, and are to be asked after the next event."""
        return bool(self._unready)

    def next_timer(self) -> float | None:
        """When :meth:`advance` will have something to break off."""
        return min((unready.deadline for unready in self._unready.values()), default=None)

    def awaits(self, effect: Effect) -> bool:
        """Whether something waits for the outcome of ``effect``."""
        return isinstance(effect, Bind) or id(effect) in self._prerequisites

    def settle(self, effect: Effect, outcome: Outcome, now: float) -> None:
        """What became of an effect."""
        if isinstance(effect, Bind):
            member = self._desk.members.get(effect.pod.uid)
            if member is not None and member.binding is effect:
                self._settle_binding(member, outcome, now)
        elif id(effect) in self._prerequisites:
            self._settle_prerequisite(effect, outcome, now)

    def forget(self, member: Member) -> None:
        """The pod is gone or given up; outcomes of its writes do not matter any more."""
        self._unready.pop(member.uid, None)
        if member.awaiting:
            for n in member.awaiting:
                self._prerequisites.pop(n, None)

    def roll_back(
        self, member: Member, message: str, now: float, refused: Refused | None = None
    ) -> None:
        """What was begun failed for good: free the node, tell, and try again after a back-off."""
        desk = self._desk
        self.forget(member)
        if member.uid not in desk.cluster.assumed:
            # The watch has shown the pod on the node: it is bound, whoever did it.
            desk.forget(member)
            return
        log.error("pod %s: %s", member.pod.key, message)
        desk.count(member, "error")
        if desk.release(member, now):
            if refused is None or refused.reason not in SAYS_NOTHING:
                desk.outbox += pod_events.failed(member, pod_events.SCHEDULER_ERROR, message)
            self._retry(member, now)

    def reject(self, member: Member, refusal: Status, now: float) -> None:
        """A plugin took back what the cycle had granted: rest until its events."""
        desk = self._desk
        self.forget(member)
        desk.count(member, "unschedulable")
        if desk.release(member, now):
            desk.outbox += pod_events.failed(
                member, pod_events.UNSCHEDULABLE, refused_node(refusal)
            )
            self._reject(member, refusal, now)

    def check_consistent(self) -> None:
        """Check the prerequisites against the pods.

        Raises:
            AssertionError: one belongs to nobody.
        """
        ours = set(self._desk.members.values())
        assert set(self._prerequisites.values()) <= ours, "prerequisites"
        for unready in self._unready.values():
            assert unready.member in ours, f"{unready.member}: not let go"
            assert unready.member.phase is Phase.BINDING, f"{unready.member}: not let go"

    # --- inside ----------------------------------------------------------------------------

    def _prepare(self, member: Member) -> Status | None:
        """Send off what PreBind wants done; returns its refusal if it refuses."""
        for plugin in member.profile.at("pre_bind"):
            with running(plugin, "PreBind"):
                answer = plugin.pre_bind(member.state, member.pod, member.node)
                if isinstance(answer, Status):
                    if answer.rejected:
                        return Status(answer.code, answer.reasons, plugin.name)
                    continue
                for effect in answer or ():
                    member.awaiting.add(id(effect))
                    self._prerequisites[id(effect)] = member
                    self._desk.outbox.append(effect)
        return None

    def _go_on(self, member: Member, now: float) -> None:
        """PreBind's writes are applied: post the Binding if every plugin lets the pod go."""
        try:
            for plugin in member.profile.at("bindable"):
                with running(plugin, "PreBind"):
                    answer = plugin.bindable(member.state, member.pod, member.node)
                if isinstance(answer, Wait):
                    if member.uid not in self._unready:
                        deadline = now + answer.timeout
                        late = _broken_off(plugin, answer.late)
                        self._unready[member.uid] = _Unready(member, deadline, late)
                    return
                if answer is not None and answer.rejected:
                    self.roll_back(member, _broken_off(plugin, answer.message()), now)
                    return
        except PluginFailureError as error:
            self.roll_back(member, str(error), now)
            return
        self._unready.pop(member.uid, None)
        self._post(member, now)

    def _post(self, member: Member, now: float) -> None:
        if member.node not in self._desk.cluster.table.index:
            # The API server would take the Binding: it does not look whether the node exists.
            self.roll_back(member, f'node "{member.node}" not found', now)
            return
        if (extender := self._binding_extender(member)) is not None:
            by_extender = Bind(pod_events.pod_ref(member.pod.pod), member.node, by=extender)
            member.binding = by_extender
            self._desk.outbox.append(by_extender)
        else:
            self._bind_ourselves(member, now)

    def _binding_extender(self, member: Member) -> Extender | None:
        """The extender that binds the pod in our place."""
        for extender in self._desk.extenders:
            if extender.bind_verb and extender.minds(member.pod.pod):
                return extender
        return None

    def _bind_ourselves(self, member: Member, now: float) -> None:
        try:
            for plugin in member.profile.at("bind"):
                with running(plugin, "Bind"):
                    member.binding = plugin.bind(member.state, member.pod, member.node)
                if member.binding is not None:
                    self._desk.outbox.append(member.binding)
                    return
        except PluginFailureError as error:
            self.roll_back(member, str(error), now)
            return
        self.roll_back(member, "no Bind plugin took the pod", now)

    def _settle_binding(self, member: Member, outcome: Outcome, now: float) -> None:
        binding = member.binding
        if binding is not None and binding.by is not None and binding.by.ignorable:
            silent = isinstance(outcome, Refused) and outcome.reason in SAYS_NOTHING
            if not silent and not isinstance(outcome, Applied):
                # It may be bound by now: the API server then says to which node.
                self._bind_ourselves(member, now)
                return
        match outcome:
            case Applied():
                self._applied(member, now)
            case Ambiguous():
                if member.phase is Phase.BINDING:
                    member.move(Phase.UNKNOWN)
            case Refused():
                self.roll_back(member, f"binding rejected: {outcome.message}", now, outcome)

    def _applied(self, member: Member, now: float) -> None:
        desk = self._desk
        member.move(Phase.BOUND)
        desk.outbox.append(pod_events.scheduled(member))
        desk.stats.waits.append(now - member.queued_at)
        desk.stats.tries.append(member.tries)
        for plugin in member.profile.at("post_bind"):
            try:
                plugin.post_bind(member.state, member.pod, member.node)
            except Exception as error:
                log.error("pod %s: %s", member.pod.key, failure(plugin, "PostBind", error))
        # From here on the API owns the pod. The assumption stays until the watch shows
        # it, and a pending state of this uid can only be an old one.
        del desk.members[member.uid]
        desk.happened(ClusterEvent(EventKind.POD_ADDED, pod=member.pod.pod), now)
        self._bound(member, now)

    def _settle_prerequisite(self, effect: Effect, outcome: Outcome, now: float) -> None:
        member = self._prerequisites[id(effect)]
        if isinstance(outcome, Ambiguous):
            return
        del self._prerequisites[id(effect)]
        member.awaiting.discard(id(effect))
        if isinstance(outcome, Refused):
            self.roll_back(member, f"preparing to bind: {outcome.message}", now, outcome)
        elif not member.awaiting:
            self._go_on(member, now)


def _broken_off(plugin: Plugin, why: str) -> str:
    return f'running PreBind plugin "{plugin.name}": {why}'
