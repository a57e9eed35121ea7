"""Selectors give what Kubernetes gave: verdicts, kinds of errors, and cost to the unit."""

from __future__ import annotations

import pytest

from tests.differential.cel.judge import differences, our_answer
from tests.differential.cel.recorded import answers

PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_selectors_are_judged_as_kubernetes_did(part: int) -> None:
    found = {}
    for n, line in enumerate(answers()):
        if n % PARTS != part:
            continue
        ours = our_answer(line["expression"], line["devices"])
        if different := differences(line["answer"], ours):
            found[line["expression"]] = different
    assert found == {}


def test_the_record_has_something_of_everything() -> None:
    recorded = [line["answer"] for line in answers()]
    results = [result for answer in recorded for result in answer.get("results", ())]
    assert sum("uncompiled" in answer for answer in recorded) > 100
    assert sum(result["verdict"] for result in results) > 500
    classes = [result.get("class") for result in results]
    assert classes.count("runtime") > 500
    assert classes.count("cost") >= 5
    assert max(result["cost"] for result in results if "class" not in result) > 500_000
