"""Who is nominated for which node, and which nominations count for whom."""

from __future__ import annotations

import pytest

from arranger.cluster.cluster import Cluster
from arranger.engine.context.entity import QueuedPod
from arranger.engine.queue.nominator import Nominator
from arranger.framework.preemption import PriorityPolicy
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod

PROFILE = default_profile()


class Known(PriorityPolicy):
    """By priority; of queues, too, unless it is ``alone``."""

    def __init__(self, *, alone: bool) -> None:
        self.alone = alone

    @property
    def by_priority_alone(self) -> bool:
        return self.alone


def member(pod: PodBuilder) -> QueuedPod:
    return QueuedPod(pod.info(), PROFILE, 0.0)


def nominated(*priorities: int) -> tuple[Nominator, dict[int, QueuedPod]]:
    """On one node, a pod of each of these priorities, in this order."""
    cluster = Cluster()
    cluster.set_node(a_node("n").offers(cpu=9).build())
    nominator = Nominator(cluster)
    pods = {n: member(a_pod(f"p{n}").needs(cpu=1).with_priority(n)) for n in priorities}
    for each in pods.values():
        nominator.nominate(each, "n")
    return nominator, pods


def fits(nominator: Nominator, cpu: int) -> bool:
    """Whether a pod of so many CPUs fits beside the nominated ones."""
    return nominator._cluster.could_fit(a_pod().needs(cpu=cpu).info(), "n", lambda _: False)


@pytest.mark.parametrize("alone", [True, False], ids=["priorities alone", "queues, too"])
def test_a_pod_sees_the_nominations_that_it_may_not_take(alone: bool) -> None:
    for order in ((9, 1, 3, 5), (1, 9, 5, 3)):
        sees_those_that_it_may_not_take(order, alone=alone)


def sees_those_that_it_may_not_take(order: tuple[int, ...], *, alone: bool) -> None:
    nominator, pods = nominated(*order)
    with nominator.hide_for(member(a_pod("taker").with_priority(5)), Known(alone=alone)):
        assert {pod.priority for pod in nominator.visible_pods()} == {9, 5}
    assert {pod.priority for pod in nominator.visible_pods()} == set(order)
    with nominator.hide_for(pods[3], Known(alone=alone)):
        assert {pod.priority for pod in nominator.visible_pods()} == {9, 5}, "not its own"
    nominator.check_consistent()


def test_who_gets_a_node_while_others_are_hidden_is_nominated_no_more() -> None:
    nominator, pods = nominated(1, 5)
    with nominator.hide_for(pods[5], Known(alone=True)):
        nominator._cluster.assume_pod(pods[5].pod, "n")
    assert (pods[5].uid in nominator, pods[1].uid in nominator) == (False, True)
    assert [each.uid for each in nominator.nominated_pods_on("n")] == [pods[1].uid]
    assert nominator._cluster.node_of(pods[5].uid) == "n"


def test_an_edited_nominee_counts_as_it_is_now_and_where_it_was() -> None:
    nominator, pods = nominated(1)
    pods[1].update(a_pod("p1").needs(cpu=4).with_priority(7).info())
    nominator.update(pods[1])
    assert nominator.node_of(pods[1].uid) == "n"
    (seen,) = nominator.visible_pods()
    assert (seen.priority, seen.requests["cpu"]) == (7, 4000)
    left = [cpu for cpu in (5, 6) if fits(nominator, cpu)]
    assert left == [5], "of nine"
    with nominator.hide_for(member(a_pod("taker").with_priority(5)), Known(alone=True)):
        assert nominator.visible_pods() == [seen]
    stranger = member(a_pod("stranger"))
    nominator.update(stranger)
    assert stranger.uid not in nominator


def test_nothing_is_left_of_a_nomination_that_is_over() -> None:
    nominator, pods = nominated(1, 2)
    assert [nominator.clear(pods[n].uid) for n in (1, 1, 2)] == [True, False, True]
    assert (len(nominator), list(nominator.nominated_pods())) == (0, [])
    assert not nominator._by_node
    assert not nominator._of_priority
    assert not nominator._cluster.assumed


def test_whoever_looks_at_the_number_of_changes_misses_none() -> None:
    nominator, pods = nominated(1)
    seen = [nominator.changes]
    for _ in range(2):
        nominator.clear(pods[1].uid)
        seen.append(nominator.changes)
        nominator.nominate(pods[1], "n")
        seen.append(nominator.changes)
    nominator.nominate(pods[1], "n")
    seen.append(nominator.changes)
    assert len(set(seen)) == len(seen)
    assert not nominator.clear("uid-nobody")
    assert nominator.changes == seen[-1]


def test_a_victim_of_an_earlier_run_that_does_not_leave_is_noticed() -> None:
    nominator, _ = nominated(1)
    nominator.inherited_victims.add("uid-stays")
    with pytest.raises(AssertionError, match="uid-stays"):
        nominator.check_consistent()
    nominator.terminating_victims.add("uid-stays")
    nominator.check_consistent()
    nominator.keep("uid-stays")
    assert not nominator.inherited_victims
