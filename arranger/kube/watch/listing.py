"""Reads a collection once; see :mod:`arranger.kube.watch.reflector` for who has to keep up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Generic

from arranger.api.parsing.errors import ParseError
from arranger.kube.client.status import parse_status
from arranger.kube.client.transport import Request, Transport
from arranger.kube.watch.decoder import Decoder, T, UndecodableObject

#: Objects a request.
_PAGE: Final = 500
#: How often a list is begun anew whose continue token has expired.
_ATTEMPTS: Final = 3


class NotListedError(LookupError):
    """The server does not show a collection; the message says which, and why."""


@dataclass(slots=True)
class Listed(Generic[T]):
    """A collection.

    Attributes:
        undecodable: what of it cannot be decoded.
    """

    objects: list[T] = field(default_factory=list)
    undecodable: list[UndecodableObject] = field(default_factory=list)


async def list_collection(transport: Transport, path: str, decoder: Decoder[T]) -> Listed[T] | None:
    """All objects of a collection, read page by page; None where the server does not know it.

    Raises:
        NotListedError: the server refuses to show them.
        TransportError: there was no answer.
    """
    found, attempts = Listed[T](), 1
    query = {"limit": str(_PAGE)}
    while True:
        answer = await transport.send(Request("GET", path, query=query))
        if answer.status == 404:
            return None
        if answer.status == 410 and attempts < _ATTEMPTS:
            found, attempts = Listed[T](), attempts + 1
            # In one piece at last: no token can expire in between.
            query = {} if attempts == _ATTEMPTS else {"limit": str(_PAGE)}
            continue
        if answer.status != 200:
            message = parse_status(answer.body, answer.status).message
            raise NotListedError(f"{path}: {message}")
        try:
            page, good, bad = decoder.decode_page(answer.body)
        except ParseError as error:
            raise NotListedError(f"{path}: not a list: {error}") from error
        found.objects += good
        found.undecodable += bad
        if not page.continue_:
            return found
        query = {"limit": str(_PAGE), "continue": page.continue_}
