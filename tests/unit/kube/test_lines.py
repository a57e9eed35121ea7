"""In which order writes are sent."""

from __future__ import annotations

import random

import pytest

from arranger.api.effects import Outcome
from arranger.kube.writes.call import Again, Job, Wire
from arranger.kube.writes.call_queue import OTHERS_SHARE, Lines, Urgency


class Write(Job):
    """A job with a name."""

    kind = "test"

    def __init__(self, name: str) -> None:
        super().__init__(lambda outcome: None, random.Random(0))
        self.name = name
        self.urgency = {"b": Urgency.BINDING, "n": Urgency.NEEDED, "r": Urgency.REST}[name[0]]

    async def attempt(self, wire: Wire) -> Outcome | Again:
        raise NotImplementedError


def in_order(lines: Lines) -> list[str]:
    names = []
    while (job := lines.next()) is not None:
        assert isinstance(job, Write)
        names.append(job.name)
    assert not len(lines)
    return names


@pytest.mark.parametrize(
    ("came", "sent"),
    [
        ([], []),
        (["r1", "n1", "b1"], ["b1", "n1", "r1"]),
        (["n2", "b2", "n1", "b1"], ["b2", "b1", "n2", "n1"]),
    ],
    ids=["none", "the urgent first", "of one urgency as they came"],
)
def test_the_order(came: list[str], sent: list[str]) -> None:
    lines = Lines()
    for name in came:
        lines.join(Write(name))
    assert len(lines) == len(came)
    assert in_order(lines) == sent


def test_who_has_waited_already_goes_before_his_like() -> None:
    lines = Lines()
    for name in ("b1", "r1"):
        lines.join(Write(name))
    lines.join_in_front(Write("r0"))
    assert in_order(lines) == ["b1", "r0", "r1"]


@pytest.mark.parametrize("others", [["n"], ["r"], ["n", "r"]], ids=["one", "the last", "both"])
def test_bindings_without_end_let_the_others_through_now_and_then(others: list[str]) -> None:
    lines = Lines()
    sent = []
    for other in others:
        lines.join(Write(other))
    for n in range(3 * OTHERS_SHARE):
        lines.join(Write(f"b{n}"))
        job = lines.next()
        assert isinstance(job, Write)
        sent.append(job.name)
    assert set(others) <= set(sent)
    assert sent.count(others[0]) == 1
    assert sent[: OTHERS_SHARE - 1] == [f"b{n}" for n in range(OTHERS_SHARE - 1)]


def test_what_is_cleared_is_given_back_once() -> None:
    lines = Lines()
    for name in ("r", "b", "n"):
        lines.join(Write(name))
    assert [job.name for job in lines.clear() if isinstance(job, Write)] == ["b", "n", "r"]
    assert lines.clear() == []
    assert lines.next() is None
