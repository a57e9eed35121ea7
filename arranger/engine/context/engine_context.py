"""The state that all parts of the engine share, and nothing but state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from arranger.api.effects import DeletePod, Effect, Eviction, ObjectKey, PodCondition
from arranger.api.extenders import Extender
from arranger.api.tracing import NO_TRACER, Tracer
from arranger.api.types.core import Pod
from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedPod
from arranger.engine.context.phases import Phase

#: Failures of plugins that are kept until they are looked into.
MAX_FAILURES: Final = 64


@dataclass(slots=True)
class Stats:
    """What has happened since they were last taken; the driver turns them into metrics.

    Attributes:
        attempts: (profile, ``scheduled`` | ``unschedulable`` | ``error``) → how often.
        queue_seconds: seconds from queued to bound, one per bound pod.
        attempts_until_bound: attempts it took, one per bound pod.
        slowest: the seconds and the key of the bound pod that took longest.
        attempt_seconds: seconds spent deciding, one per attempt of a pod or of a whole gang.
        gang_plans: ``best`` | ``bounded`` | ``none`` → how often a search for a gang's victims has
            found the best there are, has ended early, or has shown that nobody can leave for it.
        bounded_gang_attempts: how often a gang was not placed and there were too many ways to try
            them all.
        broken_promises: reason → how many starts that follow from known ends did not come.
    """

    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    queue_seconds: list[float] = field(default_factory=list)
    attempts_until_bound: list[int] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    attempt_seconds: list[float] = field(default_factory=list)
    gang_plans: Counter[str] = field(default_factory=Counter)
    bounded_gang_attempts: int = 0
    broken_promises: Counter[str] = field(default_factory=Counter)

    def record_bound(self, pod: str, seconds: float, attempts: int) -> None:
        """A pod is bound, so many seconds after it was queued."""
        self.queue_seconds.append(seconds)
        self.attempts_until_bound.append(attempts)
        if seconds >= self.slowest[0]:
            self.slowest = seconds, pod


@dataclass(slots=True, eq=False)
class EngineClock:
    """The time of the engine's present run, in its driver's clock and since 1970.

    Attributes:
        _to_unix_time: turns the driver's clock into seconds since 1970.
        now: when the present run began, in seconds of a clock that only runs forward.
    """

    _to_unix_time: Callable[[float], float] = float
    now: float = 0.0
    _unix_now: float | None = None

    def advance(self, now: float) -> None:
        """A run begins."""
        self.now, self._unix_now = now, self._to_unix_time(now)

    @property
    def unix_now(self) -> float:
        """The time of the present run, or of the last one, in seconds since 1970."""
        return self._to_unix_time(self.now) if self._unix_now is None else self._unix_now

    def to_unix_time(self, at: float) -> float:
        """A moment of the driver's clock, in seconds since 1970."""
        return self._to_unix_time(at)

    def from_unix_time(self, at: float, now: float) -> float:
        """A moment in seconds since 1970, in the driver's clock, which shows ``now``."""
        return at - self._to_unix_time(now) + now


@dataclass(slots=True, eq=False)
class EngineContext:
    """Shared state of the engine's parts.

    Attributes:
        cluster: nodes and placed pods.
        clock: the time of the present run.
        extenders: those that have a say in placing and binding.
        max_grace_period: seconds that a pod gets to end when we have it leave, whatever it says;
            None for as many as it says.
        pods: every pod that is ours and not gone or bound, by uid.
        waiting_pods: those that a Permit plugin makes wait, by uid.
        outbox: what the driver is to do next.
        stats: what happened since they were last taken.
        plugin_failures: what plugins have raised about pods, and nobody has looked into yet.
        tracer: follows the attempts.
    """

    cluster: Cluster
    clock: EngineClock
    extenders: Sequence[Extender] = ()
    max_grace_period: int | None = None
    pods: dict[str, QueuedPod] = field(default_factory=dict)
    waiting_pods: dict[str, QueuedPod] = field(default_factory=dict)
    outbox: list[Effect] = field(default_factory=list)
    stats: Stats = field(default_factory=Stats)
    plugin_failures: list[tuple[Pod, Exception]] = field(default_factory=list)
    tracer: Tracer = NO_TRACER

    @property
    def unix_now(self) -> float:
        """The present run's time, in seconds since 1970."""
        return self.clock.unix_now

    def is_leaving(self, pod: Pod) -> bool:
        """Whether a pod is being deleted, and ends as soon as if we had it leave now.

        Who deletes a pod of theirs may give it years, in which it goes on.
        """
        deadline, most = pod.metadata.deletion_timestamp, self.max_grace_period
        if deadline is None or most is None:
            return deadline is not None
        return deadline.timestamp() <= self.unix_now + most

    def deletion(self, pod: Pod, condition: PodCondition, eviction: Eviction) -> DeletePod:
        """Has a pod leave its node, with its grace period as far as we allow it."""
        meta, most = pod.metadata, self.max_grace_period
        asked = pod.spec.termination_grace_period_seconds or 0
        longer = most is not None and (asked > most or meta.deletion_timestamp is not None)
        key = ObjectKey(meta.namespace, meta.name, meta.uid)
        return DeletePod(key, condition, most if longer else None, eviction)

    def is_being_bound(self, uid: str) -> bool:
        """Whether the Binding of a pod is on its way."""
        member = self.pods.get(uid)
        return member is not None and member.phase in (Phase.BINDING, Phase.UNKNOWN)

    def record_attempt(self, member: QueuedPod, result: str, reason: str = "") -> None:
        """One attempt for a pod has ended."""
        self.stats.attempts[member.profile.scheduler_name, result] += 1
        self.tracer.record_result(member.pod.pod, member.node, result, reason)

    def record_failure(self, pod: Pod, error: Exception) -> None:
        """A plugin has raised about a pod."""
        if len(self.plugin_failures) < MAX_FAILURES:
            self.plugin_failures.append((pod, error))

    def take_failures(self) -> list[tuple[Pod, Exception]]:
        """What plugins have raised, since the last call."""
        failures, self.plugin_failures = self.plugin_failures, []
        return failures

    def record_gang_plan(self, *, found: bool, proven: bool) -> None:
        """Victims were sought for a gang; ``proven``: no others would do, or cost less."""
        self.stats.gang_plans["bounded" if not proven else "best" if found else "none"] += 1

    def take_outbox(self) -> list[Effect]:
        """What the driver is to do, since the last call."""
        effects, self.outbox = self.outbox, []
        return effects

    def keep_effects(self, kept: Callable[[Effect], bool]) -> None:
        """Drop all others of what the driver is to do."""
        self.outbox = [each for each in self.outbox if kept(each)]

    def take_stats(self) -> Stats:
        """The statistics since the last call."""
        stats, self.stats = self.stats, Stats()
        return stats
