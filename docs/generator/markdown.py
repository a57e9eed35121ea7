"""Markdown from data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def heading(title: str, source: str, text: str = "") -> list[str]:
    """The head of a generated page: its title and what it is made from."""
    lines = [f"# {title}", "", f"<!-- Made by `make reference` from {source}. Do not edit. -->", ""]
    return [*lines, text, ""] if text else lines


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; bars within cells are escaped."""
    lines = [_row(columns), "|" + "---|" * len(columns)]
    return [*lines, *(_row(row) for row in rows), ""]


def code(text: object) -> str:
    """As code; nothing for nothing."""
    return f"`{text}`" if text not in ("", None) else ""


def page(lines: Iterable[str]) -> str:
    """The text of a page."""
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(cells: Sequence[str]) -> str:
    escaped = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return "| " + " | ".join(escaped) + " |"
