"""Objects in the answers of servers, and those that a client library has read already."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar, overload

import msgspec

from arranger.api.parsing.errors import ParseError, cut_message
from arranger.api.parsing.nesting import TOO_DEEP, cut_deep_parts

T = TypeVar("T")

#: Braces, brackets and commas of an object that is looked through for nulls, which takes half a
#: microsecond each; a node with 50 images has a few thousand.
MAX_PARTS: Final = 100_000


@overload
def decode_object(
    body: bytes | msgspec.Raw, kind: type[T], *, cut: bool = False, most: int | None = None
) -> T: ...


@overload
def decode_object(
    body: bytes | msgspec.Raw, kind: Any = Any, *, cut: bool = False, most: int | None = None
) -> Any: ...


def decode_object(
    body: bytes | msgspec.Raw, kind: Any = Any, *, cut: bool = False, most: int | None = None
) -> Any:
    """An object of a kind, such as a Struct, from JSON; null as :func:`decode_without_nulls` does.

    Args:
        cut: whether what is nested too deeply is replaced by a text, for those who neither look at
            it nor write it back.
        most: brackets of what is nested too deeply after which all is cut, for what is one object
            and no list of them.

    Raises:
        ParseError: it is none.
    """
    decoder = _decoder(kind)
    try:
        try:
            return decoder.decode(body)
        except RecursionError:
            if not cut:
                raise
            return decoder.decode(cut_deep_parts(bytes(body), most))
    except RecursionError:
        raise ParseError(TOO_DEEP) from None
    except msgspec.ValidationError as error:
        with suppress(ParseError):
            return decode_without_nulls(body, kind)
        raise ParseError(cut_message(str(error))) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ParseError(cut_message(str(error))) from None


@overload
def convert_object(value: Any, kind: type[T], *, strict: bool = True) -> T: ...


@overload
def convert_object(value: Any, kind: Any, *, strict: bool = True) -> Any: ...


def convert_object(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """An object of a kind from what JSON was decoded to.

    Args:
        strict: whether a number written as a text is none.

    Raises:
        ParseError: it is none.
    """
    try:
        return msgspec.convert(value, kind, strict=strict)
    except RecursionError:
        raise ParseError(TOO_DEEP) from None
    except (msgspec.ValidationError, ValueError, OverflowError, TypeError) as error:
        raise ParseError(cut_message(str(error))) from None


def decode_without_nulls(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """An object of a kind from JSON, of which each field that is null counts as left out.

    So Go's encoding/json reads it, and so the API server writes some lists that are empty: the
    ``names`` of a node's image, the ``drivers`` of a CSINode and their ``topologyKeys``.

    Raises:
        ParseError: it is none even so, or has no null, or more parts than are looked through.
    """
    raw = bytes(body)
    if b"null" not in raw:
        raise ParseError("no field is null")
    if sum(map(raw.count, (b"{", b"[", b","))) > MAX_PARTS:
        raise ParseError(f"it has more than {MAX_PARTS} parts")
    try:
        return convert_object(_without_nulls(decode_object(raw)), kind)
    except RecursionError:
        raise ParseError(TOO_DEEP) from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
