"""Decoding watch lines and list pages in one pass per object, forgiving one bad object."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import msgspec


class Meta(Protocol):
    """What the edge reads of ``metadata``."""

    name: str
    namespace: str
    uid: str
    resource_version: str


class KubeObject(Protocol):
    """Any API object: a msgspec Struct with ``metadata``."""

    @property
    def metadata(self) -> Any:
        """A :class:`Meta`; typed loosely because Struct fields are invariant."""
        ...


T = TypeVar("T", bound=KubeObject)
_T = TypeVar("_T")

#: Set on the bookmark that ends the initial events of a WatchList stream.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchEvent(msgspec.Struct, Generic[_T]):
    """One line of a watch."""

    type: str
    object: _T


class Envelope(msgspec.Struct):
    """One line of a watch whose object is decoded later, or not at all."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class BareMeta(msgspec.Struct, rename="camel"):
    """The metadata of an object that cannot be decoded as a whole, or of a bookmark or list."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class Bare(msgspec.Struct):
    """Any object, seen only by its metadata."""

    metadata: BareMeta = msgspec.field(default_factory=BareMeta)


class ListMeta(msgspec.Struct, rename="camel"):
    """The metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _RawPage(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class _Page(msgspec.Struct, Generic[_T]):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[_T] | None = None


_envelope = msgspec.json.Decoder(Envelope)
_bare = msgspec.json.Decoder(Bare)
_raw_page = msgspec.json.Decoder(_RawPage)


def decode_bare(raw: bytes | msgspec.Raw) -> BareMeta:
    """The metadata in ``raw``; empty where even that cannot be decoded."""
    try:
        return _bare.decode(raw).metadata
    except msgspec.DecodeError:
        return BareMeta()


class BadObject(msgspec.Struct):
    """An object that could not be decoded: who it is, as far as known, and why."""

    meta: BareMeta
    error: str


class Decoder(Generic[T]):
    """Decodes the events and lists of one type: a msgspec Struct with ``metadata``."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        # msgspec resolves the parameter at run time, which type checkers cannot follow.
        self._event: msgspec.json.Decoder[WatchEvent[T]] = msgspec.json.Decoder(
            WatchEvent[kind]  # type: ignore[valid-type]
        )
        self._page: msgspec.json.Decoder[_Page[T]] = msgspec.json.Decoder(
            _Page[kind]  # type: ignore[valid-type]
        )
        self._object: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def event(self, line: bytes) -> WatchEvent[T] | Envelope | BadObject:
        """One line: typed in a single pass, or the envelope alone for ERROR and BOOKMARK."""
        try:
            event = self._event.decode(line)
        except msgspec.DecodeError as error:
            return self._two_step(line, error)
        if event.type in ("ERROR", "BOOKMARK"):
            return _envelope.decode(line)
        return event

    def page(self, body: bytes) -> tuple[ListMeta, list[T], list[BadObject]]:
        """One page of a list, and what of it could not be decoded.

        Raises:
            msgspec.DecodeError: the body is not a list at all.
        """
        try:
            page = self._page.decode(body)
        except msgspec.DecodeError:
            pass
        else:
            return page.metadata, page.items or [], []
        raw = _raw_page.decode(body)
        good: list[T] = []
        bad: list[BadObject] = []
        for item in raw.items or []:
            try:
                good.append(self._object.decode(item))
            except msgspec.DecodeError as error:
                bad.append(BadObject(decode_bare(item), str(error)))
        return raw.metadata, good, bad

    def _two_step(self, line: bytes, error: msgspec.DecodeError) -> Envelope | BadObject:
        try:
            envelope = _envelope.decode(line)
        except msgspec.DecodeError:
            return BadObject(BareMeta(), str(error))
        if envelope.type in ("ERROR", "BOOKMARK"):
            return envelope
        return BadObject(decode_bare(envelope.object), str(error))
