"""Who rejects pods or holds them back and is no plugin: named where a plugin would be."""

from __future__ import annotations

from typing import Final

from arranger.framework.status import Code, Status

#: Named in statuses as the one who holds a gang back.
GANG: Final = "Gang"
#: Named as the plugin that rejects nodes which are kept for others.
KEPT_NODES: Final = "Reservation"
#: The same of nodes of which only a part is kept: room that becomes free may help.
KEPT_ROOM: Final = "ReservedRoom"
#: Either of them.
KEPT: Final = frozenset((KEPT_NODES, KEPT_ROOM))


def gang_rejection(reason: str) -> Status:
    """A gang may not be tried, for ``reason``."""
    return Status(Code.UNRESOLVABLE, (reason,), GANG)
