"""Lists: pages of one moment, and what cannot be listed."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from arranger.embedded.server import EmbeddedCluster
from arranger.kube.client.transport import Request

Object = dict[str, Any]
NODES = "/api/v1/nodes"


@pytest.fixture
def cluster() -> EmbeddedCluster:
    cluster = EmbeddedCluster(rng=random.Random(1))
    for name in "abcde":
        add(cluster, name)
    return cluster


def add(cluster: EmbeddedCluster, name: str, **labels: str) -> None:
    meta = {"name": name, "labels": labels}
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})


def delete(cluster: EmbeddedCluster, name: str) -> None:
    assert cluster.handle(Request("DELETE", f"{NODES}/{name}")).status == 200


def get(cluster: EmbeddedCluster, **query: str) -> Object:
    answer = cluster.handle(Request("GET", NODES, query))
    assert isinstance(answer.body, dict)
    return answer.body


def names(page: Object) -> str:
    return "".join(item["metadata"]["name"] for item in page["items"])


def test_pages_show_one_moment_whatever_happens_meanwhile(cluster: EmbeddedCluster) -> None:
    page = get(cluster, limit="2")
    version = page["metadata"]["resourceVersion"]
    assert (names(page), page["metadata"]["remainingItemCount"]) == ("ab", 3)
    add(cluster, "bb")
    delete(cluster, "d")
    delete(cluster, "c")
    add(cluster, "c", late="yes")
    page = get(cluster, limit="2", **{"continue": page["metadata"]["continue"]})
    assert names(page) == "cd"
    assert "late" not in page["items"][0]["metadata"].get("labels", {})
    assert page["metadata"]["resourceVersion"] == version
    page = get(cluster, limit="2", **{"continue": page["metadata"]["continue"]})
    assert names(page) == "e"
    assert "continue" not in page["metadata"]
    assert names(get(cluster)) == "abbbce"


def test_pages_of_a_selection_do_not_tell_how_many_are_left(cluster: EmbeddedCluster) -> None:
    page = get(cluster, limit="2", labelSelector="!x")
    assert names(page) == "ab"
    assert "remainingItemCount" not in page["metadata"]


def test_the_past_is_shown_exactly_while_it_is_remembered(cluster: EmbeddedCluster) -> None:
    version = get(cluster)["metadata"]["resourceVersion"]
    delete(cluster, "a")
    query = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert names(get(cluster, **query)) == "abcde"
    cluster.store.compact()
    add(cluster, "f")
    gone = get(cluster, **query)
    assert (gone["code"], gone["reason"]) == (410, "Expired")


def test_a_page_of_a_forgotten_moment_is_gone(cluster: EmbeddedCluster) -> None:
    token = get(cluster, limit="2")["metadata"]["continue"]
    add(cluster, "f")
    cluster.store.compact()
    gone = get(cluster, limit="2", **{"continue": token})
    assert (gone["code"], gone["reason"]) == (410, "Expired")


def _token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


REFUSED = {
    "no token": ({"continue": "?"}, 400),
    "a token of no JSON": ({"continue": _token("x")}, 400),
    "a token of another form": ({"continue": _token(json.dumps([1]))}, 400),
    "a token without a version": ({"continue": _token('{"k": "a"}')}, 400),
    "a limit that is no number": ({"limit": "x"}, 400),
    "a version that is no number": ({"resourceVersion": "x"}, 400),
    "a version to come": ({"resourceVersion": "99999"}, 504),
    "a match without a version": ({"resourceVersionMatch": "Exact"}, 422),
    "a match of no kind": ({"resourceVersion": "1", "resourceVersionMatch": "Odd"}, 422),
    "nothing exactly": ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422),
}


@pytest.mark.parametrize(("query", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(cluster: EmbeddedCluster, query: dict[str, str], code: int) -> None:
    assert get(cluster, **query)["code"] == code
