"""Prometheus metrics, under kube-scheduler's names where they mean the same."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from arranger.engine.engine import Engine
from arranger.engine.entity import QueueState

#: kube-scheduler's names for the parts of the queue.
_QUEUE_LABELS: Final = {
    QueueState.ACTIVE: "active",
    QueueState.BACKOFF: "backoff",
    QueueState.UNSCHEDULABLE: "unschedulable",
    QueueState.GATED: "gated",
    QueueState.WAITING_FOR_EXTENDERS: "consulting",
}
_SLI_BUCKETS: Final = tuple(0.01 * 2**n for n in range(20))
_ALGORITHM_BUCKETS: Final = tuple(0.00001 * 2**n for n in range(16))
_CLIENT_BUCKETS: Final = tuple(0.001 * 2**n for n in range(15))


class Metrics:
    """All metrics of one scheduler, in a registry of their own.

    Also the :class:`~arranger.kube.client.metrics.MetricsRecorder` of the edge: what it reports as
    ``name`` appears as ``arranger_name``.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result",
            ["result", "profile"],
            registry=self.registry,
        )
        self._pending = Gauge(
            "scheduler_pending_pods",
            "Pending pods, by the part of the queue they are in",
            ["queue"],
            registry=self.registry,
        )
        self._sli = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the pod's arrival in the queue to its binding",
            ["attempts"],
            buckets=_SLI_BUCKETS,
            registry=self.registry,
        )
        self._attempts_per_pod = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts it took to schedule a pod",
            buckets=(1, 2, 4, 8, 16),
            registry=self.registry,
        )
        self._algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time spent deciding, per attempt of a pod or of a whole gang",
            buckets=_ALGORITHM_BUCKETS,
            registry=self.registry,
        )
        self._leader = Gauge(
            "leader_election_master_status",
            "1 while this replica leads",
            ["name"],
            registry=self.registry,
        )
        self._nodes = Gauge("scheduler_cache_size_nodes", "Known nodes", registry=self.registry)
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}

    # --- from the core ---------------------------------------------------------------------

    def collect(self, engine: Engine) -> None:
        """Take the engine's statistics since the last call."""
        stats = engine.take_stats()
        for (profile, result), times in stats.attempts.items():
            self._attempts.labels(result, profile).inc(times)
        for waited, tries in zip(stats.queue_seconds, stats.attempts_until_bound, strict=True):
            self._sli.labels(str(min(tries, 15))).observe(waited)
            self._attempts_per_pod.observe(tries)
        for seconds in stats.attempt_seconds:
            self._algorithm.observe(seconds)

    def update_gauges(self, engine: Engine) -> None:
        """Set the gauges; called when they are about to be read."""
        for part, count in engine.queue.count().items():
            self._pending.labels(_QUEUE_LABELS[part]).set(count)
        self._nodes.set(engine.cluster.table.count)

    def set_leading(self, name: str, leads: bool) -> None:
        """Whether this replica leads."""
        self._leader.labels(name).set(leads)

    # --- from the edge ---------------------------------------------------------------------

    def increment(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter of the edge."""
        counter = self._counters.get(name)
        if counter is None:
            counter = self._counters[name] = Counter(
                f"arranger_{name}", _help_text(name), sorted(labels), registry=self.registry
            )
        (counter.labels(**labels) if labels else counter).inc(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Record a duration of the edge."""
        histogram = self._histograms.get(name)
        if histogram is None:
            histogram = self._histograms[name] = Histogram(
                f"arranger_{name}",
                _help_text(name),
                sorted(labels),
                buckets=_CLIENT_BUCKETS,
                registry=self.registry,
            )
        (histogram.labels(**labels) if labels else histogram).observe(seconds)

    def set_gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a level of the edge."""
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = self._gauges[name] = Gauge(
                f"arranger_{name}", _help_text(name), sorted(labels), registry=self.registry
            )
        (gauge.labels(**labels) if labels else gauge).set(value)


def _help_text(name: str) -> str:
    return name.replace("_", " ").capitalize()
