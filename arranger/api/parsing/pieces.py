"""Large JSON, decoded piece by piece, so that a thread that does it lets others run in between.

The decoder does not let go of the interpreter while it reads, and where an object holds hundreds of
thousands of small parts that takes half a second. So lists and objects that are large are split
first, which takes a tenth of that, and their parts are decoded by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

T = TypeVar("T")

#: Bytes that are decoded at once, in some 10 ms at most.
MAX_PIECE: Final = 16 * 1024

_parts: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def decode_in_pieces(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """What ``msgspec.json.decode(body, type=kind)`` gives.

    Raises:
        Exception: it cannot be decoded; not always for the reason that the decoder gives for it.
    """
    result: T = _decode(bytes(body), kind)
    return result


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _fields_of(kind: type[msgspec.Struct]) -> dict[str, tuple[str, Any]]:
    """Name in JSON → its name in the Struct, and its type."""
    fields = msgspec.structs.fields(kind)
    return {field.encode_name: (field.name, field.type) for field in fields}


def _decode(body: bytes, kind: Any) -> Any:
    if len(body) <= MAX_PIECE:
        return _decoder(kind).decode(body)
    inner = _without_none(kind)
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        return _decode_struct(body, inner)
    arguments = get_args(inner)
    if get_origin(inner) in (list, Sequence) and len(arguments) == 1:
        return _decode_list(body, arguments[0])
    if get_origin(inner) in (dict, Mapping) and arguments[0] is str and arguments[1] is not str:
        return {key: _decode(bytes(part), arguments[1]) for key, part in _fields(body).items()}
    return _decoder(kind).decode(body)


def _without_none(kind: Any) -> Any:
    """The other of two types of which one is None: what is long is not null."""
    arguments = get_args(kind)
    others = [each for each in arguments if each is not type(None)]
    return others[0] if len(arguments) == 2 and len(others) == 1 else kind


def _decode_struct(body: bytes, kind: type[msgspec.Struct]) -> Any:
    config = kind.__struct_config__
    if config.tag is not None or config.array_like or config.forbid_unknown_fields:
        return _decoder(kind).decode(body)
    fields, found = _fields_of(kind), dict[str, Any]()
    for name, part in _fields(body).items():
        if (known := fields.get(name)) is not None:
            found[known[0]] = _decode(bytes(part), known[1])
    return kind(**found)


def _decode_list(body: bytes, kind: Any) -> list[Any]:
    decoded, some, size = list[Any](), list[msgspec.Raw](), 0
    for part in _parts(body):
        length = len(memoryview(part)) + 1
        if size + length > MAX_PIECE and some:
            decoded += _joined(some, kind)
            some, size = [], 0
        some.append(part)
        size += length
    return decoded + _joined(some, kind)


def _joined(parts: list[msgspec.Raw], kind: Any) -> list[Any]:
    """Some elements, decoded at once; one that is large by itself is split further."""
    if len(parts) == 1:
        return [_decode(bytes(parts[0]), kind)]
    return _decoder(list[kind]).decode(b"[" + b",".join(parts) + b"]")  # type: ignore[no-any-return]
