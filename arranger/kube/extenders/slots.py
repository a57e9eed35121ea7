"""How many calls may be under way at once, and whose are next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arranger.kube.fair_queue import FairQueue
from arranger.kube.in_flight import InFlight


class FairSlots:
    """Places for calls, which namespaces share: one that has many, or slow ones, leaves some free.

    Args:
        limit: how many there are.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = InFlight()
        self._waiting: FairQueue[asyncio.Future[int]] = FairQueue()

    @asynccontextmanager
    async def one_for(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a place, and have it inside."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.push(namespace, place)
        self._hand_out()
        try:
            await place
            yield
        finally:
            if place.done() and not place.cancelled():
                self._taken.end(place.result())
                self._hand_out()

    def _hand_out(self) -> None:
        now = asyncio.get_running_loop().time()

        def may_begin(namespace: str) -> bool:
            return self._taken.may_begin(namespace, self._limit, self._limit)

        # Whoever has given up waiting is passed over, and gives its place back at once.
        while (namespace := self._waiting.first_allowed(may_begin)) is not None:
            place = self._waiting.pop_from(namespace)
            if not place.done():
                place.set_result(self._taken.begin(namespace, now))
