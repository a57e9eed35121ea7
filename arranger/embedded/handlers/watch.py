"""Watches: from any version still in the history, with selectors, bookmarks and initial events."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

import msgspec

from arranger.embedded import Object
from arranger.embedded.builtin.field_selectors import Predicate, parse_selection
from arranger.embedded.errors import expired, invalid_list_option, invalid_version
from arranger.embedded.registry import Resource
from arranger.embedded.storage.store import Change, Store

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
#: Seconds between bookmarks; the first comes within them, as the real server's.
BOOKMARK_INTERVAL: Final = 60.0
DEFAULT_TIMEOUT: Final = 1800.0
#: Events that a slow reader may leave unread before its watch is closed.
MAX_BUFFERED_EVENTS: Final = 100_000

_encode: Final = msgspec.json.Encoder().encode
#: What follows the version in a bookmark.
_TAIL: Final = b'","creationTimestamp":null}}}'


class Watch:
    """One open watch; :meth:`lines` yields its events as JSON lines without newline.

    Args:
        render: turns a stored object into the one in the event; without it, as stored.

    Raises:
        ApiError: the query is invalid.
    """

    def __init__(
        self,
        store: Store,
        resource: Resource,
        namespace: str,
        query: Mapping[str, str],
        *,
        render: Callable[[Object], Object] | None = None,
    ) -> None:
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._render = render
        self._predicate: Predicate | None = parse_selection(resource, query)
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._timeout = float(query.get("timeoutSeconds") or DEFAULT_TIMEOUT)
        self._sends_initial_events = _wants_initial_events(query)
        self._start_version = _parse_start_version(query)
        self._buffer: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._silent_at = math.inf
        kinds = resource.kind.encode(), resource.api_version.encode()
        self._bookmark_head = (
            b'{"type":"BOOKMARK","object":{"kind":"%b","apiVersion":"%b","metadata":'
            b'{"resourceVersion":"' % kinds
        )
        self._buffer_initial_events()
        if not self._ended:
            self._unsubscribe = store.subscribe(self._on_change, resource.storage_key)

    def close(self) -> None:
        """End the watch; its reader sees a clean end."""
        if not self._ended:
            self._ended = True
            self._unsubscribe()
            self._wake()
        for timer in self._timers.values():
            timer.cancel()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield events until time is over or the watch is closed."""
        self.start()
        try:
            while not self.ended:
                if (line := self.take()) is not None:
                    yield line
                else:
                    await self.arrival()
        finally:
            self.close()

    # --- for readers that are in a hurry ---------------------------------------------------

    def start(self) -> None:
        """Somebody reads from now on: the time of the watch runs, and bookmarks come."""
        loop = asyncio.get_running_loop()
        self._timers["end"] = loop.call_later(self._timeout, self.close)
        if self._bookmarks:
            self._schedule_bookmark(loop)

    @property
    def ended(self) -> bool:
        """Whether no line will come any more."""
        return self._ended and not self._buffer

    def take(self) -> bytes | None:
        """The next line, if there is one now."""
        return self._buffer.popleft() if self._buffer else None

    async def arrival(self, within: float = math.inf) -> None:
        """Wait for a line, or the end.

        Raises:
            TimeoutError: neither came within so many seconds.
        """
        if self._buffer or self._ended:
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        # As long as bookmarks come within this time, it is not silent.
        if within < math.inf and not (self._bookmarks and within > BOOKMARK_INTERVAL):
            self._silent_at = loop.time() + within
            # One timer a watch, which is set anew when it rings, not with every line.
            if "silence" not in self._timers:
                self._timers["silence"] = loop.call_at(self._silent_at, self._on_silence, loop)
        try:
            await self._waiting
        finally:
            self._waiting = None

    # --- inside ----------------------------------------------------------------------------

    def _on_silence(self, loop: asyncio.AbstractEventLoop) -> None:
        del self._timers["silence"]
        if self._waiting is None or self._waiting.done():
            return
        if loop.time() >= self._silent_at:
            self._waiting.set_exception(TimeoutError())
        else:
            self._timers["silence"] = loop.call_at(self._silent_at, self._on_silence, loop)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _schedule_bookmark(self, loop: asyncio.AbstractEventLoop) -> None:
        """All watches have bookmarks at the same moments, so that the loop wakes once for all."""
        at = (loop.time() // BOOKMARK_INTERVAL + 1) * BOOKMARK_INTERVAL
        self._timers["bookmark"] = loop.call_at(at, self._push_bookmark, loop)

    def _push_bookmark(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._render is None:
            self._buffer.append(self._bookmark_head + str(self._store.version).encode() + _TAIL)
            self._wake()
        else:
            self._push("BOOKMARK", self._bookmark_object({}))
        self._schedule_bookmark(loop)

    def _buffer_initial_events(self) -> None:
        """Buffer what happened before now and belongs to this watch."""
        store = self._store
        if self._start_version is None:
            for obj in store.items(self._resource.storage_key, self._namespace):
                if self._predicate is None or self._predicate(obj):
                    self._push("ADDED", obj)
            if self._sends_initial_events:
                self._push("BOOKMARK", self._bookmark_object({INITIAL_EVENTS_END: "true"}))
        elif self._start_version < (
            oldest := store.oldest_watchable_version(self._resource.storage_key)
        ):
            error = expired(f"too old resource version: {self._start_version} ({oldest})")
            self._buffer.append(_encode({"type": "ERROR", "object": error.status()}))
            self._ended = True
        else:
            for change in store.changes_since(self._start_version):
                if change.resource == self._resource.storage_key:
                    self._push_change(change)

    def _on_change(self, change: Change) -> None:
        self._push_change(change)
        if len(self._buffer) > MAX_BUFFERED_EVENTS:
            self.close()

    def _push_change(self, change: Change) -> None:
        after, before = change.after, change.before
        if self._namespace and after["metadata"].get("namespace") != self._namespace:
            return
        if self._predicate is None:
            self._push(change.type, after)
            return
        was = before is not None and self._predicate(before)
        now = change.type != "DELETED" and self._predicate(after)
        if was and now:
            self._push("MODIFIED", after)
        elif now:
            self._push("ADDED", after)
        elif was:
            assert before is not None
            meta = {**before["metadata"], "resourceVersion": str(change.version)}
            self._push("DELETED", {**before, "metadata": meta})

    def _push(self, kind: str, obj: Object) -> None:
        if self._render is not None:
            shown = _encode(self._render(obj))
        elif kind == "BOOKMARK":
            shown = _encode(obj)
        else:
            shown = self._store.json(self._resource.storage_key, obj)
        self._buffer.append(b'{"type":"%b","object":%b}' % (kind.encode(), shown))
        self._wake()

    def _bookmark_object(self, annotations: Mapping[str, str]) -> Object:
        meta: Object = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = dict(annotations)
        resource = self._resource
        return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}


def _parse_start_version(query: Mapping[str, str]) -> int | None:
    """The version to resume from; None to begin with the objects there are."""
    asked = query.get("resourceVersion", "")
    if asked in ("", "0") or _wants_initial_events(query):
        return None
    try:
        return int(asked)
    except ValueError as error:
        raise invalid_version(asked) from error


def _wants_initial_events(query: Mapping[str, str]) -> bool:
    wants = query.get("sendInitialEvents") in ("true", "1")
    match = query.get("resourceVersionMatch", "")
    if wants and match != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires resourceVersionMatch NotOlderThan"
        raise invalid_list_option(why)
    if match and not wants:
        why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents"
        raise invalid_list_option(why)
    return wants
