"""The API server's binary form, Protocol Buffers, read into the Structs that JSON is read into.

A server spends half as much on it as on JSON. Objects are wrapped in ``runtime.Unknown`` behind
four bytes of magic (``k8s.io/apimachinery/pkg/runtime/serializer/protobuf``). Only the fields that
a Struct has are read, the others are stepped over.

Parts that many objects have in common, such as the containers of one Deployment's pods, are equal
byte for byte: their Structs and texts are kept for a while and shared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

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
_UNKNOWN_RAW: Final = 2

#: Bytes of one part, and of all parts of one field, with which what they say is kept.
MAX_SHARED_PART: Final = 8 * 1024
MAX_SHARED: Final = 1024 * 1024

#: What is done with a part: it is the value, one of a list, one entry of a dict, or a message whose
#: fields count as the Struct's own.
_VALUE: Final = 0
_ITEM: Final = 1
_ENTRY: Final = 2
_INLINED: Final = 3


class Shared(dict[bytes, Any]):
    """What the parts of one field say, kept for equal parts up to :data:`MAX_SHARED` bytes."""

    def __init__(self, read: Callable[[bytes], Any]) -> None:
        super().__init__()
        self._read = read
        self._size = 0

    def __missing__(self, part: bytes) -> Any:
        value = self._read(part)
        if len(part) <= MAX_SHARED_PART:
            self._size += len(part)
            if self._size > MAX_SHARED:
                self.clear()
                self._size = len(part)
            self[part] = value
        return value


class Message(Generic[S]):
    """Reads messages of one kind.

    Attributes:
        kind: the Struct that is made of them.
    """

    __slots__ = ("_numbers", "_parts", "kind")

    def __init__(self, kind: type[S]) -> None:
        self.kind = kind
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

    def inlined(self, number: int) -> Message[S]:
        """The message of that number, whose fields count as this one's."""
        tag = number << 3 | _WITH_LENGTH
        if tag not in self._parts:
            self._parts[tag] = "", _INLINED, Message(self.kind)
        inner = self._parts[tag][2]
        assert isinstance(inner, Message)
        return inner

    def __call__(self, body: bytes) -> S:
        """The Struct; what is wrong raises anything that :func:`read_message` knows."""
        values: dict[str, Any] = {}
        self.read_into(values, body)
        return self.kind(**values)

    def read_into(self, values: dict[str, Any], body: bytes) -> None:
        """Add the fields to ``values``, by attribute."""
        parts, numbers = self._parts, self._numbers
        offset, end = 0, len(body)
        while offset < end:
            tag = body[offset]
            offset += 1
            if tag > 0x7F:
                tag, offset = _long_varint(body, offset, tag)
            wire = tag & 7
            if wire == _WITH_LENGTH:
                length = body[offset]
                offset += 1
                if length > 0x7F:
                    length, offset = _long_varint(body, offset, length)
                start, offset = offset, offset + length
                known = parts.get(tag)
                if known is None:
                    continue
                name, how, read = known
                if how == _VALUE:
                    values[name] = read(body[start:offset])
                elif how == _ITEM:
                    items = values.get(name)
                    if items is None:
                        values[name] = [read(body[start:offset])]
                    else:
                        items.append(read(body[start:offset]))
                elif how == _ENTRY:
                    key, value = read(body[start:offset])
                    entries = values.get(name)
                    if entries is None:
                        values[name] = {key: value}
                    else:
                        entries[key] = value
                else:
                    read.read_into(values, body[start:offset])  # type: ignore[attr-defined]
            elif wire == _VARINT:
                number = body[offset]
                offset += 1
                if number > 0x7F:
                    number, offset = _long_varint(body, offset, number)
                field = numbers.get(tag)
                if field is not None:
                    name, unless_zero, make = field
                    if number or not unless_zero:
                        values[name] = make(number)
            else:
                offset = _after_fixed(wire, offset)
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


def fields(body: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields with a length, in order, by number.

    Raises:
        ParseError: the bytes are not in this form.
    """
    offset, end = 0, len(body)
    while offset < end:
        tag, offset = read_varint(body, offset)
        wire = tag & 7
        if wire == _WITH_LENGTH:
            length, offset = read_varint(body, offset)
            start, offset = offset, offset + length
            if offset > end:
                raise ParseError("cut short")
            yield tag >> 3, body[start:offset]
        elif wire == _VARINT:
            _, offset = read_varint(body, offset)
        else:
            offset = _after_fixed(wire, offset)


def unwrap(body: bytes) -> bytes:
    """The object within ``runtime.Unknown``.

    Raises:
        ParseError: it is not wrapped so.
    """
    if not body.startswith(MAGIC):
        raise ParseError("no object in binary form")
    for number, part in fields(body[len(MAGIC) :]):
        if number == _UNKNOWN_RAW:
            return part
    return b""


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


# --- values ------------------------------------------------------------------------------------


def _text(part: bytes) -> str:
    return part.decode("utf-8", "replace")


def _signed(number: int) -> int:
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


class _Time(msgspec.Struct):
    """``metav1.Time``: seconds since 1970. A time that is none has no field."""

    seconds: int | None = None


class _Quantity(msgspec.Struct):
    """``resource.Quantity``."""

    string: str = ""


class _Entry(msgspec.Struct):
    """One entry of a map."""

    key: str = ""
    value: Any = ""


def _time_reader() -> Callable[[bytes], datetime | None]:
    message = Message(_Time)
    message.add_number(1, "seconds", _signed, unless_zero=False)

    def read(part: bytes) -> datetime | None:
        seconds = message(part).seconds
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)

    return read


def _quantity_reader() -> Callable[[bytes], str]:
    message = Message(_Quantity)
    message.add_part(1, "string", _VALUE, _text)
    return lambda part: message(part).string


def _entry_reader(read_value: Callable[[bytes], Any]) -> Callable[[bytes], tuple[str, Any]]:
    message = Message(_Entry)
    message.add_part(1, "key", _VALUE, _text)
    message.add_part(2, "value", _VALUE, read_value)

    def read(part: bytes) -> tuple[str, Any]:
        entry = message(part)
        return entry.key, entry.value

    return read


class Inlined(NamedTuple):
    """A field that the API has in a message of its own, and JSON beside the other fields.

    Attributes:
        message: the number of that message.
        number: the field's in it.
        content: of a field that is a dict, the numbers and types of what is in it, by its name in
            JSON: ``str``, ``bool`` or ``list``, of texts.
    """

    message: int
    number: int
    content: Mapping[str, tuple[int, type]] = {}


#: The numbers of a Struct's fields, by attribute.
FieldNumbers = Mapping[str, int | Inlined]


class Messages:
    """The readers of Structs, made from the numbers of their fields.

    Args:
        numbers: of the fields of each Struct that occurs.
        shared: Structs of which many objects have equal ones.
        own: attributes whose texts differ from object to object.
    """

    def __init__(
        self,
        numbers: Mapping[type, FieldNumbers],
        *,
        shared: Collection[type] = (),
        own: Collection[tuple[type, str]] = (),
    ) -> None:
        self._numbers = numbers
        self._own = own
        self._made: dict[type, Message[Any]] = {}
        self._shares = frozenset(shared)
        self._shared: dict[type, Callable[[bytes], Any]] = {}
        self._texts = Shared(_text).__getitem__
        self._times = Shared(_time_reader()).__getitem__
        self._quantities = Shared(_entry_reader(_quantity_reader())).__getitem__
        self._labels = Shared(_entry_reader(_text)).__getitem__

    def of(self, kind: type[S]) -> Message[S]:
        """The reader of a Struct.

        Raises:
            KeyError: the number of one of its fields is not known.
        """
        message = self._made.get(kind)
        if message is None:
            message = self._made[kind] = Message(kind)
            info = inspect.type_info(kind)
            assert isinstance(info, inspect.StructType)
            for field in info.fields:
                self._add(message, field, self._numbers[kind][field.name])
        return message

    def _add(self, message: Message[Any], field: inspect.Field, where: int | Inlined) -> None:
        of, name = field.type, field.name
        if isinstance(where, Inlined):
            message, number, content = message.inlined(where.message), where.number, where.content
        else:
            number, content = where, None
        if isinstance(of, inspect.UnionType) and of.includes_none:
            [of] = [each for each in of.types if not isinstance(each, inspect.NoneType)]
            default = None
        else:
            default = field.default
        match of:
            case inspect.IntType():
                message.add_number(number, name, _signed, unless_zero=bool(default))
            case inspect.BoolType():
                message.add_number(number, name, bool, unless_zero=bool(default))
            case inspect.ListType():
                message.add_part(number, name, _ITEM, self._reader(of.item_type))
            case inspect.DictType() if content is not None:
                message.add_part(number, name, _VALUE, self._dict_reader(content))
            case inspect.DictType():
                texts = isinstance(of.value_type, inspect.StrType)
                message.add_part(number, name, _ENTRY, self._labels if texts else self._quantities)
            case inspect.StrType() if (message.kind, name) in self._own:
                message.add_part(number, name, _VALUE, _text)
            case inspect.StrType() if isinstance(default, str) and default:
                message.add_part(number, name, _VALUE, lambda part: self._texts(part) or default)
            case _:
                message.add_part(number, name, _VALUE, self._reader(of))

    def _reader(self, of: inspect.Type) -> Callable[[bytes], Any]:
        match of:
            case inspect.StrType():
                return self._texts
            case inspect.DateTimeType():
                return self._times
            case inspect.StructType():
                return self._struct_reader(of.cls)
        raise TypeError(f"no field of type {of} is known")

    def _struct_reader(self, kind: type) -> Callable[[bytes], Any]:
        if kind not in self._shares:
            return self.of(kind)
        if kind not in self._shared:
            self._shared[kind] = Shared(self.of(kind)).__getitem__
        return self._shared[kind]

    def _dict_reader(self, content: Mapping[str, tuple[int, type]]) -> Callable[[bytes], Any]:
        message: Message[Any] = Message(dict)
        for name, (number, kind) in content.items():
            if kind is bool:
                message.add_number(number, name, bool, unless_zero=True)
            else:
                message.add_part(number, name, _ITEM if kind is list else _VALUE, self._texts)
        return message
