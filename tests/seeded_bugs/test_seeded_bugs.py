"""Each bug that can be put back still fits the source, and is one that a program runs with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paths import REPO
from tests.seeded_bugs.__main__ import judge_one
from tests.seeded_bugs.bug import SeededBug, StaleBugError
from tests.seeded_bugs.catalogue import ALL
from tests.seeded_bugs.judges import NearbyTests, Swarm, UnfitError


@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.key)
def test_the_bug_fits_the_source_of_today(bug: SeededBug) -> None:
    changed = bug.changed(REPO)
    assert changed != (REPO / bug.file).read_text()
    compile(changed, bug.file, "exec")
    for path in bug.tests:
        assert (REPO / path).exists(), path


def test_no_two_bugs_have_one_key() -> None:
    assert len({bug.key for bug in ALL}) == len(ALL)
    assert len({bug.name for bug in ALL}) == len(ALL)


# --- the runner, on a repository of three lines -------------------------------------------------

WRONG_SUM = SeededBug("sum", "it subtracts", "sums.py", "a + b", "a - b", ("test_sums.py",))
HARMLESS = SeededBug("order", "the other way round", "sums.py", "a + b", "b + a", ("test_sums.py",))
SOURCE = "def add(a, b):\n    return a + b\n"
TESTS = """
import sums

def test_zero():
    assert sums.add(2, 0) == 2

def test_sum():
    assert sums.add(2, 3) == 5
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "sums.py").write_text(SOURCE)
    (tmp_path / "test_sums.py").write_text(TESTS)
    return tmp_path


def test_a_bug_that_tests_notice_is_told_with_the_test(repository: Path) -> None:
    verdict = judge_one(WRONG_SUM, repository, NearbyTests(repository, 60))
    assert (verdict.found, verdict.by, verdict.tries) == (True, "test_sums.py::test_sum", 2)
    assert (repository / "sums.py").read_text() == SOURCE


def test_a_bug_that_nobody_notices_is_told(repository: Path) -> None:
    verdict = judge_one(HARMLESS, repository, NearbyTests(repository, 60))
    assert (verdict.found, verdict.tries) == (False, 2)
    assert (repository / "sums.py").read_text() == SOURCE


def test_a_test_that_fails_in_any_case_notices_nothing(repository: Path) -> None:
    (repository / "test_sums.py").write_text(TESTS.replace("== 5", "== 6"))
    with pytest.raises(UnfitError, match="fails without the bug"):
        judge_one(WRONG_SUM, repository, NearbyTests(repository, 60))


def test_tests_that_do_not_run_notice_nothing(repository: Path) -> None:
    (repository / "test_sums.py").write_text("import nothing_of_that_name")
    with pytest.raises(UnfitError, match="nothing_of_that_name"):
        judge_one(WRONG_SUM, repository, NearbyTests(repository, 60))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def add(a, b):\n    return sum((a, b))\n", id="the text is gone"),
        pytest.param(SOURCE * 2, id="the text is there twice"),
    ],
)
def test_a_bug_that_fits_no_more_is_not_put_in(repository: Path, source: str) -> None:
    (repository / "sums.py").write_text(source)
    with pytest.raises(StaleBugError, match=r"sum: its text is \d times in sums.py"):
        judge_one(WRONG_SUM, repository, NearbyTests(repository, 60))
    assert (repository / "sums.py").read_text() == source


# --- the swarm as a judge -------------------------------------------------------------------------

PLAYS = """
import sys
from sums import add

first, count = int(sys.argv[2]), int(sys.argv[4])
found = 0
for seed in range(first, first + count):
    rules = ["odd"] if seed == 2 else []
    rules += ["sum"] if add(seed, seed - 3) != 2 * seed - 3 else []
    if rules:
        print(f"seed {seed}:", *(f"{rule}: it is wrong" for rule in rules), sep="\\n  ")
        found = 1
raise SystemExit(found)
"""


@pytest.fixture
def swarm(repository: Path) -> Path:
    folder = repository / "tests" / "swarm"
    folder.mkdir(parents=True)
    (folder / "__main__.py").write_text(PLAYS)
    return repository


def test_a_bug_that_the_swarm_finds_is_told_with_its_seed_and_rule(swarm: Path) -> None:
    (swarm / "sums.py").write_text(SOURCE)
    judge = Swarm.without_bugs(swarm, 60, seeds=9)
    assert judge.usual == {2: {"odd"}}
    verdict = judge_one(WRONG_SUM, swarm, judge)
    assert (verdict.found, verdict.by, verdict.tries) == (True, "seed 1: sum", 1)


def test_a_bug_by_which_nothing_else_is_broken_is_not_found(swarm: Path) -> None:
    verdict = judge_one(HARMLESS, swarm, Swarm.without_bugs(swarm, 60, seeds=9))
    assert (verdict.found, verdict.tries) == (False, 9)


def test_a_swarm_that_does_not_play_finds_nothing(swarm: Path) -> None:
    (swarm / "tests/swarm/__main__.py").write_text("raise RuntimeError('broken')")
    with pytest.raises(UnfitError, match="broken"):
        Swarm.without_bugs(swarm, 60, seeds=9)
