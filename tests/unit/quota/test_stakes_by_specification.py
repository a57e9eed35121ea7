"""The ledger of guarantees and the specification agree, which have nothing in common."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from arranger.quota.guarantees import Guarantees
from arranger.quota.queue_spec import QueueQuota
from tests.specification.trace import QUEUES, World
from tests.specification.vocabulary.stakes import Stakes

MEMORY = "memory"


def some_queues(rng: random.Random) -> dict[str, QueueQuota]:
    """In trees, in circles, and below what there is not."""
    names = ["root"][: rng.random() < 0.3] + ["default"][: rng.random() < 0.3]
    names += [f"q{n}" for n in range(rng.randint(1, 6))]
    found = {}
    for name in names:
        parent = rng.choice(["root", "root", *names, "gone"]) if name != "root" else ""
        capability = {MEMORY: rng.randint(1, 12)} if rng.random() < 0.5 else {}
        guarantee = {MEMORY: n} if (n := rng.choice([0, 0, 1, 3, 5])) else {}
        parent = "root" if parent == name else parent
        found[name] = QueueQuota(name, parent=parent, capability=capability, guarantee=guarantee)
    return found


def as_world(queues: dict[str, QueueQuota]) -> World:
    """As the API server has them."""
    world = World()
    for name, each in queues.items():
        spec = {
            "parent": each.parent,
            "capability": {key: str(n) for key, n in each.capability.items()},
            "guarantee": {"resource": {key: str(n) for key, n in each.guarantee.items()}},
        }
        world.objects.setdefault(QUEUES, {})[name] = {"metadata": {"name": name}, "spec": spec}
    return world


@pytest.mark.parametrize("seed", range(50))
def test_the_ledger_and_the_specification_know_the_same_stakes_and_let_the_same_in(
    seed: int,
) -> None:
    rng = random.Random(seed)
    queues, guarantees, own = some_queues(rng), Guarantees(), Counter[str]()
    guarantees.reset(queues)
    for _ in range(rng.randint(0, 8)):
        queue, n = rng.choice([*queues, "not there"]), rng.randint(1, 3)
        own[queue] += n
        guarantees.on_moved(queue, {MEMORY: n}, 1)
    before, total = Stakes(as_world(queues), MEMORY, own), {MEMORY: rng.randint(0, 20)}
    if not before.of_all:
        return
    known = {name: amounts[MEMORY] for name, amounts in guarantees.inside().items()}
    assert {name: n for name, n in before.inside.items() if n} == known
    for queue in queues:
        n = rng.randint(1, 4)
        now = Stakes(as_world(queues), MEMORY, own + Counter({queue: n}))
        limits = guarantees.limits(queue, MEMORY, total)
        let_in = all(n <= max(0, each.room, each.slack) for each in limits)
        assert let_in == _is_legal(queues, before, now, queue, total)


def _is_legal(
    queues: dict[str, QueueQuota], before: Stakes, now: Stakes, queue: str, total: dict[str, int]
) -> bool:
    for name in before.path(queue):
        rooms = [*queues[name].capability.values()] if name in queues else []
        rooms += [total[MEMORY]] if name == "root" else []
        raises = before.inside[name] < now.inside[name]
        if rooms and before.are_kept_in(name) and raises and now.inside[name] > min(rooms):
            return False
    return True
