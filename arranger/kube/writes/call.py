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
    Response,
    Transport,
    TransportError,
)
from arranger.kube.writes.call_queue import Urgency
from arranger.kube.writes.concurrency_limiter import AdaptiveLimit

#: Called with each outcome: at most once with Ambiguous, and then with the final one.
Done = Callable[[Outcome], None]

#: Seconds for one attempt: lease duration minus renew deadline, so that a write sent just before
#: our leadership became doubtful has ended before somebody else may lead.
ATTEMPT_TIMEOUT: Final = 5.0
#: Seconds after the first attempt at which a write that is known not to have happened is given up.
DEADLINE: Final = 30.0


class NotLeaderError(Exception):
    """Nothing was sent, because we may not write now."""


@dataclass(frozen=True, slots=True)
class Again:
    """No final answer yet: try once more after ``delay`` seconds."""

    delay: float


class Wire:
    """The transport as jobs use it: leader check before each write, feedback to the limit."""

    def __init__(
        self,
        transport: Transport,
        *,
        may_write: Callable[[], bool],
        limit: AdaptiveLimit,
        now: Callable[[], float],
        in_flight: Callable[[], int],
    ) -> None:
        self._transport = transport
        self._may_write = may_write
        self._limit = limit
        self._in_flight = in_flight
        self.now = now

    async def read(self, path: str, accept: str = "application/json") -> Response:
        """GET ``path``; raises as :meth:`Transport.request`."""
        return await self._send("GET", path, None, "application/json", accept)

    async def write(
        self, method: str, path: str, body: bytes | None, content_type: str = "application/json"
    ) -> Response:
        """Send one write.

        Raises:
            NotLeaderError: we may not write; nothing was sent.
            RefusedConnectionError, TransportError: as :meth:`Transport.request`.
        """
        if not self._may_write():
            raise NotLeaderError
        return await self._send(method, path, body, content_type)

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        accept: str = "application/json",
    ) -> Response:
        try:
            answer = await self._transport.request(
                method,
                path,
                body=body,
                content_type=content_type,
                accept=accept,
                timeout=ATTEMPT_TIMEOUT,
            )
        except RefusedConnectionError:
            raise
        except TransportError:
            self._limit.congested(self.now())
            raise
        if answer.status == 429 or answer.status >= 500:
            self._limit.congested(self.now())
        else:
            self._limit.succeeded(self._in_flight())
        return answer


class Job(ABC):
    """One effect on its way; :meth:`attempt` is called until it gives an outcome."""

    #: The metric label.
    kind: str
    urgency: Urgency = Urgency.REST

    def __init__(self, done: Done, rng: random.Random) -> None:
        self.done = done
        self.doubtful = False
        self.submitted = 0.0
        self._deadline: float | None = None
        self._backoff = Backoff(rng, first=0.25, limit=10.0)

    @abstractmethod
    async def attempt(self, wire: Wire) -> Outcome | Again:
        """Try once; never raises TransportError."""

    def doubt(self, reason: str) -> Again:
        """The server may have done it: say so once, and try again."""
        if not self.doubtful:
            self.doubtful = True
            self.done(Ambiguous(reason))
        return Again(self._backoff.next())

    def again(self, now: float, refusal: Outcome, *, at_least: float = 0.0) -> Outcome | Again:
        """It was not done: try again until the deadline, then end with ``refusal``.

        A doubtful job has no deadline: what an earlier attempt did is still unknown.
        """
        if self._deadline is None:
            self._deadline = now + DEADLINE
        delay = max(at_least, self._backoff.next())
        if not self.doubtful and now + delay > self._deadline:
            return refusal
        return Again(delay)
