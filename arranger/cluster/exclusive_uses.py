"""What pods use that others of their node may not use as well: host ports, and disks by name.

Kept by what is used, so that whoever wants something finds the rows where it is taken without
looking at every pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from arranger.api.types.core import Volume

#: A host port claimed on a node: address (``0.0.0.0`` = all), protocol, port.
HostPort = tuple[str, str, int]
ANY_ADDRESS: Final = "0.0.0.0"
#: What identifies a disk: its kind, and its name there.
DiskKey = tuple[str, ...]
#: Uses of disks that count of one pod, each way to reach one for itself.
MAX_DISK_USES: Final = 256
#: Stands for all further ones of a pod: it may be any disk.
ANY_DISK: Final[DiskKey] = ("*",)

#: Kind of disk, as a field of a volume → (what identifies one, whether many pods may read it).
_DISKS: Final = {
    "gce_persistent_disk": ("pdName", True),
    "aws_elastic_block_store": ("volumeID", False),
    "iscsi": ("iqn", True),
}


def disk_uses(volumes: Iterable[Volume]) -> Iterator[tuple[DiskKey, bool]]:
    """The disks that volumes name, and whether each may be shared with others that only read.

    After :data:`MAX_DISK_USES` of them comes :data:`ANY_DISK`, if there are more. Only pods that
    others have placed are on a node with so many.
    """
    uses = _all_disk_uses(volumes)
    yield from islice(uses, MAX_DISK_USES)
    if next(uses, None) is not None:
        yield ANY_DISK, False


def _all_disk_uses(volumes: Iterable[Volume]) -> Iterator[tuple[DiskKey, bool]]:
    for volume in volumes:
        for kind, (identity, readable_by_many) in _DISKS.items():
            source: Mapping[str, Any] | None = getattr(volume, kind)
            if source is not None:
                name = str(source.get(identity))
                yield (kind, name), readable_by_many and bool(source.get("readOnly"))
        if (image := volume.rbd) is not None:
            reads = bool(image.get("readOnly"))
            for monitor in image.get("monitors") or ():
                pool, name = str(image.get("pool") or "rbd"), str(image.get("image"))
                yield ("rbd", str(monitor), pool, name), reads


def share_a_disk(one: Iterable[Volume], other: Iterable[Volume]) -> bool:
    """Whether two pods with these volumes keep each other off a node."""
    mine: dict[DiskKey, bool] = {}
    for key, reads in disk_uses(one):
        mine[key] = reads and mine.get(key, True)
    return any(
        (key in mine and not (reads and mine[key])) or (key == ANY_DISK and bool(mine))
        for key, reads in disk_uses(other)
    )


class HostPorts:
    """Row → host port → how many pods use it."""

    def __init__(self) -> None:
        self._in_use: dict[int, dict[HostPort, int]] = {}
        #: Host port → the rows where it is in use.
        self._rows: dict[HostPort, set[int]] = {}
        #: Protocol and port → row → how many uses there are, with whatever address.
        self._by_port: dict[tuple[str, int], dict[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._in_use)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostPorts) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def on_row(self, row: int) -> Mapping[HostPort, int]:
        """Those in use on one row."""
        return self._in_use.get(row, {})

    def add(self, ports: Iterable[HostPort], row: int, sign: int) -> None:
        """A pod with these comes (1) or goes (-1)."""
        in_use = self._in_use.setdefault(row, {})
        for port in ports:
            self._add_to_port(port[1:], row, sign)
            left = in_use.get(port, 0) + sign
            if left == sign == 1:
                self._rows.setdefault(port, set()).add(row)
            if left:
                in_use[port] = left
            else:
                del in_use[port]
                _discard(self._rows, port, row)
        if not in_use:
            del self._in_use[row]

    def rows_with_conflicts(self, wanted: Iterable[HostPort]) -> Iterator[Collection[int]]:
        """The rows where one of these is in use: on its own address, or on all."""
        for port in wanted:
            if port[0] == ANY_ADDRESS:
                yield self._by_port.get(port[1:], ())
            else:
                yield self._rows.get(port, ())
                yield self._rows.get((ANY_ADDRESS, *port[1:]), ())

    def _add_to_port(self, port: tuple[str, int], row: int, sign: int) -> None:
        rows = self._by_port.setdefault(port, {})
        left = rows.get(row, 0) + sign
        if left:
            rows[row] = left
        else:
            del rows[row]
            if not rows:
                del self._by_port[port]


class DiskUses:
    """Disk → row → how many uses there are, and how many that cannot be shared."""

    def __init__(self) -> None:
        self._rows: dict[DiskKey, dict[int, tuple[int, int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DiskUses) and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]

    def add(self, volumes: Iterable[Volume], row: int, sign: int) -> None:
        """A pod with these comes (1) or goes (-1)."""
        for key, reads in disk_uses(volumes):
            rows = self._rows.setdefault(key, {})
            uses, writers = rows.get(row, (0, 0))
            rows[row] = uses + sign, writers + (0 if reads else sign)
            if not rows[row][0]:
                del rows[row]
                if not rows:
                    del self._rows[key]

    def rows_with_conflicts(self, volumes: Iterable[Volume]) -> Iterator[list[int]]:
        """The rows where one of the disks is used, or may be, and cannot be shared."""
        anywhere = self._rows.get(ANY_DISK)
        for key, reads in disk_uses(volumes):
            if anywhere is not None:
                yield list(anywhere)
                anywhere = None
            rows = self._rows.get(key, {})
            if reads:
                yield [row for row, (_, writers) in rows.items() if writers]
            else:
                yield list(rows)


def _discard(found: dict[Any, set[Any]], key: Any, value: Any) -> None:
    found[key].discard(value)
    if not found[key]:
        del found[key]
