"""How large a file may be, and the error of one that is larger or not what it should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class FileError(ValueError):
    """A file cannot be used; the message is one line, without the file's name.

    Attributes:
        line, column: where, counted from 1; None where that is unknown.
    """

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.line, self.column = line, column


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that is read of a file.

    Attributes:
        size: bytes, unpacked.
        elements: scalars, lists and maps in it.
        repeated: of these, how many may stand for others that have been there (YAML's aliases).
        depth: lists and maps inside of each other.
        digits: characters of a number.
        documents: of YAML.
    """

    size: int = 256 << 20
    elements: int = 20_000_000
    repeated: int = 100_000
    depth: int = 200
    digits: int = 64
    documents: int = 100_000


LIMITS: Final = Limits()
TOO_DEEP: Final = "nested too deeply"
