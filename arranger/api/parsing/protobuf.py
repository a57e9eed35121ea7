"""The API server's binary form, Protocol Buffers, read into the Structs that JSON is read into.

A server spends half as much on it as on JSON. Objects are wrapped in ``runtime.Unknown`` behind
four bytes of magic (``k8s.io/apimachinery/pkg/runtime/serializer/protobuf``). Only the fields that
a Struct has are read, the others are stepped over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from arranger.api.parsing.errors import ParseError, cut_message

S = TypeVar("S")

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"

#: Wire types.
_VARINT: Final = 0
_FIXED_64: Final = 1
_WITH_LENGTH: Final = 2
_FIXED_32: Final = 5
#: Bytes of a number of 64 bits.
_MAX_VARINT: Final = 10
#: The field of ``runtime.Unknown`` in which the object is.
UNKNOWN_RAW: Final = 2

#: What is done with a part: it is the value, one of a list, one entry of a dict, a message whose
#: fields count as the Struct's own, or the value after which the rest is often the same.
VALUE: Final = 0
ITEM: Final = 1
ENTRY: Final = 2
INLINED: Final = 3
BEFORE_REST: Final = 4


class Message(Generic[S]):
    """Reads messages of one kind.

    Attributes:
        kind: the Struct that is made of them.
    """

    __slots__ = ("_numbers", "_parts", "_rests", "kind")

    def __init__(self, kind: type[S]) -> None:
        self.kind = kind
        self._rests: Mapping[bytes, dict[str, Any]] = {}
        #: By tag: the attribute, what is done, and what reads a part or makes a number's value.
        self._parts: dict[int, tuple[str, int, Callable[[bytes], Any]]] = {}
        self._numbers: dict[int, tuple[str, bool, Callable[[int], Any]]] = {}

    def add_part(self, number: int, name: str, how: int, read: Callable[[bytes], Any]) -> None:
        """A field with a length."""
        self._parts[number << 3 | _WITH_LENGTH] = name, how, read

    def add_number(
        self, number: int, name: str, make: Callable[[int], Any], *, unless_zero: bool
    ) -> None:
        """A field that is a number; of a zero the Struct's default counts, where it is said so."""
        self._numbers[number << 3 | _VARINT] = name, unless_zero, make

    def share_rest(self, number: int, rests: Mapping[bytes, dict[str, Any]]) -> None:
        """After a field that is a value, look up in ``rests`` what the rest of the bytes says."""
        tag = number << 3 | _WITH_LENGTH
        name, how, read = self._parts[tag]
        assert how == VALUE, f"{name} is no value"
        self._parts[tag], self._rests = (name, BEFORE_REST, read), rests

    def values_of_rest(self, body: bytes) -> dict[str, Any]:
        """The values of the fields, by attribute, with nothing looked up."""
        values: dict[str, Any] = {}
        self.read_into(values, body, look_up=False)
        return values

    def inlined(self, number: int) -> Message[S]:
        """The message of that number, whose fields count as this one's."""
        tag = number << 3 | _WITH_LENGTH
        if tag not in self._parts:
            self._parts[tag] = "", INLINED, Message(self.kind)
        inner = self._parts[tag][2]
        assert isinstance(inner, Message)
        return inner

    def __call__(self, body: bytes) -> S:
        """The Struct; what is wrong raises anything that :func:`read_message` knows."""
        values: dict[str, Any] = {}
        self.read_into(values, body)
        return self.kind(**values)

    def read_into(self, values: dict[str, Any], body: bytes, *, look_up: bool = True) -> None:
        """Add the fields to ``values``, by attribute.

        With ``look_up`` what may be the same for many is looked up, once.
        """
        parts, numbers = self._parts, self._numbers
        offset, end = 0, len(body)
        while offset < end:
            tag = body[offset]
            offset += 1
            if tag > 0x7F:
                tag, offset = _long_varint(body, offset, tag)
            if tag & 7 == _WITH_LENGTH:
                start = offset + 1
                offset = body[offset]
                if offset > 0x7F:
                    offset, start = _long_varint(body, start, offset)
                offset += start
                if tag not in parts:
                    continue
                name, how, read = parts[tag]
                if how == VALUE:
                    values[name] = read(body[start:offset])
                elif how == ITEM:
                    if name in values:
                        values[name].append(read(body[start:offset]))
                    else:
                        values[name] = [read(body[start:offset])]
                elif how == ENTRY:
                    key, value = read(body[start:offset])
                    if name in values:
                        values[name][key] = value
                    else:
                        values[name] = {key: value}
                elif how == INLINED:
                    read.read_into(values, body[start:offset])  # type: ignore[attr-defined]
                else:
                    values[name] = read(body[start:offset])
                    if look_up:
                        rest = self._rests[body[offset:]]
                        # As servers write it: no field comes both before and after.
                        if values.keys().isdisjoint(rest):
                            values.update(rest)
                            return
                        look_up = False
            elif tag & 7 == _VARINT:
                number = body[offset]
                offset += 1
                if number > 0x7F:
                    number, offset = _long_varint(body, offset, number)
                if tag in numbers:
                    name, unless_zero, make = numbers[tag]
                    if number or not unless_zero:
                        values[name] = make(number)
            else:
                offset = _after_fixed(tag & 7, offset)
        if offset != end:
            raise ParseError("cut short")


def read_message(body: bytes, message: Message[S]) -> S:
    """The Struct that ``body`` says.

    Raises:
        ParseError: it is none.
    """
    try:
        return message(body)
    except ParseError:
        raise
    except IndexError:
        raise ParseError("cut short") from None
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise ParseError(cut_message(str(error))) from None


def fields(body: bytes) -> list[tuple[int, bytes]]:
    """The fields with a length, in order, by number.

    Raises:
        ParseError: the bytes are not in this form.
    """
    found: list[tuple[int, bytes]] = []
    offset, end = 0, len(body)
    try:
        while offset < end:
            tag = body[offset]
            offset += 1
            if tag > 0x7F:
                tag, offset = _long_varint(body, offset, tag)
            if tag & 7 == _WITH_LENGTH:
                start = offset + 1
                offset = body[offset]
                if offset > 0x7F:
                    offset, start = _long_varint(body, start, offset)
                offset += start
                found.append((tag >> 3, body[start:offset]))
            elif tag & 7 == _VARINT:
                _, offset = read_varint(body, offset)
            else:
                offset = _after_fixed(tag & 7, offset)
    except IndexError:
        offset = -1
    if offset != end:
        raise ParseError("cut short")
    return found


def part_of(body: bytes, number: int, start: int = 0) -> bytes:
    """The last field of that number, which has a length; empty where there is none.

    Args:
        number: at most 15.
        start: where the fields begin in ``body``.

    Raises:
        ParseError: the bytes are not in this form.
    """
    wanted, found = number << 3 | _WITH_LENGTH, b""
    offset, end = start, len(body)
    try:
        while offset < end:
            tag = body[offset]
            offset += 1
            if tag > 0x7F:
                tag, offset = _long_varint(body, offset, tag)
            if tag & 7 == _WITH_LENGTH:
                begin = offset + 1
                offset = body[offset]
                if offset > 0x7F:
                    offset, begin = _long_varint(body, begin, offset)
                offset += begin
                if tag == wanted:
                    found = body[begin:offset]
            elif tag & 7 == _VARINT:
                _, offset = read_varint(body, offset)
            else:
                offset = _after_fixed(tag & 7, offset)
    except IndexError:
        offset = -1
    if offset != end:
        raise ParseError("cut short")
    return found


def unwrap(body: bytes) -> bytes:
    """The object within ``runtime.Unknown``.

    Raises:
        ParseError: it is not wrapped so.
    """
    if not body.startswith(MAGIC):
        raise ParseError("no object in binary form")
    return part_of(body, UNKNOWN_RAW, len(MAGIC))


def read_length(header: bytes) -> int:
    """How many bytes a frame of a watch has, which stands before it."""
    return int.from_bytes(header, "big")


def read_varint(body: bytes, offset: int) -> tuple[int, int]:
    """The number at an offset, and the offset after it.

    Raises:
        ParseError: it is cut short, or longer than 64 bits.
    """
    try:
        first = body[offset]
        return (first, offset + 1) if first <= 0x7F else _long_varint(body, offset + 1, first)
    except IndexError:
        raise ParseError("cut short") from None


def _long_varint(body: bytes, offset: int, first: int) -> tuple[int, int]:
    """The number that begins with ``first`` and goes on at the offset; raises IndexError too."""
    number, shift = first & 0x7F, 7
    while True:
        byte = body[offset]
        offset += 1
        number |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return number, offset
        shift += 7
        if shift >= 7 * _MAX_VARINT:
            raise ParseError("a number of more than 64 bits")


def _after_fixed(wire: int, offset: int) -> int:
    if wire == _FIXED_64:
        return offset + 8
    if wire == _FIXED_32:
        return offset + 4
    raise ParseError(f"wire type {wire}")
