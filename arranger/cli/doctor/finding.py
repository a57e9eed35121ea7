"""What a check has found, and how checks ask a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.daemon.config.schema import Config
from arranger.kube.client.status import parse_status
from arranger.kube.client.transport import Request, Transport
from arranger.shadow.shadow import Shadow

Object = Mapping[str, Any]


class Finding(msgspec.Struct, frozen=True):
    """One line of ``arranger doctor``, as ``-o json`` prints it.

    Attributes:
        check: what was looked at.
        state: ``ok``, ``wrong``, or ``unseen`` of what whoever asks may not see.
        text: what was found.
        mend: how to mend it; "" where nothing is to be mended.
    """

    check: str
    state: str
    text: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer of the server: its status, and the object; for another status the message."""

    status: int
    body: Object = field(default_factory=dict)
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def items(self) -> list[Object]:
        """Of a list."""
        return list(self.body.get("items") or [])


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What checks look at: a cluster, and what they know of it.

    Attributes:
        shadow: of all that could be read; None where nodes or pods could not be.
        now: the time, with a zone.
    """

    transport: Transport
    config: Config
    shadow: Shadow | None
    now: datetime

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Answered:
        """Read something.

        Raises:
            TransportError: there was no answer.
        """
        return await self._ask(Request("GET", path, query or {}))

    async def post(
        self, path: str, body: Object, query: Mapping[str, str] | None = None
    ) -> Answered:
        """Ask for a review, or for what a write would do.

        Raises:
            TransportError: there was no answer.
        """
        return await self._ask(
            Request("POST", path, query or {}, msgspec.json.encode(body), "application/json")
        )

    async def _ask(self, request: Request) -> Answered:
        answer = await self.transport.send(request)
        if answer.status not in (200, 201):
            message = parse_status(answer.body, answer.status).message
            return Answered(answer.status, message=message, headers=answer.headers)
        try:
            return Answered(answer.status, decode_object(answer.body), headers=answer.headers)
        except ParseError as error:
            return Answered(0, message=f"not an object: {error}")


def unseen(check: str, answer: Answered) -> Finding:
    """A check that could not be made."""
    if answer.status == 404:
        text = "this server does not serve the API that would tell"
        return Finding(check, "unseen", text)
    return Finding(check, "unseen", f"{answer.status} {answer.message}".strip())
