"""A mutant is tried on the tests that reach a line that it changes: which lines these are."""

from __future__ import annotations

import textwrap

import pytest

from tests.mutants.changed_lines import changed_lines

ORIGINAL = """\
def f(x, y=1):
    total = max(
        x,
        y,
    )
    if total > 3 and (
        y < 2
    ):
        total += 1
        return total
    elif x:
        y = 2
    try:
        for each in range(x):
            total -= each
    except ValueError:
        total = 0
    match x:
        case 1:
            total = 5
        case _:
            total = 6
    return total
"""


@pytest.mark.parametrize(
    ("line", "mutated", "first", "last"),
    [
        pytest.param(3, "x + 1,", 2, 5, id="all lines of a statement"),
        pytest.param(7, "y > 2", 6, 8, id="of an if the condition alone"),
        pytest.param(9, "total -= 1", 9, 9, id="a statement below it"),
        pytest.param(11, "elif not x:", 11, 11, id="another condition"),
        pytest.param(12, "y = None", 12, 12, id="and below that"),
        pytest.param(14, "for each in range(None):", 14, 14, id="what a loop goes over"),
        pytest.param(15, "total = each", 15, 15, id="in a loop"),
        pytest.param(16, "except KeyError:", 16, 16, id="what is caught"),
        pytest.param(17, "total = 1", 17, 17, id="in a handler"),
        pytest.param(19, "case 2:", 19, 19, id="a case"),
        pytest.param(22, "total = 7", 22, 22, id="in a case"),
        pytest.param(1, "def f(x, y=2):", 1, 23, id="the head of the function: all of it"),
    ],
)
def test_the_lines_that_are_changed(line: int, mutated: str, first: int, last: int) -> None:
    lines = ORIGINAL.splitlines()
    before = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    mutant = [*lines]
    mutant[line - 1] = " " * before + mutated
    assert changed(lines, mutant) == range(first, last + 1)


def test_where_a_case_is_left_out_all_of_the_match_is_changed() -> None:
    lines = ORIGINAL.splitlines()
    assert changed(lines, lines[:20] + lines[22:]) == range(18, 23)


def changed(original: list[str], mutant: list[str]) -> range:
    """Both in one class, as mutmut writes them; lines are counted from the head of the function."""
    both = [
        "\n".join(lines).replace("def f(", f"def xǁCǁf__mutmut_{name}(")
        for name, lines in (("orig", original), ("1", mutant))
    ]
    source = "class C:\n" + textwrap.indent("\n".join(both), "    ")
    found = changed_lines(source)
    assert found.keys() == {"xǁCǁf__mutmut_1"}
    lines = found["xǁCǁf__mutmut_1"]
    return range(lines.start - 1, lines.stop - 1)
