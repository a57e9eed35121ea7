"""The page that follows a pod names functions that are there, each in the file it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.paths import REPO

PAGE = (REPO / "docs" / "life-of-a-pod.md").read_text()
NAMED = sorted(set(re.findall(r"`(arranger/[\w/]+\.py)::([\w.]+)`", PAGE)))


@cache
def names_of(file: str) -> frozenset[str]:
    """Classes, functions and methods of a file, as ``Class.method``."""
    return frozenset(_names(ast.parse((REPO / file).read_text()), ""))


def _names(node: ast.AST, prefix: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name
            yield from _names(child, f"{prefix}{child.name}.")


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_function_on_the_page_is_where_the_page_says(file: str, name: str) -> None:
    assert name in names_of(file)


def test_every_step_of_the_page_names_its_function() -> None:
    steps = re.findall(r"^\d+\. .*(?:\n {3}.*)*", PAGE, re.MULTILINE)
    assert len(steps) > 30
    assert [step for step in steps if not re.search(r"`arranger/[\w/]+\.py::", step)] == []
