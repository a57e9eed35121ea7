"""Notes which objects have made our code raise, and tells their owners."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from arranger.api.quarantine import (
    Quarantine,
    QuarantinedObject,
    QuarantineKey,
    UnreadableError,
    quarantined_event,
)
from arranger.api.types.core import Pod
from arranger.engine.context import pod_events
from arranger.engine.context.engine_context import EngineContext
from arranger.engine.faults.states import content_of
from arranger.engine.handlers.watched_kinds import WatchedKind


@dataclass(slots=True, eq=False)
class FaultNotes:
    """What has been set aside, and since when that may have left the books wrong.

    Args:
        quarantine: the objects that are set aside.
        schedulers: the names of the schedulers whose pods are ours.

    Attributes:
        suspects: the objects set aside since the books were last found consistent.
    """

    quarantine: Quarantine
    _context: EngineContext
    _schedulers: frozenset[str]
    suspects: dict[QuarantineKey, Hashable] = field(default_factory=dict, init=False)

    def note(
        self,
        kind: WatchedKind[Any],
        obj: Any,
        error: Exception,
        now: float,
        retry: Callable[[float], None] | None = None,
    ) -> None:
        """An object has made our code raise; ``retry`` tries it again after a while."""
        about = kind.about(obj.metadata)
        content = content_of(obj)
        if isinstance(error, UnreadableError):
            retry = None  # only a change of it helps
        found = self.quarantine.add(about, error, now, retry, content)
        self.suspects[found.key] = content
        if found.is_news:
            self.tell(found, obj)

    def is_retried(self, key: QuarantineKey) -> bool:
        """Whether an object is set aside, and is tried again even if it does not change."""
        found = self.quarantine.get(*key)
        return found is not None and found.retry is not None

    def suspect(self, key: QuarantineKey) -> None:
        """What was left in the books of an object that is set aside has made our code raise."""
        if (found := self.quarantine.get(*key)) is not None:
            self.suspects.setdefault(key, found.content)

    def tell(self, found: QuarantinedObject, obj: Any) -> None:
        """Tell the owner: by the condition of a pod that waits for us, else by an event."""
        waits = isinstance(obj, Pod) and not obj.spec.node_name
        if waits and obj.spec.scheduler_name in self._schedulers:
            with suppress(Exception):  # a condition is more than an event, where one can be made
                self._context.outbox.extend(pod_events.set_aside(obj, found.message))
                return
        self._context.outbox.append(quarantined_event(found))
