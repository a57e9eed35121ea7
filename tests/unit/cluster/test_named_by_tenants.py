"""What tenants name takes no room in the node table that nodes have not made."""

from __future__ import annotations

import pytest

from arranger.cluster import ABSENT, Cluster
from arranger.cluster.columns import NOT_OFFERED
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod

GPU = "example.com/gpu"


def a_pod_that_asks_for(*resources: str) -> PodBuilder:
    return a_pod().with_spec(
        containers=[{"name": "c", "resources": {"requests": dict.fromkeys(resources, "2")}}]
    )


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.set_node(a_node("n1").offers(cpu=4).build())
    made.set_node(a_node("n2").offers(cpu=4).build())
    return made


def offer_gpus(cluster: Cluster, amount: int) -> None:
    cluster.set_node(a_node("n2").offers({GPU: amount}, cpu=4).build())


def judged(cluster: Cluster, pod: PodBuilder) -> Evaluation:
    return Evaluation(default_profile(), cluster, pod.info())


def test_resources_that_no_node_offers_have_one_column_together(cluster: Cluster) -> None:
    shape = cluster.table.requested.shape
    asking = a_pod_that_asks_for(*(f"example.com/r{n}" for n in range(5000)))
    found = judged(cluster, asking)
    assert not found.feasible.any()
    cluster.observe_pod(asking.on("n1").info())
    assert cluster.table.requested.shape == shape
    cluster.check_consistent()
    cluster.remove_pod(asking.info().uid)
    cluster.check_consistent()
    assert not cluster.table.requested.any()


def test_the_message_names_some_of_them_and_counts_the_others(cluster: Cluster) -> None:
    few = judged(cluster, a_pod_that_asks_for(GPU, "example.com/tpu"))
    assert few.diagnosis().message() == (
        "0/2 nodes are available: 2 Insufficient example.com/gpu, 2 Insufficient example.com/tpu."
    )
    many = judged(cluster, a_pod_that_asks_for(*(f"example.com/r{n}" for n in range(5000))))
    assert "2 Insufficient resources of 4984 other names" in many.diagnosis().message()
    assert len(many.diagnosis().message()) < 1000


def test_a_node_that_comes_to_offer_it_has_less_for_others(cluster: Cluster) -> None:
    waiting, bound = a_pod("waiting").needs({GPU: 2}), a_pod("bound").needs({GPU: 2}).on("n2")
    info = waiting.info()
    assert NOT_OFFERED in info.request_vector(cluster.table.resource_column)[0]
    evaluation = Evaluation(default_profile(), cluster, info)
    cluster.observe_pod(bound.info())
    offer_gpus(cluster, 3)
    cluster.check_consistent()
    column = cluster.table.resource_column(GPU)
    assert cluster.table.requested[column, cluster.table.index["n2"]] == 2
    evaluation.refresh()
    assert not evaluation.feasible.any()
    offer_gpus(cluster, 4)
    evaluation.refresh()
    assert evaluation.feasible.tolist() == [False, True]
    cluster.remove_pod(bound.info().uid)
    cluster.check_consistent()
    assert not cluster.table.requested.any()


def test_a_pod_of_a_node_that_has_gone_is_counted_when_it_comes_back(cluster: Cluster) -> None:
    cluster.observe_pod(a_pod("bound").needs({GPU: 2}).on("n2").info())
    cluster.remove_node("n2")
    cluster.set_node(a_node("n1").offers({GPU: 1}, cpu=4).build())
    offer_gpus(cluster, 4)
    cluster.check_consistent()
    assert cluster.table.free(cluster.table.index["n2"], [cluster.table.resource_column(GPU)]) == [
        2
    ]


def test_labels_that_no_node_has_have_one_column_together(cluster: Cluster) -> None:
    table = cluster.table
    columns = [table.label_column(f"key-{n}") for n in range(100)]
    assert all(column is columns[0] for column in columns)
    assert (columns[0] == ABSENT).all()


def test_a_label_has_a_column_while_nodes_have_it(cluster: Cluster) -> None:
    table, row = cluster.table, cluster.table.index["n1"]
    for times in range(3):
        cluster.set_node(a_node("n1").labelled(team=f"a{times}").build())
        column, values = table.label_column("team"), table.label_values("team")
        assert values.values[column[row]] == f"a{times}"
        cluster.set_node(a_node("n1").build())
        assert (table.label_column("team") == ABSENT).all()
        assert not table.label_values("team").values


def test_values_that_only_nodes_of_the_past_had_are_forgotten(cluster: Cluster) -> None:
    table, row = cluster.table, cluster.table.index["n1"]
    table.label_column("turn")
    for turn in range(5000):
        cluster.set_node(a_node("n1").labelled(turn=str(turn)).build())
        column, values = table.label_column("turn"), table.label_values("turn")
        assert values.values[column[row]] == str(turn)
        assert len(values) < 1100
