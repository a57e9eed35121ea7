"""The search for the best set of victims, beside all sets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from arranger.cluster.pod_info import PodInfo
from arranger.framework.preemption import PriorityPolicy
from arranger.preemption.importance import by_importance
from arranger.preemption.victim_search import VictimSearch, cost_of
from tests.builders import a_pod, disruption_budgets

NO_BUDGETS = disruption_budgets()


class Pairs(PriorityPolicy):
    """Pods of one letter leave together; some letters do not leave at all."""

    def __init__(self, fixed: str) -> None:
        self.fixed = fixed

    def company(self, pods: Sequence[PodInfo], all_pods: Sequence[PodInfo]) -> list[PodInfo] | None:
        letters = {pod.pod.metadata.name[0] for pod in pods}
        if self.fixed in letters:
            return None
        return [pod for pod in all_pods if pod.pod.metadata.name[0] in letters]

    def groups_broken(self, victims: Sequence[PodInfo]) -> int:
        return len({pod.pod.metadata.name[0] for pod in victims} & {"a", "b"})


class Case:
    """Pods of one node that has to give so many cpus."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.pods = []
        for n in range(rng.randint(1, 8)):
            letter = rng.choice("abcdefghij")
            pod = a_pod(f"{letter}{n}").needs(cpu=rng.randint(1, 3))
            started = f"2026-01-01T00:00:{rng.randint(0, 59):02}Z"
            pod = pod.with_priority(rng.choice((0, 5))).with_status(startTime=started)
            self.pods.append(pod.info())
        self.wanted = rng.randint(1, 8) * 1000
        self.policy = Pairs(rng.choice("abcxyz"))
        self.asked = 0

    def company(self, pods: Sequence[PodInfo]) -> list[PodInfo] | None:
        return self.policy.company(pods, self.pods)

    def fits(self, pods: Sequence[PodInfo]) -> bool:
        self.asked += 1
        return sum(pod.requests["cpu"] for pod in pods) >= self.wanted

    def search(self, attempts: int = 10_000) -> VictimSearch:
        pods = by_importance(self.pods)
        return VictimSearch(
            pods, self.policy, NO_BUDGETS, self.company, lambda pod: pod.uid, attempts
        )

    def best_cost(self) -> object:
        sets = (c for n in range(len(self.pods) + 1) for c in combinations(self.pods, n))
        allowed = (c for c in sets if c and (mates := self.company(c)) and len(mates) == len(c))
        return min(
            (cost_of(c, self.policy, NO_BUDGETS) for c in allowed if self.fits(c)), default=None
        )


@pytest.mark.parametrize("seed", range(150))
def test_it_finds_the_set_that_costs_least_if_there_is_one(seed: int) -> None:
    case = Case(seed)
    found, best = case.search().run(case.fits), case.best_cost()
    assert found.proven
    assert (found.cost if found.victims else None) == best


@pytest.mark.parametrize("seed", range(30))
def test_with_too_few_attempts_it_says_so_and_what_it_found_will_do(seed: int) -> None:
    case, best = Case(seed), Case(seed).best_cost()
    found = case.search(attempts=len(case.pods) // 2).run(case.fits)
    assert case.asked <= len(case.pods) // 2 + 1
    if found.victims:
        assert case.fits(found.victims)
    if found.proven:
        assert (found.cost if found.victims else None) == best


def test_of_equal_pods_the_youngest_leave_without_a_search() -> None:
    pods = [
        a_pod(f"p{n}").needs(cpu=1).with_status(startTime=f"2026-01-01T00:00:{n:02}Z").info()
        for n in range(30)
    ]
    asked = []

    def fits(pods: Sequence[PodInfo]) -> bool:
        asked.append(pods)
        return len(pods) >= 10

    search = VictimSearch(pods, PriorityPolicy(), NO_BUDGETS, list, lambda pod: 0, 1000, fewest=10)
    found = search.run(fits)
    assert found.proven
    assert [pod.pod.metadata.name for pod in found.victims] == [f"p{n}" for n in range(20, 30)]
    assert len(asked) < 60
