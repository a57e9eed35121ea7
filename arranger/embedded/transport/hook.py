"""What may stand between clients and the embedded server, to watch or disturb what passes.

A transport without a hook passes everything on at once; tests inject faults through one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from arranger.embedded.server import ApiResponse
from arranger.kube.client.transport import Request

T = TypeVar("T")


class ConnectionLostError(Exception):
    """No answer will come; ``sent`` is false where the client knows that nothing was sent."""

    def __init__(self, why: str, *, sent: bool = True) -> None:
        super().__init__(why)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Passage:
    """What becomes of one line of a watch on its way.

    Attributes:
        seconds: how late it is, and with it all that follow.
        chunks: what the client gets, line by line; only a line cut short lacks its newline.
        then: how it goes on: as before, with a clean end, with a reset of the connection, or with
            silence, of which the server knows nothing.
    """

    chunks: tuple[bytes, ...]
    seconds: float = 0.0
    then: Literal["more", "end", "reset", "silence"] = "more"


class RequestHook(Protocol):
    """Asked around every request and every open watch.

    ``user`` is who asks: the name of the in-process transport, or the User-Agent over HTTP.
    """

    async def around_request(
        self, request: Request, user: str, respond: Callable[[], T]
    ) -> T | ApiResponse:
        """Have the server ``respond``, or not; returns what the client gets.

        The opening of a watch is a request, to which the server responds with the watch.

        Raises:
            ConnectionLostError: no answer comes.
        """

    def passage(self, request: Request, user: str, line: bytes) -> Passage | None:
        """What becomes of one line of a watch; None if it passes as it is, and at once."""
