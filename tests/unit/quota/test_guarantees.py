"""What queues are guaranteed is kept free for them, and nothing more (docs/design/queues.md).

The judge is a plain function: it adds up who has which stake, and knows nothing of the program.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from arranger.api.effects import PublishEvent
from arranger.cluster.cluster import Cluster
from arranger.cluster.nodes.node_table import NodeTable
from arranger.plugins import default_profile
from arranger.quota.ledger import QuotaLedger
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.queueing import CARD, GPU, gpu_node
from tests.unit.engine.harness import EngineHarness, of_kind, placements

WORLDS = 150


def of(queue: str, name: str, cpu: int) -> PodBuilder:
    return a_pod(name).needs(cpu=cpu).in_queue(queue)


def guaranteed(name: str, cpu: int, **spec: Any) -> Any:
    return a_queue(name, guarantee={"resource": {"cpu": cpu}}, **spec)


#: On 10 cpus: queues, running pods (queue, cpu), and the largest pod that each queue may have.
LARGEST: dict[str, tuple[list[Any], list[tuple[str, int]], dict[str, int]]] = {
    "of an idle queue all of it": (
        [guaranteed("a", 4), a_queue("b")],
        [],
        {"a": 10, "b": 6, "default": 6},
    ),
    "others together have no more than the rest": (
        [guaranteed("a", 4), a_queue("b"), a_queue("c")],
        [("b", 5)],
        {"a": 5, "b": 1, "c": 1},
    ),
    "what the queue uses is not kept twice": (
        [guaranteed("a", 4), a_queue("b")],
        [("a", 3)],
        {"a": 7, "b": 6},
    ),
    "nor what it uses beyond": ([guaranteed("a", 4), a_queue("b")], [("a", 6)], {"a": 4, "b": 4}),
    "two guarantees are kept from each other": (
        [guaranteed("a", 4), guaranteed("b", 5)],
        [],
        {"a": 5, "b": 6, "default": 1},
    ),
    "a guarantee within a queue is kept from others": (
        [a_queue("team"), guaranteed("a", 4, parent="team"), a_queue("b", parent="team")],
        [],
        {"a": 10, "b": 6, "default": 6},
    ),
    "a part without a guarantee has its team's": (
        [guaranteed("team", 6), guaranteed("a", 4, parent="team"), a_queue("b", parent="team")],
        [("default", 4)],
        {"a": 6, "b": 2, "default": 0},
    ),
    "within the capability of a queue": (
        [
            a_queue("team", capability={"cpu": 5}),
            guaranteed("a", 2, parent="team"),
            a_queue("b", parent="team"),
        ],
        [],
        {"a": 5, "b": 3, "default": 8},
    ),
    "a guarantee holds though others use it already": (
        [guaranteed("a", 4), a_queue("b")],
        [("b", 9)],
        {"a": 4, "b": 0},
    ),
    "more than there is leaves others nothing": (
        [guaranteed("a", 40), a_queue("b")],
        [],
        {"a": 40, "b": 0},
    ),
    "the root's own capability bounds all": (
        [a_queue("root", capability={"cpu": 8}), guaranteed("a", 4), a_queue("b")],
        [],
        {"a": 8, "b": 4},
    ),
    "queues in a circle are guaranteed nothing": (
        [guaranteed("a", 4, parent="b"), guaranteed("b", 4, parent="a"), a_queue("c")],
        [],
        {"c": 40},
    ),
}


class Ledger:
    """A ledger of a cluster with one node that takes whatever is placed."""

    def __init__(self, queues: list[Any], cpu: int = 10) -> None:
        table = NodeTable()
        self.ledger = QuotaLedger(table)
        self.cluster = Cluster(table, self.ledger)
        self.cluster.set_node(a_node("n").offers(cpu=cpu).build())
        for queue in queues:
            self.ledger.set_queue(queue)
        self.ledger.refresh(self.cluster)

    def place(self, pod: PodBuilder) -> None:
        self.cluster.observe_pod(pod.on("n").info())

    def allows(self, queue: str, cpu: int) -> bool:
        info = of(queue, "asks", cpu).info()
        return self.ledger.shortage(info, self.ledger.charges_for(info, {}), {}) is None


@pytest.mark.parametrize(("queues", "running", "expected"), LARGEST.values(), ids=LARGEST)
def test_the_largest_pod_that_a_queue_may_have(
    queues: list[Any], running: list[tuple[str, int]], expected: dict[str, int]
) -> None:
    books = Ledger(queues)
    for n, (queue, cpu) in enumerate(running):
        books.place(of(queue, f"r{n}", cpu))
    found = {q: max((n for n in range(1, 41) if books.allows(q, n)), default=0) for q in expected}
    assert found == expected


# --- judged over random worlds -------------------------------------------------------------------


def test_cards_are_kept_free_by_their_name() -> None:
    books = Ledger([a_queue("a", guarantee={"resource": {CARD: 3}}), a_queue("b")])
    books.cluster.set_node(gpu_node("g", 4).build())
    for count, allowed in ((1, True), (2, False)):
        pod = a_pod("p").needs({GPU: count}).in_queue("b").info()
        charged = books.ledger.charges_for(pod, {GPU: CARD})
        assert (books.ledger.shortage(pod, charged, {GPU: CARD}) is None) == allowed


class Node(NamedTuple):
    """A queue of a random world; 0 for no limit, and no guarantee."""

    name: str
    parent: str
    guarantee: int
    capability: int


def stake(name: str, tree: dict[str, Node], used: dict[str, int]) -> int:
    """What a queue uses with its parts, each at least what it is guaranteed."""
    parts = sum(stake(each.name, tree, used) for each in tree.values() if each.parent == name)
    return max(tree[name].guarantee if name in tree else 0, parts + used.get(name, 0))


def may_have(queue: str, cpu: int, total: int, tree: dict[str, Node], used: dict[str, int]) -> bool:
    after = {**used, queue: used.get(queue, 0) + cpu}
    name = queue
    while name:
        limit = total if name == "root" else tree[name].capability if name in tree else 0
        before_it = stakes_inside(name, tree, used)
        inside = stakes_inside(name, tree, after)
        within = everything(name, tree, after)
        if limit and name != "root" and within > limit:
            return False
        has_guarantees = inside != before_it or limit == 0
        if (limit or name == "root") and has_guarantees and keeps(name, tree) and inside > limit:
            return False
        name = "" if name == "root" else (tree[name].parent if name in tree else "root")
    return True


def stakes_inside(name: str, tree: dict[str, Node], used: dict[str, int]) -> int:
    parts = sum(stake(each.name, tree, used) for each in tree.values() if each.parent == name)
    return parts + used.get(name, 0) + sum(used.get(q, 0) for q in loose(name, tree, used))


def loose(name: str, tree: dict[str, Node], used: dict[str, int]) -> list[str]:
    """Queues that are not there count for the root alone."""
    return [q for q in used if q not in tree and q != "root"] if name == "root" else []


def everything(name: str, tree: dict[str, Node], used: dict[str, int]) -> int:
    parts = (everything(each.name, tree, used) for each in tree.values() if each.parent == name)
    return sum(parts) + used.get(name, 0)


def keeps(name: str, tree: dict[str, Node]) -> bool:
    """Whether any part of a queue is guaranteed anything."""
    parts = [each for each in tree.values() if each.parent == name]
    return any(each.guarantee or keeps(each.name, tree) for each in parts)


def a_tree(rng: random.Random) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for name in "abcdef"[: rng.randint(1, 6)]:
        parent = rng.choice(["root", "root", *found])
        guarantee = rng.choice([0, 0, rng.randint(1, 6)])
        found[name] = Node(name, parent, guarantee, rng.choice([0, 0, rng.randint(2, 12)]))
    return found


def manifest(node: Node) -> Any:
    spec: dict[str, Any] = {} if node.parent == "root" else {"parent": node.parent}
    if node.guarantee:
        spec["guarantee"] = {"resource": {"cpu": node.guarantee}}
    if node.capability:
        spec["capability"] = {"cpu": node.capability}
    return a_queue(node.name, **spec)


def test_stakes_are_judged_as_they_add_up() -> None:
    verdicts = {True: 0, False: 0}
    for seed in range(WORLDS):
        rng = random.Random(seed)
        tree, total = a_tree(rng), rng.randint(4, 20)
        books, used = Ledger([manifest(node) for node in tree.values()], total), dict[str, int]()
        placed: list[tuple[PodBuilder, str, int]] = []
        for n in range(30):
            if placed and rng.random() < 0.3:
                gone, queue, cpu = placed.pop(rng.randrange(len(placed)))
                books.cluster.remove_pod(gone.info().uid)
                used[queue] -= cpu
                continue
            queue, cpu = rng.choice([*tree, "default"]), rng.randint(1, 5)
            expected = may_have(queue, cpu, total, tree, used)
            assert books.allows(queue, cpu) == expected, (seed, queue, cpu, used, tree, total)
            verdicts[expected] += 1
            probe = of(queue, "probe", 1).info()
            most = books.ledger.room_for(probe, "n")
            for size in {most, most + 1} - {0}:
                if size < 100:
                    may = may_have(queue, size, total, tree, used)
                    assert may == (size <= most), (seed, queue, size, most, used, tree, total)
            # Some come as others bind them: whether or not they may.
            if expected or rng.random() < 0.2:
                pod = of(queue, f"p{n}", cpu)
                books.place(pod)
                used[queue] = used.get(queue, 0) + cpu
                placed.append((pod, queue, cpu))
        books.ledger.check_consistent(books.cluster)
    assert min(verdicts.values()) > WORLDS, verdicts


# --- in the engine -------------------------------------------------------------------------------


@pytest.fixture
def harness() -> EngineHarness:
    harness = EngineHarness(default_profile())
    harness.start()
    return harness


def bound(effects: Any) -> set[str]:
    return {name for name, _ in placements(effects)}


def test_who_waits_for_a_guarantee_is_told_and_woken_when_it_is_taken_back(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=2), guaranteed("a", 2), a_queue("b"), of("b", "p", 1))
    effects = harness.run()
    assert bound(effects) == set()
    (told,) = [e.note for e in of_kind(PublishEvent, effects) if e.reason == "InsufficientCPUQuota"]
    assert told == (
        "Queue <b> has insufficient CPU quota: requested <1000>, total would be <1000>, but "
        "capability is <0> beside what other queues are guaranteed"
    )
    harness.observe(guaranteed("a", 1))
    assert bound(harness.advance_to(20)) == {"p"}


def test_or_when_a_node_comes(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=2), guaranteed("a", 2), a_queue("b"), of("b", "p", 1))
    assert bound(harness.run()) == set()
    harness.observe(a_node("m").offers(cpu=1))
    assert bound(harness.advance_to(20)) == {"p"}


#: Who runs on node "m", beside node "n" that is free, and whether its end helps one of queue b.
ENDS: dict[str, tuple[str, int, bool]] = {
    "one of the queue itself": ("b", 2, True),
    "one of a third": ("c", 2, True),
    "one within the guarantee of its queue": ("a", 2, False),
    "one beyond it": ("a", 4, True),
}


@pytest.mark.parametrize(("queue", "cpu", "helps"), ENDS.values(), ids=ENDS)
def test_only_who_has_less_of_a_stake_wakes_others(
    queue: str, cpu: int, helps: bool, harness: EngineHarness
) -> None:
    """It is the last cpu beside what is guaranteed that is in use; there is room on node "n"."""
    ends = of(queue, "ends", cpu)
    rest = of("c", "rest", 6 if queue == "a" and cpu == 2 else 4)
    harness.observe(*(a_node(name).offers(cpu=size) for name, size in (("n", 2), ("m", 6))))
    harness.observe(guaranteed("a", 2), a_queue("b"), a_queue("c"))
    harness.observe(ends.on("m"), rest.on("full"), of("b", "p", 1))
    assert bound(harness.run()) == set()
    attempts = harness.entity("p").attempts
    harness.observe_deleted(ends)
    found = bound(harness.run())
    assert (found == {"p"}) == helps
    assert helps or harness.entity("p").attempts == attempts


@pytest.mark.parametrize(
    ("uses", "gave_back", "relieved"),
    [
        pytest.param(3, 4, {"of its own", "of others"}, id="it used more than it is guaranteed"),
        pytest.param(1, 2, {"of its own"}, id="it stays below: nothing of what is kept for it"),
        pytest.param(4, 2, {"of others"}, id="it uses all of it still: only what it had beyond"),
        pytest.param(6, 2, {"of others"}, id="it uses more still"),
    ],
)
def test_what_a_queue_gives_back_is_of_use_to_others_beyond_its_guarantee(
    uses: int, gave_back: int, relieved: set[str]
) -> None:
    table = NodeTable()
    ledger = QuotaLedger(table)
    cluster = Cluster(table, ledger)
    cluster.set_node(a_node("n").offers(cpu=20).build())
    for queue in (guaranteed("a", 4), a_queue("b")):
        ledger.set_queue(queue)
    ledger.refresh(cluster)
    cluster.observe_pod(of("a", "stays", uses).on("n").info())
    limits = ledger.relieved_by(of("a", "gone", gave_back).info(), "n")
    others = ledger.limits_of(of("b", "other", 1).info())
    own = ledger.limits_of(of("a", "mate", 1).info()) - others
    found = {"of others" * bool(limits & others), "of its own" * bool(limits & own)}
    assert found - {""} == relieved
