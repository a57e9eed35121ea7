"""What pods give back that are being evicted comes to what a look at each of them finds."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.framework.preemption import Limit
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.leaving_charges import LeavingCharges
from tests.builders import a_node, a_pod, a_queue

QUEUES = ("red", "green")


@pytest.mark.parametrize("seed", range(3))
def test_it_comes_to_what_a_look_at_each_pod_finds(seed: int) -> None:
    rng = random.Random(seed)
    table = NodeTable()
    ledger = QuotaLedger(table)
    cluster = Cluster(table, ledger)
    cluster.set_node(a_node("n").build())
    for name in QUEUES:
        ledger.set_queue(a_queue(name, capability={"cpu": 100}))
    ledger.refresh(cluster)
    victims = set[str]()
    leaving = LeavingCharges(ledger, victims)
    placed = {}
    for n in range(8):
        pod = a_pod(f"p{n}").in_queue(rng.choice(QUEUES)).needs(cpu=rng.randint(1, 9)).info()
        placed[pod.uid] = pod
        cluster.assume_pod(pod, "n")
    for turn in range(60):
        uid = rng.choice(sorted(placed))
        if rng.random() < 0.1:
            ledger.set_queue(a_queue(rng.choice(QUEUES), capability={"cpu": 100 + turn}))
            ledger.refresh(cluster)
        victims ^= {uid}
        expected = Counter[Limit]()
        for each in victims:
            for limit, n in ledger.released_by(placed[each]):
                expected[limit] += n
        assert +Counter(leaving.given_back()) == expected
        assert set(leaving.charges()) == victims
