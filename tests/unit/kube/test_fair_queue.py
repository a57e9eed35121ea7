"""What waits is served from one namespace after the other."""

from __future__ import annotations

import pytest

from arranger.kube.fair_queue import FairQueue


def filled(*items: str) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for item in items:
        queue.push(item[0], item)
    return queue


def test_who_has_a_thousand_waiting_keeps_another_waiting_for_one() -> None:
    queue = filled(*(f"a{n}" for n in range(1000)), "b1")
    assert [queue.pop() for _ in range(3)] == ["a0", "b1", "a1"]
    assert len(queue) == 998


def test_what_has_waited_goes_before_others_of_its_namespace_only() -> None:
    queue = filled("a1", "b1")
    queue.push_front("b", "b0")
    assert [queue.pop() for _ in range(3)] == ["a1", "b0", "b1"]


def test_what_is_too_much_is_taken_from_who_has_most() -> None:
    queue = filled("b1", "a1", "a2", "a3")
    assert [queue.pop_from_longest() for _ in range(2)] == ["a1", "a2"]
    assert [*queue.take_all()] == ["b1", "a3"]
    assert not queue


@pytest.mark.parametrize("take", [FairQueue.pop, FairQueue.pop_from_longest])
def test_of_nothing_nothing_is_taken(take: object) -> None:
    assert callable(take)
    with pytest.raises(IndexError):
        take(FairQueue())
