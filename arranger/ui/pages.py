"""Templates to HTML. Every text is escaped, and what is not to be seen in one is written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from arranger.api.printable import printable_lines
from arranger.ui.views.amounts import shown

_FOLDER: Final = Path(__file__).parent
#: How a file is named to the browser.
_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
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


def static_files() -> dict[str, tuple[bytes, str]]:
    """The files that pages refer to: name → content and type. They are small, and read once: a
    server that reads none while it runs needs no threads."""
    folder = _FOLDER / "static"
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), _KINDS[path.suffix])
        for path in folder.rglob("*")
        if path.suffix in _KINDS
    }


def _shown(value: Any) -> Any:
    """A text as a page may show it; ends of lines stay."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable_lines(value)
    return value
