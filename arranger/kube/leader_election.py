"""Leader election on a coordination.k8s.io/v1 Lease, judged by the local monotonic clock only.

The rules are client-go's (``tools/leaderelection``): a lease counts as held for its duration after
we last *saw it change*, whatever its time stamps say, so clock skew cannot make two leaders. Three
things are stricter here. The renewal counts from when its request was sent, not from when the
answer came. :meth:`LeaderElection.is_leader` is computed from the clock at each call, so it turns
false at the very moment a renewal is late, even if no task of ours gets to run. And an event loop
that stalled must renew once before it may write again.

No fencing token exists for Bindings, so as in client-go two leaders are not impossible, only
confined: a write may outlast leadership by its own time-out at most, which is kept at lease
duration minus renew deadline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Final

import structlog

from arranger.api.parsing.errors import ParseError
from arranger.api.timestamps import micro_time, utc_now
from arranger.kube.client.metrics import NULL_METRICS, MetricsRecorder
from arranger.kube.client.problems import (
    IGNORE_PROBLEMS,
    Problem,
    ProblemKind,
    ProblemReporter,
    problem_of_answer,
)
from arranger.kube.client.status import parse_status
from arranger.kube.client.transport import Request, RequestTransport, Response, TransportError
from arranger.kube.lease import Lease, LeaseMeta, LeaseSpec, decode_lease, encode_lease

log = structlog.get_logger(__name__)

#: What problems are reported of.
_SOURCE: Final = "lease"


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """Which lease, who we are, and the three times (seconds).

    Raises:
        ValueError: not lease duration > renew deadline > 1.2 × retry period > 0.
    """

    namespace: str
    name: str
    #: Unique per process: host name and a random part.
    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > 1.2 * self.retry_period > 0:
            raise ValueError(
                "lease_duration > renew_deadline > 1.2 × retry_period > 0 does not hold: "
                f"{self.lease_duration}, {self.renew_deadline}, {self.retry_period}"
            )


@dataclass(eq=False)
class LeaderElection:
    """Takes and keeps one lease.

    Args:
        transport: where to; every call on it is bounded.
        on_started: called with the epoch once we lead.
        on_stopped: called once we lead no more.
        on_recovered: called when we may write again after a stall of the event loop.
        clock: the calendar, for the time stamps that people read.
        metrics: gets ``leader`` {lease} and ``loop_stalls``.
        problems: hears whether the lease can be read and written.

    The order for a graceful end: stop work, drain the writer, cancel :meth:`run`, then
    :meth:`release`, so that the next leader starts at once and never beside our last write.
    """

    transport: RequestTransport
    config: LeaseConfig
    _: KW_ONLY
    rng: random.Random
    on_started: Callable[[int], None] = lambda _epoch: None
    on_stopped: Callable[[], None] = lambda: None
    on_recovered: Callable[[], None] = lambda: None
    clock: Callable[[], datetime] = utc_now
    metrics: MetricsRecorder = NULL_METRICS
    problems: ProblemReporter = IGNORE_PROBLEMS

    def __post_init__(self) -> None:
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{self.config.namespace}/leases"
        self._path = f"{self._collection}/{self.config.name}"
        #: The lease as last observed, and when we last saw its spec change.
        self._observed: Lease | None = None
        self._observed_at = float("-inf")
        #: When the request that last renewed the lease was sent.
        self._renewed_at = float("-inf")
        self._leading = False
        self._last_heartbeat = float("-inf")
        self._stalled = False
        self._stalled_at = float("-inf")
        self._renew_now = asyncio.Event()
        #: What was wrong with the last try to read or write the lease; "" for nothing.
        self._trouble = "not read yet"
        #: The other holder that was told of last.
        self._told_holder: str | None = None

    @property
    def epoch(self) -> int:
        """``leaseTransitions`` of the lease as last seen: grows with every change of leader."""
        return (self._observed.spec.lease_transitions or 0) if self._observed else 0

    @property
    def holder(self) -> str:
        """Who holds the lease, as last seen; empty for nobody."""
        return (self._observed.spec.holder_identity or "") if self._observed else ""

    def is_leader(self) -> bool:
        """Whether we may write right now; cheap, and never true when the renewal is late."""
        if not self._leading:
            return False
        now = self._now()
        # The beat is late: the loop was stuck, and what was decided before may be outdated.
        if now - self._last_heartbeat > self._stall_limit():
            self._note_stall()
        return not self._stalled and now < self._renewed_at + self.config.renew_deadline

    def leads_at(self, now: float) -> bool:
        """The same at a time of the monotonic clock, for whoever is in another thread."""
        in_time = now - self._last_heartbeat <= self._stall_limit()
        renewed = now < self._renewed_at + self.config.renew_deadline
        return self._leading and not self._stalled and in_time and renewed

    def readiness_error(self) -> str | None:
        """Why we can neither lead nor stand by, if so: a standby must be able to take over."""
        if self._leading:
            if self._stalled:
                return "the event loop stood still: the lease has to be renewed before all else"
            return None if self.is_leader() else "the lease was not renewed in time"
        return f"lease {self._lease_name}: {self._trouble}" if self._trouble else None

    async def run(self) -> None:
        """Wait for leadership, keep it, and return once it is lost.

        To compete again, call it again; a caller who trusts no state from before exits instead.
        """
        await self._acquire()
        self._last_heartbeat = self._now()
        self._stalled = False
        self._leading = True
        heartbeat = asyncio.create_task(self._heartbeat(), name="leader-heartbeat")
        self.metrics.set_gauge("leader", 1, lease=self.config.name)
        names = {"lease": self._lease_name, "identity": self.config.identity}
        log.info("lease.acquired", **names, epoch=self.epoch)
        self._told_holder = None
        try:
            self.on_started(self.epoch)
            await self._renew_until_lost()
            log.warning("lease.lost", **names, holder=self.holder)
        finally:
            self._leading = False
            heartbeat.cancel()
            self.metrics.set_gauge("leader", 0, lease=self.config.name)
            self.on_stopped()

    async def release(self) -> bool:
        """Give the lease up after all work has stopped; whether the server agreed.

        Does nothing when the lease, as last seen, is not ours. Bounded by the retry period.
        """
        observed = self._observed
        if self._leading or observed is None or self.holder != self.config.identity:
            return False
        stamp = micro_time(self.clock())
        spec = LeaseSpec("", 1, stamp, stamp, observed.spec.lease_transitions)
        body = encode_lease(Lease(observed.metadata, spec))
        try:
            answer = await self._request("PUT", self._path, body, self.config.retry_period)
        except TransportError as error:
            log.warning("lease.release_failed", error=str(error))
            return False
        if answer.status != 200:
            log.warning("lease.release_failed", error=str(_unexpected_answer(answer)))
            return False
        self._observe(answer)
        log.info("lease.released", lease=self._lease_name, identity=self.config.identity)
        return True

    async def _acquire(self) -> None:
        config = self.config
        while True:
            try:
                acquired = await self._try_acquire()
            except TransportError as error:
                self._note_failure(error)
            else:
                self._note_success()
                if acquired:
                    return
                self._tell_holder()
            # As upstream, jitter only lengthens the period.
            await asyncio.sleep(config.retry_period * self.rng.uniform(1.0, 2.2))

    async def _try_acquire(self) -> bool:
        """Read the lease, and try once to take it if it is free; raises TransportError."""
        if not await self._get_lease(self.config.renew_deadline):
            return await self._create_lease()
        assert self._observed is not None
        spec = self._observed.spec
        if self.holder == self.config.identity:
            # Ours by a write whose answer was lost: renewing it also proves that.
            return await self._renew()
        duration = spec.lease_duration_seconds or 0
        if self.holder and self._now() < self._observed_at + duration:
            return False
        transitions = (spec.lease_transitions or 0) + 1
        return await self._replace_lease(transitions, None)

    async def _renew_until_lost(self) -> None:
        config = self.config
        attempted_at = self._renewed_at
        while True:
            self._renew_now.clear()
            deadline = self._renewed_at + config.renew_deadline
            # From the start of the last try, so that slow answers do not make renewals rarer.
            wait = min(attempted_at + config.retry_period, deadline) - self._now()
            if wait > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._renew_now.wait(), wait)
            if self._now() >= deadline:
                log.warning("lease.renewal_late", deadline=config.renew_deadline)
                return
            attempted_at = self._now()
            try:
                if not await self._renew() and self.holder != config.identity:
                    return
            except TransportError as error:
                self._note_failure(error)
            else:
                self._note_success()

    async def _renew(self) -> bool:
        """Write our record over the one observed; on a conflict read who holds the lease.

        Returns:
            Whether it was renewed. When not, :attr:`holder` says whether to try again.
        """
        if self._observed is None:
            return await self._create_lease()
        spec = self._observed.spec
        if await self._replace_lease(spec.lease_transitions or 0, spec.acquire_time):
            return True
        # Either somebody took it, or an earlier renewal of ours did arrive after all.
        if await self._get_lease(self._attempt_timeout()):
            if self.holder == self.config.identity:
                self._renew_now.set()
            return False
        # Deleted by hand, so nobody else holds it: create it anew.
        return await self._create_lease()

    async def _create_lease(self) -> bool:
        """Create the lease; false when somebody else was faster. Raises TransportError."""
        meta = LeaseMeta(self.config.name, self.config.namespace)
        return await self._write("POST", self._collection, meta, 0, None)

    async def _replace_lease(self, transitions: int, acquired: str | None) -> bool:
        assert self._observed is not None
        return await self._write("PUT", self._path, self._observed.metadata, transitions, acquired)

    async def _write(
        self, method: str, path: str, meta: LeaseMeta, transitions: int, acquired: str | None
    ) -> bool:
        """Write the lease in our name; whether the server agreed."""
        stamp, duration = micro_time(self.clock()), max(1, int(self.config.lease_duration))
        spec = LeaseSpec(self.config.identity, duration, acquired or stamp, stamp, transitions)
        body, sent = encode_lease(Lease(meta, spec)), self._now()
        answer = await self._request(method, path, body, self._attempt_timeout())
        if answer.status == 404 and method == "POST":
            # Nothing but the namespace can be missing where something is created.
            what = "the namespace of the lease does not exist"
            problem = Problem(ProblemKind.NAMESPACE_MISSING, what, self.config.namespace)
            raise TransportError(str(problem), problem)
        if answer.status not in (200, 201):
            if answer.status not in (404, 409):
                raise _unexpected_answer(answer)
            return False
        self._observe(answer)
        self._renewed_at = sent
        if self._stalled and sent >= self._stalled_at:
            # Sent after the stall and accepted: nobody has taken the lease meanwhile.
            self._stalled = False
            self.on_recovered()
        return True

    async def _get_lease(self, timeout: float) -> bool:
        """Read the lease; false when there is none. Raises TransportError."""
        answer = await self._request("GET", self._path, b"", timeout)
        if answer.status == 404:
            self._observed = None
            return False
        if answer.status != 200:
            raise _unexpected_answer(answer)
        self._observe(answer)
        return True

    def _note_failure(self, error: TransportError) -> None:
        self._trouble = str(error.problem)
        self.problems.failed(_SOURCE, error.problem)

    def _note_success(self) -> None:
        self._trouble = ""
        self.problems.succeeded(_SOURCE)

    def _tell_holder(self) -> None:
        if self.holder and self.holder != self._told_holder:
            self._told_holder = self.holder
            log.info("lease.standing_by", lease=self._lease_name, holder=self.holder)

    @property
    def _lease_name(self) -> str:
        return f"{self.config.namespace}/{self.config.name}"

    def _observe(self, answer: Response) -> None:
        try:
            lease = decode_lease(answer.body)
        except ParseError as error:
            raise TransportError(f"not a lease: {error}") from error
        if self._observed is None or lease.spec != self._observed.spec:
            self._observed_at = self._now()
        self._observed = lease

    async def _request(self, method: str, path: str, body: bytes, timeout: float) -> Response:
        # A second bound beside the transport's: a call that hangs would cost the lease.
        try:
            async with asyncio.timeout(timeout):
                return await self.transport.send(Request(method, path, body=body, timeout=timeout))
        except TimeoutError as error:
            raise TransportError("timed out") from error

    def _attempt_timeout(self) -> float:
        # Half the deadline, so that one call that hangs does not yet cost the lease.
        half = self.config.renew_deadline / 2
        if not self._leading:
            return half
        left = self._renewed_at + self.config.renew_deadline - self._now()
        return max(0.01, min(half, left))

    async def _heartbeat(self) -> None:
        """Notice when the event loop stands still: each beat must come in time."""
        pause = self._stall_limit() / 4
        while True:
            await asyncio.sleep(pause)
            now = self._now()
            if now - self._last_heartbeat > self._stall_limit():
                self._note_stall()
            self._last_heartbeat = now

    def _note_stall(self) -> None:
        if not self._stalled:
            self._stalled = True
            self._stalled_at = self._now()
            self.metrics.increment("loop_stalls", 1)
            log.warning("lease.loop_stalled", limit=self._stall_limit())
        self._renew_now.set()

    def _stall_limit(self) -> float:
        return self.config.renew_deadline / 3

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _unexpected_answer(answer: Response) -> TransportError:
    status = parse_status(answer.body, answer.status)
    problem = problem_of_answer(answer.status, status.message or status.reason)
    return TransportError(str(problem), problem)
