"""The site is built as `make docs` builds it: a link that leads nowhere is an error."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import REPO, is_in_checkout


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)],
        cwd=source,
        capture_output=True,
        text=True,
    )


def test_the_site_is_built_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    built = build(REPO, tmp_path / "site")
    assert built.returncode == 0, built.stderr
    pages = {file.relative_to(REPO / "docs") for file in (REPO / "docs").rglob("*.md")}
    for page in pages:
        assert (tmp_path / "site" / page.with_suffix(".html")).exists()


@pytest.mark.parametrize("link", ["nowhere.md", "gangs.md#nowhere"])
def test_a_link_that_leads_nowhere_fails(link: str, tmp_path: Path) -> None:
    shutil.copy(REPO / "mkdocs.yml", tmp_path)
    shutil.copytree(REPO / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "index.md").open("a") as page:
        page.write(f"\n[broken]({link})\n")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode != 0
    assert link.split("#")[-1] in built.stderr


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "examples/README.md"])
def test_a_page_outside_the_site_links_only_to_files_that_are_there(page: str) -> None:
    file = REPO / page
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text())
    assert not [link for link in links if not is_in_checkout(file.parent / link)]
