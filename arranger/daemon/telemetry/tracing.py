"""Traces of scheduling attempts for OpenTelemetry, where the configuration asks for them.

Spans are sent in batches, by a thread of its own and from a bounded queue: a collector that is
slow, or not there, costs spans and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from arranger import __version__
from arranger.api.printable import printable
from arranger.api.tracing import NO_TRACER, AttemptAttributes, Tracer
from arranger.api.types.core import Pod
from arranger.daemon.config.schema import ConfigError, TracingConfig

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, SpanContext

log = logging.getLogger(__name__)

#: Steps of one attempt that are told: that of a large gang has as many as it has members.
MAX_STEPS: Final = 64
#: Pods whose binding is awaited, and bindings on their way, that are remembered.
MAX_BINDINGS: Final = 4096
#: Characters of a value.
MAX_VALUE: Final = 1024
#: Seconds that what is still to be sent may take when the scheduler stops.
CLOSE_SECONDS: Final = 3.0

#: The worst result of an attempt's pods is that of the attempt.
_SEVERITY: Final = {"scheduled": 0, "unschedulable": 1, "error": 2}

P = ParamSpec("P")


def _harmless(method: Callable[P, None]) -> Callable[P, None]:
    """What a library for traces raises must not be taken for a fault of the pod being tried."""

    @wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:
            log.warning("a trace is incomplete: %s: %s", type(error).__name__, error)

    return guarded


@dataclass(slots=True)
class _Attempt:
    """The attempt that is being made; without a span nobody follows it."""

    span: Span | None = None
    context: Any = None
    step: Span | None = None
    steps: int = 0
    in_long_step: bool = False
    node: str = ""
    counts: dict[str, int] = field(default_factory=dict)


class OpenTelemetryTracer:
    """Makes a trace of an attempt: a span ``Scheduling``, its steps, and the bindings it led to.

    Args:
        provider: where spans go, and which attempts are followed.
    """

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context

        self._trace = trace
        self._provider = provider
        self._tracer = provider.get_tracer("arranger", __version__)
        self._no_parent = Context()
        self._attempt: _Attempt | None = None
        #: Uid → the trace of the attempt that placed the pod.
        self._placed: OrderedDict[str, SpanContext] = OrderedDict()
        self._bindings: OrderedDict[str, Span] = OrderedDict()

    @contextmanager
    def attempt(self, describe: Callable[[], AttemptAttributes]) -> Iterator[None]:
        """One attempt is made inside."""
        attempt = self._attempt = _Attempt()
        self._begin(attempt, describe)
        try:
            yield
        except BaseException as error:
            self._fail(attempt, error)
            raise
        finally:
            self._attempt = None
            self._end(attempt)

    @_harmless
    def _begin(self, attempt: _Attempt, describe: Callable[[], AttemptAttributes]) -> None:
        span = self._tracer.start_span("Scheduling", self._no_parent)
        if span.is_recording():
            span.set_attributes({name: _clean(value) for name, value in describe().items()})
            attempt.context = self._trace.set_span_in_context(span, self._no_parent)
            attempt.span = span

    @_harmless
    def _fail(self, attempt: _Attempt, error: BaseException) -> None:
        attempt.counts["error"] = 1
        if attempt.span is not None:
            attempt.span.set_attribute("reason", _clean(f"{type(error).__name__}: {error}"))

    @_harmless
    def _end(self, attempt: _Attempt) -> None:
        span = attempt.span
        if span is None:
            return
        if attempt.step is not None:
            attempt.step.end()
        counts = attempt.counts
        if counts:
            span.set_attribute("result", max(counts, key=lambda each: _SEVERITY.get(each, 2)))
        if sum(counts.values()) > 1:
            span.set_attributes(counts)
        elif attempt.node:
            span.set_attribute("node", _clean(attempt.node))
        if "error" in counts:
            span.set_status(self._trace.StatusCode.ERROR)
        if attempt.steps > MAX_STEPS:
            span.set_attribute("steps_left_out", attempt.steps - MAX_STEPS)
        span.end()

    @_harmless
    def step(self, name: str) -> None:
        """The present attempt begins a step, and ends the one before."""
        attempt = self._attempt
        if attempt is None or attempt.span is None or attempt.in_long_step:
            return
        if attempt.step is not None:
            attempt.step.end()
            attempt.step = None
        if name:
            attempt.steps += 1
            if attempt.steps <= MAX_STEPS:
                attempt.step = self._tracer.start_span(name, attempt.context)

    @contextmanager
    def long_step(self, name: str) -> Iterator[None]:
        """One step of the present attempt passes inside, and what it is made of is not told."""
        attempt = self._attempt or _Attempt()
        self.step(name)
        before, attempt.in_long_step = attempt.in_long_step, True
        try:
            yield
        finally:
            attempt.in_long_step = before
            self.step("")

    @_harmless
    def record_result(self, pod: Pod, node: str, result: str, reason: str) -> None:
        """The present attempt has ended for a pod."""
        attempt, uid = self._attempt, pod.metadata.uid
        self._placed.pop(uid, None)
        if attempt is None or attempt.span is None:
            return
        attempt.counts[result] = attempt.counts.get(result, 0) + 1
        attempt.node = node
        if reason:
            attempt.span.set_attribute("reason", _clean(reason))
        if result == "scheduled":
            self._placed[uid] = attempt.span.get_span_context()
            if len(self._placed) > MAX_BINDINGS:
                self._placed.popitem(last=False)

    @_harmless
    def begin_binding(self, pod: Pod, node: str) -> None:
        """What has to be written for a placed pod is about to be."""
        metadata = pod.metadata
        placed = self._placed.pop(metadata.uid, None)
        if placed is None:
            return
        parent = self._trace.set_span_in_context(
            self._trace.NonRecordingSpan(placed), self._no_parent
        )
        about = {"pod": metadata.name, "namespace": metadata.namespace, "node": node}
        span = self._tracer.start_span("Binding", parent)
        span.set_attributes({name: _clean(value) for name, value in about.items()})
        self._bindings[metadata.uid] = span
        if len(self._bindings) > MAX_BINDINGS:
            self._bindings.popitem(last=False)

    @_harmless
    def mark_binding(self, pod: Pod, event: str) -> None:
        """The binding of a pod has come so far."""
        if (span := self._bindings.get(pod.metadata.uid)) is not None:
            span.add_event(event)

    @_harmless
    def end_binding(self, pod: Pod, result: str, reason: str = "") -> None:
        """The binding of a pod, if one is on its way, has ended."""
        span = self._bindings.pop(pod.metadata.uid, None)
        if span is None:
            return
        span.set_attribute("result", result)
        if reason:
            span.set_attribute("reason", _clean(reason))
        if result == "error":
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()

    async def close(self) -> None:
        """Send what is left, if that can be done soon."""
        closing = Thread(target=self._provider.shutdown, name="close-tracing", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSE_SECONDS)


@contextmanager
def _config_errors(config: TracingConfig) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            "tracing: needs OpenTelemetry, which is not installed here"
            f" (pip install 'arranger[tracing]'): {error}"
        ) from error
    except Exception as error:  # of what its variables of the environment say, mostly
        raise ConfigError(f"tracing: cannot send to {config.endpoint!r}: {error}") from error


def make_tracer(config: TracingConfig | None, identity: str) -> Tracer:
    """The tracer that a configuration asks for; by default one that follows nothing.

    Raises:
        ConfigError: OpenTelemetry is not installed, or cannot be used as it is set up.
    """
    if config is None or not config.sampling_rate_per_million:
        return NO_TRACER
    with _config_errors(config):
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = OTLPSpanExporter(endpoint=config.endpoint, insecure=True)
        provider = make_provider(config, identity)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        return OpenTelemetryTracer(provider)


def make_provider(config: TracingConfig, identity: str) -> TracerProvider:
    """What makes spans, of as many attempts as the configuration wants; they go nowhere yet."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    about = {
        "service.name": "arranger",
        "service.version": __version__,
        "service.instance.id": identity,
    }
    return TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(config.sampling_rate_per_million / 1e6)),
        resource=Resource.create(about),
        span_limits=SpanLimits(max_span_attribute_length=MAX_VALUE),
        shutdown_on_exit=False,  # it would wait for the collector
    )


def _clean(value: str | int) -> str | int:
    """A value as it may be sent: halves of characters would cost the whole batch."""
    return printable(value[:MAX_VALUE]) if isinstance(value, str) else value
