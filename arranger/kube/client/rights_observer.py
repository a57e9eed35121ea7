"""A transport that tells which rights its writes lack."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from arranger.kube.client.problems import (
    ProblemReporter,
    missing_right,
    resource_with_subresource,
)
from arranger.kube.client.status import AnswerClass, classify, parse_status
from arranger.kube.client.transport import Request, RequestTransport, Response, Stream, Transport


@dataclass(eq=False)
class RequestRightsObserver:
    """Passes requests on, and reports writes that are refused for want of a right.

    Args:
        problems: hears of them, by verb and resource.
    """

    transport: RequestTransport
    problems: ProblemReporter
    #: The kinds of writes that were refused last.
    _refused: set[str] = field(default_factory=set, init=False)

    async def send(self, request: Request) -> Response:
        """See :class:`~arranger.kube.client.transport.Transport`."""
        answer = await self.transport.send(request)
        if request.method == "GET" or not (self._refused or answer.status in (401, 403)):
            return answer
        right = f"{request.method.lower()} {resource_with_subresource(request.path)}"
        if classify(answer.status) is AnswerClass.SUCCESS:
            if right in self._refused:
                self._refused.discard(right)
                self.problems.succeeded(right)
        elif answer.status in (401, 403):
            message = parse_status(answer.body, answer.status).message
            missing = missing_right(answer.status, message, right)
            if missing is not None:
                self._refused.add(right)
                self.problems.failed(right, missing)
        return answer

    async def close(self) -> None:
        """See :class:`~arranger.kube.client.transport.Transport`."""
        await self.transport.close()


@dataclass(eq=False)
class RightsObserver(RequestRightsObserver):
    """The same with watches."""

    transport: Transport

    def stream(
        self, request: Request, *, inactivity: float = 70.0
    ) -> AbstractAsyncContextManager[Stream]:
        """See :class:`~arranger.kube.client.transport.Transport`."""
        return self.transport.stream(request, inactivity=inactivity)
