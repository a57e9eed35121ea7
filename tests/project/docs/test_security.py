"""The page about security has a row for every right to write, and for no other."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.paths import REPO, is_in_checkout

PAGE = (REPO / "docs" / "security.md").read_text()
READS = {"get", "list", "watch"}


def rules() -> list[dict[str, Any]]:
    files = [REPO / "manifests" / f for f in ("20-rbac.yaml", "60-controllers-rbac.yaml")]
    objects = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    return [rule for each in objects if "rules" in each for rule in each["rules"]]


def written() -> set[str]:
    return {
        resource for rule in rules() if set(rule["verbs"]) - READS for resource in rule["resources"]
    }


def listed() -> set[str]:
    section = PAGE.split("\n## Our rights\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {resource for row in rows for resource in re.findall(r"`([^`]+)`", row)}


def test_every_right_to_write_has_its_reason() -> None:
    assert listed() == written()


def test_the_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:arranger|manifests|tests)/[\w./-]+)`", PAGE))
    assert len(named) > 5
    assert not [path for path in named if not is_in_checkout(REPO / path)]
