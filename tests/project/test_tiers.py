"""Every test is run by ``make test``, and no setting names a folder that is gone."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.paths import REPO

#: A module all of whose tests belong to the control-plane tier.
MARKED = re.compile(r"^pytestmark = \[[^]]*pytest\.mark\.controlplane\b", re.MULTILINE)


def makefile_folders(variable: str) -> set[str]:
    """The folders that a variable of the Makefile lists."""
    found = re.search(rf"^{variable} := (.+)$", (REPO / "Makefile").read_text(), re.MULTILINE)
    assert found is not None, variable
    return set(found[1].split())


def folders_with_tests() -> set[str]:
    """The folders just below ``tests`` in which, however deep, a test stands."""
    files = [file.relative_to(REPO) for file in (REPO / "tests").rglob("test_*.py")]
    return {"/".join(file.parts[:2]) for file in files}


def test_make_test_runs_every_folder_with_tests_and_no_other() -> None:
    assert makefile_folders("FAST") | makefile_folders("REAL") == folders_with_tests()


@pytest.mark.parametrize("folder", sorted(folders_with_tests() - makefile_folders("FAST")))
def test_a_folder_that_only_the_control_plane_tier_runs_is_marked_for_it(folder: str) -> None:
    """Its tests are chosen by the mark; one without it would be run by no tier."""
    unmarked = [
        str(file)
        for file in (REPO / folder).rglob("test_*.py")
        if not MARKED.search(file.read_text())
    ]
    assert unmarked == []


def test_settings_of_tools_name_files_that_there_are() -> None:
    settings = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]
    named = [
        *settings["pytest"]["ini_options"]["testpaths"],
        *settings["ruff"]["lint"]["per-file-ignores"],
        *settings["mypy"]["packages"],
        *settings["coverage"]["run"]["source"],
    ]
    assert [path for path in named if not any(REPO.glob(path))] == []
