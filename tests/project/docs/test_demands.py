"""Each demand of the designs names the tests that hold it, and they are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.paths import REPO

PAGES = ("gang-scheduling", "bundles", "preemption", "tyjob", "queues")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def demands(page: str) -> Iterator[str]:
    """The rows of a page's table of demands."""
    text = (REPO / "docs" / "design" / f"{page}.md").read_text()
    table = text.partition("## Every demand, and the test that holds it")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    yield from rows[1:]


@pytest.mark.parametrize("page", PAGES)
def test_every_demand_of_a_design_is_held_by_tests_that_exist(page: str) -> None:
    rows = list(demands(page))
    assert len(rows) > 15
    for row in rows:
        found = _TEST.findall(row)
        assert found, f"no test: {row}"
        assert all(name in _tests(path) for path, name in found), row


def _tests(path: str) -> set[str]:
    """The names of a module's tests."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse((REPO / path).read_text()))
    return {n.name for n in nodes if isinstance(n, functions) and n.name.startswith("test_")}
