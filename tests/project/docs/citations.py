"""The tests that a page names, and those that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.paths import REPO

CITED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def missing(text: str) -> set[str]:
    """The tests that are named and not there."""
    return {f"{path}::{name}" for path, name in CITED.findall(text) if name not in _tests(path)}


def rows(text: str) -> Iterator[list[str]]:
    """The cells of the rows of every table, without its head."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        for row in table.splitlines()[2:]:
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


@cache
def _tests(path: str) -> set[str]:
    """The names of a module's tests."""
    if not (REPO / path).exists():
        return set()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse((REPO / path).read_text()))
    return {n.name for n in nodes if isinstance(n, functions) and n.name.startswith("test_")}
