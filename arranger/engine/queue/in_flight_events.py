"""What happens while gangs are being tried in several steps.

An entity that waits is asked of each event whether that may help it. One that is in flight is not:
of what has happened meanwhile it is asked when its attempt has failed, for what rejected it is not
known before. Upstream: ``inFlightEvents`` of ``pkg/scheduler/backend/queue/active_queue.go``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from arranger.engine.context.entity import QueuedEntity
from arranger.engine.queue.hints import HelpQuestion, rejected_alike

#: Events that are kept with their objects. Of those before only the types are known.
MAX_KEPT: Final = 32


@dataclass(slots=True, eq=False)
class InFlightEvents:
    """Remembers events as long as somebody is in flight. They are numbered from 1."""

    #: Entity → the number of the last event before it.
    _since: dict[str, int] = field(default_factory=dict, init=False)
    _kept: deque[tuple[int, HelpQuestion]] = field(default_factory=deque, init=False)
    #: Type of event → (the number of the last one that is not kept, a question without objects).
    _types: dict[Hashable, tuple[int, HelpQuestion]] = field(default_factory=dict, init=False)

    def __bool__(self) -> bool:
        """Whether somebody is in flight."""
        return bool(self._since)

    def note(self, asked: HelpQuestion, number: int) -> None:
        """An event has happened."""
        if not self._since:
            return
        self._kept.append((number, asked))
        if len(self._kept) > MAX_KEPT:
            before, oldest = self._kept.popleft()
            self._types[oldest.kind] = before, oldest.without_objects()

    def begin(self, key: str, last: int) -> None:
        """An entity is in flight; it misses what comes after the event ``last``."""
        self._since.setdefault(key, last)

    def end(self, entity: QueuedEntity) -> None:
        """Its attempt is over, or goes on no more: it would know nothing of what comes."""
        entity.suspended, entity.slices, entity.has_made_events = None, 0, False
        self._since.pop(entity.key, None)
        if not self._since:
            self._kept.clear()
            self._types.clear()

    def missed_help(self, entity: QueuedEntity) -> bool:
        """Whether something may have helped a refused entity while it was in flight.

        Of events of which only the types are known any that concern it are thought to.
        """
        since = self._since.get(entity.key)
        if since is None:
            return False
        if any(number > since and asked.may_help(entity) for number, asked in self._kept):
            return True
        alike, bare = rejected_alike(entity), self._types.values()
        return any(number > since and asked.is_asked_by(entity, alike) for number, asked in bare)
