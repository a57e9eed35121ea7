"""Carrying effects out: bounded, bindings first, Events last, every outcome known.

Callers hand effects in with a callback and never wait; a set of workers executes them by priority,
as many at once as the server bears. kube-scheduler: ``backend/api_dispatcher``.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import assert_never

import structlog

from arranger.api import effects
from arranger.api.timestamps import utc_now
from arranger.kube.client.metrics import NULL_METRICS, MetricsRecorder
from arranger.kube.client.status import AnswerClass, classify
from arranger.kube.client.transport import RequestTransport, TransportError
from arranger.kube.events import EventRecorder, EventWrite
from arranger.kube.in_flight import beyond_counted
from arranger.kube.timed_wait import TICK
from arranger.kube.writes.binding import BindCall
from arranger.kube.writes.call import (
    ApiCall,
    CallContext,
    NotLeaderError,
    OutcomeCallback,
    Retry,
    ignore_outcome,
)
from arranger.kube.writes.call_queue import CallQueue
from arranger.kube.writes.concurrency_limiter import AimdLimiter
from arranger.kube.writes.pods import PodCallFactory
from arranger.kube.writes.resource_claims import ResourceClaimCall

log = structlog.get_logger(__name__)


_ByPath = effects.PatchObject | effects.CreateObject | effects.DeleteObject
_OfPod = effects.Bind | effects.PatchPodStatus | effects.DeletePod | effects.AnnotatePod
_OfClaim = effects.ReserveClaim | effects.ReleaseClaim
_Queued = _ByPath | _OfPod | _OfClaim
#: Work, and its number among what is in flight.
_Begun = tuple[ApiCall | EventWrite, int]


@dataclass(eq=False)
class ApiDispatcher:
    """Carries effects to the API server.

    Args:
        transport: where to; it should allow as many connections as
            :data:`~arranger.kube.writes.concurrency_limiter.MAX_LIMIT`.
        may_write: asked right before each write; while it says no, nothing is sent and effects
            end as ``Refused(0, "NotLeader")``.
        host: names this process in Events.
        rng: spreads retries.
        clock: the calendar, for time stamps.
        metrics: gets ``writes`` {kind, outcome}, ``write_seconds`` {kind} and ``events_dropped``.

    Each ``on_outcome`` is called at most once with Ambiguous and then once with a final outcome.
    What is in flight or ambiguous when the dispatcher is closed gets none: nobody knows it.
    """

    transport: RequestTransport
    _: KW_ONLY
    may_write: Callable[[], bool]
    host: str
    rng: random.Random
    clock: Callable[[], datetime] = utc_now
    metrics: MetricsRecorder = NULL_METRICS

    def __post_init__(self) -> None:
        rng, clock = self.rng, self.clock
        self._limiter = AimdLimiter()
        self._pod_calls = PodCallFactory(rng, clock)
        self._recorder = EventRecorder(self.host, rng=rng, clock=clock, metrics=self.metrics)
        self._context = CallContext(self.transport, self.may_write, self._limiter, self._now)
        self._queue = CallQueue()
        self._events_in_flight = 0
        #: Calls between two attempts, with the timer that queues them again.
        self._backing_off: dict[ApiCall, asyncio.TimerHandle] = {}
        #: Namespace → how many of them.
        self._failing: Counter[str] = Counter()
        self._idle_workers: list[asyncio.Future[_Begun]] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None
        self._events_timer: asyncio.TimerHandle | None = None
        self._slow_timer: asyncio.TimerHandle | None = None
        self._work_done = asyncio.Event()
        self._stop = asyncio.Event()
        self._draining = False

    async def run(self) -> None:
        """Work until :meth:`close`; raises what an ``on_outcome`` raises."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._start_work()
            await self._stop.wait()
            for worker in self._workers:
                worker.cancel()
        self._group = None

    def submit(self, effect: effects.Write, on_outcome: OutcomeCallback = ignore_outcome) -> None:
        """Queue ``effect``; ``on_outcome`` is called from the event loop, never for an Event.

        What cannot even be written down ends as refused, and so does what raises later.
        """
        try:
            self._submit(effect, on_outcome)
        except Exception as error:
            refused = _internal_error(error)
            if not isinstance(effect, effects.PublishEvent):
                on_outcome(refused)

    def _submit(self, effect: effects.Write, on_outcome: OutcomeCallback) -> None:
        match effect:
            case effects.PublishEvent():
                if not self._draining:
                    self._recorder.record(effect, self._now())
                    self._start_work()
            case effects.Bind():
                self._pod_calls.on_binding(effect.pod)
                self._enqueue(effect, BindCall(effect, on_outcome, self.rng))
            case effects.PatchPodStatus():
                call = self._pod_calls.patch_status(effect, on_outcome)
                if call is not None:
                    self._enqueue(effect, call)
            case effects.DeletePod():
                self._enqueue(effect, self._pod_calls.delete(effect, on_outcome))
            case effects.AnnotatePod():
                self._enqueue(effect, self._pod_calls.annotate(effect, on_outcome))
            case effects.PatchObject():
                self._enqueue(effect, self._pod_calls.patch_object(effect, on_outcome))
            case effects.CreateObject():
                self._enqueue(effect, self._pod_calls.create_object(effect, on_outcome))
            case effects.DeleteObject():
                self._enqueue(effect, self._pod_calls.delete_object(effect, on_outcome))
            case effects.ReserveClaim() | effects.ReleaseClaim():
                self._enqueue(effect, ResourceClaimCall(effect, on_outcome, self.rng))
            case _:
                assert_never(effect)

    @property
    def backlog(self) -> int:
        """Bindings, patches and deletes not settled yet, without Events."""
        busy = len(self._limiter.in_flight) - self._events_in_flight
        return len(self._queue) + len(self._backing_off) + busy

    @property
    def pressure(self) -> int:
        """The same, but of a namespace whose calls fail or are slow only a few count."""
        in_flight = self._limiter.in_flight
        in_flight.note_slow(self._now())
        if not self._failing and not in_flight.slow_namespaces:
            return self.backlog
        held_up = self._failing.copy()
        for namespace in in_flight.slow_namespaces:
            held_up[namespace] += in_flight.of(namespace) + self._queue.waiting_of(namespace)
        return self.backlog - beyond_counted(held_up.values())

    def next_slow(self) -> float | None:
        """When the next write in flight will count as slow, if it is not answered before."""
        return self._limiter.in_flight.next_slow()

    @property
    def limit(self) -> int:
        """Writes that may be in flight now."""
        return self._limiter.value

    async def drain(self, *, effects: float = 10.0, events: float = 5.0) -> bool:
        """Take nothing new, and wait (seconds each) for effects, then for Events.

        Returns:
            Whether all bindings, patches and deletes were settled.
        """
        self._draining = True
        settled = await self._wait_until(lambda: not self.backlog, effects)
        await self._wait_until(lambda: not self._events_in_flight and not self._recorder, events)
        return settled

    def close(self) -> None:
        """Stop at once: what was never sent ends as ``Refused(0, "Stopped")``; idempotent."""
        self._draining = True
        for timer in (*self._backing_off.values(), self._events_timer, self._slow_timer):
            if timer is not None:
                timer.cancel()
        unsent = [*self._queue.take_all(), *self._backing_off]
        self._backing_off.clear()
        self._failing.clear()
        self._stop.set()
        for call in unsent:
            if not call.ambiguous:
                call.on_outcome(effects.Refused(0, "Stopped"))

    def _enqueue(self, effect: _Queued, call: ApiCall) -> None:
        if self._draining:
            call.on_outcome(effects.Refused(0, "Stopped"))
            return
        call.submitted_at, call.namespace = self._now(), _namespace_of(effect)
        self._queue.push(call)
        self._start_work()

    def _requeue(self, call: ApiCall) -> None:
        del self._backing_off[call]
        self._failing[call.namespace] -= 1
        if not self._failing[call.namespace]:
            del self._failing[call.namespace]
        self._queue.push_front(call)
        self._start_work()

    def _start_work(self) -> None:
        """Give work to idle or new workers as far as the limit allows."""
        if self._group is None or self._stop.is_set():
            return
        while (work := self._next_work()) is not None:
            if self._idle_workers:
                self._idle_workers.pop().set_result(work)
            else:
                worker = self._group.create_task(self._run_worker(work), name="writer")
                self._workers.add(worker)
        self._arm_slow_timer()
        self._arm_event_timer()

    def _next_work(self) -> _Begun | None:
        """The work of highest priority, and its number in flight; ``None`` when none may start."""
        limiter, now = self._limiter, self._now()
        limiter.in_flight.note_slow(now)
        work: ApiCall | EventWrite | None = self._queue.pop(limiter.may_start)
        # Half the slots at most, so that a binding never finds all taken by Events.
        if work is None and self._events_in_flight < limiter.value // 2:
            work = self._recorder.next(limiter.may_start)
            self._events_in_flight += work is not None
        return None if work is None else (work, limiter.in_flight.begin(work.namespace, now))

    async def _run_worker(self, begun: _Begun) -> None:
        while True:
            work, number = begun
            try:
                if isinstance(work, EventWrite):
                    await self._send_event(work)
                else:
                    await self._execute(work)
            finally:
                self._limiter.in_flight.end(number)
                self._events_in_flight -= isinstance(work, EventWrite)
                self._work_done.set()
            following = self._next_work()
            if following is None:
                offer: asyncio.Future[_Begun] = asyncio.Future()
                self._idle_workers.append(offer)
                begun = await offer
            else:
                begun = following
                if not self._limiter.is_full:  # the limit has grown: one worker more may start
                    self._start_work()

    async def _execute(self, call: ApiCall) -> None:
        try:
            outcome = await call.execute(self._context)
        except Exception as error:
            outcome = _internal_error(error)
        if isinstance(outcome, Retry):
            self.metrics.increment("writes", 1, kind=call.call_type, outcome="again")
            loop = asyncio.get_running_loop()
            self._backing_off[call] = loop.call_later(outcome.delay, self._requeue, call)
            self._failing[call.namespace] += 1
            return
        label = "applied" if isinstance(outcome, effects.Applied) else "refused"
        self.metrics.increment("writes", 1, kind=call.call_type, outcome=label)
        self.metrics.observe("write_seconds", self._now() - call.submitted_at, kind=call.call_type)
        call.on_outcome(outcome)

    async def _send_event(self, write: EventWrite) -> None:
        request, status = (write.method, write.path, write.body, write.content_type), 0
        try:
            status = (await self._context.write(*request)).status
        except NotLeaderError:
            self._recorder.clear()
            return
        except TransportError:
            pass
        except Exception as error:
            _internal_error(error)
            status = 400  # it will not be better the next time
        self._recorder.on_answer(write, status, self._now())
        self._arm_event_timer()
        label = "applied" if classify(status) is AnswerClass.SUCCESS else str(status)
        self.metrics.increment("writes", 1, kind="event", outcome=label)

    def _arm_slow_timer(self) -> None:
        """What waits may start when what is in flight counts as slow."""
        due = self._limiter.in_flight.next_slow()
        if self._slow_timer is None and due is not None and (len(self._queue) or self._recorder):
            loop = asyncio.get_running_loop()
            self._slow_timer = loop.call_at(due + TICK, self._on_slow_timer)

    def _on_slow_timer(self) -> None:
        self._slow_timer = None
        self._start_work()

    def _arm_event_timer(self) -> None:
        due = self._recorder.next_due()
        if due == float("inf"):
            return
        if self._events_timer is not None:
            if self._events_timer.when() <= due + TICK:
                return
            self._events_timer.cancel()
        self._events_timer = asyncio.get_running_loop().call_at(due + TICK, self._on_event_timer)

    def _on_event_timer(self) -> None:
        self._events_timer = None
        self._recorder.tick(self._now())
        self._start_work()

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._work_done.clear()
                    await self._work_done.wait()
        except TimeoutError:
            return False
        return True

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _namespace_of(effect: _Queued) -> str:
    """The namespace that an effect is for; "" for what is in none."""
    if isinstance(effect, _ByPath):
        return effect.path.partition("/namespaces/")[2].partition("/")[0]
    return (effect.claim if isinstance(effect, _OfClaim) else effect.pod).namespace


def _internal_error(error: Exception) -> effects.Refused:
    frames = "".join(traceback.format_exception(error, limit=-16, chain=False))
    log.error("dispatcher.internal_error", frames=frames)
    return effects.Refused(0, "InternalError", f"an internal error: {type(error).__name__}")
