"""What happens to a row of the node table."""

from __future__ import annotations

from enum import IntEnum

from msgspec import structs

from arranger.api.types.core import Node
from arranger.cluster.object_store import equal_but_version


class RowChange(IntEnum):
    """What happened to a row."""

    USAGE = 0  # pods came
    NODE = 1  # the node object changed, appeared or vanished
    PODS_GONE = 2  # pods went, and others may have come
    IMAGES = 3  # the node object changed in its images alone


def node_row_change(before: Node | None, after: Node) -> RowChange | None:
    """What an update of a node changes; None for a heartbeat, which changes nothing we read.

    Images are pulled all the time, and no filter asks about them.
    """
    if before is None:
        return RowChange.NODE
    if equal_but_version(before, after):
        return None
    status = structs.replace(before.status, images=after.status.images)
    alike = equal_but_version(structs.replace(before, status=status), after)
    return RowChange.IMAGES if alike else RowChange.NODE
