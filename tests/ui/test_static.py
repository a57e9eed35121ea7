"""Files of others are theirs to the byte, and ours need nothing that the policy forbids."""

from __future__ import annotations

import hashlib
import re

import pytest

from arranger.ui.pages import static_files
from tests.paths import REPO

UI = REPO / "arranger" / "ui"
VENDOR = UI / "static" / "vendor"
LISTED = re.findall(
    r"^\| (\S+) \|.*\| \S+: (\S+) \| ([0-9a-f]{64}) \|$",
    (VENDOR / "README.md").read_text(),
    re.MULTILINE,
)
TEMPLATES = sorted((UI / "templates").glob("*.html"))


def test_every_file_of_others_is_listed_with_its_licence_and_is_as_it_was_published() -> None:
    there = {path.name for path in VENDOR.iterdir()}
    assert there == {
        "README.md",
        *(name for name, _, _ in LISTED),
        *(licence for _, licence, _ in LISTED),
    }
    for name, _, digest in LISTED:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_no_template_has_script_or_style_in_itself_or_leads_elsewhere(template: object) -> None:
    text = template.read_text()  # type: ignore[attr-defined]
    assert not re.search(r"\sstyle=|<style|\son\w+=|hx-on|javascript:", text)
    assert not re.search(r"<script(?![^>]*\ssrc=\"static/)", text)
    assert not re.search(r"(src|href|action|hx-get)=\"(https?:|/)", text), (
        "behind a proxy it breaks"
    )
    assert "| safe" not in text


def test_what_pages_refer_to_is_served() -> None:
    files = static_files()
    for template in TEMPLATES:
        for name in re.findall(r"\"static/([^\"]+)\"", template.read_text()):
            assert name in files, f"{template.name}: {name}"
