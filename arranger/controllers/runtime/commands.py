"""Commands of ``bus.volcano.sh`` that wait to be obeyed."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import structlog

from arranger.api.types.command import Command
from arranger.controllers.runtime.writer import StatusError, Writer

log = structlog.get_logger(__name__)

#: Of a Command: whether it was obeyed, when it was created, its name and its uid.
_Place = tuple[bool, float, str, str]


class PendingCommands:
    """The Commands for one kind of objects, by the key of the object.

    Of one object the oldest comes first, and the next not before that is gone: so its target need
    remember one Command only to obey each once.

    Args:
        key_of: the key of a Command's target; None for a Command that is not for this kind.
    """

    def __init__(self, key_of: Callable[[Command], str | None]) -> None:
        self._key_of = key_of
        #: Key of the target → uid → Command; and uid → key.
        self._pending: dict[str, dict[str, Command]] = {}
        self._keys: dict[str, str] = {}
        #: Key → the same, in their order, the first first; some may be void by now.
        self._order: dict[str, list[_Place]] = {}
        #: Uids of those that were deleted and may still be shown by the watch.
        self._gone: set[str] = set()
        self._obeyed: set[str] = set()

    def on_updated(self, command: Command) -> set[str]:
        """A Command was created or edited; returns the key of its target.

        One that somebody has begun to delete is withdrawn.
        """
        uid, key = command.metadata.uid, self._key_of(command)
        withdrawn = uid in self._gone or command.metadata.deletion_timestamp is not None
        if key is not None and self._keys.get(uid) == key and not withdrawn:
            self._pending[key][uid] = command  # it keeps its place
            return {key}
        changed = self._remove(uid)
        if key is None or withdrawn:
            return changed
        self._pending.setdefault(key, {})[uid] = command
        self._keys[uid] = key
        heapq.heappush(self._order.setdefault(key, []), self._place_of(command))
        return changed | {key}

    def on_listed(self, command: Command) -> set[str]:
        """A full state shows a Command: if it was deleted, that is undone, or shown soon."""
        self._gone.discard(command.metadata.uid)
        return self.on_updated(command)

    def on_deleted(self, command: Command) -> set[str]:
        """A Command is gone, whoever has deleted it."""
        self._gone.discard(command.metadata.uid)
        return self._remove(command.metadata.uid)

    def next(self, key: str) -> Command | None:
        """The oldest Command for an object; one that was obeyed already, only where no other is."""
        pending, order = self._pending.get(key, {}), self._order.get(key, [])
        while order:
            command = pending.get(order[0][-1])
            if command is not None and self._place_of(command) == order[0]:
                return command
            heapq.heappop(order)
        return None

    def on_obeyed(self, command: Command) -> None:
        """A Command was obeyed, and is to be deleted only: perhaps the server does not let us."""
        if (key := self._keys.get(command.metadata.uid)) is not None:
            self._obeyed.add(command.metadata.uid)
            heapq.heappush(self._order[key], self._place_of(command))

    def was_obeyed(self, command: Command) -> bool:
        """Whether a Command was obeyed already, by this process."""
        return command.metadata.uid in self._obeyed

    async def delete(self, command: Command, writer: Writer) -> bool:
        """Delete a Command that was obeyed or is of no use; False if the server refuses.

        Raises:
            TransportError: no answer came; it is obeyed already, and to be deleted once more.
        """
        try:
            await writer.delete(command.path, uid=command.metadata.uid)
        except StatusError as error:
            write = log.debug if error.unauthorized else log.warning
            write("command.delete_refused", path=command.path, error=str(error))
            return False
        if self._remove(command.metadata.uid):
            self._gone.add(command.metadata.uid)
        return True

    def _remove(self, uid: str) -> set[str]:
        self._obeyed.discard(uid)
        key = self._keys.pop(uid, None)
        if key is None:
            return set()
        del self._pending[key][uid]
        if not self._pending[key]:
            del self._pending[key], self._order[key]
        return {key}

    def _place_of(self, command: Command) -> _Place:
        meta = command.metadata
        created = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
        return meta.uid in self._obeyed, created, meta.name, meta.uid
