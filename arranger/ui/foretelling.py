"""What becomes of pods that nobody has tried yet: asked of the shadow while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from arranger.shadow.forecasts.comparison import PresentState
from arranger.ui.source import QuestionError

#: Seconds between two questions, and that a page waits for the answer: for the first one, and where
#: that of before can be shown.
_BETWEEN: Final = 10.0
_PATIENCE: Final = 2.0
_BRIEFLY: Final = 0.1


class Foretells(Protocol):
    """Of :class:`~arranger.ui.source.Source`, what is needed."""

    @property
    def version(self) -> int:
        """Another one whenever the state is."""

    async def present(self) -> PresentState:
        """What the scheduler would do now."""


class Foretelling:
    """Remembers the last answer, and asks again when the cluster has changed.

    Args:
        source: is asked, once at a time.
        clock: seconds.
    """

    def __init__(self, source: Foretells, clock: Callable[[], float]) -> None:
        self._source, self._clock = source, clock
        self._texts: Mapping[str, str] = {}
        self._version: int | None = None
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def texts(self) -> Mapping[str, str]:
        """Pod (``namespace/name``) → what becomes of it; that of before where it takes too long."""
        if self._asking is None and self._is_due():
            self._asked_at = self._clock()
            self._asking = asyncio.create_task(self._ask(self._source.version))
        if self._asking is not None:
            patience = _PATIENCE if self._version is None else _BRIEFLY
            await asyncio.wait([self._asking], timeout=patience)
        return self._texts

    def _is_due(self) -> bool:
        changed = self._version != self._source.version
        return changed and self._clock() - self._asked_at >= _BETWEEN

    async def _ask(self, version: int) -> None:
        try:
            told = await self._source.present()
            self._texts = _texts(told)
            self._version = version
        except QuestionError:
            pass  # what was known before goes on to be shown
        finally:
            self._asking = None


def _texts(told: PresentState) -> dict[str, str]:
    placed = {key: f"goes to node {node} when it is tried" for key, node in told.nodes.items()}
    return {**told.waiting, **placed}
