"""What Prometheus is told of attempts, and that it was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from arranger.daemon.telemetry.metrics import Metrics
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.context.engine_context import Stats
from arranger.engine.engine import Engine
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod

DURATION = "scheduler_scheduling_algorithm_duration_seconds"


def durations_of(metrics: Metrics) -> tuple[list[float], float]:
    """The upper bound of the bucket of every observation, in order, and the sum of all."""
    (histogram,) = (m for m in metrics.registry.collect() if m.name == DURATION)
    buckets = [s for s in histogram.samples if s.name.endswith("_bucket")]
    empty = [(0.0, 0.0), *((float(s.labels["le"]), s.value) for s in buckets)]
    found = [le for (_, less), (le, all_) in pairwise(empty) for _ in range(int(all_ - less))]
    (total,) = (s.value for s in histogram.samples if s.name.endswith("_sum"))
    return found, total


def run(*pods: PodBuilder, ticks: Iterable[float]) -> tuple[Metrics, float | None]:
    """The metrics after one run over all pods, with a clock that shows ``ticks``."""
    left = iter(ticks)
    engine = Engine(EngineSettings([default_profile()], perf_counter=lambda: next(left)))
    engine.handlers.on_node_updated(a_node("n1").build(), 0.0)
    for pod in pods:
        engine.handlers.on_pod_updated(pod.build(), 0.0)
    engine.run(0.0)
    metrics = Metrics()
    metrics.collect(engine)
    return metrics, next(left, None)


def test_attempts_of_different_length_are_different_observations() -> None:
    metrics, _ = run(a_pod("quick"), a_pod("slow"), ticks=(1.0, 1.0001, 2.0, 2.2))
    (quick, slow), total = durations_of(metrics)
    assert 0.0001 <= quick < 0.001 < 0.2 <= slow < 1
    assert round(total, 6) == 0.2001


def test_a_gang_is_one_attempt_and_one_observation() -> None:
    pods = (a_pod(f"p{n}").in_gang("g", least=3) for n in range(3))
    metrics, left = run(*pods, ticks=(1.0, 1.25, 9.0))
    assert durations_of(metrics) == ([0.32768], 0.25)
    assert left == 9.0


def test_what_was_told_is_not_told_again() -> None:
    times = iter((1.0, 1.5)).__next__
    engine, metrics = Engine(EngineSettings([default_profile()], perf_counter=times)), Metrics()
    engine.handlers.on_node_updated(a_node("n1").build(), 0.0)
    engine.handlers.on_pod_updated(a_pod("p").build(), 0.0)
    engine.run(0.0)
    for _ in range(2):
        metrics.collect(engine)
        engine.run(0.0)
    assert durations_of(metrics)[1] == 0.5


def test_nothing_is_told_where_nothing_was_measured() -> None:
    engine, metrics = Engine(EngineSettings([default_profile()])), Metrics()
    engine.handlers.on_node_updated(a_node("n1").build(), 0.0)
    engine.handlers.on_pod_updated(a_pod("p").build(), 0.0)
    assert engine.run(0.0)
    metrics.collect(engine)
    assert durations_of(metrics) == ([], 0)


def collected(*bound: tuple[str, float]) -> Metrics:
    """The metrics after pods were bound, each so many seconds after it had arrived."""
    engine, metrics = Engine(EngineSettings([default_profile()])), Metrics()
    stats = engine.take_stats()
    for name, waited in bound:
        stats.record_bound(f"default/{name}", waited, 1)
    metrics.collect(Told(stats))
    return metrics


@dataclass
class Told:
    """What tells of these statistics."""

    stats: Stats

    def take_stats(self) -> Stats:
        return self.stats


def exemplars_of(metrics: Metrics) -> list[tuple[str, float]]:
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    return [
        (sample.exemplar.labels["pod"], sample.exemplar.value)
        for family in families
        for sample in family.samples
        if sample.exemplar is not None
    ]


def test_the_pod_that_waited_longest_is_named_to_who_reads_open_metrics() -> None:
    metrics = collected(("quick", 0.5), ("slow", 9.0), ("other", 1.0))
    assert exemplars_of(metrics) == [("default/slow", 9.0)]


def test_a_name_that_is_too_long_for_an_exemplar_is_cut() -> None:
    ((name, _),) = exemplars_of(collected(("n" * 253, 1.0)))
    assert name == ("default/" + "n" * 253)[:125]


def test_where_nothing_was_bound_nothing_is_named() -> None:
    assert exemplars_of(collected()) == []
