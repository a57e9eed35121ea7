"""Pods that Permit plugins make wait, with their node reserved (``waiting_pods_map.go``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from arranger.engine.context.engine_context import EngineContext
from arranger.engine.context.entity import QueuedPod
from arranger.engine.pod.binding_cycle import BindingCycle
from arranger.engine.pod.reserve_and_permit import run_permit
from arranger.engine.pod.schedule_result import PermitWait
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.framework.status import Code, Status


class GangPermits(Protocol):
    """Keeps permitted members until their groups are complete."""

    def on_permitted(self, pod: QueuedPod, now: float) -> bool:
        """A Permit plugin lets a pod go; True if its gang group keeps it for now."""


@dataclass(slots=True, eq=False)
class WaitingPods:
    """Asks the Permit plugins again after events, and ends waits that have lasted too long."""

    _context: EngineContext
    _queue: SchedulingQueue
    _binding_cycle: BindingCycle
    _gangs: GangPermits
    #: How many cluster events there had been when the plugins were last asked.
    _events_seen: int = field(default=0, init=False)

    def advance(self, now: float) -> None:
        """Reject the pods that have waited too long, and ask about the others after an event."""
        for pod in [m for m in self._context.waiting_pods.values() if m.deadline <= now]:
            if pod.uid in self._context.waiting_pods:  # else its gang has fallen with another
                waited = f"{pod.permit_timeout:g}s at plugin {pod.permit_plugin}"
                reason = f"rejected due to timeout after waiting {waited}"
                refusal = Status(Code.UNSCHEDULABLE, (reason,), pod.permit_plugin)
                self._binding_cycle.reject(pod, refusal, now)
        if self._events_seen == self._queue.event_count:
            return
        self._events_seen = self._queue.event_count
        for pod in list(self._context.waiting_pods.values()):
            if pod.uid in self._context.waiting_pods:
                self._ask_again(pod, now)

    @property
    def ready(self) -> bool:
        """Whether there are pods to ask about."""
        return bool(self._context.waiting_pods) and self._events_seen != self._queue.event_count

    def next_timer(self) -> float | None:
        """When a pod will have waited too long."""
        return min((pod.deadline for pod in self._context.waiting_pods.values()), default=None)

    def _ask_again(self, pod: QueuedPod, now: float) -> None:
        try:
            answer = run_permit(pod)
        except PluginFailureError as error:
            self._binding_cycle.roll_back(pod, str(error), now)
            return
        if isinstance(answer, Status):
            self._binding_cycle.reject(pod, answer, now)
        elif not isinstance(answer, PermitWait):
            del self._context.waiting_pods[pod.uid]
            if not self._gangs.on_permitted(pod, now):
                self._binding_cycle.begin(pod, now)
