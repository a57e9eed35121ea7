"""Objects in the answers of servers, and those that a client library has read already."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, overload

import msgspec

from arranger.api.parsing.errors import ParseError, cut_message
from arranger.api.parsing.nesting import TOO_DEEP, cut_deep_parts

T = TypeVar("T")


@overload
def decode_object(body: bytes | msgspec.Raw, kind: type[T], *, cut: bool = False) -> T: ...


@overload
def decode_object(body: bytes | msgspec.Raw, kind: Any = Any, *, cut: bool = False) -> Any: ...


def decode_object(body: bytes | msgspec.Raw, kind: Any = Any, *, cut: bool = False) -> Any:
    """An object of a kind, such as a Struct, from JSON.

    Args:
        cut: whether what is nested too deeply is replaced by a text, for those who neither look at
            it nor write it back.

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
            return decoder.decode(cut_deep_parts(bytes(body)))
    except RecursionError:
        raise ParseError(TOO_DEEP) from None
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


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
