"""The error of all that reads a text, and how it shows the text."""

from __future__ import annotations

from typing import Final

#: Characters of a text that a message repeats.
_MAX_SHOWN: Final = 60
#: Characters of a message of a library.
_MAX_MESSAGE: Final = 200


class ParseError(ValueError):
    """A text is not what it should be; the message is one line, and says what was expected."""


def cut_message(message: str) -> str:
    """What a library says of a text, short and on one line: it may repeat all of it, as it is."""
    short = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}..."
    return short if short.isprintable() else repr(short)[1:-1]


def shown(text: str) -> str:
    """The beginning of a text, in quotes; what is no printable character is escaped."""
    return repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}..."
