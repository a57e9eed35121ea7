"""Which cards a node has, by its labels and what it offers."""

from __future__ import annotations

import numpy as np
import pytest

from arranger.cluster.cluster import Cluster
from arranger.quota.card_column import CardColumn, kinds_in
from arranger.quota.cards import cards_of, is_card_resource
from tests.builders import NodeBuilder, a_node
from tests.queueing import CARD, GPU, gpu_node

CARDS: dict[str, tuple[NodeBuilder, dict[str, str]]] = {
    "a node without cards": (a_node(), {}),
    "whole cards": (gpu_node(), {GPU: CARD}),
    "of other vendors": (
        a_node().labelled({"huawei.com/npu.product": "Ascend910"}).offers({"huawei.com/npu": 8}),
        {"huawei.com/npu": "Ascend910"},
    ),
    "a label without the resource": (a_node().labelled({f"{GPU}.product": CARD}), {}),
    "a resource without the label": (a_node().offers({GPU: 8}), {}),
    "none of them healthy: pods that run there go on using theirs": (
        gpu_node(count=0),
        {GPU: CARD},
    ),
    "an amount that cannot be read": (gpu_node().offers({GPU: "many"}), {GPU: CARD}),
    "shared cards, named by their memory and how many share one": (
        gpu_node()
        .labelled({f"{GPU}.memory": "24576", f"{GPU}.replicas": "4"})
        .offers({GPU: 0, f"{GPU}.shared": 32}),
        {GPU: CARD, f"{GPU}.shared": f"{CARD}/mps-24g*1/4"},
    ),
    "shared cards of which nobody says how large they are": (
        a_node().labelled({f"{GPU}.product": CARD}).offers({f"{GPU}.shared": 32}),
        {f"{GPU}.shared": f"{CARD}/mps-0g*1/1"},
    ),
    "whole cards of which nobody says how large they are": (
        a_node().labelled({f"{GPU}.product": CARD}).offers({GPU: 8}),
        {GPU: CARD},
    ),
    "memory that cannot be read": (
        gpu_node().labelled({f"{GPU}.memory": "24 GB"}).offers({GPU: 0, f"{GPU}.shared": 8}),
        {GPU: CARD, f"{GPU}.shared": f"{CARD}/mps-0g*1/1"},
    ),
    "slices, each size for itself, and what is left whole": (
        gpu_node().offers({"nvidia.com/mig-1g.18gb": 2, "nvidia.com/mig-2g.35gb": 1}),
        {
            GPU: CARD,
            "nvidia.com/mig-1g.18gb": f"{CARD}/mig-1g.18gb-mixed",
            "nvidia.com/mig-2g.35gb": f"{CARD}/mig-2g.35gb-mixed",
        },
    ),
    "the product labels of slices name no node's card": (
        a_node()
        .labelled({"nvidia.com/mig-1g.18gb.product": f"{CARD}-MIG-1g.18gb"})
        .offers({"nvidia.com/mig-1g.18gb": 2}),
        {},
    ),
    "of several products the first by the alphabet, whatever their order": (
        a_node()
        .labelled({f"{GPU}.product": CARD, "amd.com/gpu.product": "MI300X"})
        .offers({GPU: 8, "amd.com/gpu": 8}),
        {"amd.com/gpu": "MI300X"},
    ),
    "other resources of the vendor are no cards": (
        gpu_node().offers({"nvidia.com/rdma": 1}),
        {GPU: CARD},
    ),
}


@pytest.mark.parametrize("case", CARDS.values(), ids=CARDS.keys())
def test_cards_of_a_node(case: tuple[NodeBuilder, dict[str, str]]) -> None:
    node, expected = case
    assert dict(cards_of(node.build())) == expected


def test_a_resource_of_which_nothing_is_left_to_give_is_still_its_card() -> None:
    node = gpu_node(count=8).build()
    node.status.allocatable = {"cpu": "8"}
    node.status.capacity = {GPU: "8"}
    assert dict(cards_of(node)) == {GPU: CARD}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (GPU, True),
        ("nvidia.com/mig-1g.18gb", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("storage.kubernetes.io/disk", False),
        ("kubernetes.io/disk", False),
    ],
)
def test_what_looks_like_a_card(resource: str, expected: bool) -> None:
    assert is_card_resource(resource) is expected


def test_the_column_follows_nodes_that_come_change_and_go() -> None:
    cluster = Cluster()
    column = CardColumn(cluster.table)

    def kinds() -> list[str]:
        rows = column.card_set_ids()
        alive = cluster.table.alive[: cluster.table.size].nonzero()[0]
        return [column.card_set(int(rows[row])).get(GPU, "") for row in alive]

    assert kinds() == []
    cluster.set_node(gpu_node("a", card="A").build())
    cluster.set_node(a_node("b").build())
    assert kinds() == ["A", ""]
    before = column.card_set_ids()
    assert column.card_set_ids() is before, "nothing has changed"
    cluster.set_node(gpu_node("b", card="B").build())
    assert kinds() == ["A", "B"]
    cluster.remove_node("a")
    assert kinds() == ["B"]
    cluster.set_node(gpu_node("c", card="A").build())
    assert sorted(kinds()) == ["A", "B"]


def test_a_card_is_present_while_a_node_has_one_to_give() -> None:
    cluster = Cluster()
    column = CardColumn(cluster.table)
    cluster.set_node(gpu_node("a", card="A", count=2).build())
    cluster.set_node(gpu_node("b", card="A", count=6).build())
    assert (column.present(), column.totals()) == ({(GPU, "A")}, {"A": 8})
    cluster.set_node(gpu_node("a", card="A", count=0).build())
    assert (column.present(), column.totals()) == ({(GPU, "A")}, {"A": 6})
    cluster.set_node(gpu_node("b", card="A", count=0).build())
    assert (column.present(), column.totals()) == (frozenset(), {})


def test_what_nodes_offer_of_a_card_is_cut_by_resource_and_summed_up() -> None:
    cluster = Cluster()
    cards = CardColumn(cluster.table)
    shared = gpu_node("both").offers({GPU: 5, f"{GPU}.shared": 3}).labelled({f"{GPU}.count": "5"})
    cluster.set_node(gpu_node("large", 8).build())
    cluster.set_node(gpu_node("small", 2).build())
    cluster.set_node(gpu_node("other", 8, "A100").build())
    cluster.set_node(shared.build())
    cluster.set_node(a_node("none").build())
    names = [cluster.table.name(row) for row in range(cluster.table.size)]

    def offered(card: str, most: dict[str, int]) -> dict[str, int]:
        found = zip(names, cards.amounts(card, most).tolist(), strict=True)
        return {name: n for name, n in found if n}

    assert offered(CARD, {}) == {"large": 8, "small": 2, "both": 5}
    assert offered(CARD, {GPU: 4}) == {"large": 4, "small": 2, "both": 4}
    assert offered(CARD, {"cpu": 1}) == {"large": 8, "small": 2, "both": 5}
    assert offered("A100", {GPU: 4}) == {"other": 4}
    assert offered("H100", {}) == {}


@pytest.mark.parametrize("seed", range(20))
def test_the_kinds_of_cards_that_rows_have_are_those_that_are_there(seed: int) -> None:
    rng = np.random.default_rng(seed)
    column = rng.integers(0, 1 + seed % 6, size=seed * 3, dtype=np.int32)
    assert kinds_in(column) == sorted(set(column.tolist()))
