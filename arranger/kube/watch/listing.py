"""Reads a collection once; see :mod:`arranger.kube.watch.reflector` for who has to keep up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Generic

import msgspec

from arranger.api.parsing.errors import ParseError
from arranger.kube.client.status import parse_status
from arranger.kube.client.transport import Request, RequestTransport, Response
from arranger.kube.watch.decoder import Decoder, T, UndecodableObject
from arranger.kube.watch.decoding_aside import decode_page

#: Objects a request.
PAGE_SIZE: Final = 500


class NotListedError(LookupError):
    """The server does not show a collection; the message says which, and why."""


class ListRefusedError(Exception):
    """The server has answered a list with something else."""

    def __init__(self, answer: Response) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


@dataclass(slots=True)
class Listed(Generic[T]):
    """A collection.

    Attributes:
        undecodable: what of it cannot be decoded.
        resource_version: as of which it is.
    """

    objects: list[T] = field(default_factory=list)
    undecodable: list[UndecodableObject] = field(default_factory=list)
    resource_version: str = ""


async def list_collection(
    transport: RequestTransport, path: str, decoder: Decoder[T]
) -> Listed[T] | None:
    """All objects of a collection; None where the server does not know it.

    Raises:
        NotListedError: the server refuses to show them.
        TransportError: there was no answer.
    """
    try:
        return await list_pages(transport, Request("GET", path, accept=decoder.accept), decoder)
    except ListRefusedError as refused:
        answer = refused.answer
        if answer.status == 404:
            return None
        message = parse_status(answer.body, answer.status).message
        raise NotListedError(f"{path}: {message}") from None
    except ParseError as error:
        raise NotListedError(f"{path}: not a list: {error}") from error


async def list_pages(
    transport: RequestTransport, request: Request, decoder: Decoder[T]
) -> Listed[T]:
    """Ask for a collection page by page, and as client-go's pager for all in one piece once a
    continue token has expired.

    Raises:
        ListRefusedError: by the answer to one of the pages.
        ParseError: a page is not a list.
        TransportError: there was no answer.
    """
    found, query = Listed[T](), {**request.query, "limit": str(PAGE_SIZE)}
    while True:
        answer = await transport.send(msgspec.structs.replace(request, query=query))
        if answer.status == 410 and "continue" in query:
            found, query = Listed[T](), {**request.query}
            continue
        if answer.status != 200:
            raise ListRefusedError(answer)
        page, objects, undecodable = await decode_page(decoder, answer.body)
        found.objects += objects
        found.undecodable += undecodable
        if not page.continue_:
            found.resource_version = page.resource_version
            return found
        query = {**query, "continue": page.continue_}
