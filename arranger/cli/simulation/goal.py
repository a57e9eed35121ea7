"""What ``--until`` waits for: that no pod waits, or that an object is so far."""

from __future__ import annotations

import re
from typing import Final

from arranger.embedded import Object
from arranger.embedded.storage.store import Change

PLACED: Final = "placed"
_OBJECT: Final = re.compile(
    r"(?P<kind>[A-Za-z]+)/((?P<namespace>[-a-z0-9.]+)/)?(?P<name>[-a-z0-9.]+)=(?P<state>[A-Za-z]+)"
)


class GoalError(ValueError):
    """It is none that can be waited for."""


class Goal:
    """Sees from the writes to a cluster whether it is reached.

    Args:
        text: ``placed``, or ``KIND/[NAMESPACE/]NAME=STATE``, where the state is a phase, a stage
            or a condition that holds, in any case: ``job/train=complete``.

    Raises:
        GoalError: the text is neither.

    Attributes:
        text: as it was given.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        found = _OBJECT.fullmatch(text)
        if text != PLACED and found is None:
            raise GoalError(f"{text!r} is neither placed nor KIND/NAME=STATE: job/train=Complete")
        self._wanted = None
        if found is not None:
            kind, state = found["kind"].lower(), found["state"].lower()
            self._wanted = kind, found["namespace"] or "default", found["name"], state
        self._waiting: set[str] = set()

    def __call__(self, change: Change) -> bool:
        """Whether this write reaches it."""
        if self._wanted is None:
            return change.resource == "/pods" and self._all_placed(change)
        kind, namespace, name, state = self._wanted
        meta = change.after["metadata"]
        if (str(change.after.get("kind", "")).lower(), meta["name"]) != (kind, name):
            return False
        if meta.get("namespace", namespace) != namespace:
            return False
        gone = change.type == "DELETED"
        return state == "deleted" if gone else state in _states(change.after)

    def _all_placed(self, change: Change) -> bool:
        uid = change.after["metadata"]["uid"]
        if change.type != "DELETED" and not change.after["spec"].get("nodeName"):
            self._waiting.add(uid)
            return False
        waited = uid in self._waiting
        self._waiting.discard(uid)
        return waited and not self._waiting


def _states(obj: Object) -> set[str]:
    """Its phase or stage, and the conditions that hold, in lower case."""
    status = obj.get("status")
    if not isinstance(status, dict):
        return set()
    state = status.get("state")
    words = [status.get("phase"), status.get("stage")]
    words.append(state.get("phase") if isinstance(state, dict) else state)
    conditions = (c for c in status.get("conditions") or () if isinstance(c, dict))
    words += [each.get("type") for each in conditions if each.get("status") == "True"]
    return {word.lower() for word in words if isinstance(word, str)}
