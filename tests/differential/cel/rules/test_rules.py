"""Rules of definitions: whether they compile, what they say, and what that costs, as upstream."""

from __future__ import annotations

import copy

import pytest

from tests.differential.cel.judge import Judge
from tests.differential.cel.rules.judge import our_answer, their_answer
from tests.differential.cel.rules.questions import questions
from tests.differential.cel.rules.recorded import answers


def test_the_embedded_server_says_what_is_recorded() -> None:
    found = {}
    for question, answer in zip(questions(), answers(), strict=True):
        ours = our_answer(copy.deepcopy(question))
        if ours != answer:
            found[str(question)] = (answer, ours)
    assert found == {}


@pytest.mark.controlplane
def test_the_judge_says_what_is_recorded() -> None:
    if not Judge.path().exists():
        pytest.skip("the judge is not built: run `make celjudge` (needs Go)")
    with Judge() as judge:
        assert [their_answer(judge, question) for question in questions()] == answers()
