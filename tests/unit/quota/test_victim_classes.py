"""Rows with pods that may be evicted are found by class: those that a look at each pod finds."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from arranger.cluster import Cluster, PodInfo
from arranger.cluster.attempt_work import AttemptWork, UnfinishedError
from arranger.cluster.nodes.node_table import NodeTable
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.policy import QueuePreemptionPolicy, QuotaConfig
from tests.builders import a_node, a_pod, a_queue

QUEUES, NODES = ("red", "green", "blue"), 5
SERVICES = ("inference", "training", None)


def by_hand(cluster: Cluster, policy: QueuePreemptionPolicy, takers: list[PodInfo]) -> set[int]:
    return {
        row
        for row, pods in enumerate(cluster.table.pods)
        for pod in pods.values()
        if all(policy.can_preempt(each, pod) for each in takers)
    }


def some_pod(rng: random.Random, name: str) -> PodInfo:
    pod = a_pod(name).with_uid(name).in_queue(rng.choice(QUEUES)).needs(cpu=rng.randint(1, 3))
    pod = pod.with_priority(rng.randrange(3))
    if (service := rng.choice(SERVICES)) is not None:
        pod = pod.serving(service)
    if rng.random() < 0.2:
        pod = pod.annotated({"volcano.sh/preemptable": "false"})
    return pod.info()


@pytest.mark.parametrize("seed", range(40))
def test_the_rows_are_those_that_a_look_at_each_pod_finds(seed: int) -> None:
    rng = random.Random(seed)
    table = NodeTable()
    ledger = QuotaLedger(table)
    cluster = Cluster(table, ledger)
    policy = QueuePreemptionPolicy(ledger, QuotaConfig())
    placed: list[PodInfo] = []
    found: list[Collection[int]] = []
    for n in range(NODES):
        cluster.set_node(a_node(f"n{n}").build())
    for number in range(120):
        match rng.randrange(9):
            case 0:
                cluster.set_node(a_node(f"n{rng.randrange(NODES)}").labelled(t=str(number)).build())
            case 1 if rng.random() < 0.4:
                cluster.remove_node(f"n{rng.randrange(NODES)}")
            case 2 if seed % 4:
                deserved = {"cpu": str(rng.randint(1, 6))} if seed % 2 else {}
                kept = {"resource": {"cpu": rng.randint(0, 2)} if seed % 3 == 0 else {}}
                limit = {"cpu": rng.randint(6, 9)}
                name = rng.choice(QUEUES)
                queue = a_queue(name, deserved=deserved, guarantee=kept, capability=limit)
                ledger.set_queue(queue)
                ledger.refresh(cluster)
            case 3 if seed % 4:
                ledger.remove_queue(rng.choice(QUEUES))
                ledger.refresh(cluster)
            case 4 | 5 if placed:
                cluster.remove_pod(placed.pop(rng.randrange(len(placed))).uid)
            case _:
                placed.append(some_pod(rng, f"p{number}"))
                cluster.assume_pod(placed[-1], f"n{rng.randrange(NODES)}")
        takers = [some_pod(rng, f"taker-{number}-{n}") for n in range(rng.randint(1, 2))]
        asked = policy.for_group(takers, 1) if rng.random() < 0.3 else policy
        rows = asked.evictable_rows(takers)
        assert rows is not None
        assert set(rows) == by_hand(cluster, asked, takers)
        found.append(rows)
        if rng.random() < 0.1:
            ledger.check_consistent(cluster)
    assert any(found), "somebody may be evicted"
    assert not all(found), "and not by everybody"


def test_many_pods_are_looked_at_in_steps_whatever_changes_meanwhile() -> None:
    rng = random.Random(1)
    table = NodeTable()
    ledger = QuotaLedger(table)
    cluster = Cluster(table, ledger)
    policy = QueuePreemptionPolicy(ledger, QuotaConfig())
    for n in range(200):
        cluster.set_node(a_node(f"n{n}").build())
        cluster.assume_pod(some_pod(rng, f"p{n}"), f"n{n}")
    taker, work, steps = a_pod("taker").with_priority(2).info(), AttemptWork(), 0
    while True:
        try:
            with work.at_most(50):
                rows = policy.evictable_rows([taker], work)
            break
        except UnfinishedError:
            steps += 1
            cluster.assume_pod(some_pod(rng, f"more-{steps}"), f"n{rng.randrange(200)}")
    assert steps > 5
    assert rows is not None
    assert set(rows) == by_hand(cluster, policy, [taker])


def test_limits_that_change_leave_charges_as_they_are_and_use_is_right() -> None:
    rng = random.Random(7)
    table = NodeTable()
    ledger = QuotaLedger(table)
    cluster = Cluster(table, ledger)
    for name in QUEUES:
        ledger.set_queue(a_queue(name))
    ledger.refresh(cluster)
    cluster.set_node(a_node("n1").build())
    for n in range(20):
        cluster.assume_pod(some_pod(rng, f"p{n}"), "n1")
    charges = {f"p{n}": ledger.charge_of(f"p{n}") for n in range(20)}
    used = {name: +ledger.queues[name].used for name in QUEUES}

    ledger.set_queue(a_queue("red", capability={"cpu": "5"}, deserved={"cpu": "3"}))
    ledger.refresh(cluster)

    assert ledger.has_dues
    assert {name: +ledger.queues[name].used for name in QUEUES} == used
    assert all(ledger.charge_of(uid) is charge for uid, charge in charges.items())
    ledger.check_consistent(cluster)


def test_a_queue_that_goes_elsewhere_in_the_tree_has_all_charged_anew() -> None:
    table = NodeTable()
    ledger = QuotaLedger(table)
    cluster = Cluster(table, ledger)
    for name in QUEUES:
        ledger.set_queue(a_queue(name))
    ledger.refresh(cluster)
    cluster.set_node(a_node("n1").build())
    cluster.assume_pod(a_pod("p").with_uid("p").in_queue("red").needs(cpu=2).info(), "n1")
    before = ledger.charge_of("p")

    ledger.set_queue(a_queue("red", parent="blue"))
    ledger.refresh(cluster)

    assert ledger.charge_of("p") is not before
    assert ledger.queues["blue"].used["cpu"] == 2000
    ledger.check_consistent(cluster)


def test_where_queues_deserve_something_what_pods_use_makes_them_other_victims() -> None:
    table = NodeTable()
    ledger = QuotaLedger(table)
    cluster = Cluster(table, ledger)
    cluster.set_node(a_node("n1").build())
    pods = [
        a_pod("cpu").needs(cpu=1),
        a_pod("more").needs(cpu=2),
        a_pod("memory").needs(memory="1Gi"),
        a_pod("critical").needs(cpu=1).with_spec(priorityClassName="system-node-critical"),
    ]
    placed = [pod.in_queue("red").info() for pod in pods]
    policy = QueuePreemptionPolicy(ledger, QuotaConfig())
    for pod in placed:
        cluster.assume_pod(pod, "n1")
    counts = []
    for deserved in ({}, {"cpu": "1"}):
        ledger.set_queue(a_queue("red", deserved=deserved))
        ledger.refresh(cluster)
        classes = [policy.victim_class(pod) for pod in placed]
        assert classes[0] == classes[1]
        counts.append(len(set(classes)))
    assert counts == [1, 3]
