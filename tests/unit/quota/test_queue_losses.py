"""What queues lose, added up victim by victim, as against all of it worked out anew each time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.pod_info import PodInfo
from arranger.preemption.allowed_together import AllowedTogether, allowed_together
from arranger.quota.charging.charges import Charge
from arranger.quota.ledger import QuotaLedger
from arranger.quota.preemption.policy import QueuePreemptionPolicy, QuotaConfig
from tests.builders import a_pod, a_queue

#: Queue → the one above it.
TREE = {"mine": "team", "near": "team", "team": "", "far": "", "leaf": "far"}


class World:
    """Queues in a tree that are guaranteed and deserve something, and pods on one node."""

    def __init__(self, seed: int, count: int = 14) -> None:
        rng = self.rng = random.Random(seed)
        table = NodeTable()
        self.ledger = QuotaLedger(table)
        self.cluster = Cluster(table, self.ledger)
        for name, parent in TREE.items():
            spec = {
                "guarantee": {"resource": amounts(rng)},
                "deserved": amounts(rng),
                "reclaimable": True,
            }
            if parent:
                spec["parent"] = parent
            self.ledger.set_queue(a_queue(name, **spec))
        self.ledger.refresh(self.cluster)
        self.pods = [
            a_pod(f"p{n}")
            .in_queue(rng.choice(list(TREE)))
            .needs(cpu=rng.randint(1, 2), memory=f"{rng.randint(0, 2)}Gi")
            .on("n")
            .info()
            for n in range(count)
        ]
        for pod in self.pods:
            self.cluster.observe_pod(pod)
        self.leaving = {pod.uid for pod in self.pods if rng.random() < 0.2}
        self.takers = [a_pod("taker").in_queue("mine").needs(**rng.choice(WANTS)).info()]
        self.policy = QueuePreemptionPolicy(self.ledger, QuotaConfig(), self.leaving)

    def path(self, queue: str) -> list[str]:
        return [queue, *self.path(TREE[queue])] if queue else []

    def sums(self, pods: Iterable[PodInfo]) -> dict[str, Counter[str]]:
        """Queue → what is charged to it and its parts for these."""
        found: dict[str, Counter[str]] = {name: Counter() for name in TREE}
        for pod in pods:
            charge = self.charge(pod)
            for name in self.path(charge.queue):
                found[name].update(charge.amounts)
        return found

    def charge(self, pod: PodInfo) -> Charge:
        return self.ledger.charge(pod)

    def may_leave(self, victims: Sequence[PodInfo]) -> bool:
        """Whether all of them may, worked out from nothing but what everybody is charged."""
        gone = {pod.uid for pod in victims} | self.leaving
        used, taken = self.sums(self.pods), self.sums(victims)
        lost = self.sums(pod for pod in self.pods if pod.uid in gone)
        quotas = {name: self.ledger.queues[name] for name in TREE}
        mine = self.path("mine")
        for name in set(TREE) - set(mine):
            for resource, guaranteed in quotas[name].guarantee.items():
                if (
                    taken[name][resource]
                    and used[name][resource] - lost[name][resource] < guaranteed
                ):
                    return False
        for taker in self.takers:
            wanted = self.charge(taker).amounts
            for victim in victims:
                charge = self.charge(victim)
                for name in [q for q in self.path(charge.queue) if q not in mine]:
                    due = quotas[name].due
                    given = [r for r in due if charge.amounts.get(r)]
                    counts = [r for r in given if wanted.get(r)] or given
                    kept = [used[name][r] - lost[name][r] >= due[r] for r in counts]
                    if counts and not any(kept):
                        return False
        return True


WANTS = ({"cpu": 1}, {"memory": "1Gi"}, {"cpu": 1, "memory": "1Gi"})


def amounts(rng: random.Random) -> dict[str, str]:
    """What a queue has of some resources."""
    some = {"cpu": str(rng.randint(0, 5)), "memory": f"{rng.randint(0, 4)}Gi"}
    return {name: some[name] for name in some if rng.random() < 0.6}


@pytest.mark.parametrize("seed", range(200))
def test_victims_may_be_added_while_all_of_them_may_leave(seed: int) -> None:
    world = World(seed)
    losses, added = world.policy.losses(world.takers), list[PodInfo]()
    for _ in range(12):
        more = world.rng.sample(world.pods, world.rng.randint(1, 3))
        asked = [*added, *(pod for pod in more if pod not in added)]
        expected = world.may_leave(asked)
        other = losses.copy()
        assert losses.may_add(more) == other.add(more) == losses.may_add(more) == expected
        if world.rng.random() < 0.7 and losses.add(more):
            added = asked


@pytest.mark.parametrize("seed", range(100))
def test_as_many_are_chosen_as_may_leave_together_from_the_last_one_on(seed: int) -> None:
    world = World(seed)
    chosen = list[PodInfo]()
    for pod in reversed(world.pods):
        if world.may_leave([pod, *chosen]):
            chosen.insert(0, pod)
    if world.may_leave(world.pods):
        chosen = world.pods
    found = allowed_together(world.pods, world.policy, world.policy.losses(world.takers))
    assert [pod.uid for pod in found] == [pod.uid for pod in chosen]


def test_to_choose_among_many_asks_about_each_as_often_as_among_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a gang that takes from a queue that is near what it deserves is planned for hours."""
    asked, charge_of = Counter[int](), QuotaLedger.charge_of
    for count in (50, 400):
        world = World(3, count)
        allowed = AllowedTogether(world.policy, world.policy.losses(world.takers))

        def counted(ledger: QuotaLedger, uid: str, count: int = count) -> Charge | None:
            asked[count] += 1
            return charge_of(ledger, uid)

        monkeypatch.setattr(QuotaLedger, "charge_of", counted)
        for pod in world.pods:
            allowed.add(pod)
        monkeypatch.undo()
        assert allowed.chosen
    assert asked[400] <= 9 * asked[50]
