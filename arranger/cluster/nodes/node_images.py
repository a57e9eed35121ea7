"""Which images are on which nodes."""

from __future__ import annotations

from collections.abc import Mapping

from arranger.api.types.core import Node


class NodeImages:
    """Image name → row → its size in bytes."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def holders(self, name: str) -> Mapping[int, int]:
        """Row → size of the image of that name there."""
        return self._holders.get(name, {})

    def set_row(self, row: int, before: Node | None, after: Node | None) -> None:
        """The node of a row has changed, or come or gone."""
        for image in before.status.images if before is not None else ():
            for name in image.names:
                holders = self._holders.get(name)
                if holders is not None:
                    holders.pop(row, None)
                    if not holders:
                        del self._holders[name]
        for image in after.status.images if after is not None else ():
            for name in image.names:
                self._holders.setdefault(name, {})[row] = image.size_bytes
