"""The API server's binary form, Protocol Buffers, read into the Structs that JSON is read into.

A server spends half as much on it as on JSON. The library ``protobuf`` takes the bytes apart; each
message is told only those fields that somebody reads. Objects are wrapped in ``runtime.Unknown``
behind four bytes of magic (``k8s.io/apimachinery/pkg/runtime/serializer/protobuf``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from arranger.api.parsing.errors import ParseError, cut_message

S = TypeVar("S")

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
_WRONG: Final = "not in the binary form, or cut short"


class Wire(Enum):
    """How a field is written, and whether it may occur many times."""

    BYTES = FieldDescriptorProto.TYPE_BYTES, FieldDescriptorProto.LABEL_OPTIONAL
    BYTES_LIST = FieldDescriptorProto.TYPE_BYTES, FieldDescriptorProto.LABEL_REPEATED
    INT = FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.LABEL_OPTIONAL
    BOOL = FieldDescriptorProto.TYPE_BOOL, FieldDescriptorProto.LABEL_OPTIONAL


def message_class(**fields: tuple[int, Wire]) -> Any:
    """A class of the library with these fields, by name; an instance keeps all others as they came.

    A message within a message is bytes here: what reads the outer one reads the inner one as well.
    """
    file = FileDescriptorProto(name="message.proto", syntax="proto2")
    message = file.message_type.add(name="Message")
    for name, (number, wire) in fields.items():
        kind, label = wire.value
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = DescriptorPool()  # of its own, so that the names say nothing
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("Message"))


def parse(cls: Any, body: bytes) -> Any:
    """An instance of a class that :func:`message_class` has made.

    Raises:
        ParseError: the bytes are not in this form.
    """
    try:
        return cls.FromString(body)
    except DecodeError:
        raise ParseError(_WRONG) from None


#: ``runtime.Unknown``.
_UNKNOWN: Final = message_class(
    type_meta=(1, Wire.BYTES),
    raw=(2, Wire.BYTES),
    content_encoding=(3, Wire.BYTES),
    content_type=(4, Wire.BYTES),
)


def parse_unknown(body: bytes) -> Any:
    """The ``runtime.Unknown`` behind the magic; its ``raw`` is the object, empty if there is none.

    Raises:
        ParseError: there is none.
    """
    if not body.startswith(MAGIC):
        raise ParseError("no object in binary form")
    return parse(_UNKNOWN, body[len(MAGIC) :])


def unwrap(body: bytes) -> bytes:
    """The object within ``runtime.Unknown``; empty where there is none.

    Raises:
        ParseError: it is not wrapped so.
    """
    raw: bytes = parse_unknown(body).raw
    return raw


def read_length(header: bytes) -> int:
    """How many bytes a frame of a watch has, which stands before it."""
    return int.from_bytes(header, "big")


#: What is done with a field: it is the value, one of a list, one entry of a dict, a message whose
#: fields count as the Struct's own, a number, or one that says nothing where it is zero.
VALUE: Final = 0
ITEM: Final = 1
ENTRY: Final = 2
INLINED: Final = 3
NUMBER: Final = 4
NUMBER_UNLESS_ZERO: Final = 5

_LISTS: Final = (ITEM, ENTRY)


class MessageField(NamedTuple):
    """A field of a message that is read.

    Attributes:
        attribute: the Struct's.
        how: what is done with it, see above.
        read: makes the value of bytes, of an INLINED one a dict of values; of a number its type.
    """

    number: int
    attribute: str
    how: int
    read: Callable[[Any], Any]

    @property
    def wire(self) -> Wire:
        """How it is written."""
        if self.how in (NUMBER, NUMBER_UNLESS_ZERO):
            return Wire.BOOL if self.read is bool else Wire.INT
        return Wire.BYTES_LIST if self.how in _LISTS else Wire.BYTES


class Message(Generic[S]):
    """Reads messages of one kind.

    Args:
        kind: the Struct that is made of them.
    """

    __slots__ = ("_fields", "_kind", "_parse")

    def __init__(self, kind: Callable[..., S], fields: Iterable[MessageField]) -> None:
        named = {f"f{field.number}": field for field in fields}
        cls = message_class(**{name: (field.number, field.wire) for name, field in named.items()})
        described = cls.DESCRIPTOR.fields_by_name
        self._kind, self._parse = kind, cls.FromString
        #: By the library's descriptor, which stands beside each value that it finds.
        self._fields = {described[name]: field[1:] for name, field in named.items()}

    def __call__(self, body: bytes) -> S:
        """The Struct; what is wrong raises anything that :func:`read_message` knows."""
        fields = self._fields
        values: dict[str, Any] = {}
        for descriptor, found in self._parse(body).ListFields():
            attribute, how, read = fields[descriptor]
            if how == VALUE:
                values[attribute] = read(found)
            elif how == ITEM:
                values[attribute] = list(map(read, found))
            elif how == ENTRY:
                values[attribute] = dict(map(read, found))
            elif how == INLINED:
                values.update(read(found))
            elif found or how == NUMBER:
                values[attribute] = found
        return self._kind(**values)


def read_message(body: bytes, message: Message[S]) -> S:
    """The Struct that ``body`` says.

    Raises:
        ParseError: it is none.
    """
    try:
        return message(body)
    except ParseError:
        raise
    except DecodeError:
        raise ParseError(_WRONG) from None
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise ParseError(cut_message(str(error))) from None
