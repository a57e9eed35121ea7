"""Selectors beside Kubernetes' own judge: what is recorded, and random expressions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.cel.judge import Judge, differences, our_answer
from tests.differential.cel.recorded import answers, asked, random_question

pytestmark = pytest.mark.controlplane

SEEDS = range(100_000, 100_800)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    if not Judge.path().exists():
        pytest.skip("the judge is not built: run `make celjudge` (needs Go)")
    with Judge() as running:
        yield running


def test_the_judge_says_what_is_recorded(judge: Judge) -> None:
    for line in answers():
        assert asked(line["expression"], line["devices"], judge) == line


def test_random_selectors_are_judged_as_kubernetes_does(judge: Judge) -> None:
    found = {}
    for seed in SEEDS:
        expression, devices = random_question(seed)
        ours = our_answer(expression, devices)
        if different := differences(judge.ask(expression, devices), ours):
            found[seed] = (expression, different)
    assert found == {}
