"""One version, wherever it is told."""

from __future__ import annotations

import datetime
import re
import tomllib

from arranger import __version__
from tests.paths import REPO


def test_pages_and_manifests_name_the_image_of_this_version() -> None:
    files = [
        REPO / "README.md",
        *(REPO / "docs").rglob("*.md"),
        *(REPO / "manifests").glob("*.yaml"),
    ]
    named = {
        (file.name, version)
        for file in files
        for version in re.findall(r"\barranger:v?(\d[\w.]*\w)", file.read_text())
    }
    assert {version for _, version in named} == {__version__}
    assert {"40-deployment.yaml", "70-controllers.yaml"} <= {file for file, _ in named}


def test_the_wheel_has_the_version_of_the_sources() -> None:
    pyproject = tomllib.loads((REPO / "pyproject.toml").read_text())
    assert "version" not in pyproject["project"]
    assert pyproject["project"]["dynamic"] == ["version"]
    assert pyproject["tool"]["hatch"]["version"] == {"path": "arranger/__init__.py"}


def test_the_changelog_begins_with_what_is_not_released_and_then_this_version() -> None:
    text = (REPO / "CHANGELOG.md").read_text()
    unreleased, latest, *older = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert unreleased == "Unreleased"
    versions = []
    for heading in (latest, *older):
        version, _, date = heading.partition(" — ")
        assert datetime.date.fromisoformat(date), heading
        versions.append(tuple(map(int, version.split("."))))
    assert latest.startswith(f"{__version__} ")
    assert versions == sorted(versions, reverse=True)
