"""Single calls to extenders, and reads of the pods that they are told about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from arranger.api.effects import ObjectKey, Refused
from arranger.api.extenders import Extender
from arranger.kube.client.metrics import MetricsRecorder
from arranger.kube.client.transport import Request, RequestTransport, TransportError
from arranger.kube.extenders.slots import FairSlots
from arranger.kube.extenders.wire import ExtenderProtocolError
from arranger.kube.watch.decoder import decode_metadata
from arranger.kube.writes.call import ATTEMPT_TIMEOUT, pod_path

#: Calls to extenders, and reads for them, that are on their way at once.
MAX_PARALLEL_CALLS: Final = 16
#: Characters of what an extender says of an error.
MAX_MESSAGE: Final = 1024


class ExtenderTransport(Protocol):
    """How calls reach extenders."""

    async def post(self, extender: Extender, verb: str, body: bytes) -> tuple[int, bytes]:
        """Call a verb; returns the HTTP status and the body.

        Raises:
            RefusedConnectionError: nothing was sent.
            TransportError: no answer came, and the extender may have acted.
        """

    async def close(self) -> None:
        """Give back every connection; idempotent."""


class ExtenderCallError(Exception):
    """An extender failed, or a read that it needs; ``refused`` is the outcome of the effect."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


@dataclass(slots=True, eq=False)
class ExtenderCaller:
    """Bounds and measures the calls to all extenders.

    Each call is made for somebody, the namespace of the pod that it is about: they share the calls
    that may be under way.

    Args:
        extender_transport: where extenders are.
        transport: the API server, for the pods that they are told about.
        metrics: gets ``extender_seconds`` {extender, verb} and ``extender_errors`` {extender,
            verb}.
    """

    extender_transport: ExtenderTransport
    transport: RequestTransport
    metrics: MetricsRecorder
    _slots: FairSlots = field(default_factory=lambda: FairSlots(MAX_PARALLEL_CALLS), init=False)

    async def read_pod(self, pod: ObjectKey, namespace: str) -> bytes:
        """A pod of this uid, as JSON, read for a ``namespace``.

        Raises:
            ExtenderCallError: it cannot be read (``Unreachable``, ``Unreadable``), is gone
                (``NotFound``) or has been recreated (``Replaced``).
        """
        request = Request("GET", pod_path(pod), timeout=ATTEMPT_TIMEOUT)
        try:
            async with self._slots.one_for(namespace):
                answer = await self.transport.send(request)
        except TransportError as error:
            text = f"reading pod {pod} for extenders: {error}"
            raise ExtenderCallError(Refused(0, "Unreachable", text)) from error
        if answer.status == 404:
            raise ExtenderCallError(Refused(404, "NotFound", f"pod {pod} is gone"))
        if answer.status != 200:
            text = f"reading pod {pod} for extenders: status {answer.status}"
            raise ExtenderCallError(Refused(answer.status, "Unreadable", text))
        if (uid := decode_metadata(answer.body).uid) != pod.uid:
            raise ExtenderCallError(Refused(409, "Replaced", f"pod {pod} is now {uid}"))
        return answer.body

    async def query(
        self,
        extender: Extender,
        verb: str,
        body: bytes,
        decode: Callable[[bytes], Any],
        namespace: str,
    ) -> Any:
        """Call a verb that changes nothing, and decode the answer.

        Raises:
            ExtenderCallError: no answer, or none that can be used.
        """
        try:
            return await self.post(extender, verb, body, decode, namespace)
        except TransportError as error:
            raise call_error(extender, str(error)) from error

    async def post(
        self,
        extender: Extender,
        verb: str,
        body: bytes,
        decode: Callable[[bytes], Any],
        namespace: str,
    ) -> Any:
        """Call a verb that may change something, and decode the answer.

        Raises:
            ExtenderCallError: the extender reports an error, or what cannot be decoded.
            TransportError: no answer; see :meth:`ExtenderTransport.post`.
        """
        now = asyncio.get_running_loop().time
        labels = {"extender": extender.url, "verb": verb}
        async with self._slots.one_for(namespace):
            started = now()
            try:
                async with asyncio.timeout(extender.timeout):
                    status, answer = await self.extender_transport.post(extender, verb, body)
            except (TimeoutError, TransportError) as error:
                self.metrics.increment("extender_errors", 1, **labels)
                if isinstance(error, TransportError):
                    raise
                raise TransportError(f"no answer within {extender.timeout:g}s") from error
            self.metrics.observe("extender_seconds", now() - started, **labels)
        if status != 200:
            self.metrics.increment("extender_errors", 1, **labels)
            raise call_error(extender, f"{verb} answered with status {status}")
        try:
            return decode(answer)
        except ExtenderProtocolError as error:
            raise call_error(extender, f"unreadable answer: {error}") from error

    async def close(self) -> None:
        """Give back every connection; idempotent."""
        await self.extender_transport.close()


def call_error(extender: Extender, why: str) -> ExtenderCallError:
    """The error that an extender has failed, in kube-scheduler's words."""
    text = f'running extender "{extender.url}": {why[:MAX_MESSAGE]}'
    return ExtenderCallError(Refused(0, "Extender", text))
