"""Of equal pods that take places one after the other, each looks only at the nodes that changed.

Three nodes have a pod each; that of ``n2`` is in another namespace, and has run for half a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import UNPROTECTED, PriorityPolicy
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins import default_profile
from arranger.preemption.candidate_cache import CandidateCache
from arranger.preemption.victims import NO_VICTIMS
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.preemption.test_candidate_cache import budget

PROFILE = default_profile()
HIGH = a_pod("high").needs(cpu=2).with_priority(10)


class Protecting(PriorityPolicy):
    """Some are in gangs, and some protected until a moment."""

    def __init__(self) -> None:
        self.gangs: set[str] = set()
        self.until: dict[str, float] = {}
        self.moment = 0.0
        self.state = 0
        self.rows: set[int] | None = None

    @property
    def now(self) -> float:
        return self.moment

    @property
    def time_protects(self) -> bool:
        return bool(self.until)

    def protected_until(self, preemptor: PodInfo, victim: PodInfo) -> float:
        return self.until.get(victim.pod.metadata.name, UNPROTECTED)

    def can_preempt(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        free = self.protected_until(preemptor, victim) <= self.moment
        return free and super().can_preempt(preemptor, victim)

    def preemptor_state(self, pod: PodInfo) -> int:
        return self.state

    def evictable_rows(
        self, preemptors: Sequence[PodInfo], work: AttemptWork | None = None
    ) -> Collection[int] | None:
        assert [pod.pod.metadata.name for pod in preemptors] == ["high"]
        assert work is not None
        return self.rows

    def in_gang(self, pod: PodInfo) -> bool:
        return pod.pod.metadata.name in self.gangs


def victim(name: str, cpu: int = 2) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).labelled(app="a").with_priority(1)


@dataclass(slots=True)
class World:
    """What happens to it, and which nodes a survey then looks at."""

    cluster: Cluster = field(default_factory=Cluster)
    policy: Protecting = field(default_factory=Protecting)
    kept: CandidateCache = field(default_factory=CandidateCache)
    wanted: PodBuilder = HIGH
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for n in range(3):
            self.cluster.set_node(a_node(f"n{n}").offers(cpu=2).build())
            pod = victim(f"v{n}") if n < 2 else victim("v2").in_namespace("other")
            self.cluster.assume_pod(pod.info(), f"n{n}")

    def look(self) -> list[str]:
        """The nodes whose pods are asked about."""
        self.seen = []
        self.look_with(self.kept)
        return sorted(set(self.seen))

    def look_with(self, survey: CandidateCache) -> list[str]:
        """The nodes that the survey finds, the best first."""
        pod = self.wanted.info()
        evaluation = Evaluation(PROFILE, self.cluster, pod)
        what_if = DryRun(PROFILE, self.cluster, pod, evaluation, policy=self.policy)
        rows = np.ones(self.cluster.table.size, dtype=np.bool_)

        def is_preemptable(pod: PodInfo) -> bool:
            self.seen.append(self.cluster.node_of(pod.uid) or "")
            return True

        with self.cluster.without_trace():
            survey.update(what_if, rows, is_preemptable, 10**6)
        return [self.cluster.table.name(found.row) for found in survey.candidates()]


def nothing(world: World) -> None:
    pass


def a_pod_comes(world: World) -> None:
    world.cluster.assume_pod(victim("more", 1).info(), "n1")


def a_pod_goes(world: World) -> None:
    world.cluster.remove_pod(victim("v1").info().uid)


def a_node_is_edited(world: World) -> None:
    world.cluster.set_node(a_node("n0").offers(cpu=3).build())


def a_budget_lets_more_go(world: World) -> None:
    world.cluster.budgets.set(budget("a", 1))


def a_budget_of_another_namespace_comes(world: World) -> None:
    world.cluster.budgets.set(budget("a", 1, "other"))


def a_pod_may_go_now(world: World) -> None:
    world.policy.moment = 30.0


def a_little_later(world: World) -> None:
    world.policy.moment = 29.0


def what_may_be_taken_changes(world: World) -> None:
    world.policy.state += 1


def with_a_budget(world: World) -> None:
    world.cluster.budgets.set(budget("a", 0))


def with_a_gang(world: World) -> None:
    world.policy.gangs = {"v1"}


def with_one_that_is_protected(world: World) -> None:
    world.policy.until = {"v2": 30.0}


ALL = ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("before", "event", "nodes"),
    [
        pytest.param(nothing, nothing, [], id="nothing happens"),
        pytest.param(nothing, a_pod_comes, ["n1"], id="a pod comes"),
        pytest.param(nothing, a_pod_goes, [], id="a pod goes, and nobody is left there"),
        pytest.param(nothing, a_node_is_edited, ["n0"], id="a node is edited"),
        pytest.param(nothing, what_may_be_taken_changes, ALL, id="other victims may be taken"),
        pytest.param(with_a_budget, nothing, [], id="a budget stays what it is"),
        pytest.param(
            with_a_budget, a_budget_lets_more_go, ["n0", "n1"], id="a budget lets more go"
        ),
        pytest.param(
            with_a_budget, a_budget_of_another_namespace_comes, ["n2"], id="a budget more"
        ),
        pytest.param(nothing, with_a_budget, ["n0", "n1"], id="the first budget"),
        pytest.param(with_a_gang, nothing, ["n1"], id="a gang's pods may change elsewhere"),
        pytest.param(with_one_that_is_protected, nothing, [], id="time has not passed"),
        pytest.param(with_one_that_is_protected, a_little_later, [], id="too little time"),
        pytest.param(with_one_that_is_protected, a_pod_may_go_now, ["n2"], id="time passes"),
    ],
)
def test_what_is_looked_at_again(
    before: Callable[[World], None], event: Callable[[World], None], nodes: list[str]
) -> None:
    world = World()
    before(world)
    assert world.look() == ALL
    event(world)
    assert world.look() == nodes
    assert world.look_with(world.kept) == world.look_with(CandidateCache())


@pytest.mark.parametrize("moment", [0.0, 29.0, 30.0, 31.0])
def test_who_is_protected_goes_when_the_time_is_over(moment: float) -> None:
    world = World()
    with_one_that_is_protected(world)
    for name in ("v0", "v1"):
        world.cluster.remove_pod(victim(name).info().uid)
        world.cluster.assume_pod(victim(name).with_priority(99).info(), f"n{name[1]}")
    world.look()
    reasons, nodes = world.kept.reasons()
    assert nodes == 3
    assert sum(n for reason, n in reasons.items() if "minimum time" in reason) == 1
    world.policy.moment = moment
    world.look()
    assert [found.row for found in world.kept.candidates()] == ([2] if moment >= 30 else [])


def test_what_was_found_of_a_node_that_is_not_wanted_any_more_is_forgotten() -> None:
    world = World()
    assert world.look() == ALL
    pod = world.wanted.info()
    evaluation = Evaluation(PROFILE, world.cluster, pod)
    what_if = DryRun(PROFILE, world.cluster, pod, evaluation, policy=world.policy)
    world.kept.update(what_if, np.array([True, False, True]), lambda _: True, 10**6)
    assert [found.row for found in world.kept.candidates()] == [0, 2]
    assert world.kept.reasons()[1] == 2
    assert world.look() == ["n1"]


@pytest.mark.parametrize(
    ("nodes", "may", "seen"),
    [
        pytest.param(64, {3, 5}, 64, id="few nodes are all looked at"),
        pytest.param(65, {3, 5}, 2, id="of many those with somebody whom it may evict"),
        pytest.param(65, set(), 0, id="which may be none"),
        pytest.param(65, None, 65, id="all, where that is not known"),
    ],
)
def test_of_many_nodes_those_are_looked_at_where_somebody_may_be_evicted(
    nodes: int, may: set[int] | None, seen: int
) -> None:
    world = World()
    for n in range(3, nodes):
        world.cluster.set_node(a_node(f"n{n}").offers(cpu=2).build())
        world.cluster.assume_pod(victim(f"v{n}").info(), f"n{n}")
    world.policy.rows = may
    assert len(world.look()) == seen
    assert len(list(world.kept.candidates())) == seen
    reasons, looked_at = world.kept.reasons()
    assert looked_at == nodes
    assert reasons[NO_VICTIMS[0]] == nodes - seen
    assert world.look() == [], "nothing has happened"


@pytest.mark.parametrize(
    ("waiting", "large", "chosen"),
    [
        pytest.param(1, 4, "n0", id="a pod that waits alone goes to the first of equals"),
        pytest.param(2, 4, "n3", id="of two the first goes where one victim leaves for both"),
        pytest.param(2, 3, "n0", id="not where the room does for one alone"),
        pytest.param(3, 6, "n3", id="of three where one leaves for all"),
        pytest.param(9, 8, "n3", id="no more than four are planned for"),
    ],
)
def test_with_regard_to_others_that_wait_as_well(waiting: int, large: int, chosen: str) -> None:
    world = World()
    world.cluster.set_node(a_node("n3").offers(cpu=large).build())
    world.cluster.assume_pod(victim("v3", large).info(), "n3")
    pod = world.wanted.info()
    evaluation = Evaluation(PROFILE, world.cluster, pod)
    what_if = DryRun(
        PROFILE,
        world.cluster,
        pod,
        evaluation,
        policy=world.policy,
        waiting_alike=lambda most: min(waiting, most),
    )
    with world.cluster.without_trace():
        world.kept.update(what_if, np.ones(4, dtype=np.bool_), lambda _: True, 10**6)
        found = world.kept.best_for_several(what_if)
    assert found is not None
    assert world.cluster.table.name(found.row) == chosen
    assert [each.pod.metadata.name for each in found.victims] == [f"v{chosen[1]}"]
