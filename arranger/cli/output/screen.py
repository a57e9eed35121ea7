"""The one way to the terminal: nothing that a file or a cluster says gets there as more than text.

What is shown is escaped where it becomes text, so that columns keep their width; whatever came
another way is cut when it is written. Nobody else prints: ``tests/project/test_output_guard.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text, TextType

from arranger.api.printable import printable, printable_lines


class Screen(Console):
    """A console that takes texts for what they are: no markup, no emoji codes, no control codes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """See :class:`rich.console.Console`; every text in a table or in a line comes here."""
        options |= {"markup": False, "emoji": False}
        return super().render_str(printable_lines(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See :class:`rich.console.Console`; the last look at what is written."""
        for segment in super().render(renderable, options):
            if segment.control is None and not _is_plain(segment.text):
                text = "".join(each for each in segment.text if each == "\n" or each.isprintable())
                segment = Segment(text, segment.style)
            yield segment


def _is_plain(text: str) -> bool:
    return text.isprintable() or text.replace("\n", "").isprintable()


def text(content: str, style: str = "") -> Text:
    """A text of others in a style of ours."""
    return Text(printable(content), style=style)


def line(*parts: TextType) -> Text:
    """Texts in a row."""
    return Text.assemble(*(Text(printable(p)) if isinstance(p, str) else p for p in parts))


def say(content: str, *, to_stderr: bool = False) -> None:
    """A line without a table around it."""
    click.echo(printable(content), err=to_stderr)


def say_json(data: Any, *, indent: int | None = None) -> None:
    """JSON for programs, in ASCII: a terminal may be what reads it."""
    click.echo(json.dumps(data, indent=indent))
