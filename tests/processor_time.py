"""An event loop whose clock is the processor time that our own code takes; waiting costs nothing.

The API server is another machine's: what it does counts for nothing. So waits are what the
scheduler itself makes others wait, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

import msgspec

from arranger.embedded.server import ApiResponse, EmbeddedCluster
from arranger.embedded.transport.in_process import InProcessStream, open_watch
from arranger.kube.client.transport import Request, Response, Stream

T = TypeVar("T")

#: Seconds between a request and its answer.
ANSWERED_AFTER: Final = 0.002


class ProcessorTimeLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._skipped = self._others = 0.0
        super().__init__(_NothingOutside(self._skip))

    def time(self) -> float:
        return self._skipped + time.thread_time() - self._others

    @contextmanager
    def others_work(self) -> Iterator[None]:
        """What is done meanwhile costs no time."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._others += time.thread_time() - began

    def _skip(self, seconds: float) -> None:
        self._skipped += seconds


class _NothingOutside(selectors.SelectSelector):
    """Nothing comes from outside: waiting is over at once."""

    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout:
            self._skip(timeout)
        return []


def run_in_processor_time(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end."""
    with asyncio.Runner(loop_factory=ProcessorTimeLoop) as runner:
        return runner.run(main)


@contextmanager
def others_work() -> Iterator[None]:
    """What is done meanwhile costs no time on the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ProcessorTimeLoop)
    with loop.others_work():
        yield


class FarTransport:
    """The embedded server as one on another machine."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    async def send(self, request: Request) -> Response:
        """See :class:`~arranger.kube.client.transport.Transport`."""
        with others_work():
            answer = _response(self._cluster.handle(request))
        await asyncio.sleep(ANSWERED_AFTER)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, inactivity: float = 70.0) -> AsyncIterator[Stream]:
        """See :class:`~arranger.kube.client.transport.Transport`."""
        with others_work():
            opened = open_watch(self._cluster, request)
        if isinstance(opened, ApiResponse):
            yield InProcessStream(_response(opened))
            return
        try:
            yield InProcessStream(Response(200, b"", {}), opened.lines())
        finally:
            opened.close()

    async def close(self) -> None:
        """Nothing is open but what is in use."""


def _response(answer: ApiResponse) -> Response:
    body = answer.body
    encoded = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return Response(answer.status, encoded, answer.headers)
