"""Who must leave a node of four CPUs for a pod, and what is said of that.

The same is found by counting, where nothing but resources has a say, and by asking all plugins.
Gangs are told by a label; of ``g`` two pods must stay, one of them on another node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.cluster.cluster import Cluster
from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import Losses, PriorityPolicy
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins import default_profile
from arranger.preemption.importance import Candidate
from arranger.preemption.victims import (
    GANG_NOT_EVICTABLE,
    NO_VICTIMS,
    Reasons,
    VictimSelector,
    WholeGangs,
)
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.preemption.test_candidate_cache import budget

PROFILE = default_profile()
LEAST = {"g": 2, "whole": 3}


class Gangs(PriorityPolicy, Losses):
    """Gangs by label; who is ``kept`` may not leave as far as its queue is concerned."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.kept: set[str] = set()

    def losses(self, takers: Sequence[PodInfo]) -> Losses:
        return self

    def may_add(self, victims: Sequence[PodInfo]) -> bool:
        return not any(pod.pod.metadata.name in self.kept for pod in victims)

    def group_of(self, pod: PodInfo) -> str | None:
        return pod.pod.metadata.labels.get("gang")

    def in_gang(self, pod: PodInfo) -> bool:
        return self.group_of(pod) is not None

    def _broken(self, victims: Sequence[PodInfo]) -> set[str]:
        gone, left = {pod.uid for pod in victims}, dict.fromkeys(LEAST, 0)
        for pod, _ in self._cluster.placed_pods():
            if (gang := self.group_of(pod)) is not None and pod.uid not in gone:
                left[gang] += 1
        groups = {group for pod in victims if (group := self.group_of(pod)) is not None}
        return {gang for gang in groups if left[gang] < LEAST[gang]}

    def groups_broken(self, victims: Sequence[PodInfo]) -> int:
        return len(self._broken(victims))

    def expand_to_gang(self, victims: Sequence[PodInfo]) -> Sequence[PodInfo]:
        found, broken = {pod.uid: pod for pod in victims}, self._broken(victims)
        for pod, _ in self._cluster.placed_pods():
            if self.group_of(pod) in broken:
                found[pod.uid] = pod
        return list(found.values())


def low(name: str, cpu: int = 1, priority: int = 0, gang: str = "") -> PodBuilder:
    pod = a_pod(name).needs(cpu=cpu).with_priority(priority).labelled(app="a")
    return pod.labelled(gang=gang) if gang else pod


@dataclass(frozen=True)
class World:
    """Pods on the node, and on another; what protects them."""

    here: tuple[PodBuilder, ...]
    there: tuple[PodBuilder, ...] = ()
    cpu: int = 1
    budget: PodDisruptionBudget | None = None
    leaving: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Who leaves, the most important first, and what is said of it."""

    victims: str
    budgets: int = 0
    leaving: str = ""
    another_fits: bool = False
    broken: int = 0


PAIR = (low("x", gang="whole"), low("y", gang="whole"))
THIRD = low("z", gang="whole")

CASES: dict[str, tuple[World, Found | Reasons]] = {
    "nobody is there who may go": (World((low("a", 4, priority=99),)), NO_VICTIMS),
    "the least important": (World((low("a", 2, 5), low("b", 2))), Found("b", another_fits=True)),
    "no more than must": (World((low("a", 2), low("b", 1), low("c", 1))), Found("c")),
    "the more important where the other is too small": (
        World((low("a", 3, 5), low("b", 1)), cpu=2),
        Found("a"),
    ),
    "all of them": (World((low("a", 2, 5), low("b", 2)), cpu=4), Found("ab")),
    "not one whom a budget protects": (
        World((low("a", 2), low("b", 2, 5).in_namespace("other")), budget=budget("a", 0)),
        Found("b", another_fits=True),
    ),
    "one whom a budget protects, where there is no other way": (
        World((low("a", 2), low("b", 2, 5)), cpu=3, budget=budget("a", 1)),
        Found("ba", budgets=1),
    ),
    "one who is leaving, so that nobody else need": (
        World((low("a", 2, 5), low("b", 2)), leaving=("a",)),
        Found("a", leaving="a", another_fits=True),
    ),
    "one who is leaving, and another": (
        World((low("a", 2, 5), low("b", 2)), cpu=3, leaving=("b",)),
        Found("ab", leaving="b"),
    ),
    "of a gang whoever it can do without": (
        World((low("a", 2, gang="g"), low("b", 2, 5)), (low("c", gang="g"), low("d", gang="g"))),
        Found("a", another_fits=True),
    ),
    "others, where a gang would break": (
        World((low("a", 2, gang="g"), low("b", 2, 5)), (low("c", gang="g"),)),
        Found("b"),
    ),
    "a gang as a whole, where there is no other way": (
        World((low("a", 4, gang="g"),), (low("c", 1, 3, gang="g"),), cpu=2),
        Found("ca", another_fits=True, broken=1),
    ),
    "a gang as a whole, one of whom a budget protects": (
        World((low("a", 4, gang="g"),), (low("c", gang="g"),), budget=budget("a", 1)),
        Found("ac", budgets=1, another_fits=True, broken=1),
    ),
    "a gang as a whole, one of whom is leaving": (
        World((low("a", 4, gang="g"),), (low("c", gang="g"),), leaving=("c",)),
        Found("ac", leaving="c", another_fits=True, broken=1),
    ),
    "not a gang of which somebody may not go": (
        World((low("a", 4, gang="g"),), (low("c", priority=99, gang="g"),)),
        GANG_NOT_EVICTABLE,
    ),
    "two of one gang that leave together": (
        World((*PAIR, low("v", 2, 99)), (THIRD,), cpu=2),
        Found("xyz", another_fits=True, broken=1),
    ),
    "a gang that is all here and one beside it, of whom a budget protects two": (
        World(
            (low("a", 2, 3, gang="g"), low("b", 1, 2, gang="g"), low("c", 1, 1)),
            cpu=4,
            budget=budget("a", 1),
        ),
        Found("abc", budgets=2, broken=1),
    ),
    "a gang that is all here, of whom a budget protects one": (
        World((low("a", 2, 3, gang="g"), low("b", 2, 2, gang="g")), cpu=4, budget=budget("a", 1)),
        Found("ab", budgets=1, broken=1),
    ),
    "others beside a gang of which somebody may not go": (
        World((low("a", 2, gang="g"), low("b", 2, 5)), (low("c", priority=99, gang="g"),)),
        Found("b"),
    ),
    "who may not leave for its queue, and another may": (
        World((low("a", 2, gang="g"), low("b", 2, 5)), (low("c", gang="g"),), kept=("b",)),
        Found("ac", another_fits=True, broken=1),
    ),
}


@dataclass
class Looking:
    """A selector of victims on the node."""

    world: World
    wanted: PodBuilder
    whole_gangs: WholeGangs = field(default_factory=dict)
    cluster: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        for node, pods in (("n0", self.world.here), ("n1", self.world.there)):
            self.cluster.set_node(a_node(node).offers(cpu=4).build())
            for pod in pods:
                self.cluster.assume_pod(pod.info(), node)
        if self.world.budget is not None:
            self.cluster.budgets.set(self.world.budget)

    def look(self) -> Found | Reasons:
        policy = Gangs(self.cluster)
        policy.kept = set(self.world.kept)
        pod = self.wanted.needs(cpu=self.world.cpu).info()
        leaving = {f"uid-default-{name}" for name in self.world.leaving}
        evaluation = Evaluation(PROFILE, self.cluster, pod)
        run = DryRun(
            PROFILE, self.cluster, pod, evaluation, policy=policy, terminating_victims=leaving
        )
        selector = VictimSelector(run, lambda _: True, whole_gangs=self.whole_gangs)
        found = selector.select_victims(0, selector.preemptible(0))
        if not isinstance(found, Candidate):
            return found
        assert found.row == 0
        return Found(
            "".join(pod.pod.metadata.name for pod in found.victims),
            found.pdb_violations,
            "".join(p.pod.metadata.name for p in found.victims if p.uid in found.leaving),
            found.generous,
            found.groups_broken,
        )


TAKER = a_pod("taker").with_priority(10)


@pytest.mark.parametrize(("world", "found"), CASES.values(), ids=CASES.keys())
def test_who_must_leave_by_counting(world: World, found: Found | Reasons) -> None:
    looking = Looking(world, TAKER)
    assert looking.look() == found
    assert looking.look() == found, "with what it knows of whole gangs"


@pytest.mark.parametrize(("world", "found"), CASES.values(), ids=CASES.keys())
def test_who_must_leave_by_asking_all_plugins(world: World, found: Found | Reasons) -> None:
    looking = Looking(world, TAKER.apart("kubernetes.io/hostname", {"app": "nobody"}))
    got = looking.look()
    if isinstance(got, Found) and isinstance(found, Found) and not found.broken:
        # Only by counting it is known whether another pod would fit.
        got = Found(got.victims, got.budgets, got.leaving, found.another_fits, got.broken)
    assert got == found
