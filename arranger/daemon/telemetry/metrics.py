"""Prometheus metrics, under kube-scheduler's names where they mean the same."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from arranger.engine.context.queue_state import QueueState
from arranger.engine.engine import Engine

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

#: Characters of all labels of an exemplar.
_EXEMPLAR: Final = 128


class ClientMetric(NamedTuple):
    """What the API client reports as ``name``; it appears as ``arranger_name``."""

    kind: type[Counter | Gauge | Histogram]
    name: str
    help: str
    labels: tuple[str, ...] = ()


CLIENT_METRICS: Final = (
    ClientMetric(Counter, "writes", "Writes to the API server, by outcome", ("kind", "outcome")),
    ClientMetric(Histogram, "write_seconds", "From a write's decision to its outcome", ("kind",)),
    ClientMetric(Counter, "events_dropped", "Events that were not written, and why", ("why",)),
    ClientMetric(Counter, "watch_events", "Changes that watches have brought", ("resource",)),
    ClientMetric(Counter, "watch_stale_events", "Changes older than what is known", ("resource",)),
    ClientMetric(Counter, "watch_restarts", "Watches begun anew, and why", ("resource", "why")),
    ClientMetric(Counter, "watch_bad_objects", "Objects that cannot be decoded", ("resource",)),
    ClientMetric(Histogram, "extender_seconds", "Calls of extenders", ("extender", "verb")),
    ClientMetric(Counter, "extender_errors", "Calls of extenders that fail", ("extender", "verb")),
    ClientMetric(Gauge, "leader", "1 while this replica holds the Lease", ("lease",)),
    ClientMetric(Gauge, "quarantined_objects", "Objects that are quarantined", ("kind",)),
    ClientMetric(Counter, "loop_stalls", "Times that something held up the event loop"),
)


class ClientMetrics:
    """What the API client of a process reports, in a registry of its own.

    A :class:`~arranger.kube.client.metrics.MetricsRecorder`: what is reported there as ``name``
    appears as ``arranger_name``.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._client: dict[str, Any] = {each.name: self._made(each) for each in CLIENT_METRICS}
        #: Those with labels that are added to: to find them in their metric takes a lock each time.
        self._labelled: dict[tuple[object, ...], Any] = {}

    def _made(self, metric: ClientMetric) -> Counter | Gauge | Histogram:
        options: dict[str, Any] = {"registry": self.registry}
        if metric.kind is Histogram:
            options["buckets"] = _CLIENT_BUCKETS
        return metric.kind(f"arranger_{metric.name}", metric.help, metric.labels, **options)

    def increment(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """Add to a counter of the client."""
        self._known_metric(name, labels).inc(amount)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Record a duration of the client."""
        self._known_metric(name, labels).observe(seconds)

    def set_gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge of the client."""
        self._client_metric(name, labels).set(value)

    def _known_metric(self, name: str, labels: dict[str, str]) -> Any:
        key = name, *labels.items()
        known = self._labelled.get(key)
        if known is None:
            known = self._labelled[key] = self._client_metric(name, labels)
        return known

    def _client_metric(self, name: str, labels: dict[str, str]) -> Any:
        metric = self._client[name]
        return metric.labels(**labels) if labels else metric


class Metrics(ClientMetrics):
    """All metrics of one scheduler."""

    def __init__(self) -> None:
        super().__init__()
        registry = self.registry
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result",
            ["result", "profile"],
            registry=registry,
        )
        self._pending = Gauge(
            "scheduler_pending_pods",
            "Pending pods, by the part of the queue they are in",
            ["queue"],
            registry=registry,
        )
        self._sli = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the pod's arrival in the queue to its binding",
            ["attempts"],
            buckets=_SLI_BUCKETS,
            registry=registry,
        )
        self._attempts_per_pod = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts it took to schedule a pod",
            buckets=(1, 2, 4, 8, 16),
            registry=registry,
        )
        self._algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time spent deciding, per attempt of a pod or of a whole gang",
            buckets=_ALGORITHM_BUCKETS,
            registry=registry,
        )
        self._gang_plans = Counter(
            "arranger_gang_preemption_plans_total",
            "Times that victims were sought for a gang: the best found, none to find, or bounded",
            ["result"],
            registry=registry,
        )
        self._bounded_gang_attempts = Counter(
            "arranger_gang_attempts_bounded_total",
            "Times that a gang was not placed and had too many ways to try them all",
            registry=registry,
        )
        self._broken_promises = Counter(
            "arranger_gang_promises_broken_total",
            "Planned starts of gangs that followed from known ends and did not come, by reason",
            ["reason"],
            registry=registry,
        )
        self._leader = Gauge(
            "leader_election_master_status",
            "1 while this replica leads",
            ["name"],
            registry=registry,
        )
        self._core_restarts = Counter(
            "arranger_core_restarts_total",
            "Times that the scheduler began anew, within its process, after a fault of its own",
            registry=registry,
        )
        self._mean_usage = Gauge(
            "arranger_queue_usage_mean",
            "What a queue has used on average, decayed by the half-life; CPU in thousandths",
            ["queue", "resource"],
            registry=registry,
        )
        self._nodes = Gauge("scheduler_cache_size_nodes", "Known nodes", registry=registry)

    def collect(self, engine: Engine) -> None:
        """Take the engine's statistics since the last call."""
        stats = engine.take_stats()
        for (profile, result), times in stats.attempts.items():
            self._attempts.labels(result, profile).inc(times)
        # An exemplar costs; the pod that waited longest is the one to look at.
        slowest, pod = stats.slowest
        for waited, tries in zip(stats.queue_seconds, stats.attempts_until_bound, strict=True):
            exemplar = _exemplar(pod) if waited == slowest else None
            self._sli.labels(str(min(tries, 15))).observe(waited, exemplar)
            self._attempts_per_pod.observe(tries)
        for seconds in stats.attempt_seconds:
            self._algorithm.observe(seconds)
        for result, times in stats.gang_plans.items():
            self._gang_plans.labels(result).inc(times)
        self._bounded_gang_attempts.inc(stats.bounded_gang_attempts)
        for reason, times in stats.broken_promises.items():
            self._broken_promises.labels(reason).inc(times)

    def update_gauges(self, engine: Engine) -> None:
        """Set the gauges; called when they are about to be read."""
        for part, count in engine.queue.count().items():
            self._pending.labels(_QUEUE_LABELS[part]).set(count)
        self._nodes.set(engine.cluster.table.count)
        self._mean_usage.clear()
        for queue, amounts in engine.usage.means().items():
            for resource, amount in amounts.items():
                self._mean_usage.labels(queue, resource).set(amount)
        quarantined = self._client["quarantined_objects"]
        quarantined.clear()
        for kind, count in engine.barrier.quarantine.count().items():
            quarantined.labels(kind).set(count)

    def count_core_restart(self) -> None:
        """The scheduler begins anew within its process."""
        self._core_restarts.inc()

    def set_leading(self, name: str, leads: bool) -> None:
        """Whether this replica leads."""
        self._leader.labels(name).set(leads)


def _exemplar(pod: str) -> dict[str, str]:
    """The label that names a pod, in the characters that OpenMetrics allows for an exemplar."""
    return {"pod": pod[: _EXEMPLAR - len("pod")]}
