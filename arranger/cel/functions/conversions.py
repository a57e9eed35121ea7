"""Conversions between types, and optional values."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final

from arranger.cel.errors import CelError
from arranger.cel.functions.operators import checked_int, checked_uint
from arranger.cel.functions.table import Table
from arranger.cel.values import Optional, TypeValue, is_zero, kind_of

_DIGITS: Final = re.compile(r"[0-9]{1,400}", re.ASCII)
_SIGNED: Final = re.compile(r"[+-]?[0-9]{1,400}", re.ASCII)
_DOUBLE: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)",
    re.ASCII | re.IGNORECASE,
)
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def _bool(text: str) -> Any:
    found = _BOOLS.get(text)
    return CelError("type conversion error from 'string' to 'bool'") if found is None else found


def _int(text: str) -> Any:
    if not _SIGNED.fullmatch(text):
        return CelError("type conversion error from 'string' to 'int'")
    return checked_int(int(text))


def _uint(text: str) -> Any:
    if not _DIGITS.fullmatch(text):
        return CelError("type conversion error from 'string' to 'uint'")
    return checked_uint(int(text))


def _double(text: str) -> Any:
    if len(text) > 1000 or not _DOUBLE.fullmatch(text):
        return CelError("type conversion error from 'string' to 'double'")
    number = float(text)
    if math.isinf(number) and "n" not in text.lower():
        return CelError("type conversion error from 'string' to 'double'")
    return number


def _whole(number: float) -> Any:
    if math.isnan(number) or not -(2.0**63) < number < 2.0**63:
        return CelError("integer overflow")
    return int(number)


def _whole_uint(number: float) -> Any:
    if math.isnan(number) or not 0 <= number < 2.0**64:
        return CelError("unsigned integer overflow")
    return checked_uint(int(number))


def _text_of_double(number: float) -> str:
    """As Go writes it: the shortest that is read alike, with an exponent if that is large."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int), "it is finite"
    text = "".join(map(str, digits))
    at = len(text) + exponent - 1 if number else 0
    minus = "-" if sign else ""
    if -4 <= at < 6:
        return minus + format(abs(Decimal(repr(number)).normalize()), "f")
    rest = f".{text[1:]}" if text[1:] else ""
    return f"{minus}{text[0]}{rest}e{'-' if at < 0 else '+'}{abs(at):02}"


def _text_of_bytes(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return CelError("invalid UTF-8 in bytes, cannot convert to string")


def _of_non_zero(value: Any) -> Optional:
    return Optional() if is_zero(value) else Optional(value)


def _value(given: Optional) -> Any:
    return given.value if given.is_present else CelError("optional.none() dereference")


def _unwrapped(given: list[Any]) -> Any:
    if not all(isinstance(each, Optional) for each in given):
        return CelError("value is not optional")
    return [each.value for each in given if each.is_present]


def _same(value: Any) -> Any:
    return value


TABLE: Final[Table] = {
    "type": [(("any",), lambda value: TypeValue(kind_of(value)))],
    "dyn": [(("any",), _same)],
    "bool": [(("bool",), _same), (("string",), _bool)],
    "bytes": [(("bytes",), _same), (("string",), str.encode)],
    "double": [(("double",), _same), (("int",), float), (("uint",), float), (("string",), _double)],
    "int": [
        (("int",), _same),
        (("uint",), lambda value: checked_int(int(value))),
        (("double",), _whole),
        (("string",), _int),
    ],
    "uint": [
        (("uint",), _same),
        (("int",), checked_uint),
        (("double",), _whole_uint),
        (("string",), _uint),
    ],
    "string": [
        (("string",), _same),
        (("bool",), lambda value: "true" if value else "false"),
        (("bytes",), _text_of_bytes),
        (("double",), _text_of_double),
        (("int",), str),
        (("uint",), lambda value: str(int(value))),
    ],
    "optional.of": [(("any",), Optional)],
    "optional.none": [((), Optional)],
    "optional.ofNonZeroValue": [(("any",), _of_non_zero)],
    "hasValue": [(("optional_type",), lambda given: given.is_present)],
    "value": [(("optional_type",), _value)],
    "optional.unwrap": [(("list",), _unwrapped)],
    "unwrapOpt": [(("list",), _unwrapped)],
}
