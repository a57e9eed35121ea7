"""Objects that are gone, and whose deletion has raised: it is done again after a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from arranger.api.quarantine import QuarantineKey
from arranger.engine.faults.fault_notes import FaultNotes
from arranger.engine.faults.held_room import HeldRoom
from arranger.engine.faults.object_trials import ObjectTrials
from arranger.engine.handlers.watched_kinds import WatchedKind


@dataclass(slots=True, eq=False)
class FailedDeletions:
    """Which objects those are, until the deletion is done or another comes of the same name.

    Args:
        trials, held: keep in place of an object what it keeps, until then.
    """

    _notes: FaultNotes
    _trials: ObjectTrials
    _held: HeldRoom
    _objects: dict[QuarantineKey, Any] = field(default_factory=dict, init=False)

    def note(self, kind: WatchedKind[Any], obj: Any, error: Exception, now: float) -> None:
        """An object is gone, and not of all books."""
        key = kind.key_of(obj.metadata)
        self._objects[key] = obj
        self._trials.end_watch(key)
        self._notes.note(kind, obj, error, now, partial(self._delete_again, kind, obj))

    def has(self, kind: WatchedKind[Any], obj: Any) -> bool:
        """Whether an object that is gone is not of all books yet."""
        known = self._objects.get(kind.key_of(obj.metadata))
        return known is not None and known.metadata.uid == obj.metadata.uid

    def end(self, kind: WatchedKind[Any], obj: Any) -> None:
        """Nothing is left of an object, or there is another one: the earlier keeps nothing."""
        known = self._objects.pop(kind.key_of(obj.metadata), None)
        if known is not None and known.metadata.uid != obj.metadata.uid:
            self._end_kept(kind, known)

    def _delete_again(self, kind: WatchedKind[Any], obj: Any, now: float) -> None:
        if not self.has(kind, obj):
            return  # what has its name now is another object
        try:
            kind.deleted(obj, now)
        except Exception as error:
            self.note(kind, obj, error, now)
        else:
            self.end(kind, obj)
            self._notes.quarantine.release(*kind.key_of(obj.metadata))
            self._end_kept(kind, obj)

    def _end_kept(self, kind: WatchedKind[Any], obj: Any) -> None:
        self._trials.end(kind, obj)
        if kind.kind == "Pod":
            self._held.end(obj.metadata)
