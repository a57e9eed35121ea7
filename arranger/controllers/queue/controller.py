"""The Queue controller: reflectors bring what queues are made of, and their status is written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import kopf
import msgspec
import structlog

from arranger.api.effects import ObjectRef, PublishEvent
from arranger.api.types.core import Node, Pod
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.controllers.gang.controller import status_fields
from arranger.controllers.queue.cache import PATHS, QUEUE_API, QUEUES, QueueBook, ShownQueue
from arranger.controllers.queue.status import patch_of, queue_status
from arranger.controllers.runtime.events import publish
from arranger.controllers.runtime.work_queue import Turn, Turns
from arranger.kube.client.status import parse_status
from arranger.kube.client.timestamps import second_time, utc_now
from arranger.kube.client.transport import Transport, TransportError
from arranger.kube.events import EventRecorder
from arranger.kube.watch.decoder import Decoder, KubeObject
from arranger.kube.watch.reflector import Reflector, Sink

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=KubeObject)

_DEFINITION: Final = "queues.scheduling.volcano.sh"
_MERGE: Final = "application/merge-patch+json"


class QueueController:
    """Keeps the status of Queues.

    It must see all pods: queues have no namespace.

    Args:
        schedulers: whose pods are counted as groups.
        quiet: seconds to gather the changes of a queue before they are written.
        now: the calendar clock.

    Attributes:
        pods: the sink that all pods have to go to.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        schedulers: Sequence[str] = ("arranger",),
        quiet: float = 0.5,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = utc_now,
        host: str = "queues",
    ) -> None:
        rng = rng or random.Random()
        self._transport = transport
        self._now = now
        self.book = book = QueueBook(schedulers)
        self.turns = Turns(self._visit, quiet=quiet, rng=rng)
        self._events = EventRecorder(host, rng=rng, wall=now)
        #: The fields that the served definition's status has; None for any.
        self._fields: frozenset[str] | None = None
        self._served = False
        see = self.turns.look_at
        self.pods = IntoBook[Pod](see, book.pods_replaced, book.pod_set, _by_uid(book.pod_gone))
        sinks: dict[type[Any], Any] = {
            ShownQueue: IntoBook[ShownQueue](
                see, book.queues_replaced, book.queue_set, lambda q: book.queue_gone(q.name)
            ),
            Node: IntoBook[Node](
                see, book.nodes_replaced, book.node_set, lambda n: book.node_gone(n.metadata.name)
            ),
            VolcanoPodGroup: IntoBook[VolcanoPodGroup](
                see, book.groups_replaced, book.group_set, lambda g: book.group_gone(g.name)
            ),
        }
        self._reflectors: list[Reflector[Any]] = [
            Reflector(transport, path, Decoder(kind), sinks[kind], rng=rng)
            for kind, path in PATHS.items()
        ]

    def parts(self, *, after: Iterable[asyncio.Event] = ()) -> list[Coroutine[Any, Any, None]]:
        """What has to run, each until cancelled; nothing is written before these events."""
        synced = [*after, *(reflector.synced for reflector in self._reflectors)]
        return [self.turns.run(after=synced), *(r.run() for r in self._reflectors)]

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Add the handler that notices which fields the status of Queues has here."""

        @kopf.on.event("apiextensions.k8s.io", "v1", "customresourcedefinitions", registry=registry)
        async def queue_definition(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
            if body["metadata"]["name"] == _DEFINITION:
                self.defined(None if type == "DELETED" else body)

    def defined(self, definition: Mapping[str, Any] | None) -> None:
        """The definition of Queues was added or edited; None for deleted."""
        self._served = definition is not None
        if definition is not None:
            self._fields = status_fields(definition)
            self.turns.look_at(self.book.shown)

    # --- writing ---------------------------------------------------------------------------

    async def _visit(self, name: str) -> Turn:
        shown = self.book.shown.get(name)
        if shown is None or not self._served:
            return Turn.DONE
        wanted = queue_status(self.book, name, second_time(self._now()))
        if self._fields is not None:
            wanted = {field: value for field, value in wanted.items() if field in self._fields}
        patch = patch_of(shown.status, wanted)
        if not patch:
            return Turn.DONE
        turn = await self._write(shown, patch)
        if turn is Turn.DONE and "conditions" in patch:
            await self._complain(shown)
        return turn

    async def _write(self, shown: ShownQueue, patch: dict[str, Any]) -> Turn:
        body: dict[str, Any] = {"status": patch}
        if "conditions" in patch or "state" in patch:
            # A list is replaced whole, and a state follows from the one that was seen.
            body["metadata"] = {"resourceVersion": shown.metadata.resource_version}
        path = f"{QUEUES}/{shown.name}"
        try:
            answer = await self._transport.request(
                "PATCH", f"{path}/status", body=msgspec.json.encode(body), content_type=_MERGE
            )
            stale = answer.status == 409
            if stale:
                answer = await self._transport.request("GET", path)
            if answer.status < 300:
                seen = msgspec.json.decode(answer.body, type=ShownQueue)
                self.turns.look_at(self.book.queue_set(seen) - {shown.name})
                return Turn.AGAIN if stale else Turn.DONE
        except (TransportError, msgspec.MsgspecError) as error:
            log.info("queue.write_failed", queue=shown.name, error=str(error))
            return Turn.LATER
        if answer.status == 404:
            return Turn.DONE  # it is gone, and the watch will say so
        status = parse_status(answer.body, answer.status)
        log.warning(
            "queue.write_refused", queue=shown.name, code=status.code, message=status.message
        )
        return Turn.DONE if answer.status in (400, 422) else Turn.LATER

    async def _complain(self, queue: ShownQueue) -> None:
        """Tell what is wrong with a queue; of what cannot be read the scheduler tells."""
        if wrong := self.book.faults(queue.name):
            about = ObjectRef(QUEUE_API, "Queue", "", queue.name, queue.metadata.uid)
            event = PublishEvent(
                about,
                "InvalidQueue",
                "Reconcile",
                "; ".join(wrong),
                type="Warning",
                controller="arranger-controllers",
            )
            self._events.record(event, asyncio.get_running_loop().time())
        await publish(self._events, self._transport, about="queue")


class IntoBook(Generic[T]):
    """Passes the objects of one kind on; the sink of a reflector."""

    def __init__(
        self,
        look_at: Callable[[set[str]], None],
        replaced: Callable[[list[T]], set[str]],
        applied: Callable[[T], set[str]],
        deleted: Callable[[T], set[str]],
    ) -> None:
        self._look_at = look_at
        self._replaced = replaced
        self._applied = applied
        self._deleted = deleted

    def replaced(self, objects: list[T], resource_version: str) -> None:
        """These are all."""
        self._look_at(self._replaced(objects))

    def applied(self, obj: T) -> None:
        """One was added or modified."""
        self._look_at(self._applied(obj))

    def deleted(self, obj: T) -> None:
        """One is gone."""
        self._look_at(self._deleted(obj))


class ToAll(Generic[T]):
    """Passes on what one reflector reads to several sinks."""

    def __init__(self, *sinks: Sink[T]) -> None:
        self._sinks = sinks

    def replaced(self, objects: list[T], resource_version: str) -> None:
        """These are all."""
        for sink in self._sinks:
            sink.replaced(objects, resource_version)

    def applied(self, obj: T) -> None:
        """One was added or modified."""
        for sink in self._sinks:
            sink.applied(obj)

    def deleted(self, obj: T) -> None:
        """One is gone."""
        for sink in self._sinks:
            sink.deleted(obj)


def _by_uid(gone: Callable[[str], set[str]]) -> Callable[[Pod], set[str]]:
    return lambda pod: gone(pod.metadata.uid)
