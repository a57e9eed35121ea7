"""Decoding watch events and list pages in the API server's binary form, and in JSON.

Some servers, such as those of aggregated APIs, know JSON only; what came says in which form it is.
An event is a ``meta/v1.WatchEvent``, which wraps the object; a page is an object of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from arranger.api.parsing.errors import ParseError, cut_message
from arranger.api.parsing.protobuf import (
    MAGIC,
    MEDIA_TYPE,
    Message,
    Wire,
    message_class,
    parse,
    read_message,
    unwrap,
)
from arranger.api.types.core import Node, Pod
from arranger.api.types.core_messages import CORE_MESSAGES
from arranger.kube.watch.decoder import (
    METADATA_MESSAGES,
    Decoder,
    ListMeta,
    PartialMetadata,
    PartialObjectMetadata,
    PartialPod,
    RawWatchEvent,
    T,
    UndecodableObject,
    WatchEvent,
    taken_node,
)

#: The kinds that are read so: those of which there are many.
BINARY_KINDS: Final[frozenset[type]] = frozenset({Pod, Node})
#: How an event begins in binary form: with its type. No line of JSON does.
_EVENT_TYPE: Final = b"\n"
#: ``WatchEvent``, the extension in it, and a list.
_EVENT: Final = message_class(type=(1, Wire.BYTES), object=(2, Wire.BYTES))
_EXTENSION: Final = message_class(raw=(1, Wire.BYTES))
_LIST: Final = message_class(metadata=(1, Wire.BYTES), items=(2, Wire.BYTES_LIST))


def decoder_of(kind: type[T], trim: Callable[[T], None] | None = None) -> Decoder[T]:
    """The decoder of a kind, which asks for the binary form where that is known."""
    if kind in BINARY_KINDS:
        return ProtobufDecoder(kind, CORE_MESSAGES.of(kind), trim)
    return Decoder(kind, trim)


class ProtobufDecoder(Decoder[T]):
    """Decodes the binary form, and JSON where that comes."""

    accept = f"{MEDIA_TYPE},application/json"

    def __init__(
        self, kind: type[T], message: Message[T], trim: Callable[[T], None] | None = None
    ) -> None:
        super().__init__(kind, trim)
        self._message = message

    def decode_event(self, frame: bytes) -> WatchEvent[T] | RawWatchEvent | UndecodableObject:
        """One frame."""
        if not frame.startswith(_EVENT_TYPE):
            return super().decode_event(frame)
        kind = ""
        try:
            event = parse(_EVENT, frame)
            kind = event.type.decode()
            body = parse(_EXTENSION, event.object).raw
            if kind in ("ERROR", "BOOKMARK"):
                return RawWatchEvent(kind, msgspec.Raw(body))
            inner = unwrap(body)
        except (ParseError, UnicodeError) as error:
            return UndecodableObject(PartialMetadata(), cut_message(str(error)), kind)
        found = self._read(inner)
        if isinstance(found, UndecodableObject):
            found.event = kind
            return found
        return WatchEvent(kind, found)

    def decode_page(self, body: bytes) -> tuple[ListMeta, list[T], list[UndecodableObject]]:
        """One page of a list; raises ParseError if it is none."""
        if not body.startswith(MAGIC):
            return super().decode_page(body)
        found = parse(_LIST, unwrap(body))
        good: list[T] = []
        bad: list[UndecodableObject] = []
        for part in found.items:
            decoded = self._read(part)
            if isinstance(decoded, UndecodableObject):
                bad.append(decoded)
            else:
                good.append(decoded)
        metadata = read_message(found.metadata, METADATA_MESSAGES.of(ListMeta))
        return metadata, good, bad

    def _read(self, body: bytes) -> T | UndecodableObject:
        try:
            decoded = read_message(body, self._message)
            self._shrink(decoded, body)
            return decoded
        except Exception as error:  # whatever it is, only this object suffers
            wrong = cut_message(str(error))
        try:
            whole = read_message(body, METADATA_MESSAGES.of(PartialObjectMetadata))
        except ParseError:
            return UndecodableObject(PartialMetadata(), wrong)
        found = UndecodableObject(whole.metadata, wrong)
        with suppress(ParseError):
            found.node = taken_node(read_message(body, METADATA_MESSAGES.of(PartialPod)))
        return found
