"""Each demand of the designs names the tests that hold it, and they are there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.paths import REPO
from tests.project.docs.citations import CITED, missing

PAGES = ("gang-scheduling", "bundles", "preemption", "tyjob", "queues")


def text_of(page: str) -> str:
    return (REPO / "docs" / "design" / f"{page}.md").read_text()


def demands(page: str) -> Iterator[str]:
    """The rows of a page's table of demands."""
    table = text_of(page).partition("## Every demand, and the test that holds it")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    yield from rows[1:]


@pytest.mark.parametrize("page", PAGES)
def test_every_demand_of_a_design_is_held_by_tests_that_exist(page: str) -> None:
    rows = list(demands(page))
    assert len(rows) > 15
    for row in rows:
        where, demand, _, tests = (cell.strip() for cell in row.strip("|").split(" | "))
        assert where, row
        assert demand, row
        assert CITED.findall(tests), f"no test: {row}"


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_design_names_exists(page: str) -> None:
    assert missing(text_of(page)) == set()


@pytest.mark.parametrize("page", PAGES)
def test_whatever_differs_from_a_design_is_told_with_its_reason(page: str) -> None:
    table = text_of(page).partition("## Where we differ, and why")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 3
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 3, row
        assert all(cells), f"no reason: {row}"
