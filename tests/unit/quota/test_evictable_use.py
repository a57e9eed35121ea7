"""What might be evicted is summed up by kind of pod, and comes to what a look at each pod finds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable

import pytest

from arranger.cluster import Cluster, PodInfo
from arranger.framework.preemption import PriorityPolicy
from arranger.quota.preemption.evictable_use import EvictableUse, UseByQueue
from tests.builders import a_node, a_pod


def queue_of(pod: PodInfo) -> str:
    return f"q{pod.priority % 2}"


def by_hand(cluster: Cluster, taker: PodInfo) -> UseByQueue:
    found: UseByQueue = {}
    for pod, _ in cluster.placed_pods():
        if pod.priority < taker.priority:
            found.setdefault(queue_of(pod), Counter()).update(pod.requests)
    return found


class Counting(PriorityPolicy):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def can_preempt(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        self.asked += 1
        return super().can_preempt(preemptor, victim)


@pytest.mark.parametrize("seed", range(20))
def test_it_comes_to_what_a_look_at_each_pod_finds(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster()
    for n in range(4):
        cluster.set_node(a_node(f"n{n}").build())
    use = EvictableUse(cluster, PriorityPolicy(), queue_of)
    placed: list[PodInfo] = []
    state = 0
    for number in range(60):
        if placed and rng.random() < 0.4:
            cluster.remove_pod(placed.pop(rng.randrange(len(placed))).uid)
        else:
            pod = a_pod().with_uid(str(number)).with_priority(rng.randrange(4))
            placed.append(pod.needs(cpu=rng.randint(1, 4), memory="1Gi").info())
            cluster.assume_pod(placed[-1], f"n{rng.randrange(4)}")
        if rng.random() < 0.1:
            cluster.set_node(a_node(f"n{rng.randrange(4)}").labelled(turn=str(number)).build())
        state += rng.random() < 0.1
        if rng.random() < 0.7:
            taker = a_pod("taker").with_priority(rng.randrange(6)).info()
            assert use.for_taker(taker, state) == by_hand(cluster, taker)


def test_the_policy_is_asked_once_for_pods_that_are_alike() -> None:
    cluster, policy = Cluster(), Counting()
    cluster.set_node(a_node("n1").build())
    for n in range(100):
        pod = a_pod().with_uid(str(n)).with_priority(n % 2).needs(cpu=1)
        cluster.assume_pod(pod.info(), "n1")
    use = EvictableUse(cluster, policy, queue_of)
    taker = a_pod("taker").with_priority(9).info()
    assert use.for_taker(taker, 0)["q1"]["cpu"] == 50_000
    assert policy.asked == 2


class Regrouped(PriorityPolicy):
    """Its classes of victims are others when it says so; time protects, or does not."""

    protects = False
    split = False
    moment = 0.0

    def victim_class(self, pod: PodInfo) -> Hashable:
        return pod.uid if self.split else pod.priority

    def can_preempt(self, preemptor: PodInfo, victim: PodInfo) -> bool:
        return super().can_preempt(preemptor, victim) and not (self.split and victim.uid == "0")

    @property
    def time_protects(self) -> bool:
        return self.protects

    @property
    def now(self) -> float:
        return self.moment


@pytest.mark.parametrize("protects", [False, True], ids=["by kind", "one by one"])
def test_in_another_state_all_pods_are_looked_at_anew(protects: bool) -> None:
    cluster, policy = Cluster(), Regrouped()
    policy.protects = protects
    cluster.set_node(a_node("n1").build())
    for n in range(3):
        cluster.assume_pod(a_pod().with_uid(str(n)).needs(cpu=1).info(), "n1")
    use = EvictableUse(cluster, policy, queue_of)
    taker = a_pod("taker").with_priority(9).info()
    assert use.for_taker(taker, 0)["q0"]["cpu"] == 3000
    policy.split = True
    assert use.for_taker(taker, 1)["q0"]["cpu"] == 2000


def test_where_time_protects_it_is_asked_again_only_after_a_while() -> None:
    cluster, policy = Cluster(), Regrouped()
    policy.protects = True
    cluster.set_node(a_node("n1").build())
    for n in range(100):
        cluster.assume_pod(a_pod().with_uid(str(n)).needs(cpu=1).info(), "n1")
    use = EvictableUse(cluster, policy, queue_of)
    taker, lower = (a_pod("taker").with_priority(n).info() for n in (9, 0))
    assert use.for_taker(taker, 0)["q0"]["cpu"] == 100_000
    policy.split = True
    policy.moment = 0.019
    assert use.for_taker(taker, 0)["q0"]["cpu"] == 100_000
    assert use.for_taker(lower, 0) == {}, "of another taker nothing is known"
    assert use.for_taker(taker, 0)["q0"]["cpu"] == 100_000, "each has its own"
    policy.moment = 0.020
    assert use.for_taker(taker, 0)["q0"]["cpu"] == 99_000
    policy.split = False
    policy.moment = 0.040
    assert use.for_taker(taker, 0)["q0"]["cpu"] == 100_000
