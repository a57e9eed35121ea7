"""Messages in the API server's binary form, written by hand: one that our reader does not write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import inspect

from arranger.api.parsing.protobuf_messages import Inlined
from arranger.api.types.core_messages import CORE_NUMBERS


def varint(number: int) -> bytes:
    """A number, negative ones in 64 bits."""
    number &= (1 << 64) - 1
    encoded = b""
    while number > 0x7F:
        encoded, number = encoded + bytes([number & 0x7F | 0x80]), number >> 7
    return encoded + bytes([number])


def a_field(number: int, value: bytes | str | int) -> bytes:
    """A text, a message or a number behind its tag."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def a_time(seconds: int) -> bytes:
    """A point in time, seconds since 1970."""
    return a_field(1, seconds) + a_field(2, 0)


def an_entry(key: bytes | str, value: bytes | str) -> bytes:
    """An entry of a map of texts."""
    return a_field(1, key) + a_field(2, value)


def wrapped(body: bytes, kind: str = "Pod") -> bytes:
    """An object as it is sent."""
    type_meta = a_field(1, "v1") + a_field(2, kind)
    return b"k8s\x00" + a_field(1, type_meta) + a_field(2, body) + a_field(3, "") + a_field(4, "")


def an_event(type_: str, body: bytes) -> bytes:
    """An event of a watch, with an object that is not wrapped yet."""
    return a_field(1, type_) + a_field(2, a_field(1, wrapped(body)))


class NoBinaryFormError(Exception):
    """A manifest says what no server holds in binary form: a field has a value of another type."""


#: What null is for those fields that a server always writes.
_ZEROS: dict[type, Any] = {inspect.StrType: "", inspect.IntType: 0, inspect.StructType: {}}


def encoded(kind: type, manifest: Any) -> bytes:
    """An object as a server has it that was given the manifest in JSON; not wrapped.

    Of the fields that nobody reads there are none; those with null are not there.

    Raises:
        NoBinaryFormError: it could not have been given that.
    """
    if not isinstance(manifest, dict):
        raise NoBinaryFormError(kind.__name__)
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    body, inner = b"", dict[int, bytes]()
    for field in info.fields:
        value = manifest.get(field.encode_name)
        if value is None and field.required:
            if field.encode_name not in manifest:
                raise NoBinaryFormError(f"a server always writes {field.name}")
            value = _ZEROS.get(type(field.type))
        if value is None:
            continue
        if not value and isinstance(field.default, str | int) and field.default:
            raise NoBinaryFormError(f"{field.name} has a default, which the server fills in")
        where = CORE_NUMBERS[kind][field.name]
        if isinstance(where, Inlined):
            struct = not isinstance(_not_none(field.type), inspect.DictType)
            part = _field(field.type, where.number, value) if struct else _disk(where, value)
            inner[where.message] = inner.get(where.message, b"") + part
        else:
            body += _field(field.type, where, value)
    return body + b"".join(a_field(number, part) for number, part in inner.items())


def _field(of: inspect.Type, number: int, value: Any) -> bytes:
    of = _not_none(of)
    match of:
        case inspect.ListType() if isinstance(value, list):
            return b"".join(_field(of.item_type, number, each) for each in value)
        case inspect.DictType() if isinstance(value, dict):
            texts = isinstance(of.value_type, inspect.StrType)
            # A quantity is a message with a text.
            entries = [
                (key, _text(each) if texts else a_field(1, _text(each)))
                for key, each in value.items()
            ]
            return b"".join(a_field(number, an_entry(_text(k), v)) for k, v in entries)
        case inspect.StructType():
            return a_field(number, encoded(of.cls, value))
        case inspect.BoolType() if isinstance(value, bool):
            return a_field(number, int(value))
        case inspect.IntType() if type(value) is int and -(1 << 63) <= value < 1 << 63:
            return a_field(number, value)
        case inspect.StrType():
            return a_field(number, _text(value))
        case inspect.DateTimeType() if isinstance(value, str):
            return a_field(number, _time(value))
    raise NoBinaryFormError(f"{value!r:.80}")


def _not_none(of: inspect.Type) -> inspect.Type:
    if not isinstance(of, inspect.UnionType):
        return of
    types = [each for each in of.types if not isinstance(each, inspect.NoneType)]
    return inspect.StrType() if len(types) > 1 else types[0]  # a quantity


def _disk(where: Inlined, value: Any) -> bytes:
    """A source of a volume that is read as a dict."""
    if not isinstance(value, dict):
        raise NoBinaryFormError(f"{value!r:.80}")
    body = b""
    for name, (number, kind) in where.content.items():
        found = value.get(name)
        if found is None:
            continue
        if not isinstance(found, kind):
            raise NoBinaryFormError(f"{found!r:.80}")
        many = found if isinstance(found, list) else [found]
        parts = (int(each) if kind is bool else _text(each) for each in many)
        body += b"".join(a_field(number, part) for part in parts)
    return a_field(where.number, body)


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise NoBinaryFormError(f"{value!r:.80}")
    return value.encode()


def _time(text: str) -> bytes:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise NoBinaryFormError(text[:80]) from None
    if time.tzinfo is None or "T" not in text or time.microsecond:
        raise NoBinaryFormError(text[:80])
    try:
        time.astimezone(UTC)  # as a server writes it in JSON, whatever the zone was
    except OverflowError:
        raise NoBinaryFormError(text[:80]) from None
    return a_time(int((time - datetime.fromtimestamp(0, UTC)).total_seconds()))
