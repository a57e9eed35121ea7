"""The constants of a module with the ``#:`` comments above them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

_SECTION = re.compile(r"# --- (.*?) -+$")
_CONSTANT = re.compile(r"([A-Z][A-Z0-9_]*): Final\b")


@dataclass(frozen=True)
class Constant:
    """A string that has a name, where it stands and what it means."""

    section: str
    name: str
    value: str
    comment: str

    @property
    def meaning(self) -> str:
        """What the comment says.

        Raises:
            ValueError: there is none.
        """
        if not self.comment:
            raise ValueError(f"{self.name} has no comment")
        return self.comment


def constants(module: ModuleType) -> Iterator[Constant]:
    """The public strings of a module, in their order."""
    section, comment = "", []
    for line in inspect.getsource(module).splitlines():
        if line.startswith("#:"):
            comment.append(line[2:].strip())
            continue
        if found := _SECTION.match(line):
            section = found[1]
        elif found := _CONSTANT.match(line):
            value = getattr(module, found[1])
            if isinstance(value, str):
                text = " ".join(comment).replace("``", "`")
                yield Constant(section, found[1], value, text)
        comment = []
