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

from arranger.api import event_reasons
from arranger.api.effects import ObjectReference, PublishEvent
from arranger.api.types.core import Node, Pod
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.controllers.gang.controller import status_fields
from arranger.controllers.queue.cache import (
    LIST_PATHS,
    QUEUE_API_VERSION,
    QUEUES_PATH,
    ObservedQueue,
    QueueCache,
)
from arranger.controllers.queue.status import merge_patch, queue_status
from arranger.controllers.runtime.events import publish_events
from arranger.controllers.runtime.work_queue import Result, WorkQueue
from arranger.kube.client.status import parse_status
from arranger.kube.client.timestamps import second_time, utc_now
from arranger.kube.client.transport import Request, Transport, TransportError
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
        debounce: float = 0.5,
        rng: random.Random | None = None,
        now: Callable[[], datetime] = utc_now,
        host: str = "queues",
    ) -> None:
        rng = rng or random.Random()
        self._transport = transport
        self._now = now
        self.book = cache = QueueCache(schedulers)
        self.work_queue = WorkQueue(self._reconcile, debounce=debounce, rng=rng)
        self._events = EventRecorder(host, rng=rng, clock=now)
        #: The fields that the served definition's status has; None for any.
        self._status_fields: frozenset[str] | None = None
        self._served = False
        see = self.work_queue.enqueue
        self.pods = CacheSink[Pod](
            see, cache.on_pods_replaced, cache.on_pod_updated, _by_uid(cache.on_pod_deleted)
        )
        sinks: dict[type[Any], Any] = {
            ObservedQueue: CacheSink[ObservedQueue](
                see,
                cache.on_queues_replaced,
                cache.on_queue_updated,
                lambda q: cache.on_queue_deleted(q.name),
            ),
            Node: CacheSink[Node](
                see,
                cache.on_nodes_replaced,
                cache.on_node_updated,
                lambda n: cache.on_node_deleted(n.metadata.name),
            ),
            VolcanoPodGroup: CacheSink[VolcanoPodGroup](
                see,
                cache.on_pod_groups_replaced,
                cache.on_pod_group_updated,
                lambda g: cache.on_pod_group_deleted(g.name),
            ),
        }
        self._reflectors: list[Reflector[Any]] = [
            Reflector(transport, path, Decoder(kind), sinks[kind], rng=rng)
            for kind, path in LIST_PATHS.items()
        ]

    def tasks(
        self, *, caches_synced: Iterable[asyncio.Event] = ()
    ) -> list[Coroutine[Any, Any, None]]:
        """What has to run, each until cancelled; nothing is written before these events."""
        synced = [*caches_synced, *(reflector.synced for reflector in self._reflectors)]
        return [self.work_queue.run(caches_synced=synced), *(r.run() for r in self._reflectors)]

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Add the handler that notices which fields the status of Queues has here."""

        @kopf.on.event("apiextensions.k8s.io", "v1", "customresourcedefinitions", registry=registry)
        async def queue_definition(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
            if body["metadata"]["name"] == _DEFINITION:
                self.on_definition_updated(None if type == "DELETED" else body)

    def on_definition_updated(self, definition: Mapping[str, Any] | None) -> None:
        """The definition of Queues was added or edited; None for deleted."""
        self._served = definition is not None
        if definition is not None:
            self._status_fields = status_fields(definition)
            self.work_queue.enqueue(self.book.observed)

    # --- writing ---------------------------------------------------------------------------

    async def _reconcile(self, name: str) -> Result:
        observed = self.book.observed.get(name)
        if observed is None or not self._served:
            return Result.DONE
        wanted = queue_status(self.book, name, second_time(self._now()))
        if self._status_fields is not None:
            wanted = {
                field: value for field, value in wanted.items() if field in self._status_fields
            }
        patch = merge_patch(observed.status, wanted)
        if not patch:
            return Result.DONE
        turn = await self._write(observed, patch)
        if turn is Result.DONE and "conditions" in patch:
            await self._publish_problems(observed)
        return turn

    async def _write(self, observed: ObservedQueue, patch: dict[str, Any]) -> Result:
        body: dict[str, Any] = {"status": patch}
        if "conditions" in patch or "state" in patch:
            # A list is replaced whole, and a state follows from the one that was seen.
            body["metadata"] = {"resourceVersion": observed.metadata.resource_version}
        path = f"{QUEUES_PATH}/{observed.name}"
        try:
            answer = await self._transport.send(
                Request(
                    "PATCH", f"{path}/status", body=msgspec.json.encode(body), content_type=_MERGE
                )
            )
            stale = answer.status == 409
            if stale:
                answer = await self._transport.send(Request("GET", path))
            if answer.status < 300:
                seen = msgspec.json.decode(answer.body, type=ObservedQueue)
                self.work_queue.enqueue(self.book.on_queue_updated(seen) - {observed.name})
                return Result.REQUEUE if stale else Result.DONE
        except (TransportError, msgspec.MsgspecError) as error:
            log.info("queue.write_failed", queue=observed.name, error=str(error))
            return Result.BACKOFF
        if answer.status == 404:
            return Result.DONE  # it is gone, and the watch will say so
        status = parse_status(answer.body, answer.status)
        log.warning(
            "queue.write_refused", queue=observed.name, code=status.code, message=status.message
        )
        return Result.DONE if answer.status in (400, 422) else Result.BACKOFF

    async def _publish_problems(self, queue: ObservedQueue) -> None:
        """Tell what is wrong with a queue; of what cannot be read the scheduler tells."""
        if problems := self.book.problems_of(queue.name):
            about = ObjectReference(QUEUE_API_VERSION, "Queue", "", queue.name, queue.metadata.uid)
            event = PublishEvent(
                about,
                event_reasons.INVALID_QUEUE,
                "Reconcile",
                "; ".join(problems),
                type="Warning",
                controller="arranger-controllers",
            )
            self._events.record(event, asyncio.get_running_loop().time())
        await publish_events(self._events, self._transport, log_prefix="queue")


class CacheSink(Generic[T]):
    """Passes the objects of one kind on; the sink of a reflector."""

    def __init__(
        self,
        enqueue: Callable[[set[str]], None],
        replaced: Callable[[list[T]], set[str]],
        applied: Callable[[T], set[str]],
        deleted: Callable[[T], set[str]],
    ) -> None:
        self._enqueue = enqueue
        self._replaced = replaced
        self._applied = applied
        self._deleted = deleted

    def replaced(self, objects: list[T], resource_version: str) -> None:
        """These are all."""
        self._enqueue(self._replaced(objects))

    def applied(self, obj: T) -> None:
        """One was added or modified."""
        self._enqueue(self._applied(obj))

    def deleted(self, obj: T) -> None:
        """One is gone."""
        self._enqueue(self._deleted(obj))


class FanOutSink(Generic[T]):
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
