"""Writes the table of rules in ``docs/testing.md`` again; ``make reference`` runs it."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

from tests.paths import REPO
from tests.specification import additions, rules
from tests.specification.vocabulary.occasions import rules_of

PAGE = REPO / "docs/testing.md"
_HEAD = "| when | rule | what it says |\n|---|---|---|\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)+")


def occasions() -> list[type]:
    """The classes of the files of rules, in their order."""
    return [*occasions_of(rules), *occasions_of(additions)]


def occasions_of(file: ModuleType) -> list[type]:
    """The classes of one of them."""
    found = (each for each in vars(file).values() if inspect.isclass(each))
    return [each for each in found if each.__module__ == file.__name__]


def sentences(of: object) -> str:
    """The first paragraph of what is written about it."""
    return " ".join((inspect.getdoc(of) or "").partition("\n\n")[0].replace("``", "`").split())


def table() -> str:
    """The rules as the page shows them."""
    rows = []
    for each in occasions():
        when = sentences(each)
        for rule in rules_of(each):
            rows.append(f"| {when} | `{rule.__name__}` | {sentences(rule)} |\n")
            when = ""
    return _HEAD + "".join(rows)


def written() -> str:
    """The table that is on the page now."""
    found = _TABLE.search(PAGE.read_text())
    return found[0] if found else ""


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(lambda _: table(), PAGE.read_text()))
