"""Each bug that can be put back still fits the source, and is one that a program runs with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.paths import REPO
from tests.seeded_bugs.__main__ import judge_one
from tests.seeded_bugs.bug import SeededBug, StaleBugError
from tests.seeded_bugs.catalogue import ALL
from tests.seeded_bugs.judges import NearbyTests, UnfitError
from tests.seeded_bugs.swarm import Played, Swarm


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

GENERATE = """
def only(*features):
    return features

def generate(seed, weights):
    return seed + 2 if weights else seed
"""
PLAY = """
from types import SimpleNamespace
from sums import add

def be_quiet():
    pass

def play(seed):
    rules = ["odd"] if seed == 2 else []
    if seed > 2:
        rules += ["sum"] if add(seed, 1) != seed + 1 else []
    return SimpleNamespace(violations=[SimpleNamespace(rule=rule) for rule in rules])
"""
RAISES = SeededBug("raises", "it raises", "sums.py", "a + b", "a + None", ())
ELSEWHERE = SeededBug("elsewhere", "nobody gets there", "sums.py", "a * b", "a + b", ())


@pytest.fixture
def swarm(repository: Path) -> Path:
    for folder, files in {
        "swarm": {"play.py": PLAY},
        "swarm/worlds": {"generate.py": GENERATE},
        "seeded_bugs": {"worlds.py": (REPO / "tests/seeded_bugs/worlds.py").read_text()},
    }.items():
        (repository / "tests" / folder).mkdir(parents=True)
        for name, text in files.items():
            (repository / "tests" / folder / name).write_text(text)
    (repository / "sums.py").write_text(f"{SOURCE}\ndef times(a, b):\n    return a * b\n")
    return repository


def the_swarm(root: Path, *bugs: SeededBug) -> Swarm:
    return Swarm.without_bugs(root, 60, range(1, 6), bugs)


def test_only_worlds_that_get_to_a_bug_are_asked(swarm: Path) -> None:
    judge = the_swarm(swarm, WRONG_SUM, ELSEWHERE)
    worlds = judge.usual[()]
    assert {seed: world.rules for seed, world in worlds.items() if world.rules} == {2: {"odd"}}
    assert judge.entered == {"sum": [3, 4, 5], "elsewhere": []}


@pytest.mark.parametrize(
    ("bug", "found", "by", "tries"),
    [
        pytest.param(WRONG_SUM, True, "seed 3: sum", 1, id="one that breaks a rule"),
        pytest.param(RAISES, True, "seed 3: it ends in TypeError", 1, id="one that raises"),
        pytest.param(
            HARMLESS, False, "3 of 5 worlds get there, 3 are as without it", 3, id="a harmless one"
        ),
        pytest.param(
            ELSEWHERE, False, "none of 5 worlds gets there", 0, id="one that no world gets to"
        ),
    ],
)
def test_the_swarm_tells_of(swarm: Path, bug: SeededBug, found: bool, by: str, tries: int) -> None:
    verdict = judge_one(bug, swarm, the_swarm(swarm, bug))
    assert (verdict.found, verdict.by, verdict.tries) == (found, by, tries)


def test_all_worlds_get_to_what_is_in_no_function(repository: Path) -> None:
    (repository / "sums.py").write_text(f"ONE = 1\n{SOURCE}")
    constant = replace(WRONG_SUM, before="ONE = 1", after="ONE = 2")
    world = Played(1, frozenset(), {})
    assert world.enters(constant, repository)
    assert not world.enters(WRONG_SUM, repository)


def test_a_bug_is_looked_for_in_worlds_with_the_features_that_it_needs(swarm: Path) -> None:
    bug = replace(WRONG_SUM, only=("sums",))
    verdict = judge_one(bug, swarm, the_swarm(swarm, bug, HARMLESS))
    assert (verdict.found, verdict.by, verdict.tries) == (True, "seed 1: sum", 1)


def test_a_swarm_that_does_not_play_finds_nothing(swarm: Path) -> None:
    (swarm / "tests/swarm/play.py").write_text("raise RuntimeError('broken')")
    with pytest.raises(UnfitError, match="broken"):
        the_swarm(swarm, WRONG_SUM)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        pytest.param("b\nc\nd", "b\nX\nd", [3], id="one line of three"),
        pytest.param("b\nc\nd", "b\nd", [3], id="one that is left out"),
        pytest.param("b\nc", "b\nX\nc", [2, 3], id="between the two that it is put between"),
        pytest.param("c\nd", "", [3, 4], id="all"),
    ],
)
def test_the_lines_that_a_bug_changes(
    tmp_path: Path, before: str, after: str, lines: list[int]
) -> None:
    (tmp_path / "x.py").write_text("a\nb\nc\nd\n")
    assert list(SeededBug("", "", "x.py", before, after, ()).lines(tmp_path)) == lines
