"""Keys of objects that are due: each is reconciled soon after it changes, not at every change.

Client-go's workqueue with the loop of controller-runtime around it: a key is reconciled by one
worker at a time, what changes while it waits is covered by the same reconcile, and one whose
writes fail is tried again after a back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Final

import structlog

from arranger.api.effects import ObjectReference
from arranger.api.parsing.errors import ParseError
from arranger.controllers.runtime.controller import ControllerOptions
from arranger.controllers.runtime.writer import StatusError
from arranger.kube.client.backoff import Backoff
from arranger.kube.client.transport import TransportError
from arranger.kube.fair_queue import FairQueue, anyone
from arranger.kube.in_flight import InFlight
from arranger.kube.timed_wait import wait_until

log = structlog.get_logger(__name__)

#: Keys reconciled at a time: few, because the scheduler's bindings go before. One namespace alone
#: has four of them.
_CONCURRENT: Final = 5
#: The same with those that take long, as where a webhook does not answer.
_MOST: Final = 16
#: Reconciles of a key that may follow each other at once: the pods of a job are made in slices.
MAX_AT_ONCE: Final = 100


class Result(Enum):
    """How a reconcile ended."""

    DONE = "done"  # there is nothing to do until something changes
    REQUEUE = "requeue"  # something was not as it was known: reconcile again soon
    BACKOFF = "backoff"  # a write has failed: reconcile again after a back-off


#: Makes one object true, given its key. Seconds mean DONE, and to be called again after that time
#: though nothing has changed.
Reconcile = Callable[[str], Awaitable[Result | float]]


class DueKeys:
    """Keys that are due, from one namespace after the other."""

    def __init__(self) -> None:
        self._keys: FairQueue[str] = FairQueue()

    def __len__(self) -> int:
        return len(self._keys)

    def put(self, key: str) -> None:
        """Add a key behind all others of its namespace."""
        self._keys.push(_namespace_of(key), key)

    def take(self, may: Callable[[str], bool] = anyone) -> str | None:
        """The next key, of the namespaces that ``may``; None if there is none."""
        return self._keys.pop_allowed(may)


class WorkQueue:
    """The keys of one controller.

    Args:
        name: of the kind of objects, for the log: ``gang``, ``job``.
        about: the object of a key, for Events.

    Attributes:
        panics: key → what its last reconcile raised that it must not, as a defect does.
    """

    def __init__(
        self, options: ControllerOptions, name: str, about: Callable[[str], ObjectReference]
    ) -> None:
        self.panics: dict[str, Exception] = {}
        self._about = about
        #: Key → what was quarantined because of its reconcile.
        self._quarantined: dict[str, ObjectReference] = {}
        self._barrier = options.barrier
        self._name = name
        self._debounce = options.debounce
        self._rng = options.rng
        self._ready = DueKeys()
        #: Key → when it is due, and the timer.
        self._timers: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        self._processing: set[str] = set()
        self._in_flight = InFlight()
        #: Set when a key may have become due, or may be reconciled now.
        self._changed = asyncio.Event()
        self._backoffs: dict[str, Backoff] = {}
        #: Key → how many of its last reconciles were to be followed by another one at once.
        self._at_once: dict[str, int] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is due, now or later, and nothing is failing."""
        return not (self._timers or self._processing or self._backoffs)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is due, now or later, but to try again what has failed."""
        return not self._processing and self._timers.keys() <= self._backoffs.keys()

    async def run(
        self, reconcile: Reconcile, *, caches_synced: Iterable[asyncio.Event] = ()
    ) -> None:
        """Call ``reconcile`` for every key that is due, never twice at a time for the same.

        Until cancelled, and not before all these events have come. When ``reconcile`` raises,
        that is BACKOFF: no object may end the process, whatever it is like.
        """
        for event in caches_synced:
            await event.wait()
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._changed.clear()
                    while (key := self._next_key()) is not None:
                        number = self._in_flight.begin(_namespace_of(key), _now())
                        self._processing.add(key)
                        group.create_task(self._process(key, number, reconcile))
                    slow = self._in_flight.next_slow() if len(self._ready) else None
                    await wait_until(self._changed, slow)
        finally:
            for _, timer in self._timers.values():
                timer.cancel()

    def enqueue(self, keys: Iterable[str]) -> None:
        """Reconcile these keys soon; one that is failing waits for its next try.

        In the order of their names: equal events have equal consequences in every process.
        """
        for key in sorted(keys):
            # The try that is under way may have read what there was before.
            if key not in self._backoffs or key in self._processing:
                self._enqueue_after(self._debounce, key)

    def _enqueue_after(self, delay: float, key: str) -> None:
        """Reconcile a key in so many seconds, unless it is due earlier already."""
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        known = self._timers.get(key)
        if known is not None:
            if known[0] <= when:
                return
            known[1].cancel()
        self._timers[key] = when, loop.call_at(when, self._on_timer, key)

    def _on_timer(self, key: str) -> None:
        del self._timers[key]
        self._ready.put(key)
        self._changed.set()

    def _next_key(self) -> str | None:
        """The key that is to be reconciled now, if there is any."""
        self._in_flight.note_slow(_now())
        while (key := self._ready.take(self._may_begin)) is not None:
            if key not in self._processing:
                return key
            self._enqueue_after(self._debounce, key)
        return None

    def _may_begin(self, namespace: str) -> bool:
        return self._in_flight.may_begin(namespace, _CONCURRENT, _MOST)

    async def _process(self, key: str, number: int, reconcile: Reconcile) -> None:
        """Reconcile a key, which is number so many of those under way."""
        try:
            result = await reconcile(key)
        except (StatusError, TransportError, ParseError) as error:
            # What ails all objects is told of the server, and the rest at its first failure.
            own = isinstance(error, StatusError) and not error.unauthorized
            write = log.info if own and key not in self._backoffs else log.debug
            write(f"{self._name}.write_failed", key=key, error=str(error))
            if isinstance(error, StatusError) and error.invalid:
                self._barrier.on_refused(self._about(key), error.message)
            result = Result.BACKOFF
        except Exception as error:
            self._on_panic(key, error)
            result = Result.BACKOFF
        else:
            self._on_no_panic(key)
        finally:
            self._processing.discard(key)
            self._in_flight.end(number)
            self._changed.set()
        self._handle_result(key, result)

    def _on_panic(self, key: str, error: Exception) -> None:
        about = self._about(key)
        if self._quarantined.setdefault(key, about) != about:
            self._on_no_panic(key)  # what the key is known by has changed
        self.panics[key], self._quarantined[key] = error, about
        self._barrier.on_reconcile_fault(about, error)

    def _on_no_panic(self, key: str) -> None:
        if self.panics.pop(key, None) is not None:
            self._barrier.on_reconciled(self._quarantined.pop(key))

    def _handle_result(self, key: str, result: Result | float) -> None:
        at_once = self._at_once.pop(key, 0)
        if result is Result.BACKOFF:
            backoff = self._backoffs.setdefault(key, Backoff(self._rng))
            # A change that has come meanwhile waits as long: the server is not well.
            if known := self._timers.pop(key, None):
                known[1].cancel()
            self._enqueue_after(backoff.next_delay(), key)
            return
        self._backoffs.pop(key, None)
        if result is Result.REQUEUE:
            self.enqueue([key])
        elif isinstance(result, float):
            if result <= 0:
                # Who goes on at once again and again is undone by somebody: it waits like a change.
                self._at_once[key] = at_once + 1
                result = 0.0 if at_once < MAX_AT_ONCE else self._debounce
            self._enqueue_after(result, key)


def _namespace_of(key: str) -> str:
    namespace, slash, _ = key.partition("/")
    return namespace if slash else ""


def _now() -> float:
    return asyncio.get_running_loop().time()
