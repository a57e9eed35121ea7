"""The formats that schemas of definitions may ask of strings and numbers."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Final
from urllib.parse import urlsplit

_HOSTNAME: Final = re.compile(
    r"(?!.{254})[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*",
    re.ASCII | re.IGNORECASE,
)
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+", re.ASCII)
_DURATION: Final = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+|0")
_BITS: Final = {"int32": 31, "int64": 63}


def has_format(text: str, name: str) -> bool:
    """Whether a string has a format; unknown formats allow every string."""
    check = _FORMATS.get(name)
    if check is None:
        return True
    try:
        return bool(check(text))
    except ValueError:
        return False


def in_range(number: float, name: str) -> bool:
    """Whether a number fits ``int32`` or ``int64``; other formats allow every number."""
    bits = _BITS.get(name)
    return bits is None or -(2**bits) <= number < 2**bits


def _date_time(text: str) -> bool:
    return "T" in text.upper() and datetime.fromisoformat(text).tzinfo is not None


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def _uri(text: str) -> bool:
    return bool(urlsplit(text).scheme) or text.startswith("/")


_FORMATS: Final[Mapping[str, Callable[[str], object]]] = {
    "byte": _byte,
    "date": lambda text: date.fromisoformat(text),
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": _DURATION.fullmatch,
    "email": _EMAIL.fullmatch,
    "hostname": _HOSTNAME.fullmatch,
    "ipv4": lambda text: ipaddress.IPv4Address(text),
    "ipv6": lambda text: ipaddress.IPv6Address(text),
    "uri": _uri,
    "uuid": lambda text: uuid.UUID(text),
}
