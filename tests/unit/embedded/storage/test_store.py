"""The store: order, finders, history, listeners."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.embedded.storage.store import Change, Store

Object = dict[str, Any]


def an_object(
    name: str, namespace: str = "", uid: str = "", owners: tuple[str, ...] = ()
) -> Object:
    meta: Object = {"name": name, "uid": uid or f"uid-{namespace}-{name}"}
    if namespace:
        meta["namespace"] = namespace
    if owners:
        meta["ownerReferences"] = [{"uid": owner} for owner in owners]
    return {"metadata": meta}


def names(found: list[Object]) -> list[str]:
    return [f"{o['metadata'].get('namespace', '')}/{o['metadata']['name']}" for o in found]


def test_objects_are_in_the_order_of_etcds_keys() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a", "y"), ("a-b", "x"), ("a", "x-1"), ("a", "x")):
        store.put("/pods", an_object(name, namespace))
    # "-" comes before "/", so a namespace may lie between the halves of none.
    assert names(store.items("/pods")) == ["a-b/x", "a/x", "a/x-1", "a/y", "b/x"]


@pytest.mark.parametrize(
    ("namespace", "found"),
    {
        "one that others begin with": ("a", ["a/x", "a/y"]),
        "one that begins like another": ("a-b", ["a-b/x"]),
        "one that is empty": ("c", []),
        "one of digits": ("0", ["0/x"]),
    }.values(),
)
def test_a_namespace_has_its_own(namespace: str, found: list[str]) -> None:
    store = Store()
    for place in ("a/x", "a/y", "a-b/x", "a0/x", "aa/x", "0/x"):
        owner, name = place.split("/")
        store.put("/pods", an_object(name, owner))
    assert names(store.items("/pods", namespace)) == found


def test_every_write_has_the_next_version() -> None:
    store = Store()
    start = store.version
    made = store.put("/pods", an_object("p"))
    changed = store.put("/nodes", an_object("n"))
    last = store.remove("/pods", ("", "p"))
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (made, changed, last)]
    assert versions == [start + 1, start + 2, start + 3]
    assert store.version == start + 3


def test_an_object_is_found_by_its_uid_while_it_is_there() -> None:
    store = Store()
    made = store.put("/pods", an_object("p", uid="u"))
    assert store.find_by_uid("u") == ("/pods", made)
    again = store.put("/pods", an_object("p", uid="v"))
    assert (store.find_by_uid("u"), store.find_by_uid("v")) == (None, ("/pods", again))
    store.remove("/pods", ("", "p"))
    assert store.find_by_uid("v") is None


def test_dependents_are_found_while_they_name_their_owner() -> None:
    store = Store()
    store.put("/pods", an_object("p", owners=("one", "two")))
    store.put("apps/replicasets", an_object("r", owners=("one",)))
    assert [resource for resource, _ in store.owned_by("one")] == ["/pods", "apps/replicasets"]
    store.put("/pods", an_object("p", owners=("two",)))
    assert [resource for resource, _ in store.owned_by("one")] == ["apps/replicasets"]
    store.remove("apps/replicasets", ("", "r"))
    assert store.owned_by("one") == []
    assert names([obj for _, obj in store.owned_by("two")]) == ["/p"]


def test_the_json_of_a_version_is_made_once_and_never_stale() -> None:
    store = Store()
    first = store.put("/pods", an_object("p"))
    encoded = store.json("/pods", first)
    assert msgspec.json.decode(encoded) == first
    assert store.json("/pods", first) is encoded
    second = store.put("/pods", an_object("p", uid="other"))
    assert msgspec.json.decode(store.json("/pods", second)) == second
    assert msgspec.json.decode(store.json("/pods", first)) == first
    last = store.remove("/pods", ("", "p"))
    assert msgspec.json.decode(store.json("/pods", last)) == last


def test_the_window_slides_over_the_oldest_writes() -> None:
    store = Store(history_limit=3)
    for n in range(5):
        store.put("/pods", an_object(f"p{n}"))
    assert store.compacted == store.version - 3
    kept = [change.after["metadata"]["name"] for change in store.changes_since(store.compacted)]
    assert kept == ["p2", "p3", "p4"]
    assert [c.after["metadata"]["name"] for c in store.changes_since(store.version - 1)] == ["p4"]
    assert list(store.changes_since(store.version)) == []


def test_compaction_forgets_everything() -> None:
    store = Store()
    store.put("/pods", an_object("p"))
    store.compact()
    assert (store.compacted, list(store.changes_since(0))) == (store.version, [])
    store.put("/pods", an_object("q"))
    assert [change.type for change in store.changes_since(store.compacted)] == ["ADDED"]


def test_a_resource_that_began_late_has_no_past() -> None:
    store = Store()
    store.put("/pods", an_object("p"))
    store.start_resource("a.io/widgets")
    assert store.oldest_watchable_version("a.io/widgets") == store.version
    assert store.oldest_watchable_version("/pods") == 0
    store.compact()
    assert store.oldest_watchable_version("/pods") == store.version


def test_listeners_hear_of_their_resource_until_they_leave() -> None:
    store = Store()
    of_pods: list[Change] = []
    of_all: list[Change] = []
    leave = store.subscribe(of_pods.append, "/pods")
    store.subscribe(of_all.append)
    store.put("/pods", an_object("p"))
    store.put("/nodes", an_object("n"))
    store.put("/pods", an_object("p"))
    store.remove("/pods", ("", "p"))
    assert [change.type for change in of_pods] == ["ADDED", "MODIFIED", "DELETED"]
    leave()
    store.put("/pods", an_object("q"))
    assert (len(of_pods), len(of_all)) == (3, 5)


def test_a_listener_may_leave_while_it_is_told() -> None:
    store = Store()
    heard: list[str] = []

    def once(change: Change) -> None:
        heard.append(change.type)
        leave()

    leave = store.subscribe(once, "/pods")
    store.subscribe(lambda change: heard.append("other"), "/pods")
    for n in range(2):
        store.put("/pods", an_object(f"p{n}"))
    assert heard == ["ADDED", "other", "other"]


def test_what_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(KeyError):
        Store().remove("/pods", ("", "p"))
    assert Store().get("/pods", ("", "p")) is None
