"""What happens to a row of the node table."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msgspec import structs

from arranger.api.types.core import Node
from arranger.cluster.object_store import equal_but_version


class RowChange(IntEnum):
    """What happened to a row."""

    USAGE = 0  # pods came
    NODE = 1  # the node object changed, appeared or vanished
    PODS_GONE = 2  # pods went, and others may have come
    IMAGES = 3  # the node object changed in its images alone
    NOTES = 4  # the same, in its annotations and conditions, perhaps in its images, too


#: What goes on all the time, and none of our filters asks about.
MINOR_CHANGES: Final = frozenset({RowChange.IMAGES, RowChange.NOTES})
#: What changes of the node object, and not of pods on it, do to a row.
NODE_CHANGES: Final = MINOR_CHANGES | {RowChange.NODE}


def node_row_change(before: Node | None, after: Node) -> RowChange | None:
    """What an update of a node changes; None for a heartbeat, which changes nothing we read.

    Images are pulled all the time, and no filter asks about them. Agents on nodes write annotations
    and conditions all the time, which none of our plugins reads; those of others may.
    """
    if before is None:
        return RowChange.NODE
    if equal_but_version(before, after):
        return None
    status = structs.replace(before.status, images=after.status.images)
    before = structs.replace(before, status=status)
    if equal_but_version(before, after):
        return RowChange.IMAGES
    metadata = structs.replace(before.metadata, annotations=after.metadata.annotations)
    status = structs.replace(status, conditions=after.status.conditions)
    before = structs.replace(before, metadata=metadata, status=status)
    return RowChange.NOTES if equal_but_version(before, after) else RowChange.NODE
