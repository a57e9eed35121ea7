"""The mark of a gang that ran out of time, as its pods carry it."""

from __future__ import annotations

import pytest

from arranger.api.settings.gang_membership import gang_membership
from tests.builders import a_pod

KOORDINATOR = "gang.scheduling.koordinator.sh/"
BUNDLES = "gang.koordinater.io/"
Notes = dict[str, str]

IN_G: Notes = {KOORDINATOR + "name": "g"}
IN_BUNDLE: Notes = {BUNDLES + "name": "g"}

MARKS: dict[str, tuple[Notes, bool]] = {
    "no mark": (IN_G, False),
    "the seed's mark": ({**IN_G, KOORDINATOR + "timeout": "true"}, True),
    "the timeout mark of bundles": ({**IN_G, BUNDLES + "timeOut": "true"}, True),
    "a mark that says no": ({**IN_G, KOORDINATOR + "timeout": "false"}, False),
}


@pytest.mark.parametrize("case", MARKS.values(), ids=MARKS.keys())
def test_the_mark_of_a_gang_that_ran_out_of_time(case: tuple[Notes, bool]) -> None:
    notes, expected = case
    said = gang_membership(a_pod().annotated(notes).build())
    assert said is not None
    assert said.timed_out is expected


MARKED_AS: dict[str, tuple[Notes, str]] = {
    "in Koordinator's dialect": (IN_G, KOORDINATOR + "timeout"),
    "in that of bundles": (IN_BUNDLE, BUNDLES + "timeOut"),
    "in both": (IN_G | IN_BUNDLE, KOORDINATOR + "timeout"),
}


@pytest.mark.parametrize("case", MARKED_AS.values(), ids=MARKED_AS.keys())
def test_how_a_pod_is_to_be_marked_that_speaks(case: tuple[Notes, str]) -> None:
    notes, mark = case
    said = gang_membership(a_pod().annotated(notes).build())
    assert said is not None
    assert said.timeout_annotation == mark
