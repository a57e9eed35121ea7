"""The words and signs of an expression."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from arranger.cel.errors import CompileError
from arranger.cel.values import INT_MAX, UINT_MAX, Uint

_ESCAPED: Final = (
    r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
)
_TEXT: Final = (
    r"[rR]\"\"\"(?s:.*?)\"\"\"|[rR]'''(?s:.*?)'''|[rR]\"[^\"\n\r]*\"|[rR]'[^'\n\r]*'"
    rf"|\"\"\"(?:{_ESCAPED}|[^\\])*?\"\"\"|'''(?:{_ESCAPED}|[^\\])*?'''"
    rf"|\"(?:{_ESCAPED}|[^\\\"\n\r])*\"|'(?:{_ESCAPED}|[^\\'\n\r])*'"
)
_TOKEN: Final = re.compile(
    r"(?P<space>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<bytes>[bB](?:{_TEXT}))|(?P<string>{_TEXT})"
    r"|(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
)
_ESCAPE: Final = re.compile(_ESCAPED)
_SIMPLE: Final = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
#: Names that mean something to the language itself.
KEYWORDS: Final = frozenset(("true", "false", "null", "in"))


class Token(NamedTuple):
    """A word or sign.

    Attributes:
        kind: ``name``, ``literal``, ``end``, or the sign or keyword itself.
        value: of a literal; else the text.
        at: its place in the expression.
    """

    kind: str
    value: Any
    at: int


def tokenize(expression: str) -> list[Token]:
    """The tokens; the last is the end.

    Raises:
        CompileError: something is no token.
    """
    found: list[Token] = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None or match.lastgroup is None:
            raise CompileError(f"Syntax error: token recognition error at {at}")
        kind, text = match.lastgroup, match[match.lastgroup]
        if kind == "sign" or text in KEYWORDS:
            found.append(Token(text, text, at))
        elif kind == "name":
            found.append(Token(kind, text, at))
        elif kind != "space":
            found.append(Token("literal", _literal(kind, text), at))
        at = match.end()
    found.append(Token("end", "", at))
    return found


def _literal(kind: str, text: str) -> Any:
    if kind == "float":
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise CompileError("invalid double literal")
        return number
    if kind in ("int", "uint"):
        digits = text.rstrip("uU")
        # So long a number is none of 64 bits, and would take long to read.
        base = 16 if digits.startswith("0x") else 10
        value = int(digits, base) if len(digits) < 30 else UINT_MAX + 1
        if value > (UINT_MAX if kind == "uint" else INT_MAX + 1):
            raise CompileError(f"invalid {kind} literal")
        return Uint(value) if kind == "uint" else value
    return _unquoted(text[1:], as_bytes=True) if kind == "bytes" else _unquoted(text)


def _unquoted(text: str, *, as_bytes: bool = False) -> Any:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    edge = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    text = text[edge:-edge]
    if raw or "\\" not in text:
        return text.encode() if as_bytes else text
    if not as_bytes:
        return _ESCAPE.sub(lambda found: _character(found[0]), text)
    made, end = b"", 0
    for found in _ESCAPE.finditer(text):
        if found[0][1] in "uU":
            raise CompileError("unable to unescape string")
        made += text[end : found.start()].encode() + bytes([_code(found[0])])
        end = found.end()
    return made + text[end:].encode()


def _character(escape: str) -> str:
    code = _code(escape)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CompileError("invalid unicode code point")
    return chr(code)


def _code(escape: str) -> int:
    first = escape[1]
    if first in "xXuU":
        return int(escape[2:], 16)
    if first in "0123":
        return int(escape[1:], 8)
    return _SIMPLE.get(first, ord(first))
