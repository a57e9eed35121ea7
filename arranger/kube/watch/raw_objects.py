"""Objects as the server sent them, byte for byte, for extenders, which may read any field."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.nesting import MAX_BRACKETS, cut_deep_parts
from arranger.api.parsing.objects import decode_object
from arranger.kube.watch.decoder import (
    Decoder,
    ListMeta,
    PartialMetadata,
    RawWatchEvent,
    UndecodableObject,
    WatchEvent,
    decode_metadata,
    raw_page,
)


class RawObject(msgspec.Struct):
    """An object's metadata, and all of it as JSON."""

    metadata: PartialMetadata
    raw: bytes


class RawObjectDecoder(Decoder[RawObject]):
    """Decodes nothing but the metadata."""

    def __init__(self) -> None:
        super().__init__(RawObject)

    def decode_event(
        self, line: bytes
    ) -> WatchEvent[RawObject] | RawWatchEvent | UndecodableObject:
        """One line of a watch."""
        try:
            envelope = decode_object(line, RawWatchEvent, cut=True, most=MAX_BRACKETS)
            if envelope.type in ("ERROR", "BOOKMARK"):
                return envelope
            return WatchEvent(envelope.type, _raw_object(envelope.object))
        except Exception as error:  # whatever it is, only this object suffers
            return UndecodableObject(PartialMetadata(), str(error))

    def decode_page(self, body: bytes) -> tuple[ListMeta, list[RawObject], list[UndecodableObject]]:
        """One page of a list; raises ParseError if it is none."""
        meta, items = raw_page(body)
        return meta, [_raw_object(_cut(item)) for item in items], []


class RawObjectStore:
    """A reflector's sink that keeps the JSON of every object, by name.

    Attributes:
        synced: whether a full state has been delivered.
    """

    def __init__(self) -> None:
        self.synced = False
        self._objects: dict[str, bytes] = {}

    def __getitem__(self, name: str) -> bytes:
        """The object's JSON; raises KeyError if there is none of that name."""
        return self._objects[name]

    def listing(self) -> None:
        """Nothing is known but what was read."""

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def replaced(
        self,
        objects: list[RawObject],
        resource_version: str,
        undecodable: Sequence[UndecodableObject] = (),
    ) -> None:
        """The full state, after a list; nothing in it is undecodable."""
        self._objects = {obj.metadata.name: obj.raw for obj in objects}
        self.synced = True

    def applied(self, obj: RawObject | UndecodableObject) -> None:
        """One object was added or edited."""
        if not isinstance(obj, UndecodableObject):
            self._objects[obj.metadata.name] = obj.raw

    def deleted(self, obj: RawObject | UndecodableObject) -> None:
        """One object was deleted."""
        self._objects.pop(obj.metadata.name, None)


def _cut(raw: bytes | msgspec.Raw) -> bytes | msgspec.Raw:
    """An object of a page, without what of it is nested too deeply for others as well."""
    try:
        decode_object(raw, msgspec.Raw)
    except ParseError:
        return cut_deep_parts(bytes(raw), MAX_BRACKETS)
    return raw


def _raw_object(raw: bytes | msgspec.Raw) -> RawObject:
    return RawObject(decode_metadata(raw), bytes(raw))
