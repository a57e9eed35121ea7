"""Objects that are gone, and whose deletion has raised: it is done again after a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from arranger.api.quarantine import QuarantineKey
from arranger.engine.faults.fault_notes import FaultNotes
from arranger.engine.handlers.watched_kinds import WatchedKind


@dataclass(slots=True, eq=False)
class FailedDeletions:
    """Which objects those are, until the deletion is done or another comes of the same name."""

    _notes: FaultNotes
    #: Object → its uid.
    _uids: dict[QuarantineKey, str] = field(default_factory=dict, init=False)

    def note(self, kind: WatchedKind[Any], obj: Any, error: Exception, now: float) -> None:
        """An object is gone, and not of all books."""
        self._uids[_key(kind, obj)] = obj.metadata.uid
        self._notes.note(kind, obj, error, now, partial(self._delete_again, kind, obj))

    def has(self, kind: WatchedKind[Any], obj: Any) -> bool:
        """Whether an object that is gone is not of all books yet."""
        return bool(self._uids) and self._uids.get(_key(kind, obj)) == obj.metadata.uid

    def end(self, kind: WatchedKind[Any], obj: Any) -> None:
        """Nothing is left of an object, or there is another one."""
        self._uids.pop(_key(kind, obj), None)

    def _delete_again(self, kind: WatchedKind[Any], obj: Any, now: float) -> None:
        try:
            kind.deleted(obj, now)
        except Exception as error:
            self.note(kind, obj, error, now)
        else:
            self.end(kind, obj)
            self._notes.quarantine.release(*_key(kind, obj))


def _key(kind: WatchedKind[Any], obj: Any) -> QuarantineKey:
    return kind.kind, obj.metadata.namespace, obj.metadata.name
