"""Templates to HTML. Every text is escaped, and what is not to be seen in one is written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from arranger.api.printable import printable_lines
from arranger.ui.views.amounts import shown

_FOLDER: Final = Path(__file__).parent
#: How a file is named to the browser.
_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: Characters of a text, of which a page has hundreds: names of owners and resources, and what
#: others say of pods, may be of any length.
_MOST: Final = 5000
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
    made.filters["whole"] = _whole
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


def _whole(text: str) -> Markup:
    """A text that is shown however long it is, as what somebody has filled in."""
    return escape(printable_lines(text))


def _shown(value: Any) -> Any:
    """A text as a page may show it; ends of lines stay, and of a very long one the beginning."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable_lines(value if len(value) <= _MOST else value[:_MOST] + " …")
    return value
