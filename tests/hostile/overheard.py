"""What our processes write that names another tenant's objects.

All that they send passes here. Names of the neighbour's objects begin with a word that no attack
spells, and nothing of the neighbour's spells the culprit's namespace: whatever is written to one
and has the other's word was said by us.
"""

from __future__ import annotations

from typing import Final

from arranger.kube.client.transport import Request
from tests.hostile.attack import CULPRIT, NEIGHBOUR

#: How the names of the neighbour's objects begin.
SECRET: Final = "zebra"
_WRITES: Final = frozenset({"POST", "PUT", "PATCH"})


class Overheard:
    """The writes that tell somebody what is another's."""

    def __init__(self) -> None:
        self._leaks: list[str] = []

    def note(self, request: Request) -> None:
        """Look at a request of one of our processes."""
        if request.method not in _WRITES or not request.body:
            return
        foreign = CULPRIT if f"/namespaces/{NEIGHBOUR}/" in request.path else SECRET
        place = request.body.find(foreign.encode())
        if place >= 0:
            around = request.body[max(0, place - 200) : place + 200]
            self._leaks.append(f"{request.method} {request.path}: …{around!r}…")

    def take(self) -> list[str]:
        """What has been heard since the last time."""
        found, self._leaks = self._leaks, []
        return found
