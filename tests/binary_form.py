"""Messages in the API server's binary form, written by hand: one that our reader does not write."""

from __future__ import annotations


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
