"""Traces of attempts: what they tell, how many there are, and that they cost no pod its place."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from arranger.api.effects import Applied, Bind, Outcome, Refused
from arranger.api.tracing import NO_TRACER, Tracer
from arranger.cluster.pod_info import PodInfo
from arranger.daemon.config.schema import Config, ConfigError, TracingConfig
from arranger.daemon.telemetry import tracing
from arranger.daemon.telemetry.tracing import (
    MAX_STEPS,
    OpenTelemetryTracer,
    make_provider,
    make_tracer,
)
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.framework.interface import SpecOnlyPlugin
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.framework.status import CycleState, Status
from arranger.plugins import DEFAULT_PLUGINS, default_profile
from tests.builders import PodBuilder, a_node, a_pod

ALL = TracingConfig(sampling_rate_per_million=1_000_000)
NODE = a_node("n1").offers(cpu="8", pods="500")


class BrokenReserve(SpecOnlyPlugin):
    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        raise RuntimeError("no shelf left")


def profile_with(plugin: type[SpecOnlyPlugin]) -> Profile:
    plugins = [PluginWeight(kind(), weight) for kind, weight in DEFAULT_PLUGINS]
    return Profile("arranger", [*plugins, PluginWeight(plugin(), 1)])


def scheduled(
    *pods: PodBuilder,
    tracer: Tracer = NO_TRACER,
    profile: Profile | None = None,
    outcome: Outcome | None = None,
) -> list[str]:
    """Try the pods on one node of 8 CPUs; the nodes of the Bindings, each of which gets its
    ``outcome``."""
    engine = Engine(EngineSettings([profile or default_profile()], tracer=tracer))
    engine.handlers.on_node_updated(NODE.build(), 0.0)
    for pod in pods:
        engine.handlers.on_pod_updated(pod.build(), 0.0)
    nodes = []
    for effect in engine.run(0.0, limit=100_000):
        if isinstance(effect, Bind):
            nodes.append(effect.node)
            engine.on_outcome(effect, outcome or Applied(), 1.0)
    engine.check_consistent()
    return nodes


@dataclass
class Traces:
    """A tracer that follows every attempt, and the spans that have ended."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    tracer: OpenTelemetryTracer = field(init=False)

    def __post_init__(self) -> None:
        provider = make_provider(ALL, "me")
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = OpenTelemetryTracer(provider)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def only(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


@pytest.fixture
def traces() -> Traces:
    return Traces()


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


class TestTheTraceOfAnAttempt:
    def test_of_a_pod_that_is_bound_shows_every_phase_and_the_binding(self, traces: Traces) -> None:
        assert scheduled(a_pod("p").needs(cpu="1"), tracer=traces.tracer) == ["n1"]
        names = [span.name for span in traces.spans]
        assert names == [
            "PreFilter", "Filter", "Score", "Select", "Reserve", "Permit", "Scheduling", "Binding",
        ]  # fmt: skip
        root = traces.only("Scheduling")
        assert attributes_of(root) == {
            "pod": "p",
            "namespace": "default",
            "queue": "default",
            "profile": "arranger",
            "attempt": 1,
            "result": "scheduled",
            "node": "n1",
        }
        assert root.parent is None
        children = [span for span in traces.spans if span is not root]
        assert {span.parent.span_id for span in children if span.parent} == {root.context.span_id}
        assert {span.context.trace_id for span in traces.spans} == {root.context.trace_id}
        binding = traces.only("Binding")
        told = {"pod": "p", "namespace": "default", "node": "n1", "result": "bound"}
        assert attributes_of(binding) == told
        assert [event.name for event in binding.events] == ["Bind"]

    def test_of_a_pod_of_a_known_class_shows_that_only_changes_were_looked_at(
        self, traces: Traces
    ) -> None:
        scheduled(a_pod("p").needs(cpu="1"), a_pod("q").needs(cpu="1"), tracer=traces.tracer)
        second = traces.named("Scheduling")[1].context.span_id
        steps = [s.name for s in traces.spans if s.parent and s.parent.span_id == second]
        assert steps == ["Refresh", "Select", "Reserve", "Permit", "Binding"]

    def test_of_a_pod_without_a_node_says_why_there_is_none(self, traces: Traces) -> None:
        assert scheduled(a_pod("p").needs(cpu="9"), tracer=traces.tracer) == []
        told = attributes_of(traces.only("Scheduling"))
        assert told["result"] == "unschedulable"
        assert "Insufficient cpu" in told["reason"]
        assert "node" not in told
        assert traces.named("PostFilter")
        assert not traces.named("Binding")

    def test_of_a_gang_is_one_for_all_its_members(self, traces: Traces) -> None:
        pods = [a_pod(f"p{n}").needs(cpu="1").in_gang("g", least=3) for n in range(3)]
        assert len(scheduled(*pods, tracer=traces.tracer)) == 3
        told = attributes_of(traces.only("Scheduling"))
        assert (told["gang"], told["members"]) == ("default/g", 3)
        assert (told["result"], told["scheduled"]) == ("scheduled", 3)
        bindings = [attributes_of(span) for span in traces.named("Binding")]
        assert sorted(each["pod"] for each in bindings) == ["p0", "p1", "p2"]

    def test_of_a_gang_that_waits_gives_the_reason_that_its_pods_are_told(
        self, traces: Traces
    ) -> None:
        pods = [a_pod(f"p{n}").needs(cpu="5").in_gang("g", least=3) for n in range(3)]
        assert scheduled(*pods, tracer=traces.tracer) == []
        told = attributes_of(traces.only("Scheduling"))
        assert told["result"] == "unschedulable"
        assert "gang default/g" in told["reason"]

    def test_of_a_plugin_that_raises_is_an_error_with_its_text(self, traces: Traces) -> None:
        scheduled(a_pod("p"), tracer=traces.tracer, profile=profile_with(BrokenReserve))
        root = traces.only("Scheduling")
        assert attributes_of(root)["result"] == "error"
        assert "no shelf left" in attributes_of(root)["reason"]
        assert not root.status.is_ok

    def test_of_a_binding_that_is_refused_says_so(self, traces: Traces) -> None:
        refused = Refused(409, "Conflict", "somebody was faster")
        scheduled(a_pod("p"), tracer=traces.tracer, outcome=refused)
        told = attributes_of(traces.only("Binding"))
        assert told["result"] == "error"
        assert "somebody was faster" in told["reason"]


class TestThereIsNeverTooMuchOfIt:
    def test_a_gang_of_many_members_has_no_more_phases_than_are_told(self, traces: Traces) -> None:
        count = MAX_STEPS
        pods = [a_pod(f"p{n}").in_gang("g", least=count) for n in range(count)]
        assert len(scheduled(*pods, tracer=traces.tracer)) == count
        root = traces.only("Scheduling")
        told = [s for s in traces.spans if s.parent and s.name != "Binding"]
        assert len(told) == MAX_STEPS
        assert attributes_of(root)["steps_left_out"] > 0

    def test_bindings_that_never_end_are_forgotten(
        self, traces: Traces, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tracing, "MAX_BINDINGS", 3)
        for n in range(10):
            with traces.tracer.attempt(dict):
                traces.tracer.record_result(a_pod(f"p{n}").build(), "n1", "scheduled", "")
            traces.tracer.begin_binding(a_pod(f"p{n}").build(), "n1")
        for n in range(10):
            traces.tracer.end_binding(a_pod(f"p{n}").build(), "bound")
        bound = [attributes_of(span)["pod"] for span in traces.named("Binding")]
        assert bound == ["p7", "p8", "p9"]

    def test_texts_of_tenants_are_clipped_and_can_be_encoded(self, traces: Traces) -> None:
        with traces.tracer.attempt(lambda: {"pod": "half \ud800 of a character"}):
            traces.tracer.record_result(
                a_pod("p").build(), "", "unschedulable", "\x1b[2J" + "x" * 100_000
            )
        told = attributes_of(traces.only("Scheduling"))
        assert told["pod"] == "half \\ud800 of a character"
        assert len(told["reason"]) <= tracing.MAX_VALUE
        assert b"half" in encode_spans(traces.spans).SerializeToString()

    @pytest.mark.parametrize(
        ("rate", "part", "sampled"),
        [
            (1_000_000, 0.999999, True),
            (1_000_000, 0.0, True),
            (250_000, 0.2499, True),
            (250_000, 0.2501, False),
            (100, 0.00009, True),
            (100, 0.00011, False),
        ],
    )
    def test_of_a_million_attempts_as_many_are_followed_as_the_rate_says(
        self, rate: int, part: float, sampled: bool
    ) -> None:
        config = TracingConfig(sampling_rate_per_million=rate)
        sampler = make_provider(config, "me").sampler
        answer = sampler.should_sample(None, int(part * 2**64), "Scheduling")
        assert answer.decision.is_sampled() is sampled

    @pytest.mark.parametrize("config", [None, TracingConfig()])
    def test_who_asks_for_none_gets_none(self, config: TracingConfig | None) -> None:
        assert make_tracer(config, "me") is NO_TRACER
        assert make_tracer(Config().tracing, "me") is NO_TRACER

    def test_an_attempt_that_is_not_followed_is_described_by_nobody(self) -> None:
        provider = make_provider(TracingConfig(), "me")
        exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = OpenTelemetryTracer(provider)
        with tracer.attempt(lambda: pytest.fail("described")), tracer.long_step("PostFilter"):
            tracer.step("Filter")
            tracer.record_result(a_pod("p").build(), "n1", "scheduled", "")
        tracer.begin_binding(a_pod("p").build(), "n1")
        tracer.end_binding(a_pod("p").build(), "bound")
        assert exporter.get_finished_spans() == ()


class StuckExporter(SpanExporter):
    """A collector that answers nothing until it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.asked = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        self.let.wait()
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.let.wait()


class BrokenTracer:
    """A library that is good for nothing."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is broken")


class BrokenProvider:
    def get_tracer(self, *args: object) -> BrokenTracer:
        return BrokenTracer()


class TestNoCollectorHoldsTheScheduler:
    async def test_one_that_never_answers_costs_spans_only(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tracing, "CLOSE_SECONDS", 0.01)
        exporter, provider = StuckExporter(), make_provider(ALL, "me")
        provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=8, max_export_batch_size=4)
        )
        tracer = OpenTelemetryTracer(provider)
        pods = [a_pod(f"p{n}") for n in range(50)]
        try:
            assert len(scheduled(*pods, tracer=tracer)) == 50
            assert exporter.asked.wait(30)
            await tracer.close()
            assert not exporter.let.is_set()
        finally:
            exporter.let.set()

    def test_a_library_that_raises_harms_no_pod(self, caplog: pytest.LogCaptureFixture) -> None:
        tracer = OpenTelemetryTracer(cast("TracerProvider", BrokenProvider()))
        assert scheduled(a_pod("p"), a_pod("q"), tracer=tracer) == ["n1", "n1"]
        assert "a trace is incomplete: RuntimeError: start_span is broken" in caplog.text

    def test_what_an_attempt_raises_goes_through(self, traces: Traces) -> None:
        def fail() -> None:
            with traces.tracer.attempt(dict):
                traces.tracer.step("Filter")
                raise ZeroDivisionError("nothing to share")

        with pytest.raises(ZeroDivisionError):
            fail()
        told = attributes_of(traces.only("Scheduling"))
        assert told == {"result": "error", "reason": "ZeroDivisionError: nothing to share"}
        assert traces.only("Filter").end_time


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector that keeps what it gets."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    server, collector = grpc.server(futures.ThreadPoolExecutor(1)), Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield collector, f"127.0.0.1:{port}"
    server.stop(None).wait()


class TestACollector:
    async def test_gets_by_grpc_what_was_made_before_the_scheduler_stopped(
        self, collector: tuple[Collector, str]
    ) -> None:
        received, endpoint = collector
        config = TracingConfig(endpoint=endpoint, sampling_rate_per_million=1_000_000)
        tracer = make_tracer(config, "me")
        assert isinstance(tracer, OpenTelemetryTracer)
        scheduled(a_pod("p"), tracer=tracer)
        await tracer.close()
        (resource,) = (each for r in received.requests for each in r.resource_spans)
        about = {a.key: a.value.string_value for a in resource.resource.attributes}
        assert (about["service.name"], about["service.instance.id"]) == ("arranger", "me")
        names = {span.name for scope in resource.scope_spans for span in scope.spans}
        assert {"Scheduling", "Binding"} <= names


class TestTheConfiguration:
    def test_that_asks_for_traces_without_the_library_is_told_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(
            ConfigError, match=r"tracing: needs .*pip install 'arranger\[tracing\]'"
        ):
            make_tracer(ALL, "me")

    def test_with_an_environment_that_makes_no_sense_is_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
        with pytest.raises(ConfigError, match=r"tracing: cannot send to 'localhost:4317'.*soon"):
            make_tracer(ALL, "me")

    @pytest.mark.parametrize(
        "endpoint", ["localhost:4317", "otel-collector.monitoring:4317", "[::1]:4317"]
    )
    def test_takes_a_host_and_a_port(self, endpoint: str) -> None:
        config = Config.model_validate({"tracing": {"endpoint": endpoint}})
        assert config.tracing == TracingConfig(endpoint=endpoint)

    @pytest.mark.parametrize(
        ("wrong", "where"),
        [
            ({"endpoint": "http://collector:4317"}, "tracing.endpoint"),
            ({"endpoint": "collector"}, "tracing.endpoint"),
            ({"endpoint": ""}, "tracing.endpoint"),
            ({"samplingRatePerMillion": -1}, "tracing.samplingRatePerMillion"),
            ({"samplingRatePerMillion": 1_000_001}, "tracing.samplingRatePerMillion"),
            ({"sampling": 1}, "tracing.sampling"),
        ],
    )
    def test_refuses_the_rest_with_the_path_of_the_field(
        self, wrong: dict[str, object], where: str
    ) -> None:
        with pytest.raises(ValueError, match=where):
            Config.model_validate({"tracing": wrong})
