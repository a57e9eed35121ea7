"""Cutting the bytes of a watch into frames, each of them one event.

In JSON a frame is a line. In the binary form it stands behind its length, in four bytes
(``k8s.io/apimachinery/pkg/util/framer``).
"""

from __future__ import annotations

from typing import Final, Protocol

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.protobuf import MEDIA_TYPE, read_length

#: Bytes of the length of a frame in binary form, and of the longest frame that is taken: etcd
#: holds objects of 1.5 MB, and client-go takes frames of 16 MiB.
_LENGTH_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 16 << 20


class Splitter(Protocol):
    """Puts together what arrives in chunks of any size."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The frames that ``chunk`` completes.

        Raises:
            ParseError: no frame can be told any more; what came with it is lost.
        """


def splitter_of(content_type: str) -> Splitter:
    """The one for a stream of that media type."""
    return MessageSplitter() if content_type.startswith(MEDIA_TYPE) else LineSplitter()


class LineSplitter:
    """Cuts chunks into lines; linear however long a line is and however it is cut."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes, without newlines and without empty ones."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        if rest:
            self._parts.append(rest)
        return [line for line in lines if line]


class MessageSplitter:
    """Cuts chunks into messages in binary form."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        #: Bytes of all parts, and how many there must be to go on.
        self._size = 0
        self._wanted = _LENGTH_BYTES

    def feed(self, chunk: bytes) -> list[bytes]:
        """The messages that ``chunk`` completes, without their lengths."""
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size < self._wanted:
            return []
        body = b"".join(self._parts)
        messages, start = [], 0
        while (begin := start + _LENGTH_BYTES) <= len(body):
            length = read_length(body[start:begin])
            if length > MAX_FRAME_BYTES:
                raise ParseError(f"a frame of {length} bytes")
            end = begin + length
            if end > len(body):
                self._wanted = end - start
                break
            messages.append(body[begin:end])
            start = end
        else:
            self._wanted = _LENGTH_BYTES
        self._parts = [body[start:]]
        self._size = len(body) - start
        return messages
