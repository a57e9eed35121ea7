"""Keeps a sink equal to one resource of the API server, through everything that can go wrong.

The protocol is client-go's (``tools/cache/reflector.go``): get the full state, by a streamed
WatchList where the server can or by paged LIST, then watch from its resourceVersion. A watch ends
all the time (that is normal) and is resumed from the last version seen, which bookmarks keep
fresh; when that version is gone (410) the full state is fetched again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic

import structlog

from arranger.api.parsing.errors import ParseError
from arranger.kube.client.backoff import Backoff
from arranger.kube.client.metrics import NULL_METRICS, MetricsRecorder
from arranger.kube.client.problems import (
    IGNORE_PROBLEMS,
    Problem,
    ProblemKind,
    ProblemReporter,
    problem_of_answer,
    resource_name,
)
from arranger.kube.client.status import Status, parse_status, retry_after
from arranger.kube.client.transport import Request, Response, Transport, TransportError
from arranger.kube.watch.decoder import (
    INITIAL_EVENTS_END,
    Decoder,
    RawWatchEvent,
    T,
    UndecodableObject,
    WatchEvent,
    decode_metadata,
    version_of_bookmark,
)
from arranger.kube.watch.decoding_aside import decode_event
from arranger.kube.watch.listing import ListRefusedError, list_pages
from arranger.kube.watch.sink import Sink, is_newer
from arranger.kube.watch.stream_errors import (
    ExpiredError,
    NotServedError,
    ServerUnavailableError,
    WatchListUnsupportedError,
)

log = structlog.get_logger(__name__)

#: Seconds without a byte after which a watch is dead: bookmarks come every minute.
INACTIVITY_TIMEOUT: Final = 70.0
#: Streams in a row without a frame after which the state is listed anew: a kube-apiserver restored
#: from a backup knows no versions as late as ours, and sends neither events nor bookmarks.
MAX_SILENT_STREAMS: Final = 2
#: Seconds of silence after which the initial events of a WatchList count as failed.
INITIAL_EVENTS_TIMEOUT: Final = 30.0
#: A stream shorter than this without an event is a failure, whatever its status said.
MIN_WATCH_SECONDS: Final = 1.0
NOT_SERVED_RETRY: Final = 30.0
#: The first of the shorter delays after its definition is said to have been installed: the server
#: serves it a moment later.
_FIRST_ABSENT_RETRY: Final = 0.25
#: Errors in a row within streams after which the state is listed anew.
MAX_STREAM_ERRORS: Final = 3
#: Frames handled before other tasks may run, and bytes of them: in binary form 256 KiB of what is
#: small take up to 50 ms.
FRAMES_PER_YIELD: Final = 200
BYTES_PER_YIELD: Final = 256 * 1024


@dataclass(eq=False)
class Reflector(Generic[T]):
    """Lists and watches one resource for ever.

    Args:
        transport: where to.
        path: the collection, ``/api/v1/pods`` for example.
        decoder: of the objects' type.
        sink: hears of every change, in order, and of no state twice.
        rng: spreads time-outs and back-off.
        other_paths: the collection in other versions of its API, for a server that does not serve
            ``path``, in the order in which they are tried. All have to suit the decoder.
        query: selectors to add to every request.
        metadata_only: ask for nothing but the objects' metadata; a server that does not know how to
            sends all.
        metrics: gets ``watch_events`` {resource}, ``watch_bad_objects`` {resource} and
            ``watch_restarts`` {resource, why}.
        problems: hears whether the resource can be read.
        on_absent: called each time that the server has said that it does not serve the resource.
    """

    transport: Transport
    path: str
    decoder: Decoder[T]
    sink: Sink[T]
    _: KW_ONLY
    rng: random.Random
    other_paths: Sequence[str] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    metadata_only: bool = False
    metrics: MetricsRecorder = NULL_METRICS
    problems: ProblemReporter = IGNORE_PROBLEMS
    on_absent: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._name = resource_name(self.path)
        self._paths = (self.path, *self.other_paths)
        #: How many of them in a row the server does not serve.
        self._not_served_paths = 0
        self._backoff = Backoff(self.rng)
        self._silent_streams = 0
        self._use_watch_list = True
        self._until_yield = BYTES_PER_YIELD
        #: The version of each living object: an older event is a replay and is dropped.
        self._versions: dict[str, str] = {}
        #: Where to resume; empty when the full state has to be fetched.
        self.resource_version = ""
        #: Set once the sink has been given a full state, be it an empty one.
        self.synced = asyncio.Event()
        #: Whether the server does not serve this resource (its CRD is not installed).
        self.not_served = False
        #: Why the last attempt failed; empty while all is well.
        self.last_error = ""
        self._retry = asyncio.Event()
        self._absent_retry = NOT_SERVED_RETRY

    async def run(self) -> None:
        """Reflect until cancelled; raises only what the sink raises."""
        while True:
            delay = 0.0
            try:
                if self.resource_version or self._use_watch_list:
                    await self._watch(initial=not self.resource_version)
                else:
                    await self._list()
            except ExpiredError as reason:
                self.resource_version = ""
                self._record_restart("expired", str(reason))
                delay = self._backoff.next_delay_unless_first()
            except WatchListUnsupportedError as reason:
                self._use_watch_list = False
                self._record_restart("no_watch_list", str(reason))
            except NotServedError:
                delay = self._try_next_path()
            except ServerUnavailableError as error:
                self._record_restart("error", str(error.problem))
                self.problems.failed(self._name, error.problem)
                delay = max(error.wait, self._backoff.next_delay())
            except TransportError as error:
                self._record_restart("connection", str(error))
                self.problems.failed(self._name, error.problem)
                delay = self._backoff.next_delay()
            await self._pause(delay)

    def retry_absent(self) -> None:
        """The resource may have been installed a moment ago: see soon whether it is served."""
        if self.not_served:
            self._absent_retry = _FIRST_ABSENT_RETRY
            self._retry.set()

    async def _pause(self, delay: float) -> None:
        """Wait so many seconds, or until there may be more to see."""
        self._retry.clear()
        if delay <= 0:
            await asyncio.sleep(0)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._retry.wait()

    async def _list(self) -> None:
        """Fetch the full state page by page, consistently (never from a stale cache)."""
        self.sink.listing()
        accept = self._accept("PartialObjectMetadataList")
        request = Request("GET", self.path, query=self.query, accept=accept, timeout=60.0)
        try:
            listed = await list_pages(self.transport, request, self.decoder)
        except ListRefusedError as refused:
            raise self._response_error(refused.answer) from None
        except ParseError as error:
            raise self._failing(f"not a list: {error}") from error
        if not listed.resource_version:
            raise self._failing("not a list: it has no resourceVersion")
        self._report_undecodable(listed.undecodable)
        self._replace(listed.objects, listed.resource_version, listed.undecodable)

    async def _watch(self, *, initial: bool) -> None:
        """Follow one stream to its end; with ``initial`` it begins with the full state."""
        query = {
            **self.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self.rng.randint(300, 600)),
            "resourceVersion": self.resource_version,
        }
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            self.sink.listing()
        loop = asyncio.get_running_loop()
        started = loop.time()
        seen = 0
        request = Request("GET", self.path, query, accept=self._accept("PartialObjectMetadata"))
        opened = self.transport.stream(request, inactivity=INACTIVITY_TIMEOUT)
        async with opened as stream:
            if stream.status != 200:
                answer = Response(stream.status, await stream.body(), stream.headers)
                if initial and stream.status in (400, 422):
                    raise WatchListUnsupportedError(parse_status(answer.body).message)
                raise self._response_error(answer)
            self.last_error = ""
            if not initial:
                self.problems.succeeded(self._name)
            async with aclosing(stream.frames()) as frames:  # type: ignore[type-var]
                try:
                    if initial:
                        started = await self._read_initial_events(frames)
                    async for frame in frames:
                        self._handle_event(await decode_event(self.decoder, frame))
                        # Not counted before: an ERROR raises, and is no sign of health.
                        seen += 1
                        if seen % FRAMES_PER_YIELD == 0:
                            self._count_events(FRAMES_PER_YIELD)
                        await self._yield_after(frame)
                except TransportError as error:
                    if not seen and loop.time() - started >= 0.9 * INACTIVITY_TIMEOUT:
                        self._silent_streams += 1
                        if self._silent_streams >= MAX_SILENT_STREAMS:
                            raise ExpiredError("not even bookmarks come") from error
                    raise
                finally:
                    if seen:
                        self._silent_streams = 0
                    self._count_events(seen % FRAMES_PER_YIELD)
                    if seen or loop.time() - started >= MIN_WATCH_SECONDS:
                        self._backoff.reset()
        if not seen and loop.time() - started < MIN_WATCH_SECONDS:
            raise self._failing("the watch ended at once")

    async def _read_initial_events(self, frames: Any) -> float:
        """Collect the full state until its bookmark; gives the time at which it was complete."""
        found: dict[str, T | UndecodableObject] = {}
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(INITIAL_EVENTS_TIMEOUT) as timeout:
                count = 0
                async for frame in frames:
                    event = await decode_event(self.decoder, frame)
                    count += 1
                    if count % FRAMES_PER_YIELD == 0:
                        timeout.reschedule(loop.time() + INITIAL_EVENTS_TIMEOUT)
                    await self._yield_after(frame)
                    if isinstance(event, UndecodableObject):
                        self._report_undecodable([event])
                        found[event.metadata.uid] = event
                        if event.event == "DELETED":
                            del found[event.metadata.uid]
                    elif isinstance(event, RawWatchEvent):
                        if event.type == "ERROR":
                            raise self._event_error(event)
                        meta = decode_metadata(event.object)
                        if meta.annotations.get(INITIAL_EVENTS_END) != "true":
                            raise WatchListUnsupportedError(
                                "a bookmark came before the initial events"
                            )
                        bad = [o for o in found.values() if isinstance(o, UndecodableObject)]
                        good = [o for o in found.values() if not isinstance(o, UndecodableObject)]
                        self._replace(good, meta.resource_version, bad)
                        return loop.time()
                    elif event.type == "DELETED":
                        found.pop(event.object.metadata.uid, None)
                    else:
                        found[event.object.metadata.uid] = event.object
        except TimeoutError:
            raise WatchListUnsupportedError("the initial events do not end") from None
        raise TransportError("the watch ended within the initial events")

    async def _yield_after(self, frame: bytes) -> None:
        """Let others run once enough has been handled."""
        self._until_yield -= BYTES_PER_YIELD // FRAMES_PER_YIELD + len(frame)
        if self._until_yield <= 0:
            self._until_yield = BYTES_PER_YIELD
            await asyncio.sleep(0)

    def _accept(self, kind: str) -> str:
        """What to ask for, the metadata-only form of which is called ``kind``."""
        if not self.metadata_only:
            return self.decoder.accept
        return f"application/json;as={kind};g=meta.k8s.io;v=v1,application/json"

    def _handle_event(self, event: WatchEvent[T] | RawWatchEvent | UndecodableObject) -> None:
        if isinstance(event, RawWatchEvent):
            if event.type == "ERROR":
                raise self._event_error(event)
            self._advance_version(version_of_bookmark(event.object))
            return
        obj: T | UndecodableObject
        if isinstance(event, UndecodableObject):
            self._report_undecodable([event])
            kind, obj = event.event, event
        else:
            kind, obj = event.type, event.object
        uid, version = obj.metadata.uid, obj.metadata.resource_version
        known = self._versions.get(uid)
        if known is not None and not is_newer(version, known):
            self.metrics.increment("watch_stale_events", 1, resource=self.path)
            return
        self._advance_version(version)
        if kind == "DELETED" and (known is not None or isinstance(obj, UndecodableObject)):
            self._versions.pop(uid, None)
            self.sink.deleted(obj)
        elif kind in ("ADDED", "MODIFIED"):
            if not isinstance(obj, UndecodableObject):
                self._versions[uid] = version
            self.sink.applied(obj)

    def _replace(
        self, objects: list[T], version: str, undecodable: Sequence[UndecodableObject]
    ) -> None:
        self.not_served = False
        self._not_served_paths = 0
        self.last_error = ""
        before = self._versions
        self._versions = {o.metadata.uid: o.metadata.resource_version for o in objects}
        for uid in {bad.metadata.uid for bad in undecodable} & before.keys():
            self._versions[uid] = before[uid]  # its last known state stays
        self.resource_version = version
        self.problems.succeeded(self._name)
        self.sink.replaced(objects, version, undecodable)
        self.synced.set()

    def _advance_version(self, version: str) -> None:
        if version and (not self.resource_version or is_newer(version, self.resource_version)):
            self.resource_version = version

    def _try_next_path(self) -> float:
        """Turn to the next version of the API; returns the seconds to wait first."""
        self._not_served_paths += 1
        self.path = self._paths[(self._paths.index(self.path) + 1) % len(self._paths)]
        self.resource_version = ""
        if self._not_served_paths < len(self._paths):
            return 0.0
        self._not_served_paths = 0
        self._report_not_served()
        delay = self._absent_retry
        self._absent_retry = min(2 * delay, NOT_SERVED_RETRY)
        return delay

    def _report_not_served(self) -> None:
        self.last_error = "not served"
        if not self.not_served:
            self.not_served = True
            self._versions = {}
            self.problems.absent(self._name)
            self.sink.replaced([], "")
            self.synced.set()
        self.on_absent()

    def _record_restart(self, why: str, detail: str) -> None:
        self.last_error = detail or why
        self.metrics.increment("watch_restarts", 1, resource=self.path, why=why)
        log.debug("reflector.restart", resource=self.path, why=why, detail=detail)

    def _report_undecodable(self, bad: Iterable[UndecodableObject]) -> None:
        for item in bad:
            self.metrics.increment("watch_bad_objects", 1, resource=self.path)
            found = {
                "namespace": item.metadata.namespace,
                "name": item.metadata.name,
                "error": item.error,
            }
            log.warning("reflector.bad_object", resource=self.path, **found)

    def _count_events(self, amount: int) -> None:
        self.metrics.increment("watch_events", amount, resource=self.path)

    def _response_error(self, answer: Response) -> Exception:
        if answer.status == 404:
            return NotServedError()
        return self._classify(parse_status(answer.body, answer.status), retry_after(answer))

    def _event_error(self, event: RawWatchEvent) -> Exception:
        status = parse_status(event.object)
        error = self._classify(status, status.retry_after)
        if self._backoff.failures >= MAX_STREAM_ERRORS:
            return ExpiredError(f"again and again: {error}")
        return error

    def _classify(self, status: Status, wait: float) -> Exception:
        if status.expired or status.too_large_version:
            return ExpiredError(f"{status.code} {status.reason} {status.message}".strip())
        message = status.message or status.reason
        return ServerUnavailableError(problem_of_answer(status.code, message, self._name), wait)

    def _failing(self, what: str) -> ServerUnavailableError:
        return ServerUnavailableError(Problem(ProblemKind.FAILING, what, self._name))
