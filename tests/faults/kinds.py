"""What can go wrong with requests and watches of the embedded server."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self, TypeVar

from arranger.embedded.errors import ApiError
from arranger.embedded.server import ApiResponse
from tests.faults.matchers import (
    ClientRequest,
)

T = TypeVar("T")

# --- what happens to requests ------------------------------------------------------------------


class DropConnection(Enum):
    """The connection breaks."""

    #: It never comes to be, and the client knows that (over HTTP it looks like ``BEFORE``).
    REFUSED = auto()
    #: The request is lost: the server does not act, and the client cannot know.
    BEFORE = auto()
    #: The answer is lost: the server has acted.
    AFTER = auto()


@dataclass(frozen=True, slots=True)
class Delay:
    """The request takes so many seconds, or with ``after`` its answer.

    A client that gives up meanwhile does not take it back: the server acts all the same.
    """

    seconds: float
    after: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """This answer comes: instead of the server's, or with ``after`` although it has acted."""

    status: int
    reason: str = ""
    message: str = "a fault on purpose"
    retry_after: int | None = None
    after: bool = False

    def answer(self) -> ApiResponse:
        """The answer, whose body is a ``Status`` as the real server's."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        error = ApiError(self.status, self.reason, self.message, headers=headers)
        return ApiResponse(error.code, error.status(), error.headers)


@dataclass(frozen=True, slots=True)
class ConcurrentAction:
    """Something else happens just before the server acts, or with ``after`` just after that."""

    action: Callable[[], object]
    after: bool = False


@dataclass(frozen=True, slots=True)
class WatchCut:
    """A watch ends before its next line, or in the midst of it; cleanly, or by a reset."""

    within_line: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class WatchStall:
    """From its next line on, nothing comes through an open watch any more, not even an end."""


@dataclass(frozen=True, slots=True)
class WatchDelay:
    """The next line of a watch, and with it all that follow, come so many seconds late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WatchRepeat:
    """The next line of a watch comes twice.

    Attributes:
        older: the second time, what the watch has told of the same object before, where that was
            not deleted since; the last lines since there are rules for watches are known.
    """

    older: bool = False


@dataclass(frozen=True, slots=True)
class WatchExpiry:
    """A watch says that its version is gone (410) and ends."""


RequestFault = DropConnection | Delay | Reply | ConcurrentAction
WatchFault = WatchCut | WatchStall | WatchDelay | WatchRepeat | WatchExpiry


@dataclass(slots=True, eq=False)
class FaultRule:
    """One fault, as :meth:`FaultInjector.inject` was told it; leaving its context ends it.

    Attributes:
        matched: the requests it has affected so far (a watch once for every line affected).
    """

    matcher: Callable[[ClientRequest], bool]
    fault: RequestFault | WatchFault | None
    times: int | None
    skip: int
    probability: float
    rng: random.Random
    matched: list[ClientRequest] = field(default_factory=list)

    def applies_to(self, request: ClientRequest) -> bool:
        """Whether it affects this request, which is then recorded."""
        if self.times is not None and len(self.matched) >= self.times:
            return False
        if not self.matcher(request) or (
            self.probability < 1.0 and self.rng.random() >= self.probability
        ):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.matched.append(request)
        return True

    def stop(self) -> None:
        """Affect nothing any more."""
        self.times = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
