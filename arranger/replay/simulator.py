"""Drives an engine without a server: every write that it asks for succeeds at once."""

from __future__ import annotations

from collections.abc import Sequence

from arranger.api.effects import Applied, Bind
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.queue.backoff import SchedulingQueueConfig
from arranger.replay.objects import key_of, to_node, to_pod
from arranger.replay.policies import Policy
from arranger.replay.trace import TraceNode, TracePod


class TraceSimulator:
    """An engine with a trace's nodes, whose pods all want the same policy.

    Ends of pods are the only events that can help a waiting pod here, and they requeue it; so the
    periodic flush of unschedulable pods is off.
    """

    def __init__(self, nodes: Sequence[TraceNode], policy: Policy) -> None:
        self._engine = Engine(
            EngineSettings(
                [policy.profile()], queue_config=SchedulingQueueConfig(flush_after=float("inf"))
            )
        )
        self._annotations = policy.annotations()
        self._pods: dict[str, TracePod] = {}
        for node in nodes:
            self._engine.handlers.on_node_updated(to_node(node), 0.0)

    def create_pod(self, pod: TracePod, now: float) -> None:
        """The pod is created."""
        self._pods[pod.name] = pod
        self._engine.handlers.on_pod_updated(to_pod(pod, self._annotations), now)

    def delete_pod(self, pod: TracePod, now: float) -> None:
        """The pod is gone, wherever it was."""
        del self._pods[pod.name]
        self._engine.handlers.on_pod_deleted(key_of(pod), now)

    def run_scheduler(self, now: float) -> list[tuple[TracePod, str]]:
        """Run the scheduler until nothing is ready; returns the pods it bound, and their nodes."""
        bound: list[tuple[TracePod, str]] = []
        ready = True  # the first run also ends the back-offs that are over
        while ready:
            for effect in self._engine.run(now):
                if isinstance(effect, Bind):
                    self._engine.on_outcome(effect, Applied(), now)
                    bound.append((self._pods[effect.pod.name], effect.node))
            ready = self._engine.ready
        return bound

    def next_timer(self) -> float | None:
        """When the next back-off ends; None without any."""
        due = self._engine.next_timer()
        return None if due == float("inf") else due
