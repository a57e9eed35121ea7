"""What a selector has said of devices, found by what it reads of them.

What an evaluation reads next depends only on the values that it has read before. So the results of
a selector are a tree: each branch names what is read there, and leads on by its value. To look one
up takes no longer, however many there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from arranger.api.types.resource_claims import Device
from arranger.plugins.dynamicresources.cel_device import Path, value_at
from arranger.plugins.dynamicresources.effort import DIGEST, Effort

#: Results kept for one selector, and values that are kept of all selectors together.
MAX_RESULTS: Final = 4096
MAX_VALUES: Final = 128 * 1024
#: Of an evaluation that reads more than so many parts of a device, or names with more characters
#: than any has, the result is kept by all of the device.
_MAX_PARTS: Final = 16
_MAX_NAME: Final = 256
_ALL_OF_IT: Final[Path] = ()


@dataclass(slots=True)
class _Branch:
    """What is read next, and its values: where each leads, or the result."""

    path: Path
    ways: _Ways = field(default_factory=dict)


_Ways = dict[Any, _Branch | bool | str]


class KnownResults:
    """The results of one selector.

    Args:
        room: how much may be kept of all selectors.

    Attributes:
        count: how many are kept.
    """

    def __init__(self, room: RoomForResults | None = None) -> None:
        self._room = room or RoomForResults()
        #: Where to begin, under None.
        self._first: _Ways = {}
        self._by_device: dict[Any, bool | str] = {}
        self.count = 0

    def find(self, driver: str, device: Device, effort: Effort) -> bool | str | None:
        """The result for a device that is equal in what is read; None if there is none yet."""
        at = self._first.get(None)
        while isinstance(at, _Branch):
            at = at.ways.get(_read(driver, device, at.path, effort))
        if at is None and self._by_device:
            at = self._by_device.get(_read(driver, device, _ALL_OF_IT, effort))
        return at

    def keep(
        self,
        driver: str,
        device: Device,
        reads: Collection[Path],
        result: bool | str,
        effort: Effort,
    ) -> None:
        """Keep the result of an evaluation that has read these parts, in this order."""
        if self.count >= MAX_RESULTS:
            self.forget()
        self.count += 1
        if len(reads) > _MAX_PARTS or any(len(part) > _MAX_NAME for path in reads for part in path):
            self._by_device[_read(driver, device, _ALL_OF_IT, effort)] = result
            self._room.take(self, 1)
            return
        self._room.take(self, 1 + len(reads))
        ways, value = self._first, None
        for path in reads:
            branch = ways.get(value)
            if not isinstance(branch, _Branch):
                branch = ways[value] = _Branch(path)
            ways, value = branch.ways, _read(driver, device, path, effort)
        ways[value] = result

    def forget(self) -> None:
        """Give up everything that is kept."""
        self.count = 0
        self._first.clear()
        self._by_device.clear()
        self._room.leave(self)


class RoomForResults:
    """How much is kept of the results of all selectors; whose were kept first lose them."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[KnownResults, int] = OrderedDict()
        self._size = 0

    def take(self, results: KnownResults, values: int) -> None:
        """So many values more are kept there."""
        self._sizes[results] = self._sizes.get(results, 0) + values
        self._sizes.move_to_end(results)
        self._size += values
        while self._size > MAX_VALUES and len(self._sizes) > 1:
            next(iter(self._sizes)).forget()

    def leave(self, results: KnownResults) -> None:
        """Nothing is kept there any more."""
        self._size -= self._sizes.pop(results, 0)


def _read(driver: str, device: Device, path: Path, effort: Effort) -> Any:
    effort.count(1 if len(path) == 3 or path == ("driver",) else DIGEST)
    return value_at(driver, device, path)
