"""Which objects have gone while the server was asked about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from arranger.controllers.runtime.objects import LISTED


class Tombstones:
    """Uids of objects that were deleted while a reconcile of their key was under way.

    An answer of the server may come after a watch has shown that the object is gone. Taken in then,
    it would bring back what nobody would ever delete again.
    """

    def __init__(self) -> None:
        self._uids: dict[str, set[str]] = {}

    @contextmanager
    def kept(self, key: str) -> Iterator[None]:
        """Remember, until the end of a reconcile, what of this key is deleted meanwhile."""
        self._uids[key] = set()
        try:
            yield
        finally:
            del self._uids[key]

    def add(self, key: str, uid: str) -> None:
        """An object is gone."""
        if key in self._uids:
            self._uids[key].add(uid)

    def has(self, key: str, uid: str, *, asked_at: str = "") -> bool:
        """Whether an object is known to be gone.

        Args:
            asked_at: :data:`LISTED` where a full state shows it: if it is gone all the same, a
                watch is going to say so.
        """
        return asked_at != LISTED and uid in self._uids.get(key, ())
