"""How bytes reach an API server: one protocol, spoken over HTTP or directly to the embedded one.

Everything in ``arranger/kube`` is written against :class:`Transport`. ``aiohttp_transport.py``
implements it over HTTP, ``embedded/transport/in_process.py`` without sockets, so that a simulation
needs neither ports nor real time.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from arranger.kube.client.problems import Problem, ProblemKind

MERGE_PATCH: Final = "application/merge-patch+json"
#: Not for custom resources.
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"


class Request(msgspec.Struct, frozen=True):
    """One request, as the client sends it and the embedded server takes it."""

    method: str
    #: Without the query.
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = "application/json"
    #: Seconds from sending to the last byte of the answer.
    timeout: float = 30.0

    @property
    def has_content(self) -> bool:
        """Whether ``content_type`` is sent: with every body, and with an empty one that is refused
        for being empty."""
        return bool(self.body) or self.method in ("POST", "PUT", "PATCH")


@dataclass(frozen=True, slots=True)
class Response:
    """One complete answer: ``status`` is the HTTP code, ``headers`` have lower-case names."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


#: A part of a path that the API server may know: names of objects have no other letters.
_SEGMENT: Final = re.compile(r"[A-Za-z0-9\-._~:@!$&'()*+,;=]{1,253}")


def refused_path(path: str) -> Response | None:
    """The answer for a path that no object and no collection can have; None for any other.

    Names come from tenants. One with ``..`` or ``?`` in it would make a request for something else
    of it, with our rights; the server is not asked, and nothing has that name.
    """
    root, *segments = path.split("/")
    plain = all(_SEGMENT.fullmatch(each) and each not in (".", "..") for each in segments)
    if not root and plain:
        return None
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound"}
    told = {**status, "code": 404, "message": "no object has such a name"}
    return Response(404, msgspec.json.encode(told))


class TransportError(Exception):
    """No answer came: refused, reset, timed out, or cut off. The server may have acted.

    Attributes:
        problem: the same in words for people.
    """

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem or Problem(ProblemKind.FAILING, message)


class RefusedConnectionError(TransportError):
    """The connection was never made, so the server certainly did not act."""


class Stream(Protocol):
    """An open watch: the status line has arrived, the frames follow, an event each."""

    status: int
    headers: Mapping[str, str]

    def frames(self) -> AsyncIterator[bytes]:
        """Yield each complete frame: of JSON a line without its newline, of the binary form a
        message without its length; a last half frame is dropped at EOF.

        Raises:
            TransportError: the connection broke, or nothing came for the inactivity limit.
        """

    async def body(self) -> bytes:
        """Read all that is left, for an answer with an error status."""


class RequestTransport(Protocol):
    """Sends single requests to one API server."""

    async def send(self, request: Request) -> Response:
        """Send one request and read the whole answer.

        Any HTTP status is an answer, not an exception.

        Raises:
            RefusedConnectionError: nothing was sent.
            TransportError: something may have been sent, and no answer came.
        """

    async def close(self) -> None:
        """Give back every connection; idempotent."""


class Transport(RequestTransport, Protocol):
    """Sends single requests and opens watches."""

    def stream(
        self, request: Request, *, inactivity: float = 70.0
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a watch; ``request.timeout`` bounds the wait for the status, ``inactivity`` a later
        silence, both in seconds."""
