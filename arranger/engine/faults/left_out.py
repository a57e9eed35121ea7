"""Objects that are left out: over them an earlier engine came to grief."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from arranger.api.quarantine import QuarantineKey
from arranger.engine.faults.states import content_of
from arranger.engine.handlers.watched_kinds import WatchedKind


@dataclass(slots=True, eq=False)
class LeftOutObjects:
    """Which objects, in the state they had then: when their owners change them they count again."""

    _contents: dict[QuarantineKey, Hashable]
    #: uids of those whose owners were told.
    _told: set[str] = field(default_factory=set, init=False)

    def __contains__(self, key: QuarantineKey) -> bool:
        return key in self._contents

    def has(self, kind: WatchedKind[Any], obj: Any) -> bool:
        """Whether an object is left out as it is."""
        if not self._contents:
            return False
        content = self._contents.get(kind.key_of(obj.metadata))
        return content is not None and content == content_of(obj)

    def is_news(self, uid: str) -> bool:
        """Whether an owner is to be told of an object; once, however often this is asked."""
        if uid in self._told:
            return False
        self._told.add(uid)
        return True

    def forget(self, kind: WatchedKind[Any], meta: Any) -> None:
        """An object is not left out any more, or is gone."""
        self._contents.pop(kind.key_of(meta), None)
