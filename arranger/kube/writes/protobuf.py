"""One edit of an object in the API server's binary form: a finalizer more.

The API server compares some fields byte for byte, and its JSON is not always what it was given: a
claim whose driver is told something in JSON with spaces can be changed by nobody who speaks JSON.
What is not understood here is passed on as it came.

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
_BYTES: Final = 2  # the wire type of what has a length


class FormError(ValueError):
    """The bytes are not an object in binary form."""


def with_finalizer(body: bytes, finalizer: str) -> bytes:
    """The object with one finalizer more.

    Raises:
        FormError: it is not in the binary form.
    """
    if not body.startswith(_MAGIC):
        raise FormError("no object in binary form")
    metadata = _field(_FINALIZERS, finalizer.encode())
    edited, at = _MAGIC, len(_MAGIC)
    while at < len(body):
        start = at
        tag, at = _number(body, at)
        if tag & 7 != _BYTES:
            raise FormError(f"field {tag >> 3} has wire type {tag & 7}")
        length, at = _number(body, at)
        content, at = body[at : at + length], at + length
        if tag >> 3 == _RAW:
            edited += _field(_RAW, content + _field(_METADATA, metadata))
        else:
            edited += body[start:at]
    return edited


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _number(body: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and where it ends."""
    number = shift = 0
    while True:
        if at >= len(body):
            raise FormError("cut short")
        byte = body[at]
        number |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return number, at
