"""What the pages of compatibility call the same is shown by tests, and the rest has its reason."""

from __future__ import annotations

import re

import pytest

from tests.paths import REPO
from tests.project.docs.citations import CITED, missing, rows

FOLDER = REPO / "docs" / "guide" / "compatibility"
PAGES = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.md"))}
PEERS = sorted(PAGES.keys() - {"index"})


def features(peer: str) -> list[list[str]]:
    """Feature, what is so here, how or why not, tests."""
    return list(rows(PAGES[peer]))


def test_the_index_leads_to_every_peer_and_to_no_other() -> None:
    assert sorted(re.findall(r"^\| .* \| \[.*\]\(([\w-]+)\.md\) \|", PAGES["index"], re.M)) == PEERS


@pytest.mark.parametrize("peer", PEERS)
def test_a_page_says_of_every_feature_whether_it_is_the_same(peer: str) -> None:
    found = features(peer)
    assert {len(row) for row in found} == {4}, [row for row in found if len(row) != 4]
    assert {row[1] for row in found} == {"same", "different", "not there"}


@pytest.mark.parametrize("peer", PEERS)
def test_what_is_the_same_is_shown_by_tests(peer: str) -> None:
    claimed = [feature for feature, here, _, tests in features(peer) if here == "same"]
    shown = [row[0] for row in features(peer) if row[1] == "same" and CITED.search(row[3])]
    assert shown == claimed
    assert len(claimed) >= 5


@pytest.mark.parametrize("peer", PEERS)
def test_what_is_not_the_same_has_its_reason(peer: str) -> None:
    assert [row[0] for row in features(peer) if row[1] != "same" and len(row[2]) < 5] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    assert missing(PAGES[page]) == set()
