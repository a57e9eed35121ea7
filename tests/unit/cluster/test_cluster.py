"""Which pod is where, whatever order the news comes in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arranger.api.quantity import QuantityError
from arranger.cluster.cluster import Cluster
from arranger.cluster.columns import CPU, PODS
from arranger.cluster.exclusive_uses import DiskUses, HostPorts
from arranger.cluster.pod_info import PodInfo
from tests.builders import NodeBuilder, a_cluster, a_node, a_pod

N1, N2 = a_node("n1"), a_node("n2")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = a_cluster(N1, N2)
    yield cluster
    cluster.check_consistent()


def in_use(cluster: Cluster, node: str) -> tuple[int, int]:
    """(millicores requested, pods) of a node."""
    row = cluster.table.index[node]
    requested = cluster.table.requested
    return int(requested[CPU, row]), int(requested[PODS, row])


def test_an_observed_pod_takes_its_room(cluster: Cluster) -> None:
    cluster.observe_pod(a_pod().needs(cpu=1).on("n1").info())
    assert in_use(cluster, "n1") == (1000, 1)
    assert cluster.node_of("uid-default-p") == "n1"


def test_a_removed_pod_gives_it_back(cluster: Cluster) -> None:
    cluster.observe_pod(a_pod().needs(cpu=1).on("n1").info())
    cluster.remove_pod("uid-default-p")
    assert in_use(cluster, "n1") == (0, 0)
    assert "uid-default-p" not in cluster
    assert cluster.remove_pod("uid-default-p") is None


def test_our_own_binding_confirmed_changes_no_verdict(cluster: Cluster) -> None:
    pod = a_pod().needs(cpu=1)
    cluster.assume_pod(pod.info(), "n1")
    version = cluster.table.version
    cluster.observe_pod(pod.on("n1").info())
    assert cluster.table.version == version
    assert not cluster.assumed
    found = cluster.pod("uid-default-p")
    assert found is not None
    assert found.pod.status.phase == "Running"


def test_a_pod_bound_elsewhere_than_assumed_is_where_the_api_says(cluster: Cluster) -> None:
    cluster.assume_pod(a_pod().needs(cpu=1).info(), "n1")
    cluster.observe_pod(a_pod().needs(cpu=1).on("n2").info())
    assert in_use(cluster, "n1") == (0, 0)
    assert in_use(cluster, "n2") == (1000, 1)


def test_a_pod_cannot_be_assumed_twice(cluster: Cluster) -> None:
    cluster.assume_pod(a_pod().info(), "n1")
    with pytest.raises(ValueError, match="already on n1"):
        cluster.assume_pod(a_pod().info(), "n2")


CHANGES: dict[str, Any] = {
    "it is resized": a_pod().needs(cpu=2).on("n1"),
    "its labels change": a_pod().needs(cpu=1).labelled(a="b").on("n1"),
    "it names a claim": a_pod().needs(cpu=1).with_claim("data").on("n1"),
    "it begins to end": a_pod().needs(cpu=1).deleting().on("n1"),
}


@pytest.mark.parametrize("after", CHANGES.values(), ids=CHANGES.keys())
def test_a_pod_that_changes_is_judged_anew_when(after: Any, cluster: Cluster) -> None:
    cluster.observe_pod(a_pod().needs(cpu=1).on("n1").info())
    version = cluster.table.version
    cluster.observe_pod(after.info())
    assert cluster.table.version > version


def test_a_pod_seen_before_its_node_is_counted_when_the_node_comes(cluster: Cluster) -> None:
    cluster.observe_pod(a_pod().needs(cpu=1).on("n3").info())
    cluster.check_consistent()
    cluster.set_node(a_node("n3").build())
    assert in_use(cluster, "n3") == (1000, 1)


def test_pods_of_a_node_that_comes_back_are_still_there(cluster: Cluster) -> None:
    cluster.observe_pod(a_pod().needs(cpu=1).on("n1").info())
    cluster.remove_node("n1")
    cluster.check_consistent()
    cluster.set_node(N1.build())
    assert in_use(cluster, "n1") == (1000, 1)


def test_pods_deleted_while_their_node_is_away_are_gone(cluster: Cluster) -> None:
    cluster.observe_pod(a_pod().needs(cpu=1).on("n1").info())
    cluster.remove_node("n1")
    cluster.remove_pod("uid-default-p")
    cluster.set_node(N1.build())
    assert in_use(cluster, "n1") == (0, 0)


def test_a_new_node_takes_over_the_row_of_one_that_went(cluster: Cluster) -> None:
    cluster.observe_pod(a_pod().needs(cpu=1).on("n1").info())
    row = cluster.table.index["n1"]
    cluster.table.label_column("kubernetes.io/hostname")
    cluster.remove_node("n1")
    cluster.set_node(a_node("n3").offers(cpu=8).build())
    assert cluster.table.index["n3"] == row
    assert in_use(cluster, "n3") == (0, 0)
    assert cluster.table.allocatable[CPU, row] == 8000
    column = cluster.table.label_column("kubernetes.io/hostname")
    values = cluster.table.label_values("kubernetes.io/hostname").values
    assert values[column[row]] == "n3"


def test_a_node_that_offers_nonsense_is_refused_and_nothing_changes(cluster: Cluster) -> None:
    version = cluster.table.version
    with pytest.raises(QuantityError):
        cluster.set_node(N1.offers(cpu="lots").build())
    with pytest.raises(QuantityError):
        cluster.set_node(a_node("n9").offers(cpu="lots").build())
    assert cluster.table.version == version
    assert "n9" not in cluster.table.index


def test_a_resource_that_a_node_no_longer_offers_is_gone(cluster: Cluster) -> None:
    cluster.set_node(N1.offers({"example.com/gpu": 2}).build())
    cluster.set_node(N1.build())
    column = cluster.table.resource_column("example.com/gpu")
    assert cluster.table.allocatable[column, cluster.table.index["n1"]] == 0


def test_the_table_grows(cluster: Cluster) -> None:
    cluster.table.label_column("kubernetes.io/hostname")
    for n in range(200):
        cluster.set_node(a_node(f"m{n}").build())
    cluster.check_consistent()
    assert cluster.table.count == 202
    column = cluster.table.label_column("kubernetes.io/hostname")
    assert len(np.unique(column[:202])) == 202


def test_images_are_forgotten_with_their_node(cluster: Cluster) -> None:
    cluster.set_node(N1.holding("img:1", 5).build())
    cluster.set_node(N2.holding("img:1", 5).build())
    cluster.remove_node("n1")
    assert cluster.table.images.holders("img:1") == {cluster.table.index["n2"]: 5}
    cluster.set_node(N2.build())
    assert not cluster.table.images.holders("img:1")


def test_what_was_assumed_and_is_removed_leaves_no_trace(cluster: Cluster) -> None:
    before = _state(cluster)
    cluster.assume_pod(a_pod("a").needs(cpu=1).info(), "n1")
    cluster.assume_pod(a_pod("b").host_port(80).info(), "n2")
    assert in_use(cluster, "n1") == (1000, 1)
    cluster.remove_pod("uid-default-b")
    cluster.remove_pod("uid-default-a")
    assert _state(cluster) == before


def _fail_without(cluster: Cluster, pod: PodInfo) -> None:
    with cluster.simulate_without([pod]):
        assert in_use(cluster, "n1") == (0, 0)
        raise RuntimeError


def test_a_pod_is_back_when_what_was_done_without_it_fails(cluster: Cluster) -> None:
    pod = a_pod("a").needs(cpu=1).host_port(80).info()
    cluster.assume_pod(pod, "n1")
    before = _state(cluster)
    with pytest.raises(RuntimeError):
        _fail_without(cluster, pod)
    assert _state(cluster) == before


def test_what_was_assumed_stays(cluster: Cluster) -> None:
    cluster.assume_pod(a_pod("a").needs(cpu=1).info(), "n1")
    assert [pod.key for pod, _ in cluster.placed_pods()] == ["default/a"]
    assert cluster.assumed == {"uid-default-a"}


small_pods = st.builds(
    lambda n, cpu, port, apart, node: (
        _maybe(
            a_pod(f"p{n}").labelled(app=f"a{n % 2}").needs(cpu=cpu), port=port, apart=apart
        ).info(),
        f"n{node}",
    ),
    st.integers(0, 9),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.integers(1, 4),
)


def _maybe(pod: Any, *, port: bool, apart: bool) -> Any:
    if port:
        pod = pod.host_port(80)
    return pod.apart("kubernetes.io/hostname", {"app": "web"}) if apart else pod


@settings(deadline=None, max_examples=50)
@given(st.lists(small_pods, max_size=8), st.lists(small_pods, max_size=8))
def test_removing_the_newest_first_restores_everything(
    standing: list[Any], tried: list[Any]
) -> None:
    cluster = a_cluster(*(a_node(f"n{n}") for n in (1, 2, 3)))
    for pod, node in standing:
        if pod.uid not in cluster:
            cluster.assume_pod(pod, node)
    before = _state(cluster)
    placed: list[str] = []
    for pod, node in tried:
        if pod.uid not in cluster:
            cluster.assume_pod(pod, node)
            placed.append(pod.uid)
    cluster.check_consistent()
    for uid in reversed(placed):
        cluster.remove_pod(uid)
    cluster.check_consistent()
    assert _state(cluster) == before


@settings(deadline=None, max_examples=100)
@given(
    st.lists(small_pods, max_size=8),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
    st.integers(0, 7),
    st.booleans(),
)
def test_pods_that_are_looked_at_are_as_gone_as_others_that_leave(
    standing: list[Any], leaving: set[int], seen: set[int], back: int, indexed: bool
) -> None:
    cluster = a_cluster(*(a_node(f"n{n}") for n in (1, 2, 3)))
    for pod, node in standing:  # n4 is not known
        if pod.uid not in cluster:
            cluster.assume_pod(pod, node)
    if indexed:  # who has a label is looked up where there are more than a few pods
        for n in range(40):
            cluster.assume_pod(a_pod(f"more-{n}").info(), "n1")
        cluster.table.placed.candidates("default", [("app", "a0")], cluster.table.pods)
        assert cluster.table.placed._by_label
    placed = list(cluster.placed_pods())
    away = [each for n, each in enumerate(placed) if n in leaving]
    looked_at = {pod.uid for n, (pod, _) in enumerate(placed) if n in seen}
    before, returned = _state(cluster), away[:back]

    def found_without(pods: list[Any]) -> Any:
        with cluster.simulate_without(pods):
            return _found(cluster, looked_at)

    gone = found_without([pod for pod, _ in away])
    with_some = found_without([pod for pod, _ in away[back:]])
    with cluster.simulate_freed([pod for pod, _ in away], lambda p: p.uid in looked_at) as room:
        assert _found(cluster, looked_at) == gone

        def come_back() -> None:
            for pod, node in returned:
                if pod.uid in cluster:
                    room.put_back(pod, node)
                else:
                    cluster.simulate_add_pod(pod, node)

        come_back()
        assert _found(cluster, looked_at) == with_some
        for pod, _ in returned:
            if not room.take_again(pod):
                cluster.simulate_remove_pod(pod)
        assert _found(cluster, looked_at) == gone
        come_back()
    assert _state(cluster) == before
    cluster.check_consistent()


def _found(cluster: Cluster, looked_at: set[str]) -> Any:
    """The sums, and which of the pods that are looked at are found, by row and by namespace."""
    table = cluster.table
    on_rows = [sorted(set(pods) & looked_at) for pods in table.pods]
    spaces = table.placed.by_namespace
    labels = table.placed._by_label
    by_label = {
        (space, key, value, uid)
        for space, keys in labels.items()
        for key, values in keys.items()
        for value, rows in values.items()
        for uid in set(rows) & looked_at
    }
    by_space = {space: sorted(set(rows) & looked_at) for space, rows in spaces.items()}
    return _sums(cluster), on_rows, {s: uids for s, uids in by_space.items() if uids}, by_label


@settings(deadline=None, max_examples=50)
@given(st.lists(small_pods, max_size=8), st.sets(st.integers(0, 7)), st.integers(0, 7))
def test_the_room_of_pods_is_free_as_if_they_had_left(
    standing: list[Any], leaving: set[int], back: int
) -> None:
    cluster = a_cluster(*(a_node(f"n{n}") for n in (1, 2, 3)))
    for pod, node in standing:  # n4 is not known
        if pod.uid not in cluster:
            cluster.assume_pod(pod, node)
    placed = list(cluster.placed_pods())
    away = [each for n, each in enumerate(placed) if n in leaving]
    pods = [pod for pod, _ in away]
    with cluster.simulate_without(pods):
        gone = _sums(cluster)
    before = _state(cluster)
    with cluster.simulate_freed(pods, lambda pod: False) as room:
        assert _sums(cluster) == gone
        for pod, node in away[:back]:
            if pod.uid not in room.left:
                room.put_back(pod, node)
        if back < len(away):
            assert not room.take_again(away[back][0]), "it was not put back"
        for pod, _ in away[1:back]:
            room.take_again(pod)
        first = away[:back][:1]
        with_first = [pod for pod, _ in away if not (first and pod is first[0][0])]
        if first and first[0][0].uid not in room.left:
            seen = _sums(cluster)
    assert _state(cluster) == before
    cluster.check_consistent()
    if first and first[0][0].uid not in room.left:
        with cluster.simulate_without(with_first):
            assert _sums(cluster) == seen


def _sums(cluster: Cluster) -> tuple[Any, Any]:
    table = cluster.table
    return table.requested.tolist(), table.nonzero_requested.tolist()


def _state(cluster: Cluster) -> dict[str, Any]:
    table = cluster.table
    return {
        "requested": table.requested.tolist(),
        "non zero": table.nonzero_requested.tolist(),
        "ports": [dict(table.ports.on_row(row)) for row in range(table.size)],
        "pods": [list(pods) for pods in table.pods],
        "by namespace": {ns: dict(rows) for ns, rows in table.placed.by_namespace.items()},
        "affinity": {
            name: {term: dict(rows) for term, rows in terms.rows.items()}
            for name, terms in vars(table.affinity).items()
        },
        "where": {uid: cluster.node_of(uid) for pods in table.pods for uid in pods},
        "assumed": set(cluster.assumed),
    }


def test_when_all_objects_are_gone_nothing_is_kept() -> None:
    cluster = Cluster()
    node: NodeBuilder = a_node("n1").holding("img:1", 1)
    cluster.set_node(node.build())
    cluster.observe_pod(a_pod().host_port(80).near("zone", {"a": "b"}).on("n1").info())
    cluster.observe_pod(a_pod("stray").on("n9").info())
    cluster.remove_node("n1")
    cluster.remove_pod("uid-default-p")
    cluster.remove_pod("uid-default-stray")
    cluster.check_consistent()
    table = cluster.table
    assert (len(cluster), cluster._unknown_node_pods, table.index) == (0, {}, {})
    assert (len(table.images), table.placed.by_namespace) == (0, {})
    assert (table.ports, table.disks) == (HostPorts(), DiskUses())
    assert not table.affinity
