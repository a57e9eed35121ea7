"""A transport that answers from a script, under the event loop's (virtual) time."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from arranger.kube.client.transport import (
    RefusedConnectionError,
    Request,
    Response,
    Stream,
    TransportError,
)


@dataclass(frozen=True)
class Call:
    at: float
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    content_type: str

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass(frozen=True)
class After:
    """Answer ``then`` after ``seconds``, or time out."""

    seconds: float
    then: Any


#: No answer ever: the caller's time-out ends it.
HANG = After(float("inf"), None)
REFUSED = RefusedConnectionError("connection refused")
RESET = TransportError("connection reset")


def ok(value: Any = None, status: int = 200, **headers: str) -> Response:
    return Response(status, json.dumps(value or {}).encode(), headers)


def failure(
    status: int, reason: str = "", message: str = "", fields: Iterable[str] = (), **headers: str
) -> Response:
    """A Status; ``fields`` are those that are not valid."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    causes = [{"field": each} for each in fields]
    details = {"details": {"causes": causes}} if causes else {}
    body = {"kind": "Status", "code": status, "reason": reason, "message": message, **details}
    return Response(status, json.dumps(body).encode(), headers)


@dataclass
class ScriptedStream:
    """The lines of one watch: bytes, dicts, numbers (seconds of silence) or exceptions."""

    script: Iterable[Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    inactivity: float = 70.0

    async def frames(self) -> AsyncIterator[bytes]:
        for item in self.script:
            if isinstance(item, Exception):
                raise item
            if isinstance(item, (int, float)):
                if item > self.inactivity:
                    await asyncio.sleep(self.inactivity)
                    raise TransportError("silent")
                await asyncio.sleep(item)
            else:
                yield item if isinstance(item, bytes) else json.dumps(item).encode()

    async def body(self) -> bytes:
        return b"".join([line async for line in self.frames()])


class ScriptedTransport:
    """Answers requests from ``answers`` in turn, then from ``otherwise``; streams alike."""

    def __init__(
        self,
        *answers: Any,
        streams: Iterable[Any] = (),
        otherwise: Callable[[Call], Any] = lambda call: ok(),
    ) -> None:
        self.answers = deque(answers)
        self.streams = deque(streams)
        self.otherwise = otherwise
        self.calls: list[Call] = []
        self.opened: list[Call] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def send(self, request: Request) -> Response:
        now = asyncio.get_running_loop().time()
        call = Call(
            now,
            request.method,
            request.path,
            dict(request.query),
            request.body,
            request.content_type,
        )
        self.calls.append(call)
        answer = self.answers.popleft() if self.answers else self.otherwise(call)
        if callable(answer):
            answer = answer()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if isinstance(answer, After):
                await asyncio.sleep(min(answer.seconds, request.timeout))
                if answer.seconds > request.timeout:
                    raise TransportError("timeout")
                answer = answer.then
        finally:
            self.in_flight -= 1
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Response)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, inactivity: float = 70.0) -> AsyncIterator[Stream]:
        now = asyncio.get_running_loop().time()
        self.opened.append(Call(now, request.method, request.path, dict(request.query), b"", ""))
        # A test ends its script with silence, so that nothing is opened without end.
        script = self.streams.popleft() if self.streams else ScriptedStream([1e9], inactivity=2e9)
        if isinstance(script, Exception):
            raise script
        if isinstance(script, Response):
            script = ScriptedStream([script.body], script.status, script.headers)
        if not isinstance(script, ScriptedStream):
            script = ScriptedStream(script, inactivity=inactivity)
        yield script

    async def close(self) -> None:
        pass
