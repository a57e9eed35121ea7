"""Whether all victims of a node may leave together, and who else might: asked no more than needed.

Each node has two pods, the second less important; who ``costs`` much may not leave.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest

from arranger.cluster.attempt_work import AttemptWork, UnfinishedError
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import Losses, PriorityPolicy
from arranger.preemption.allowed_candidates import AllowedCandidates
from arranger.preemption.importance import Candidate
from arranger.preemption.victims import NO_VICTIMS, Reasons
from tests.builders import a_pod

POLICY = PriorityPolicy()


class OnlyCheap(Losses):
    """Lets those leave whose priorities do not sum up to more; notes whom it was asked about."""

    def __init__(self, most: int, state: Hashable = None) -> None:
        self.most, self._state = most, state
        self.asked: list[list[str]] = []

    @property
    def state(self) -> Hashable:
        return self._state

    def may_add(self, victims: Sequence[PodInfo]) -> bool:
        self.asked.append([pod.pod.metadata.name for pod in victims])
        return sum(pod.priority for pod in victims) <= self.most

    def add(self, victims: Sequence[PodInfo]) -> bool:
        if may := self.may_add(victims):
            self.most -= sum(pod.priority for pod in victims)
        return may

    def copy(self) -> Losses:
        return OnlyCheap(self.most, self._state)


class Nodes:
    """Row → its pods; all are ``alike`` where that is said."""

    def __init__(self, pods: dict[int, list[PodInfo]], losses: Losses, alike: Hashable) -> None:
        self.pods, self.losses, self.alike = pods, losses, alike
        self.searched: list[tuple[int, list[str]]] = []

    def preemptible(self, row: int) -> list[PodInfo]:
        return self.pods[row]

    def likeness(self, row: int, pods: Sequence[PodInfo]) -> Hashable | None:
        return self.alike

    def select_victims(self, row: int, preemptible: Sequence[PodInfo]) -> Candidate | Reasons:
        """All of them, up to two."""
        self.searched.append((row, [pod.pod.metadata.name for pod in preemptible]))
        return Candidate(row, tuple(preemptible[:2]), 0) if preemptible else NO_VICTIMS


def nodes(*costs: tuple[int, int], most: int = 5, alike: Hashable = None) -> Nodes:
    pods = {
        row: [
            a_pod(f"{name}{row}").with_priority(priority).info()
            for name, priority in zip("ab", pair, strict=True)
        ]
        for row, pair in enumerate(costs)
    }
    return Nodes(pods, OnlyCheap(most), alike)


def all_of(on: Nodes, row: int) -> Candidate:
    return Candidate(row, tuple(on.pods[row]), 0)


def begun(on: Nodes, work: AttemptWork | None = None) -> AllowedCandidates:
    allowed = AllowedCandidates()
    allowed.begin(on, POLICY, work or AttemptWork(), ())
    return allowed


def names(found: Candidate | None) -> list[str] | None:
    return None if found is None else [pod.pod.metadata.name for pod in found.victims]


@pytest.mark.parametrize(
    ("costs", "leave"),
    [
        pytest.param((2, 3), ["a0", "b0"], id="all may leave together"),
        pytest.param((3, 3), ["b0"], id="one of them may, the least important"),
        pytest.param((3, 9), ["a0"], id="one may, the other may not"),
        pytest.param((9, 9), None, id="nobody may"),
    ],
)
def test_who_leaves(costs: tuple[int, int], leave: list[str] | None) -> None:
    on = nodes(costs)
    assert names(begun(on).of(all_of(on, 0))) == leave


def test_others_who_may_each_leave_need_not_do_so_together() -> None:
    class Three(Nodes):
        def select_victims(self, row: int, preemptible: Sequence[PodInfo]) -> Candidate | Reasons:
            return Candidate(row, tuple(self.pods[row]), 0)

    on = Three(nodes((3, 3)).pods, OnlyCheap(5), None)
    assert begun(on).of(all_of(on, 0)) is None


def test_a_node_is_asked_about_once_until_it_has_changed() -> None:
    on = nodes((9, 9), (9, 9))
    allowed = begun(on)
    found = [all_of(on, row) for row in range(2)]
    for _ in range(2):
        assert [allowed.of(each) for each in found] == [None, None]
    assert [row for row, _ in on.searched] == [0, 1]
    allowed.forget(0)
    assert [allowed.of(each) for each in found] == [None, None]
    assert [row for row, _ in on.searched] == [0, 1, 0]
    allowed.ask_again(1)
    assert [allowed.of(each) for each in found] == [None, None]
    assert [row for row, _ in on.searched] == [0, 1, 0, 1]


@pytest.mark.parametrize(("alike", "searched"), [("equal", [0]), (None, [0, 1])])
def test_where_there_is_no_hope_on_a_node_there_is_none_on_its_like(
    alike: Hashable, searched: list[int]
) -> None:
    on = nodes((9, 9), (9, 9), alike=alike)
    allowed = begun(on)
    assert [allowed.of(all_of(on, row)) for row in range(2)] == [None, None]
    assert [row for row, _ in on.searched] == searched
    allowed.forget_all()
    allowed.of(all_of(on, 1))
    assert [row for row, _ in on.searched] == [*searched, 1]


def test_of_pods_that_leave_together_for_many_nodes_it_is_asked_once() -> None:
    on = nodes((2, 3))
    work = AttemptWork()
    allowed = begun(on, work)
    both = tuple(on.pods[0])
    with work.at_most(9):
        for row in range(100):
            assert names(allowed.of(Candidate(row, both, 0))) == ["a0", "b0"]
        assert not work.is_spent, "four units for each of the two"
    losses = on.losses
    assert isinstance(losses, OnlyCheap)
    assert losses.asked == [["a0", "b0"]]


def look(allowed: AllowedCandidates, on: Nodes) -> list[int]:
    """The rows that are told in one step, from the first on."""
    told = []
    for row in on.pods:
        try:
            allowed.of(all_of(on, row))
        except UnfinishedError:
            break
        told.append(row)
    return told


@pytest.mark.parametrize(
    ("costs", "units", "told"),
    [
        pytest.param((1, 1), 0, [0], id="one is told whatever may be spent"),
        pytest.param((1, 1), 8, [0], id="eight units for two victims"),
        pytest.param((1, 1), 9, [0, 1], id="and one is left"),
        pytest.param((9, 9), 24, [0], id="eight more for each that may leave in their place"),
        pytest.param((9, 9), 25, [0, 1], id="and one is left then"),
    ],
)
def test_a_step_ends_when_all_is_spent(costs: tuple[int, int], units: int, told: list[int]) -> None:
    on = nodes(*[costs] * 4)
    work = AttemptWork()
    allowed = begun(on, work)
    with work.at_most(units):
        assert look(allowed, on) == told
    with work.at_most(0):
        allowed.finish()
        assert look(allowed, on) == [0, 1, 2, 3], "all at once"


def steps(states: Sequence[Hashable], gangs: Sequence[int] = ()) -> list[list[int]]:
    """The rows that each step tells, where nothing may be spent and queues lose so much."""
    on, work, allowed = nodes(*[(1, 1)] * 20), AttemptWork(), AllowedCandidates()
    told = []
    for state in states:
        on.losses = OnlyCheap(5, state)
        allowed.begin(on, POLICY, work, gangs)
        with work.at_most(0):
            told.append(look(allowed, on))
    return told


def test_each_step_goes_on_from_what_is_known() -> None:
    assert steps("xxx") == [[0], [0, 1], [0, 1, 2]]


def test_when_queues_lose_more_all_is_asked_anew_and_at_least_twice_as_much() -> None:
    assert [len(told) for told in steps("xyz")] == [1, 2, 4]
    assert [len(told) for told in steps("xxy")] == [1, 2, 4]


def test_nodes_with_gangs_are_asked_about_anew_and_as_many_more() -> None:
    assert [len(told) for told in steps("xxx", gangs=[0])] == [1, 2, 3]
    assert [len(told) for told in steps("xxx", gangs=range(20))] == [1, 2, 4]


def test_an_attempt_that_has_ended_leaves_nothing_to_the_next() -> None:
    on, allowed = nodes((9, 9)), AllowedCandidates()
    for _ in range(2):
        allowed.begin(on, POLICY, AttemptWork(), ())
        allowed.of(all_of(on, 0))
    assert [row for row, _ in on.searched] == [0, 0]
