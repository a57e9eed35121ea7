"""What all writes have in common: priority, attempts, and when a failed one is tried again.

kube-scheduler: ``framework/api_calls`` and ``backend/api_dispatcher``.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from arranger.api.effects import Ambiguous, ObjectKey, Outcome, Refused
from arranger.kube.client.backoff import Backoff
from arranger.kube.client.status import AnswerClass, classify, parse_status, retry_after
from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    RequestTransport,
    Response,
    TransportError,
)
from arranger.kube.writes.concurrency_limiter import AimdLimiter

#: Called with each outcome: at most once with Ambiguous, and then with the final one.
OutcomeCallback = Callable[[Outcome], None]

#: Seconds for one attempt: lease duration minus renew deadline, so that a write sent just before
#: our leadership ended is over before somebody else may lead.
ATTEMPT_TIMEOUT: Final = 5.0
#: Seconds after the first attempt at which a write that is known not to have happened is given up.
RETRY_DEADLINE: Final = 30.0


class NotLeaderError(Exception):
    """Nothing was sent, because we may not write now."""


@dataclass(frozen=True, slots=True)
class Retry:
    """No final answer yet: try once more after ``delay`` seconds."""

    delay: float


class CallPriority(IntEnum):
    """How soon a write is sent, the smallest first.

    Conditions come last: a pod that gets its node meanwhile needs no condition that it waits, and
    the longer such patches queue, the more of them need not be sent at all.
    """

    BINDING = 0
    #: Evictions, and what is written of volumes and claims before a binding.
    BLOCKING = 1
    NORMAL = 2


@dataclass(frozen=True, slots=True)
class CallContext:
    """How calls reach the server: leadership is checked before each write, the limiter learns.

    Args:
        transport: where to.
        may_write: asked right before each write.
        limiter: told of each answer.
        now: the monotonic clock, seconds.
    """

    transport: RequestTransport
    may_write: Callable[[], bool]
    limiter: AimdLimiter
    now: Callable[[], float]

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
        if not self.may_write():
            raise NotLeaderError
        return await self._send(
            Request(method, path, body=body, content_type=content_type, timeout=ATTEMPT_TIMEOUT)
        )

    async def _send(self, request: Request) -> Response:
        try:
            answer = await self.transport.send(request)
        except RefusedConnectionError:
            raise
        except TransportError:
            self.limiter.on_congestion(self.now())
            raise
        if classify(answer.status).is_overload:
            self.limiter.on_congestion(self.now())
        else:
            self.limiter.on_success()
        return answer


class ApiCall(ABC):
    """One effect on its way; :meth:`execute` is called until it gives an outcome.

    Attributes:
        call_type: names the kind of call in metrics.
        on_outcome: told of the outcome.
        ambiguous: whether an earlier attempt may have been executed.
        submitted_at: when it was handed to the dispatcher, monotonic seconds.
        namespace: whose turn it takes; "" for what is in none.
    """

    call_type: str
    priority: CallPriority = CallPriority.NORMAL

    def __init__(self, on_outcome: OutcomeCallback, rng: random.Random) -> None:
        self.on_outcome = on_outcome
        self.ambiguous = False
        self.submitted_at = 0.0
        self.namespace = ""
        self._deadline: float | None = None
        self._conflicts = 0
        self._backoff = Backoff(rng, first=0.25, limit=10.0)

    @abstractmethod
    async def execute(self, context: CallContext) -> Outcome | Retry:
        """Try once; never raises TransportError."""

    def mark_ambiguous(self, reason: str) -> Retry:
        """The server may have executed it: report that once, and try again."""
        if not self.ambiguous:
            self.ambiguous = True
            self.on_outcome(Ambiguous(reason))
        return Retry(self._backoff.next_delay())

    def retry(self, now: float, refusal: Outcome, *, at_least: float = 0.0) -> Outcome | Retry:
        """It was not executed: try again until the deadline, then end with ``refusal``.

        An ambiguous call has no deadline: what an earlier attempt did is still unknown.
        """
        if self._deadline is None:
            self._deadline = now + RETRY_DEADLINE
        delay = max(at_least, self._backoff.next_delay())
        if not self.ambiguous and now + delay > self._deadline:
            return refusal
        return Retry(delay)

    def retry_or_refuse(
        self, now: float, answer: Response, *, max_conflicts: int = 0
    ) -> Outcome | Retry:
        """What follows a failed write that may be repeated whether it was executed or not.

        It is tried again while the server cannot take it, and after a conflict ``max_conflicts``
        times; else it ends as refused.
        """
        refusal = refused(answer)
        match classify(answer.status):
            case AnswerClass.UNAUTHORIZED | AnswerClass.THROTTLED | AnswerClass.SERVER_ERROR:
                late = Refused(answer.status, "DeadlineExceeded", refusal.message)
                return self.retry(now, late, at_least=retry_after(answer))
            case AnswerClass.CONFLICT if self._conflicts < max_conflicts:
                self._conflicts += 1
                return self.retry(now, refusal)
        return refusal


def refused(answer: Response) -> Refused:
    """The refusal that an answer is, in the server's words."""
    status = parse_status(answer.body, answer.status)
    return Refused(answer.status, status.reason, status.message)


def pod_path(pod: ObjectKey) -> str:
    """Where a pod is."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def ignore_outcome(outcome: Outcome) -> None:
    """For calls whose outcome nobody needs."""
