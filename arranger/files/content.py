"""The bytes and the text of a file, no more of it than is allowed."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO

from arranger.files.limits import LIMITS, FileError, Limits


def read_text(path: Path, limits: Limits = LIMITS) -> str:
    """The text of a file; one whose name ends in ``.gz`` is unpacked.

    Raises:
        FileError: it cannot be read, is too large, or is no text.
    """
    try:
        with path.open("rb") as file:
            content = (
                _unpacked(file, limits) if path.suffix == ".gz" else file.read(limits.size + 1)
            )
    except (OSError, ValueError) as error:
        # ValueError: a name with a zero byte.
        raise FileError(getattr(error, "strerror", None) or str(error)) from error
    if len(content) > limits.size:
        raise FileError(f"larger than {limits.size >> 20} MiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError("not text in UTF-8") from error


def _unpacked(file: BinaryIO, limits: Limits) -> bytes:
    try:
        with gzip.open(file) as unpacked:
            return unpacked.read(limits.size + 1)
    except (EOFError, zlib.error) as error:
        raise OSError(f"not a whole gzipped file: {error}") from error
