"""What may stand between clients and the embedded server, to watch or disturb what passes.

A transport without a hook passes everything on at once; tests inject faults through one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from arranger.embedded.server import ApiResponse
from arranger.kube.client.transport import Request

T = TypeVar("T")


class ConnectionLostError(Exception):
    """No answer will come; ``sent`` is false where the client knows that nothing was sent."""

    def __init__(self, why: str, *, sent: bool = True) -> None:
        super().__init__(why)
        self.sent = sent


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

    def around_watch(
        self, request: Request, user: str, lines: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """The bytes of a watch, made of its lines: only a line cut short lacks its newline.

        Raises:
            ConnectionLostError: the connection is reset.
        """
