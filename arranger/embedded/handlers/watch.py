"""Watches: from any version that is remembered, with selections, bookmarks and initial events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import msgspec

from arranger.embedded.builtin.field_selectors import Selection, selection
from arranger.embedded.errors import ApiError, expired, invalid
from arranger.embedded.registry import Resource
from arranger.embedded.storage.store import Change, Store

Object = dict[str, Any]

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
#: Seconds between bookmarks; the first comes within them, as the real server's.
BOOKMARK_EVERY: Final = 60.0
DEFAULT_TIMEOUT: Final = 1800.0
#: Events a reader may lag behind before it is cut off.
BUFFER: Final = 100_000

_encode: Final = msgspec.json.Encoder().encode


class Watch:
    """One open watch; :meth:`lines` yields its events as JSON lines without newline.

    Args:
        show: makes of a stored object what events have; nothing else, without it.

    Raises:
        ApiError: the query makes no sense.
    """

    def __init__(
        self,
        store: Store,
        resource: Resource,
        namespace: str,
        query: Mapping[str, str],
        *,
        show: Callable[[Object], Object] | None = None,
    ) -> None:
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._show = show
        self._selected: Selection | None = selection(resource, query)
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._timeout = float(query.get("timeoutSeconds") or DEFAULT_TIMEOUT)
        self._initial = _wants_initial_events(query)
        self._from = _start(query)
        self._buffer: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._ended = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._fill()
        if not self._ended:
            self._leave = store.subscribe(self._on_change, resource.key)

    def close(self) -> None:
        """End the watch; its reader sees a clean end."""
        if not self._ended:
            self._ended = True
            self._leave()
            self._arrived.set()
        for timer in self._timers.values():
            timer.cancel()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield events until time is over or the watch is closed."""
        loop = asyncio.get_running_loop()
        self._timers["end"] = loop.call_later(self._timeout, self.close)
        if self._bookmarks:
            self._until_next_bookmark(loop)
        try:
            while True:
                while self._buffer:
                    yield self._buffer.popleft()
                if self._ended:
                    return
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            self.close()

    # --- inside ----------------------------------------------------------------------------

    def _until_next_bookmark(self, loop: asyncio.AbstractEventLoop) -> None:
        """All watches have theirs at the same moment: a loop wakes once for them all."""
        at = (loop.time() // BOOKMARK_EVERY + 1) * BOOKMARK_EVERY
        self._timers["bookmark"] = loop.call_at(at, self._bookmark, loop)

    def _bookmark(self, loop: asyncio.AbstractEventLoop) -> None:
        self._push("BOOKMARK", self._mark({}))
        self._until_next_bookmark(loop)

    def _fill(self) -> None:
        """Buffer what happened before now and belongs to this watch."""
        store = self._store
        if self._from is None:
            for obj in store.items(self._resource.key, self._namespace):
                if self._selected is None or self._selected(obj):
                    self._push("ADDED", obj)
            if self._initial:
                self._push("BOOKMARK", self._mark({INITIAL_EVENTS_END: "true"}))
        elif self._from < (oldest := store.oldest(self._resource.key)):
            error = expired(f"too old resource version: {self._from} ({oldest})")
            self._buffer.append(_encode({"type": "ERROR", "object": error.status()}))
            self._ended = True
        else:
            for change in store.since(self._from):
                if change.resource == self._resource.key:
                    self._take(change)

    def _on_change(self, change: Change) -> None:
        self._take(change)
        if len(self._buffer) > BUFFER:
            self.close()

    def _take(self, change: Change) -> None:
        after, before = change.after, change.before
        if self._namespace and after["metadata"].get("namespace") != self._namespace:
            return
        if self._selected is None:
            self._push(change.type, after)
            return
        was = before is not None and self._selected(before)
        now = change.type != "DELETED" and self._selected(after)
        if was and now:
            self._push("MODIFIED", after)
        elif now:
            self._push("ADDED", after)
        elif was:
            assert before is not None
            meta = {**before["metadata"], "resourceVersion": str(change.version)}
            self._push("DELETED", {**before, "metadata": meta})

    def _push(self, kind: str, obj: Object) -> None:
        if self._show is not None:
            shown = _encode(self._show(obj))
        elif kind == "BOOKMARK":
            shown = _encode(obj)
        else:
            shown = self._store.json(self._resource.key, obj)
        self._buffer.append(b'{"type":"%b","object":%b}' % (kind.encode(), shown))
        self._arrived.set()

    def _mark(self, annotations: Mapping[str, str]) -> Object:
        meta: Object = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = dict(annotations)
        return {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "metadata": meta,
        }


def _start(query: Mapping[str, str]) -> int | None:
    """The version to go on from; None to begin with what there is."""
    asked = query.get("resourceVersion", "")
    if asked in ("", "0") or _wants_initial_events(query):
        return None
    try:
        return int(asked)
    except ValueError as error:
        raise ApiError(500, "", f'strconv.ParseUint: parsing "{asked}": invalid syntax') from error


def _wants_initial_events(query: Mapping[str, str]) -> bool:
    wants = query.get("sendInitialEvents") in ("true", "1")
    match = query.get("resourceVersionMatch", "")
    if wants and match != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires resourceVersionMatch NotOlderThan"
        raise invalid("ListOptions", "meta.k8s.io", "", [("", "resourceVersionMatch", why)])
    if match and not wants:
        why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents"
        raise invalid("ListOptions", "meta.k8s.io", "", [("", "resourceVersionMatch", why)])
    return wants
