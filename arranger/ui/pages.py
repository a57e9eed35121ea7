"""Templates to HTML. Every text is escaped, and what is not to be seen in one is written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from arranger.api.printable import printable_lines
from arranger.ui.views.amounts import shown

_FOLDER: Final = Path(__file__).parent
STATIC: Final = _FOLDER / "static"
#: (address, name) of the pages that every page leads to.
PAGES: Final = (
    ("./", "Overview"),
    ("queues", "Queues"),
    ("gangs", "Gangs"),
    ("jobs", "Jobs"),
    ("pods", "Pods"),
    ("nodes", "Nodes"),
    ("what-if", "What if"),
)


def environment() -> Environment:
    """What templates are rendered with."""
    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.globals.update(pages=PAGES, amount=shown, query="", follows=False, here="", current="")
    return made


def _shown(value: Any) -> Any:
    """A text as a page may show it; ends of lines stay."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable_lines(value)
    return value
