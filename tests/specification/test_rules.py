"""The rules can be read in ten minutes, say what they mean, and are each broken by a case."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import Counter

from tests.paths import REPO
from tests.specification import listing, rules
from tests.specification.cases import CASES
from tests.specification.cases_at_rest import AT_REST
from tests.specification.test_additions import CASES as ADDITIONS
from tests.specification.test_requests import CASES as REQUESTS
from tests.specification.vocabulary.occasions import Rule, rules_of

FOLDER = REPO / "tests/specification"
FILE = FOLDER / "rules.py"
#: As many as one reads in ten minutes.
MOST_LINES = 350
ALL: list[Rule] = [rule for each in listing.occasions() for rule in rules_of(each)]


def test_the_rules_can_be_read_in_ten_minutes() -> None:
    assert len(FILE.read_text().splitlines()) <= MOST_LINES


def test_all_that_is_written_there_is_rules() -> None:
    """Each class is an occasion with nothing but rules; beside them stands who may evict whom."""
    tree = ast.parse(FILE.read_text())
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    written = [each.name for c in classes for each in c.body if isinstance(each, ast.FunctionDef)]
    ours = [rule for each in listing.occasions_of(rules) for rule in rules_of(each)]
    assert written == [rule.__name__ for rule in ours]
    others = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
    assert others == ["may_have_its_place"]


def test_every_rule_decides_and_says_what_in_a_sentence() -> None:
    for rule in ALL:
        assert inspect.isgeneratorfunction(rule), rule
        assert re.match(r"[A-Z][^\n]*\.(?=\n|$)", rule.__doc__ or ""), rule
        tree = ast.parse(textwrap.dedent(inspect.getsource(rule)))
        decisions = (ast.If, ast.IfExp, ast.For, ast.comprehension)
        assert any(isinstance(each, decisions) for each in ast.walk(tree)), rule


def test_no_two_rules_have_one_name() -> None:
    assert max(Counter(rule.__name__ for rule in ALL).values()) == 1


def test_every_rule_is_broken_by_a_case_and_kept_by_one_near_it() -> None:
    """Also one that is written tomorrow."""
    broken = {rule for rule, *_ in (*CASES.values(), *AT_REST.values())}
    broken |= {rule for rule, *_ in ADDITIONS.values()}
    broken |= {rule for _, rule in REQUESTS.values()} - {""}
    assert broken == {rule.__name__ for rule in ALL}


def test_the_documentation_lists_them() -> None:
    """``make reference`` writes the table again."""
    assert listing.written() == listing.table()


def test_the_specification_imports_nothing_of_the_scheduler() -> None:
    files = sorted(FOLDER.rglob("*.py"))
    assert FILE in files
    for file in files:
        found = re.findall(r"^\s*(?:from|import) ([\w.]+)", file.read_text(), re.MULTILINE)
        ours = {name for name in found if name.startswith(("arranger", "tests"))}
        assert all(name.startswith(("tests.specification", "tests.paths")) for name in ours), file
