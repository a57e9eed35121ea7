"""A write as it waits, is tried and tried again; and the wire it is tried on."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arranger.api.effects import Ambiguous, Outcome
from arranger.kube.client.backoff import Backoff
from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    Response,
    Transport,
    TransportError,
)
from arranger.kube.writes.call_queue import CallPriority
from arranger.kube.writes.concurrency_limiter import AimdLimiter

#: Called with each outcome: at most once with Ambiguous, and then with the final one.
OutcomeCallback = Callable[[Outcome], None]

#: Seconds for one attempt: lease duration minus renew deadline, so that a write sent just before
#: our leadership became doubtful has ended before somebody else may lead.
ATTEMPT_TIMEOUT: Final = 5.0
#: Seconds after the first attempt at which a write that is known not to have happened is given up.
RETRY_DEADLINE: Final = 30.0


class NotLeaderError(Exception):
    """Nothing was sent, because we may not write now."""


@dataclass(frozen=True, slots=True)
class Retry:
    """No final answer yet: try once more after ``delay`` seconds."""

    delay: float


class CallContext:
    """The transport as jobs use it: leader check before each write, feedback to the limit."""

    def __init__(
        self,
        transport: Transport,
        *,
        may_write: Callable[[], bool],
        limiter: AimdLimiter,
        now: Callable[[], float],
        in_flight: Callable[[], int],
    ) -> None:
        self._transport = transport
        self._may_write = may_write
        self._limiter = limiter
        self._in_flight = in_flight
        self.now = now

    async def read(self, path: str, accept: str = "application/json") -> Response:
        """GET ``path``; raises as :meth:`Transport.send`."""
        return await self._send(Request("GET", path, accept=accept, timeout=ATTEMPT_TIMEOUT))

    async def write(
        self, method: str, path: str, body: bytes, content_type: str = "application/json"
    ) -> Response:
        """Send one write.

        Raises:
            NotLeaderError: we may not write; nothing was sent.
            RefusedConnectionError, TransportError: as :meth:`Transport.send`.
        """
        if not self._may_write():
            raise NotLeaderError
        return await self._send(
            Request(method, path, body=body, content_type=content_type, timeout=ATTEMPT_TIMEOUT)
        )

    async def _send(self, request: Request) -> Response:
        try:
            answer = await self._transport.send(request)
        except RefusedConnectionError:
            raise
        except TransportError:
            self._limiter.on_congestion(self.now())
            raise
        if answer.status == 429 or answer.status >= 500:
            self._limiter.on_congestion(self.now())
        else:
            self._limiter.on_success(self._in_flight())
        return answer


class ApiCall(ABC):
    """One effect on its way; :meth:`attempt` is called until it gives an outcome."""

    #: The metric label.
    call_type: str
    priority: CallPriority = CallPriority.NORMAL

    def __init__(self, on_outcome: OutcomeCallback, rng: random.Random) -> None:
        self.on_outcome = on_outcome
        self.ambiguous = False
        self.submitted_at = 0.0
        self._deadline: float | None = None
        self._backoff = Backoff(rng, first=0.25, limit=10.0)

    @abstractmethod
    async def execute(self, context: CallContext) -> Outcome | Retry:
        """Try once; never raises TransportError."""

    def mark_ambiguous(self, reason: str) -> Retry:
        """The server may have done it: say so once, and try again."""
        if not self.ambiguous:
            self.ambiguous = True
            self.on_outcome(Ambiguous(reason))
        return Retry(self._backoff.next_delay())

    def retry(self, now: float, refusal: Outcome, *, at_least: float = 0.0) -> Outcome | Retry:
        """It was not done: try again until the deadline, then end with ``refusal``.

        A doubtful job has no deadline: what an earlier attempt did is still unknown.
        """
        if self._deadline is None:
            self._deadline = now + RETRY_DEADLINE
        delay = max(at_least, self._backoff.next_delay())
        if not self.ambiguous and now + delay > self._deadline:
            return refusal
        return Retry(delay)
