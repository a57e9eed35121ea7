"""Decoding watch lines and list pages in one pass per object; a bad object spoils no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from arranger.api.parsing.errors import ParseError, cut_message
from arranger.api.parsing.list_items import split_list
from arranger.api.parsing.nesting import CUT, MAX_BRACKETS, TOO_DEEP
from arranger.api.parsing.objects import decode_object, decode_without_nulls
from arranger.api.parsing.pieces import decode_in_pieces
from arranger.api.parsing.protobuf import MAGIC, read_message, unwrap
from arranger.api.parsing.protobuf_messages import Messages
from arranger.kube.watch.trimming import pack_large


class KubeObject(Protocol):
    """Any API object: a msgspec Struct with ``metadata``."""

    @property
    def metadata(self) -> Any:
        """With ``name``, ``namespace``, ``uid`` and ``resource_version``; fields of Structs are
        invariant, so its type cannot be told."""


T = TypeVar("T", bound=KubeObject)
_T = TypeVar("_T")

#: Set on the bookmark that ends the initial events of a WatchList stream.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


#: How a bookmark begins: there is one a minute and watch, and no object in it.
_BOOKMARK: Final = b'{"type":"BOOKMARK"'


class WatchEvent(msgspec.Struct, Generic[_T]):
    """One line of a watch."""

    type: str
    object: _T


class RawWatchEvent(msgspec.Struct):
    """One line of a watch whose object is decoded later, or not at all."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


#: Bytes that are decoded at once, in some 20 ms at most. A pod has about 4 kB, a node 20.
MAX_AT_ONCE: Final = 64 * 1024
#: Bytes of an object of which parts may be packed.
LARGE: Final = 16 * 1024
_raw_event: Final = msgspec.json.Decoder(RawWatchEvent).decode


class PartialMetadata(msgspec.Struct, rename="camel"):
    """The metadata of an object that cannot be decoded as a whole, or of a bookmark or list."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PartialObjectMetadata(msgspec.Struct):
    """Any object, of which only the metadata is decoded."""

    metadata: PartialMetadata = msgspec.field(default_factory=PartialMetadata)


class PartialPodSpec(msgspec.Struct, rename="camel"):
    """Of the ``spec`` of a pod where it is."""

    node_name: str = ""


class PartialPodStatus(msgspec.Struct):
    """Of the ``status`` of a pod whether it has ended."""

    phase: str = ""


class PartialPod(msgspec.Struct):
    """Any object, of which only what a pod says of its node is decoded."""

    spec: PartialPodSpec = msgspec.field(default_factory=PartialPodSpec)
    status: PartialPodStatus = msgspec.field(default_factory=PartialPodStatus)


class _RawParts(msgspec.Struct):
    """Any object, of which only the metadata is decoded, and the rest is stepped over once."""

    metadata: PartialMetadata = msgspec.field(default_factory=PartialMetadata)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class ListMeta(msgspec.Struct, rename="camel"):
    """The metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, Generic[_T]):
    """One page of a list."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[_T] | None = None


#: What there is of every object and list (``meta/v1/generated.proto``).
METADATA_MESSAGES: Final = Messages(
    {
        PartialObjectMetadata: {"metadata": 1},
        PartialMetadata: {
            "name": 1,
            "namespace": 3,
            "uid": 5,
            "resource_version": 6,
            "labels": 11,
            "annotations": 12,
        },
        ListMeta: {"resource_version": 2, "continue_": 3},
        PartialPod: {"spec": 2, "status": 3},
        PartialPodSpec: {"node_name": 10},
        PartialPodStatus: {"phase": 1},
    }
)


_raw_items: Final = msgspec.json.Decoder(Page[msgspec.Raw]).decode
_metadata_of: Final = msgspec.json.Decoder(PartialObjectMetadata).decode


def version_of_bookmark(raw: msgspec.Raw) -> str:
    """The resourceVersion that a bookmark brings; "" where it brings none."""
    try:
        return _metadata_of(raw).metadata.resource_version
    except Exception:  # in binary form, or none
        return decode_metadata(raw).resource_version


def decode_metadata(raw: bytes | msgspec.Raw) -> PartialMetadata:
    """The metadata in ``raw``; empty where even that cannot be decoded."""
    with suppress(ParseError):
        if (body := bytes(raw)).startswith(MAGIC):
            return read_message(unwrap(body), METADATA_MESSAGES.of(PartialObjectMetadata)).metadata
        return decode_object(raw, PartialObjectMetadata, cut=True, most=MAX_BRACKETS).metadata
    return PartialMetadata()


def undecodable(raw: bytes | msgspec.Raw, error: str, event: str = "") -> UndecodableObject:
    """What can be read of an object in JSON that cannot be decoded."""
    parts = _RawParts()
    with suppress(ParseError):
        parts = decode_object(raw, _RawParts, cut=True, most=MAX_BRACKETS)
    found = UndecodableObject(parts.metadata, error, event)
    with suppress(ParseError):
        spec = decode_object(parts.spec, PartialPodSpec)
        found.node = taken_node(PartialPod(spec, decode_object(parts.status, PartialPodStatus)))
    return found


def taken_node(pod: PartialPod) -> str:
    """The node on which a pod takes room; "" if there is none."""
    return "" if pod.status.phase in ("Succeeded", "Failed") else pod.spec.node_name


def raw_page(body: bytes) -> tuple[ListMeta, Sequence[bytes | msgspec.Raw]]:
    """One page of a list, and its items as they are: one that is nested too deeply as well.

    Raises:
        ParseError: the body is not a list at all.
    """
    try:
        page: Page[msgspec.Raw] = decode_object(body, Page[msgspec.Raw])
    except ParseError as error:
        if str(error) != TOO_DEEP:
            raise
        rest, items = split_list(body)
        return decode_object(rest, Page[msgspec.Raw], cut=True, most=MAX_BRACKETS).metadata, items
    return page.metadata, page.items or []


class UndecodableObject(msgspec.Struct):
    """An object that could not be decoded: its metadata, as far as known, and why.

    Attributes:
        event: the type of the event with which it came; "" in a list.
        node: of a pod that is on a node, and has not ended, that node, as far as it can be read.
    """

    metadata: PartialMetadata
    error: str
    event: str = ""
    node: str = ""


class Decoder(Generic[T]):
    """Decodes the events and lists of one type: a msgspec Struct with ``metadata``.

    Attributes:
        accept: the media types that it decodes, the best first.
    """

    accept = "application/json"

    def __init__(self, kind: type[T], trim: Callable[[T], None] | None = None) -> None:
        """``trim`` takes out of an object what is not needed."""
        self.kind = kind
        self._trim = trim
        # msgspec resolves the parameter at run time, which type checkers cannot follow.
        self._event: msgspec.json.Decoder[WatchEvent[T]] = msgspec.json.Decoder(
            WatchEvent[kind]  # type: ignore[valid-type]
        )
        self._page: msgspec.json.Decoder[Page[T]] = msgspec.json.Decoder(
            Page[kind]  # type: ignore[valid-type]
        )
        self._object: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def decode_event(self, line: bytes) -> WatchEvent[T] | RawWatchEvent | UndecodableObject:
        """A line: typed in a single pass, or the envelope alone for ERROR and BOOKMARK."""
        wrong = ""
        if len(line) > MAX_AT_ONCE:
            with suppress(Exception):  # then as a whole, which tells what is wrong
                return self._large_event(line)
        try:
            if line.startswith(_BOOKMARK) and (raw := _raw_event(line)).type == "BOOKMARK":
                return raw
            event = self._event.decode(line)
            if event.type not in ("ERROR", "BOOKMARK"):
                self._shrink(event.object, line)
                return event
        except RecursionError:
            wrong = TOO_DEEP
        except Exception as error:  # whatever it is, only this object suffers
            wrong = cut_message(str(error))
        try:
            raw = decode_object(line, RawWatchEvent, cut=True, most=MAX_BRACKETS)
        except ParseError:
            return UndecodableObject(PartialMetadata(), wrong)
        if raw.type in ("ERROR", "BOOKMARK"):
            return raw
        with suppress(Exception):
            return WatchEvent(raw.type, self._decode(raw.object))
        return undecodable(raw.object, wrong, raw.type)

    def decode_page(self, body: bytes) -> tuple[ListMeta, list[T], list[UndecodableObject]]:
        """One page of a list, and what of it could not be decoded.

        Raises:
            ParseError: the body is not a list at all.
        """
        with suppress(Exception):  # then one by one, so that only what is wrong suffers
            if len(body) > MAX_AT_ONCE:
                return self._large_page(body)
            page = self._page.decode(body)
            items = page.items or []
            if self._trim is not None:
                for each in items:
                    self._trim(each)
            return page.metadata, items, []
        good: list[T] = []
        bad: list[UndecodableObject] = []
        meta, parts = raw_page(body)
        for item in parts:
            try:
                good.append(self._decode(item))
            except RecursionError:
                bad.append(undecodable(item, TOO_DEEP))
            except Exception as error:
                bad.append(undecodable(item, cut_message(str(error))))
        return meta, good, bad

    def _large_event(self, line: bytes) -> WatchEvent[T] | RawWatchEvent:
        """As :meth:`decode_event`, in pieces; raises anything."""
        raw = _raw_event(line)
        if raw.type in ("ERROR", "BOOKMARK"):
            return raw
        decoded = decode_in_pieces(raw.object, self.kind)
        self._shrink(decoded, raw.object)
        return WatchEvent(raw.type, decoded)

    def _large_page(self, body: bytes) -> tuple[ListMeta, list[T], list[UndecodableObject]]:
        """As :meth:`decode_page`, in pieces; raises anything.

        What is not needed of one object is gone before the next one is decoded.
        """
        page, items = _raw_items(body), list[T]()
        for part in page.items or ():
            items.append(decode_in_pieces(part, self.kind))
            self._shrink(items[-1], part)
        return page.metadata, items, []

    def _decode(self, raw: bytes | msgspec.Raw) -> T:
        """An object by itself, nulls or not; raises anything."""
        if CUT in bytes(raw):
            raise msgspec.DecodeError(TOO_DEEP)
        try:
            decoded = self._object.decode(raw)
        except msgspec.ValidationError as error:
            try:
                decoded = decode_without_nulls(raw, self.kind)
            except ParseError:
                raise error from None
        self._shrink(decoded, raw)
        return decoded

    def _shrink(self, decoded: T, raw: bytes | msgspec.Raw) -> None:
        """Keep of an object what is needed, in little memory if it was sent in many bytes."""
        if self._trim is not None:
            self._trim(decoded)
            size = len(raw) if isinstance(raw, bytes) else len(memoryview(raw))
            if size > LARGE:
                pack_large(decoded)
