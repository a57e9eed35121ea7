"""The page of what ``arranger why``, ``whatif``, ``capacity`` and ``doctor`` print as JSON."""

from __future__ import annotations

import inspect
import re
from typing import Final

import msgspec

from arranger.cli.doctor.finding import Finding
from arranger.shadow.answers.capacity import CapacityAnswer, NodesNeeded
from arranger.shadow.answers.why import Answer, GangState, QueuePlace, Suggestion
from arranger.shadow.forecasts.comparison import Difference
from docs.generator.markdown import code, heading, table
from docs.generator.markdown import page as text_of

_INTRODUCTION = (
    "What [`arranger why`, `whatif`, `capacity`](../guide/what-if.md) and `doctor` print with "
    '`-o json`; the first prints `{"answers": [...]}`, the last `{"findings": [...]}`.'
)
_KINDS: Final = (
    ("Each of `answers`", Answer),
    ("Its `queue`", QueuePlace),
    ("Its `gang`", GangState),
    ("Each of its `suggestions`", Suggestion),
    ("What `arranger whatif` prints", Difference),
    ("What `arranger capacity` prints", CapacityAnswer),
    ("Each of its `nodes`", NodesNeeded),
    ("Each of the `findings` of `arranger doctor`", Finding),
)
_ATTRIBUTE = re.compile(r"^    (\w[\w, ]*): (.*(?:\n        .*)*)", re.MULTILINE)


def page() -> str:
    """The page, from the docstrings of the types."""
    lines = heading("Answers", "the types of `arranger/shadow`", _INTRODUCTION)
    for title, kind in _KINDS:
        summary, _, rest = (inspect.getdoc(kind) or "").partition("\n\n")
        told = _attributes(rest)
        rows = [
            (code(field.encode_name), told[field.name]) for field in msgspec.structs.fields(kind)
        ]
        lines += [f"## {title}", "", summary, "", *table(("field", "meaning"), rows)]
    return text_of(lines)


def _attributes(text: str) -> dict[str, str]:
    """The ``Attributes:`` of a docstring, by name."""
    found = {}
    for match in _ATTRIBUTE.finditer(text):
        words = " ".join(match[2].split()).replace("``", "`")
        for name in match[1].split(", "):
            found[name] = words
    return found
