"""Readers of Structs in the API server's binary form, made from the numbers of their fields.

Parts that many objects have in common, such as the resources of one Deployment's containers, are
equal byte for byte: their Structs and texts are kept for a while and shared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from arranger.api.parsing.protobuf import ENTRY, ITEM, VALUE, Message

S = TypeVar("S")

#: The tags of an entry's key and value, and bytes of an entry of which no length takes two.
_KEY_TAG: Final = 1 << 3 | 2
_VALUE_TAG: Final = 2 << 3 | 2
_SHORT: Final = 128

#: Bytes of one part with which what it says is kept.
MAX_SHARED_PART: Final = 2 * 1024
#: Bytes of memory that what is kept of one field may take, as it is reckoned: so many for each
#: part, and so many for each byte of it. Tenants choose what the parts say.
MAX_SHARED: Final = 4 * 1024 * 1024
PART_COST: Final = 200
BYTE_COST: Final = 8

#: What stands for bytes that are no UTF-8, each by itself, until it is replaced.
_UNDECODED: Final = re.compile("[\udc80-\udcff]")


class Shared(dict[bytes, Any]):
    """What the parts of one field say, kept for equal parts up to :data:`MAX_SHARED` bytes."""

    def __init__(self, read: Callable[[bytes], Any]) -> None:
        super().__init__()
        self._read = read
        self._size = 0

    def __missing__(self, part: bytes) -> Any:
        value = self._read(part)
        if len(part) <= MAX_SHARED_PART:
            cost = PART_COST + BYTE_COST * len(part)
            self._size += cost
            if self._size > MAX_SHARED:
                self.clear()
                self._size = cost
            self[part] = value
        return value


def _text(part: bytes) -> str:
    """A text; for each byte that is no UTF-8 there is one mark, as in the API server's JSON."""
    try:
        return part.decode()
    except UnicodeDecodeError:
        return _UNDECODED.sub("\ufffd", part.decode("utf-8", "surrogateescape"))


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
    message.add_part(1, "string", VALUE, _text)
    return lambda part: message(part).string


def _entry_reader(read_value: Callable[[bytes], Any]) -> Callable[[bytes], tuple[str, Any]]:
    message = Message(_Entry)
    message.add_part(1, "key", VALUE, _text)
    message.add_part(2, "value", VALUE, read_value)

    def read(part: bytes) -> tuple[str, Any]:
        size = len(part)
        if (  # as it is mostly: a short key and a short value, one behind the other
            size > 3
            and part[0] == _KEY_TAG
            and (end := part[1] + 2) + 1 < size < _SHORT
            and part[end] == _VALUE_TAG
            and end + 2 + part[end + 1] == size
        ):
            return _text(part[2:end]), read_value(part[end + 2 :])
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
        before_rest: attributes after which many objects have the same bytes until their end.
    """

    def __init__(
        self,
        numbers: Mapping[type, FieldNumbers],
        *,
        shared: Collection[type] = (),
        own: Collection[tuple[type, str]] = (),
        before_rest: Mapping[type, str] | None = None,
    ) -> None:
        self._numbers = numbers
        self._before_rest = before_rest or {}
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
            message = Message(kind)
            info = inspect.type_info(kind)
            assert isinstance(info, inspect.StructType)
            for field in info.fields:
                self._add(message, field, self._numbers[kind][field.name])
            if (name := self._before_rest.get(kind)) is not None:
                number = self._numbers[kind][name]
                assert isinstance(number, int)
                message.share_rest(number, Shared(message.values_of_rest))
            self._made[kind] = message  # whole: another thread may read with it at once
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
            default = None if field.required else field.default
        match of:
            case inspect.IntType():
                message.add_number(number, name, _signed, unless_zero=bool(default))
            case inspect.BoolType():
                message.add_number(number, name, bool, unless_zero=bool(default))
            case inspect.ListType():
                message.add_part(number, name, ITEM, self._reader(of.item_type))
            case inspect.DictType() if content is not None:
                message.add_part(number, name, VALUE, self._dict_reader(content))
            case inspect.DictType():
                texts = isinstance(of.value_type, inspect.StrType)
                message.add_part(number, name, ENTRY, self._labels if texts else self._quantities)
            case inspect.StrType() if (message.kind, name) in self._own:
                message.add_part(number, name, VALUE, _text)
            case inspect.StrType() if isinstance(default, str) and default:
                message.add_part(number, name, VALUE, lambda part: self._texts(part) or default)
            case _:
                message.add_part(number, name, VALUE, self._reader(of))

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
                message.add_part(number, name, ITEM if kind is list else VALUE, self._texts)
        return message
