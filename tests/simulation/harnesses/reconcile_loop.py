"""Runs a small controller that stands for one of kube-controller-manager's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class ReconcileLoop:
    """Calls ``reconcile`` some time after every :meth:`wake`, while it runs.

    Attributes:
        delay: seconds from a wake-up to the call.
    """

    def __init__(self, name: str, reconcile: Callable[[], None], *, delay: float) -> None:
        self.delay = delay
        self._name = name
        self._reconcile = reconcile
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Reconcile soon; if the loop does not run yet, once it does."""
        self._woken.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run as long as the block lasts.

        Raises:
            Exception: what ``reconcile`` has raised, and nobody was served since.
        """
        task = asyncio.create_task(self._run(), name=self._name)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            await asyncio.sleep(self.delay)
            self._reconcile()
