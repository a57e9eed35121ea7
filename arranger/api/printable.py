"""Texts of others as a terminal, or a line of a log, may show them."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text, with all that is not to be seen written out: control codes, ends of lines, marks
    that change the direction of writing, halves of characters."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def printable_lines(text: str) -> str:
    """The same line by line, for texts of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def one_line(text: str) -> str:
    """A text of several lines as one, fit to be shown."""
    return printable(" ".join(text.split()))


def _escaped(character: str) -> str:
    return ascii(character)[1:-1]
