"""In which order writes are sent."""

from __future__ import annotations

import random

import pytest

from arranger.api.effects import Outcome
from arranger.kube.writes.call import ApiCall, CallContext, CallPriority, Retry
from arranger.kube.writes.call_queue import LOWER_PRIORITY_SHARE, CallQueue


class Write(ApiCall):
    """A job with a name."""

    call_type = "test"

    def __init__(self, name: str, namespace: str = "") -> None:
        super().__init__(lambda outcome: None, random.Random(0))
        self.namespace = namespace
        self.name = name
        self.priority = {
            "b": CallPriority.BINDING,
            "n": CallPriority.BLOCKING,
            "r": CallPriority.NORMAL,
        }[name[0]]

    async def execute(self, context: CallContext) -> Outcome | Retry:
        raise NotImplementedError


def in_order(lines: CallQueue) -> list[str]:
    names = []
    while (job := lines.pop()) is not None:
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
    lines = CallQueue()
    for name in came:
        lines.push(Write(name))
    assert len(lines) == len(came)
    assert in_order(lines) == sent


def test_who_has_waited_already_goes_before_his_like() -> None:
    lines = CallQueue()
    for name in ("b1", "r1"):
        lines.push(Write(name))
    lines.push_front(Write("r0"))
    assert in_order(lines) == ["b1", "r0", "r1"]


def test_of_one_urgency_namespaces_take_turns() -> None:
    lines = CallQueue()
    for name in ("b1", "b2", "b3"):
        lines.push(Write(name, "busy"))
    lines.push(Write("b4", "other"))
    lines.push(Write("r1", "third"))
    assert in_order(lines) == ["b1", "b4", "b2", "b3", "r1"]


@pytest.mark.parametrize("others", [["n"], ["r"], ["n", "r"]], ids=["one", "the last", "both"])
def test_bindings_without_end_let_the_others_through_now_and_then(others: list[str]) -> None:
    lines = CallQueue()
    sent = []
    for other in others:
        lines.push(Write(other))
    for n in range(3 * LOWER_PRIORITY_SHARE):
        lines.push(Write(f"b{n}"))
        job = lines.pop()
        assert isinstance(job, Write)
        sent.append(job.name)
    assert set(others) <= set(sent)
    assert sent.count(others[0]) == 1
    assert sent[: LOWER_PRIORITY_SHARE - 1] == [f"b{n}" for n in range(LOWER_PRIORITY_SHARE - 1)]


def test_what_is_cleared_is_given_back_once() -> None:
    lines = CallQueue()
    for name in ("r", "b", "n"):
        lines.push(Write(name))
    assert [job.name for job in lines.take_all() if isinstance(job, Write)] == ["b", "n", "r"]
    assert lines.take_all() == []
    assert lines.pop() is None
