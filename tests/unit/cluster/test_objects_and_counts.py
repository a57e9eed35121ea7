"""The store of other objects, and counts of pods that keep themselves current."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec
import pytest

from arranger.api.types.core import Namespace, Node, Pod
from arranger.api.types.storage import PersistentVolumeClaim
from arranger.api.types.workloads import Service
from arranger.cluster.nodes.node_table import NodeTable
from arranger.cluster.nodes.row_change import RowChange
from arranger.cluster.nodes.selector_counts import SelectorCountCache, SelectorCounts
from arranger.cluster.object_store import ObjectStore
from arranger.cluster.pod_info import PodInfo
from tests.builders import a_cluster, a_node, a_pod
from tests.storage import a_claim


def _service(name: str, namespace: str = "default") -> Service:
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}}, Service)


def test_objects_are_found_by_kind_namespace_and_name() -> None:
    store = ObjectStore()
    store.set(_service("a"))
    store.set(_service("b", "other"))
    assert [s.metadata.name for s in store.in_namespace(Service, "default")] == ["a"]
    assert store.get(Service, "other", "b") is not None
    assert store.get(Service, "default", "b") is None
    assert store.get(Namespace, "default", "a") is None


def test_every_change_of_the_store_is_numbered() -> None:
    store = ObjectStore()
    assert store.set(_service("a")) is None
    assert store.set(_service("a")) is not None
    assert store.version == 1  # a new version of the object that says the same changes nothing
    store.remove(_service("a"))
    store.remove(_service("a"))
    assert store.version == 2
    assert list(store.in_namespace(Service, "default")) == []


def _namespace(name: str, labels: dict[str, str] | None = None, note: str = "") -> Namespace:
    metadata = {"name": name, "labels": labels or {}, "annotations": {"note": note}}
    return msgspec.convert({"metadata": metadata}, Namespace)


#: Sentence → an object that is set or (the first being false) removed, and the namespaces, of
#: "default" and "other", for whose pods that changes something.
CHANGES: dict[str, tuple[bool, Service | Namespace, str]] = {
    "a Service comes": (True, _service("new"), "default"),
    "a Service goes": (False, _service("there", "other"), "other"),
    "a Service of an unknown namespace": (True, _service("new", "gone"), "default other"),
    "another label of a namespace": (True, _namespace("other", {"a": "b"}), "default other"),
    "another note of a namespace": (True, _namespace("other", note="another"), "default other"),
    "a namespace comes": (True, _namespace("third"), "default other"),
    "a namespace goes": (False, _namespace("other"), "default other"),
}


@pytest.mark.parametrize(("comes", "obj", "concerned"), CHANGES.values(), ids=CHANGES)
def test_for_whose_pods_something_changes(
    comes: bool, obj: Service | Namespace, concerned: str
) -> None:
    store = ObjectStore()
    for there in (
        _namespace("default"),
        _namespace("other"),
        _service("there"),
        _service("there", "other"),
    ):
        store.set(there)
    before = {name: store.version_for(name) for name in ("default", "other")}
    (store.set if comes else store.remove)(obj)
    changed = [name for name, version in before.items() if store.version_for(name) != version]
    assert changed == concerned.split()


def test_a_namespace_that_comes_back_is_not_taken_for_what_it_was() -> None:
    store = ObjectStore()
    store.set(_namespace("default"))
    before = store.version_for("default")
    store.remove(_namespace("default"))
    store.set(_namespace("default"))
    assert store.version_for("default") != before


NODE = a_node("n").holding("i", 1)

#: Sentence → the node as it is shown next, and what that is taken for.
NODES: dict[str, tuple[Node, RowChange | None]] = {
    "nothing but a version": (
        msgspec.structs.replace(
            NODE.build(),
            metadata=msgspec.structs.replace(NODE.build().metadata, resource_version="9"),
        ),
        None,
    ),
    "another image": (NODE.holding("j", 1).build(), RowChange.IMAGES),
    "an annotation": (NODE.annotated({"a": "b"}).build(), RowChange.NOTES),
    "a condition": (NODE.saying(Ready="False").build(), RowChange.NOTES),
    "a condition and an image": (
        NODE.saying(Ready="False").holding("j", 1).build(),
        RowChange.NOTES,
    ),
    "a label and an annotation": (
        NODE.labelled(a="b").annotated({"a": "b"}).build(),
        RowChange.NODE,
    ),
    "a label": (NODE.labelled(a="b").build(), RowChange.NODE),
    "a label and an image": (NODE.labelled(a="b").holding("j", 1).build(), RowChange.NODE),
    "a taint": (NODE.tainted("t").build(), RowChange.NODE),
    "more room": (NODE.offers(cpu=9).build(), RowChange.NODE),
    "another node of that name": (
        msgspec.structs.replace(
            NODE.build(), metadata=msgspec.structs.replace(NODE.build().metadata, uid="another")
        ),
        RowChange.NODE,
    ),
}


@pytest.mark.parametrize(("after", "expected"), NODES.values(), ids=NODES)
def test_what_an_update_of_a_node_changes(after: Node, expected: RowChange | None) -> None:
    table = NodeTable()
    row = table.set_node(NODE.build())
    version, nodes, images = table.version, table.nodes_version, table.minor_version
    assert table.set_node(after) == row
    assert table.node(row) == after
    assert table.changed_since(version) == ([] if expected is None else [(expected, row)])
    assert table.nodes_version == nodes + (expected is RowChange.NODE)
    assert table.minor_version == images + (expected in (RowChange.IMAGES, RowChange.NOTES))


def test_an_unknown_namespace_has_no_labels() -> None:
    assert ObjectStore().namespace_labels("gone") == {}


CLAIM = a_claim().build()
CHOSEN = a_claim().annotated(chosen="n1").build()


@pytest.fixture
def store() -> ObjectStore:
    """A store in which a claim is assumed to be in another state."""
    store = ObjectStore()
    store.set(CLAIM)
    store.assume(CHOSEN)
    return store


def _claim(store: ObjectStore) -> PersistentVolumeClaim | None:
    return store.get(PersistentVolumeClaim, "default", "data")


def test_what_is_assumed_counts_until_something_newer_is_shown(store: ObjectStore) -> None:
    assert _claim(store) == CHOSEN
    assert store.set(CLAIM) == CLAIM, "what the API showed before"
    assert _claim(store) == CHOSEN, "the list repeats what was known"
    newer = a_claim().at_version("2").build()
    assert store.set(newer) == CLAIM
    assert _claim(store) == newer
    assert not store.is_assumed(CHOSEN)
    store.restore(CHOSEN)
    assert _claim(store) == newer


def test_what_is_given_up_is_as_it_was(store: ObjectStore) -> None:
    store.restore(CHOSEN)
    store.restore(CHOSEN)
    assert _claim(store) == CLAIM


def test_an_assumption_ends_with_its_object(store: ObjectStore) -> None:
    store.remove(CLAIM)
    store.restore(CHOSEN)
    assert _claim(store) is None
    with pytest.raises(ValueError, match="cannot be assumed"):
        store.assume(CHOSEN)


def test_nothing_is_assumed_twice(store: ObjectStore) -> None:
    with pytest.raises(ValueError, match="cannot be assumed"):
        store.assume(CHOSEN)


def test_changes_of_storage_are_told_and_leave_other_pods_alone(store: ObjectStore) -> None:
    assert store.version == 0
    assert store.storage_changed_since(1) == [CHOSEN]
    store.set(a_claim().annotated(chosen="n1").at_version("2").build())
    assert store.storage_version == 2, "the API shows what was assumed, and nothing else"
    store.remove(CLAIM)
    assert store.storage_version == 3


def test_the_log_of_storage_does_not_grow_for_ever() -> None:
    store = ObjectStore()
    for n in range(20_000):
        store.set(_numbered(n))
    assert store.storage_changed_since(0) is None
    assert len(store.storage_changed_since(store.storage_version - 1) or ()) == 1


def _numbered(n: int) -> PersistentVolumeClaim:
    metadata = msgspec.structs.replace(CLAIM.metadata, labels={"n": str(n)})
    return msgspec.structs.replace(CLAIM, metadata=metadata)


def test_objects_of_all_namespaces_are_found() -> None:
    store = ObjectStore()
    for namespace in ("a", "b"):
        store.set(_service("s", namespace))
    assert [s.metadata.namespace for s in store.in_all_namespaces(Service)] == ["a", "b"]


def _is_web(pod: PodInfo) -> bool:
    return pod.pod.metadata.labels.get("app") == "web"


def test_counts_follow_pods_and_nodes() -> None:
    cluster = a_cluster(a_node("n1"), a_node("n2"), a_pod("a").labelled(app="web").on("n1"))
    counts = SelectorCounts(cluster.table, frozenset({"default"}), _is_web)
    assert counts.by_row().tolist() == [1, 0]
    cluster.observe_pod(a_pod("b").labelled(app="web").on("n2").info())
    cluster.observe_pod(a_pod("c").labelled(app="db").on("n2").info())
    cluster.observe_pod(a_pod("d").in_namespace("other").labelled(app="web").on("n2").info())
    assert counts.by_row().tolist() == [1, 1]
    cluster.remove_pod("uid-default-a")
    assert counts.by_row().tolist() == [0, 1]
    cluster.remove_node("n2")
    assert counts.by_row().tolist() == [0, 0]
    for n in range(100):
        cluster.set_node(a_node(f"m{n}").build())
    cluster.observe_pod(a_pod("e").labelled(app="web").on("m99").info())
    assert counts.by_row().sum() == 1
    assert counts.by_row()[cluster.table.index["m99"]] == 1


class _Unread(list[tuple[RowChange, int]]):
    """Changes that nobody may go through."""

    def __iter__(self) -> Iterator[tuple[RowChange, int]]:
        raise AssertionError("it costs more to go through these than to count anew")


def test_of_more_changes_than_nodes_nobody_asks_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = a_cluster(*(a_node(f"n{n}") for n in range(4)))
    labels = [("app", "web")]
    counts = SelectorCounts(cluster.table, frozenset({"default"}), _is_web, labels=labels)
    cluster.observe_pod(a_pod("w").labelled(app="web").on("n1").info())
    assert counts.by_row().tolist() == [0, 1, 0, 0]
    others = [a_pod(f"o{n}").on(f"n{n % 4}").info() for n in range(40)]
    for pod in others:
        cluster.observe_pod(pod)
    cluster.observe_pod(a_pod("x").labelled(app="web").on("n3").info())
    known = NodeTable.changed_since
    monkeypatch.setattr(NodeTable, "changed_since", lambda self, at: _Unread(known(self, at) or ()))
    assert counts.by_row().tolist() == [0, 1, 0, 1]


def test_counts_over_all_namespaces() -> None:
    cluster = a_cluster(a_node("n1"), a_pod("a").in_namespace("x").labelled(app="web").on("n1"))
    assert SelectorCounts(cluster.table, None, _is_web).by_row().tolist() == [1]
    assert SelectorCounts(cluster.table, frozenset({"y"}), _is_web).by_row().tolist() == [0]


def test_equal_questions_share_their_counts_and_old_ones_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arranger.cluster.nodes.selector_counts._MAX_CACHED", 2)
    cache = SelectorCountCache(a_cluster(a_node("n1")).table)
    first = cache.get("a", None, _is_web)
    assert cache.get("a", None, _is_web) is first
    cache.get("b", None, _is_web)
    cache.get("a", None, _is_web)
    cache.get("c", None, _is_web)
    assert cache.get("a", None, _is_web) is first, "the one not used longest goes"
    assert len(cache._counts) == 2


@pytest.mark.parametrize("most", [0, 60, 50_000])
def test_counts_that_look_labels_up_equal_those_that_look_at_every_pod(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("arranger.cluster.nodes.placed_pods._MANY_PODS", most)
    random, cluster = Random(1), a_cluster(*(a_node(f"n{n}") for n in range(40)))
    looked_up = {
        (key, value): SelectorCounts(
            cluster.table,
            frozenset({"default"}),
            lambda pod, key=key, value=value: pod.pod.metadata.labels.get(key) == value,
            labels=[(key, value)],
        )
        for key in map(str, range(10))  # more keys than are kept
        for value in "ab"
    }
    present: dict[str, Pod] = {}
    for n in range(600):
        labels = {str(k): random.choice("abc") for k in range(10) if random.random() < 0.7}
        pod = a_pod(f"p{n}").labelled(labels).on(f"n{random.randrange(41)}")  # one of no node
        pod = pod.in_namespace("other") if random.random() < 0.1 else pod
        cluster.observe_pod(pod.info())
        present[pod.info().uid] = pod.build()
        if random.random() < 0.3:
            gone = random.choice(list(present))
            cluster.remove_pod(gone)
            del present[gone]
        if n == 300:
            cluster.remove_node("n7")
        if random.random() < 0.1:
            for (key, value), counts in looked_up.items():
                expected = [0] * cluster.table.size
                for other in present.values():
                    row = cluster.table.index.get(other.spec.node_name)
                    here = other.metadata.namespace == "default"
                    if row is not None and here and other.metadata.labels.get(key) == value:
                        expected[row] += 1
                assert counts.by_row().tolist() == expected
    cluster.check_consistent()
    for uid in list(present):
        cluster.remove_pod(uid)
    assert not cluster.table.placed.by_namespace
    assert not cluster.table.placed._by_label
