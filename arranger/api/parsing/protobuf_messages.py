"""Readers of Structs in the API server's binary form, made from the numbers of their fields.

Parts that many objects have in common, such as the resources of one Deployment's containers, are
equal byte for byte: their Structs and texts are kept for a while and shared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import inspect

from arranger.api.parsing.protobuf import (
    ENTRY,
    INLINED,
    ITEM,
    NUMBER,
    NUMBER_UNLESS_ZERO,
    VALUE,
    Message,
    MessageField,
    Wire,
    message_class,
)

S = TypeVar("S")

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


#: ``metav1.Time``, in seconds since 1970; ``resource.Quantity``; and an entry of a map.
_TIME: Final = message_class(seconds=(1, Wire.INT))
_QUANTITY: Final = message_class(string=(1, Wire.BYTES))
_ENTRY: Final = message_class(key=(1, Wire.BYTES), value=(2, Wire.BYTES))


def _time(part: bytes) -> datetime | None:
    """A point in time; one that is none has no field."""
    time = _TIME.FromString(part)
    return datetime.fromtimestamp(time.seconds, UTC) if time.HasField("seconds") else None


def _label(part: bytes) -> tuple[str, str]:
    entry = _ENTRY.FromString(part)
    return _text(entry.key), _text(entry.value)


def _amount(part: bytes) -> tuple[str, str]:
    entry = _ENTRY.FromString(part)
    return _text(entry.key), _text(_QUANTITY.FromString(entry.value).string)


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
        self._times = Shared(_time).__getitem__
        self._amounts = Shared(_amount).__getitem__
        self._labels = Shared(_label).__getitem__

    def of(self, kind: type[S]) -> Message[S]:
        """The reader of a Struct.

        Raises:
            KeyError: the number of one of its fields is not known.
        """
        message = self._made.get(kind)
        if message is None:
            info = inspect.type_info(kind)
            assert isinstance(info, inspect.StructType)
            fields: list[MessageField] = []
            inlined: dict[int, list[MessageField]] = {}
            for field in info.fields:
                where = self._numbers[kind][field.name]
                if isinstance(where, Inlined):
                    inlined.setdefault(where.message, []).append(self._field(kind, field, where))
                else:
                    fields.append(self._field(kind, field, where))
            for number, inner in inlined.items():
                fields.append(
                    MessageField(number, "", INLINED, Shared(Message(dict, inner)).__getitem__)
                )
            message = Message(kind, fields)
            self._made[kind] = message  # whole: another thread may read with it at once
        return message

    def _field(self, kind: type, field: inspect.Field, where: int | Inlined) -> MessageField:
        of, name = field.type, field.name
        number, content = (
            (where.number, where.content) if isinstance(where, Inlined) else (where, None)
        )
        if isinstance(of, inspect.UnionType) and of.includes_none:
            [of] = [each for each in of.types if not isinstance(each, inspect.NoneType)]
            default = None
        else:
            default = None if field.required else field.default
        match of:
            case inspect.IntType() | inspect.BoolType():
                how = NUMBER_UNLESS_ZERO if default else NUMBER
                return MessageField(
                    number, name, how, int if isinstance(of, inspect.IntType) else bool
                )
            case inspect.ListType():
                return MessageField(number, name, ITEM, self._reader(of.item_type))
            case inspect.DictType() if content is not None:
                return MessageField(number, name, VALUE, self._dict_reader(content))
            case inspect.DictType():
                texts = isinstance(of.value_type, inspect.StrType)
                return MessageField(number, name, ENTRY, self._labels if texts else self._amounts)
            case inspect.StrType() if (kind, name) in self._own:
                return MessageField(number, name, VALUE, _text)
            case inspect.StrType() if isinstance(default, str) and default:
                return MessageField(number, name, VALUE, lambda part: self._texts(part) or default)
        return MessageField(number, name, VALUE, self._reader(of))

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

    def _dict_reader(self, content: Mapping[str, tuple[int, type]]) -> Message[dict[str, Any]]:
        return Message(
            dict,
            [
                MessageField(number, name, NUMBER_UNLESS_ZERO, bool)
                if kind is bool
                else MessageField(number, name, ITEM if kind is list else VALUE, self._texts)
                for name, (number, kind) in content.items()
            ],
        )
