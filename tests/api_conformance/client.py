"""A small client over a ``Transport``: with it the suite sends both servers the same requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from arranger.kube.client.transport import Request, Stream, Transport

Object = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
#: Asks the server for rows to print; a server that cannot may answer with the object.
TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
#: Seconds in which anything we wait for must come about.
TIMEOUT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One complete answer with its body decoded: JSON, or text where it is none."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def refusal(self) -> tuple[int, str]:
        """Code and reason of a Status object that says no; ``reason`` is empty where it has none.

        Raises:
            AssertionError: the answer is not a well-formed refusal.
        """
        assert isinstance(self.body, dict), self.body
        head = {key: self.body.get(key) for key in ("kind", "apiVersion", "status", "code")}
        assert head == {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": self.status,
        }, self.body
        assert self.body["message"]
        return self.status, self.body.get("reason", "")

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause that a refusal gives, without repetitions."""
        found = [
            (cause.get("reason", ""), cause.get("field", ""))
            for cause in self.body["details"].get("causes", [])
        ]
        return list(dict.fromkeys(found))


class Watch:
    """An open watch, read event by event."""

    def __init__(self, stream: Stream) -> None:
        self.status = stream.status
        self._stream = stream
        self._lines = stream.frames()

    async def next(self) -> tuple[str, Object]:
        """Type and object of the next event, which must come in time."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            event = json.loads(await anext(self._lines))
        return event["type"], event["object"]

    async def names(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(kind, obj["metadata"]["name"]) for kind, obj in events]

    async def until(self, kind: str, name: str) -> Object:
        """The object of the first event of this type for this name; the others are skipped."""
        while True:
            seen, obj = await self.next()
            if (seen, obj["metadata"]["name"]) == (kind, name):
                return obj

    async def rest(self) -> list[tuple[str, Object]]:
        """Every event until the server ends the watch."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            events = [json.loads(line) async for line in self._lines]
        return [(event["type"], event["object"]) for event in events]

    async def answer(self) -> Answer:
        """The whole answer where the server refused to watch."""
        return _decoded(self.status, await self._stream.body(), self._stream.headers)


class Api:
    """Requests with decoded answers."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Answer:
        """One request; ``body`` may be bytes to send as they are."""
        if body is None:
            data = b""
        else:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await self._transport.send(
            Request(
                method, path, query=query or {}, body=data, content_type=content_type, accept=accept
            )
        )
        return _decoded(answer.status, answer.body, answer.headers)

    async def get(self, path: str, **query: str) -> Object:
        """GET that must succeed."""
        return _succeeded(await self.call("GET", path, query=query))

    async def create(self, path: str, body: Object) -> Object:
        """POST that must answer 201."""
        answer = await self.call("POST", path, body)
        assert answer.status == 201, answer.body
        return _succeeded(answer)

    async def put(self, path: str, body: Object) -> Object:
        """PUT that must succeed."""
        return _succeeded(await self.call("PUT", path, body))

    async def patch(self, path: str, body: object, content_type: str = MERGE_PATCH) -> Object:
        """PATCH that must succeed."""
        return _succeeded(await self.call("PATCH", path, body, content_type=content_type))

    async def delete(self, path: str, body: object = None) -> Object:
        """DELETE that must succeed."""
        return _succeeded(await self.call("DELETE", path, body))

    async def names(self, path: str, **query: str) -> list[str]:
        """The names in a list, in its order."""
        return [item["metadata"]["name"] for item in (await self.get(path, **query))["items"]]

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[Watch]:
        """Open a watch."""
        async with self._transport.stream(Request("GET", path, {"watch": "1", **query})) as stream:
            yield Watch(stream)


def _decoded(status: int, body: bytes, headers: Mapping[str, str]) -> Answer:
    try:
        return Answer(status, json.loads(body), headers)
    except ValueError:
        return Answer(status, body.decode(), headers)


def _succeeded(answer: Answer) -> Object:
    assert answer.status < 300, answer.body
    assert isinstance(answer.body, dict), answer.body
    return answer.body
