"""How the parts of a world that comes to rest tell the engine of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from arranger.engine.engine import Engine


class Told:
    """Tells an engine of an object, at the time that it is.

    Args:
        now: the seconds that have passed.
    """

    def __init__(self, engine: Engine, now: Callable[[], float]) -> None:
        self._handlers, self._now, self._version = engine.handlers, now, 1

    def __call__(self, shown: Any) -> None:
        self._handlers.on_object_updated(shown, self._now())

    def gone(self, shown: Any) -> None:
        """It is deleted."""
        self._handlers.on_object_deleted(shown, self._now())

    def next_version(self) -> str:
        """A resourceVersion that is later than all before."""
        self._version += 1
        return str(self._version)
