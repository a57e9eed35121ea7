"""One edit of an object in the API server's binary form: adding a finalizer.

The API server compares some fields byte for byte, and its JSON is not always what it was given: a
ResourceClaim whose driver parameters are JSON with spaces can be changed by no client that sends
JSON. Fields that are not known here are passed on as they came.

The form: four bytes of magic, then ``runtime.Unknown``, in whose second field the object is. A
message that occurs twice in the binary form counts as both together, so nothing needs to be read
of the object to add to it.
"""

from __future__ import annotations

from typing import Final

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
#: Fields by number: of ``Unknown``, of the object, of ``ObjectMeta``.
_RAW: Final = 2
_METADATA: Final = 1
_FINALIZERS: Final = 14
_LENGTH_DELIMITED: Final = 2  # the wire type of what has a length


class ProtobufFormatError(ValueError):
    """The bytes are not an object in binary form."""


def add_finalizer(body: bytes, finalizer: str) -> bytes:
    """The object with one more finalizer.

    Raises:
        ProtobufFormatError: it is not in the binary form.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufFormatError("no object in binary form")
    metadata = _encode_field(_FINALIZERS, finalizer.encode())
    edited, offset = _MAGIC, len(_MAGIC)
    while offset < len(body):
        start = offset
        tag, offset = _decode_varint(body, offset)
        if tag & 7 != _LENGTH_DELIMITED:
            raise ProtobufFormatError(f"field {tag >> 3} has wire type {tag & 7}")
        length, offset = _decode_varint(body, offset)
        content, offset = body[offset : offset + length], offset + length
        if tag >> 3 == _RAW:
            edited += _encode_field(_RAW, content + _encode_field(_METADATA, metadata))
        else:
            edited += body[start:offset]
    return edited


def _encode_field(number: int, content: bytes) -> bytes:
    return _encode_varint(number << 3 | _LENGTH_DELIMITED) + _encode_varint(len(content)) + content


def _encode_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _decode_varint(body: bytes, offset: int) -> tuple[int, int]:
    """The number at an offset, and the offset after it."""
    number = shift = 0
    while True:
        if offset >= len(body):
            raise ProtobufFormatError("cut short")
        byte = body[offset]
        number |= (byte & 0x7F) << shift
        shift, offset = shift + 7, offset + 1
        if byte < 0x80:
            return number, offset
