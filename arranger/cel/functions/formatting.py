"""``'%d of %s'.format([1, 'two'])``, and texts in quotes.

Upstream: ``ext/formatting.go`` and ``ext/strings.go`` of ``cel-go``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from arranger.cel.errors import CelError, CompileError, CostLimitError
from arranger.cel.functions import conversions, times
from arranger.cel.functions.operators import MAX_TEXT
from arranger.cel.functions.table import Table
from arranger.cel.syntax import ListNode, Literal, Node
from arranger.cel.values import CelMap, Uint, kind_of

_CLAUSE: Final = re.compile(r"%(?:(%)|(?:\.([0-9]{1,3}))?([sdfebxXo]))", re.ASCII)
_QUOTED: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}
_PRECISION: Final = 6
#: Digits behind the point, at most; and levels of lists.
_MAX_PRECISION: Final = 300
_MAX_LEVELS: Final = 64


class _NoFormatError(Exception):
    """A value cannot be written so."""


def quote(text: str) -> str:
    """The text in quotes, with escapes."""
    return f'"{"".join(_QUOTED.get(sign, sign) for sign in text)}"'


def _written(value: Any, levels: int = _MAX_LEVELS) -> str:
    """As ``%s`` has it."""
    if value is None:
        return "null"
    if isinstance(value, list | CelMap):
        if not levels:
            raise _NoFormatError("nested too deeply")
        return _list(value, levels) if isinstance(value, list) else _map(value, levels)
    made = _STRING.get(type(value))
    if made is None:
        what = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        raise _NoFormatError(_only("string", what, value))
    text = made(value)
    if isinstance(text, CelError):
        raise _NoFormatError(text.message)
    return str(text)


def _list(of: list[Any], levels: int) -> str:
    return f"[{', '.join(_member(each, levels - 1) for each in of)}]"


def _map(of: CelMap, levels: int) -> str:
    pairs = sorted((_member(key, 0), _member(of.find(key), levels - 1)) for key in of)
    return f"{{{', '.join(f'{key}:{value}' for key, value in pairs)}}}"


def _member(value: Any, levels: int) -> str:
    if isinstance(value, float):
        return quote(text) if (text := _fixed(value, None)) in _NAMED else text
    text = _written(value, levels)
    match kind_of(value):
        case "string":
            return quote(text)
        case "bytes":
            return f"b{quote(text)}"
        case "duration" | "timestamp" as kind:
            return f"{kind}({quote(text)})"
    return text


def _decimal(value: Any) -> str:
    if type(value) not in (int, Uint):
        raise _NoFormatError(_only("decimal", "integers", value))
    return str(int(value))


_NAMED: Final = ("NaN", "∞", "-∞")
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _double(value: Any, clause: str) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if not isinstance(value, float):
        raise _NoFormatError(_only(clause, "doubles", value))
    return value


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "" if math.isfinite(number) else "∞" if number > 0 else "-∞"


def _fixed(value: Any, precision: int | None) -> str:
    number = _double(value, "fixed-point")
    digits = _PRECISION if precision is None else min(precision, _MAX_PRECISION)
    return _special(number) or f"{number:,.{digits}f}"


def _scientific(value: Any, precision: int | None) -> str:
    number = _double(value, "scientific")
    if special := _special(number):
        return special
    digits = _PRECISION if precision is None else min(precision, _MAX_PRECISION)
    mantissa, _, power = f"{number:.{digits}e}".partition("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa}\u202f×\u202f10{raised.zfill(2) if len(raised) > 1 else '⁰' + raised}"


def _in_base(base: str, name: str, kinds: str) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        if type(value) is bool and base == "b":
            return str(int(value))
        if type(value) in (int, Uint):
            return format(int(value), base)
        if base in "xX" and isinstance(value, str | bytes):
            text = (value.encode() if isinstance(value, str) else value).hex()
            return text.upper() if base == "X" else text
        raise _NoFormatError(_only(name, kinds, value))

    return written


def _only(clause: str, kinds: str, value: Any) -> str:
    what = f"{clause} clause can only be used on {kinds}, was given {kind_of(value)}"
    return f"error during formatting: {what}"


_CLAUSES: Final[dict[str, Callable[[Any, int | None], str]]] = {
    "s": lambda value, _: _written(value),
    "d": lambda value, _: _decimal(value),
    "f": _fixed,
    "e": _scientific,
    "b": lambda value, _: _in_base("b", "binary", "integers and bools")(value),
    "o": lambda value, _: _in_base("o", "octal", "integers")(value),
    "x": lambda value, _: _in_base("x", "hex", "integers, byte buffers, and strings")(value),
    "X": lambda value, _: _in_base("X", "hex", "integers, byte buffers, and strings")(value),
}
_STRING: Final[dict[type, Callable[[Any], Any]]] = {
    str: str,
    **{
        type_: function
        for kind, function in [
            (wanted[0], made)
            for table in (conversions.TABLE, times.TABLE)
            for wanted, made in table["string"]
        ]
        for type_ in [
            {
                "bool": bool,
                "bytes": bytes,
                "double": float,
                "int": int,
                "uint": Uint,
                "timestamp": times.Timestamp,
                "duration": times.Duration,
            }.get(kind, str)
        ]
    },
}


def _format(text: str, given: list[Any]) -> Any:
    made: list[str] = []
    at = used = size = 0
    while (sign := text.find("%", at)) >= 0:
        clause = _CLAUSE.match(text, sign)
        if clause is None:
            return CelError(f"unexpected format clause at {sign}: {text[sign : sign + 20]}")
        made.append(text[at:sign])
        at = clause.end()
        if clause[1]:
            made.append("%")
            continue
        if used == len(given):
            return CelError(f"index {used} out of range")
        try:
            made.append(_CLAUSES[clause[3]](given[used], int(clause[2]) if clause[2] else None))
        except _NoFormatError as error:
            return CelError(str(error))
        used += 1
        size += len(made[-1])
        if size > MAX_TEXT:
            raise CostLimitError
    return "".join([*made, text[at:]])


#: What a clause is for, by the kinds that are known before an evaluation.
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "o": ("int", "uint"),
    "x": ("int", "uint", "string", "bytes"),
    "X": ("int", "uint", "string", "bytes"),
}


def check_format(text: Node, args: Sequence[Node]) -> None:
    """See that a text and a list, where both are written down, fit each other.

    Raises:
        CompileError: they do not.
    """
    if not isinstance(text, Literal) or not isinstance(text.value, str):
        return
    if len(args) != 1 or not isinstance(args[0], ListNode):
        return
    rest, wanted = text.value, list(args[0].elements)
    clauses = [found for found in _CLAUSE.finditer(rest) if not found[1]]
    if "%" in _CLAUSE.sub("", rest):
        raise CompileError("could not parse formatting clause")
    if len(clauses) > len(wanted):
        raise CompileError(f"index {len(wanted)} out of range")
    if len(clauses) < len(wanted):
        count = f"(expected {len(clauses)}, got {len(wanted)})"
        raise CompileError(f"too many arguments supplied to string.format {count}")
    for clause, each in zip(clauses, wanted, strict=True):
        kinds, kind = _KINDS.get(clause[3]), each.type.kind
        if kinds and kind not in (*kinds, "dyn", "any", "param"):
            raise CompileError(f"error during formatting: %{clause[3]} was given {kind}")


TABLE: Final[Table] = {
    "format": [(("string", "list"), _format)],
    "strings.quote": [(("string",), quote)],
}
