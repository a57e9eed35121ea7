"""Carrying effects out: bounded, bindings first, Events last, every outcome known.

One :class:`Writer` per process. Callers hand effects in with a callback and never wait; a set of
workers takes them in order of urgency, as many at once as the server stands.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import datetime
from typing import Final, assert_never

from arranger.api.effects import (
    AnnotatePod,
    Applied,
    Bind,
    DeletePod,
    Outcome,
    PatchObject,
    PatchPodStatus,
    PublishEvent,
    Refused,
    ReleaseClaim,
    ReserveClaim,
    Write,
)
from arranger.kube.client.metrics import Meter, SilentMeter
from arranger.kube.client.timestamps import utc_now
from arranger.kube.client.transport import Transport, TransportError
from arranger.kube.events import EventRecorder, EventWrite
from arranger.kube.writes.binding import BindJob
from arranger.kube.writes.call import Again, Done, Job, NotLeaderError, Wire
from arranger.kube.writes.call_queue import Lines
from arranger.kube.writes.concurrency_limiter import AdaptiveLimit
from arranger.kube.writes.pods import MERGE_PATCH, IdempotentJob, PodWrites, Step
from arranger.kube.writes.resource_claims import ClaimJob

#: Seconds; more than the resolution of any event loop's clock.
TICK: Final = 1e-6


def ignore(outcome: Outcome) -> None:
    """For effects whose outcome nobody needs."""


class Writer:
    """Carries effects to the API server.

    Args:
        transport: where to; a pooled one should allow as many connections as ``limit.CEILING``.
        may_write: asked right before each write; while it says no, nothing is sent and effects
            end as ``Refused(0, "NotLeader")``.
        host: names this process in Events.
        rng: spreads retries.
        wall: the calendar clock for time stamps.
        meter: gets ``writes`` {kind, outcome}, ``write_seconds`` {kind} and ``events_dropped``.

    Each ``done`` is called at most once with Ambiguous and then once with a final outcome. What
    is in flight or doubtful when the writer is closed gets no final outcome: nobody knows it.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        may_write: Callable[[], bool],
        host: str,
        rng: random.Random,
        wall: Callable[[], datetime] = utc_now,
        meter: Meter | None = None,
    ) -> None:
        self._meter = meter or SilentMeter()
        self._rng = rng
        self._limit = AdaptiveLimit()
        self._pod_writes = PodWrites(rng=rng, wall=wall)
        self._events = EventRecorder(host, rng=rng, wall=wall, meter=self._meter)
        self._wire = Wire(
            transport,
            may_write=may_write,
            limit=self._limit,
            now=self._now,
            in_flight=lambda: self._in_flight,
        )
        self._lines = Lines()
        self._in_flight = 0
        self._events_in_flight = 0
        #: Jobs between two attempts, with the timer that brings them back.
        self._waiting: dict[Job, asyncio.TimerHandle] = {}
        self._idle: list[asyncio.Future[Job | EventWrite]] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None
        self._events_timer: asyncio.TimerHandle | None = None
        self._settled = asyncio.Event()
        self._stop = asyncio.Event()
        self._refusing = False

    async def run(self) -> None:
        """Work until :meth:`close`; raises what a ``done`` callback raises."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._dispatch()
            await self._stop.wait()
            for worker in self._workers:
                worker.cancel()
        self._group = None

    def submit(self, effect: Write, done: Done = ignore) -> None:
        """Queue ``effect``; ``done`` is called from the event loop, never for an Event."""
        match effect:
            case PublishEvent():
                if not self._refusing:
                    self._events.record(effect, self._now())
                    self._dispatch()
            case Bind():
                self._pod_writes.binding(effect.pod)
                self._enqueue(BindJob(effect, done, self._rng))
            case PatchPodStatus():
                job = self._pod_writes.patch_status(effect, done)
                if job is not None:
                    self._enqueue(job)
            case DeletePod():
                self._enqueue(self._pod_writes.delete(effect, done))
            case AnnotatePod():
                self._enqueue(self._pod_writes.annotate(effect, done))
            case PatchObject():
                self._enqueue(self._pod_writes.patch_object(effect, done))
            case ReserveClaim() | ReleaseClaim():
                self._enqueue(ClaimJob(effect, done, self._rng))
            case _:
                assert_never(effect)

    def patch(
        self, path: str, body: bytes, done: Done = ignore, *, content_type: str = MERGE_PATCH
    ) -> None:
        """Queue a patch of any object, ``…/status`` of a custom resource for example."""
        steps = [Step("PATCH", path, body, content_type)]
        self._enqueue(IdempotentJob("patch", steps, done, self._rng))

    @property
    def backlog(self) -> int:
        """Bindings, patches and deletes not settled yet, without Events."""
        busy = self._in_flight - self._events_in_flight
        return len(self._lines) + len(self._waiting) + busy

    @property
    def limit(self) -> int:
        """Writes that may be in flight now."""
        return self._limit.value

    async def drain(self, *, effects: float = 10.0, events: float = 5.0) -> bool:
        """Take nothing new, and wait (seconds each) for effects, then for Events.

        Returns:
            Whether all bindings, patches and deletes were settled.
        """
        self._refusing = True
        settled = await self._until(lambda: not self.backlog, effects)
        await self._until(lambda: not self._events_in_flight and not len(self._events), events)
        return settled

    def close(self) -> None:
        """Stop at once: what was never sent ends as ``Refused(0, "Stopped")``; idempotent."""
        self._refusing = True
        waiting = [job for job in self._waiting if not job.doubtful]
        for timer in self._waiting.values():
            timer.cancel()
        if self._events_timer is not None:
            self._events_timer.cancel()
        unsent = [*self._lines.clear(), *waiting]
        self._waiting.clear()
        self._stop.set()
        for job in unsent:
            if not job.doubtful:
                job.done(Refused(0, "Stopped"))

    def _enqueue(self, job: Job) -> None:
        if self._refusing:
            job.done(Refused(0, "Stopped"))
            return
        job.submitted = self._now()
        self._lines.join(job)
        self._dispatch()

    def _requeue(self, job: Job) -> None:
        del self._waiting[job]
        self._lines.join_in_front(job)
        self._dispatch()

    def _dispatch(self) -> None:
        """Give work to idle or new workers as far as the limit allows."""
        if self._group is None or self._stop.is_set():
            return
        while (work := self._take()) is not None:
            if self._idle:
                self._idle.pop().set_result(work)
            else:
                worker = self._group.create_task(self._work(work), name="writer")
                self._workers.add(worker)
        self._arm_events()

    def _take(self) -> Job | EventWrite | None:
        """The most urgent piece of work, counted as in flight; ``None`` when none may start."""
        if self._in_flight >= self._limit.value:
            return None
        work: Job | EventWrite | None = self._lines.next()
        # Half the slots at most, so that a binding never finds all taken by Events.
        if work is None and self._events_in_flight < self._limit.value // 2:
            work = self._events.next()
            self._events_in_flight += work is not None
        self._in_flight += work is not None
        return work

    async def _work(self, work: Job | EventWrite) -> None:
        while True:
            try:
                if isinstance(work, EventWrite):
                    await self._publish(work)
                else:
                    await self._perform(work)
            finally:
                self._in_flight -= 1
                self._events_in_flight -= isinstance(work, EventWrite)
                self._settled.set()
            following = self._take()
            if following is None:
                offer: asyncio.Future[Job | EventWrite] = asyncio.Future()
                self._idle.append(offer)
                following = await offer
            elif self._in_flight < self._limit.value:
                # The limit has grown: one worker more may start.
                self._dispatch()
            work = following

    async def _perform(self, job: Job) -> None:
        outcome = await job.attempt(self._wire)
        if isinstance(outcome, Again):
            self._meter.count("writes", 1, kind=job.kind, outcome="again")
            loop = asyncio.get_running_loop()
            self._waiting[job] = loop.call_later(outcome.delay, self._requeue, job)
            return
        label = "applied" if isinstance(outcome, Applied) else "refused"
        self._meter.count("writes", 1, kind=job.kind, outcome=label)
        self._meter.observe("write_seconds", self._now() - job.submitted, kind=job.kind)
        job.done(outcome)

    async def _publish(self, write: EventWrite) -> None:
        status = 0
        try:
            answer = await self._wire.write(
                write.method, write.path, write.body, write.content_type
            )
            status = answer.status
        except NotLeaderError:
            self._events.clear()
            return
        except TransportError:
            pass
        self._events.answered(write, status, self._now())
        self._arm_events()
        label = "applied" if 200 <= status < 300 else str(status)
        self._meter.count("writes", 1, kind="event", outcome=label)

    def _arm_events(self) -> None:
        due = self._events.due()
        if due == float("inf"):
            return
        if self._events_timer is not None:
            if self._events_timer.when() <= due + TICK:
                return
            self._events_timer.cancel()
        # A hair late: a loop may fire early by its resolution, and nothing would be due yet.
        self._events_timer = asyncio.get_running_loop().call_at(due + TICK, self._tick_events)

    def _tick_events(self) -> None:
        self._events_timer = None
        self._events.tick(self._now())
        self._dispatch()

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            return False
        return True

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
