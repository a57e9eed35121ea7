"""One edit of an object in the API server's binary form: adding a finalizer.

The API server compares some fields byte for byte, and its JSON is not always what it was given: a
ResourceClaim whose driver parameters are JSON with spaces can be changed by no client that sends
JSON. Fields that are not known here are passed on as they came.

A message that occurs twice in the binary form counts as both together, so nothing needs to be read
of the object to add to it.
"""

from __future__ import annotations

from typing import Final

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.protobuf import MAGIC, UNKNOWN_RAW, fields, unwrap

#: Fields by number: of the object, of ``ObjectMeta``.
_METADATA: Final = 1
_FINALIZERS: Final = 14
_LENGTH_DELIMITED: Final = 2  # the wire type of what has a length


def add_finalizer(body: bytes, finalizer: str) -> bytes:
    """The object with one more finalizer.

    Raises:
        ParseError: it is not in the binary form.
    """
    if not (whole := unwrap(body)):
        raise ParseError("nothing in the binary form")
    metadata = _encode_field(_FINALIZERS, finalizer.encode())
    edited = whole + _encode_field(_METADATA, metadata)
    # ``Unknown`` has no fields but such with a length.
    return MAGIC + b"".join(
        _encode_field(number, edited if number == UNKNOWN_RAW else part)
        for number, part in fields(body[len(MAGIC) :])
    )


def _encode_field(number: int, content: bytes) -> bytes:
    return _encode_varint(number << 3 | _LENGTH_DELIMITED) + _encode_varint(len(content)) + content


def _encode_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
