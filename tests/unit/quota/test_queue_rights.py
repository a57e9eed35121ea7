"""Which queues namespaces may use, and what is believed of their pods there."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from arranger.api.types.core import Namespace
from arranger.api.types.pod_groups import (
    AnyPodGroup,
    CommunityPodGroup,
    SigsPodGroup,
    VolcanoPodGroup,
)
from arranger.cluster.nodes.node_table import NodeTable
from arranger.quota.ledger import QuotaLedger
from arranger.quota.queue_spec import read_queue
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.quota.test_ledger import QuotaHarness

Rights = dict[str, Any]
ML = {"matchLabels": {"team": "ml"}}
NOT_ML = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["ml"]}]}


def namespace(name: str, **labels: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)


def quota(*queues: object) -> QuotaHarness:
    """The namespaces ``default``, without labels, and ``ml``."""
    harness = QuotaHarness(*queues)
    harness.cluster.set_node(a_node("n").build())
    for each in (namespace("default"), namespace("ml", team="ml")):
        harness.ledger.rights.set_namespace(each)
    return harness


#: The rights of a queue and of the one above it; whether pods of ``ml`` and ``default`` may use it.
WHO: dict[str, tuple[Rights, Rights, tuple[bool, bool]]] = {
    "silence: all": ({}, {}, (True, True)),
    "an empty selector: all": ({"namespaceSelector": {}}, {}, (True, True)),
    "by a label": ({"namespaceSelector": ML}, {}, (True, False)),
    "by the lack of one": ({"namespaceSelector": NOT_ML}, {}, (False, True)),
    "the queue above it says so": ({}, {"namespaceSelector": ML}, (True, False)),
    "both must allow it": (
        {"namespaceSelector": ML},
        {"namespaceSelector": NOT_ML},
        (False, False),
    ),
    "what cannot be read allows nobody": (
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Is"}]}},
        {},
        (False, False),
    ),
}


@pytest.mark.parametrize(("own", "above", "expected"), WHO.values(), ids=WHO.keys())
def test_who_may_use_a_queue(own: Rights, above: Rights, expected: tuple[bool, bool]) -> None:
    ledger = quota(a_queue("top", **above), a_queue("q", parent="top", **own)).ledger
    assert tuple(ledger.rights.may_use("q", name) for name in ("ml", "default")) == expected


def _limited(**rights: Any) -> list[Any]:
    """``q`` below ``top``, and ``other``, which is for ``ml`` all along."""
    return [
        a_queue("top"),
        a_queue("q", parent="top", **rights),
        a_queue("other", namespaceSelector=ML),
    ]


#: What becomes of ``q``, which was for ``ml`` or for all; who of ``ml`` and ``default`` may use it
#: then.
EDITS: dict[str, tuple[Rights, Any, tuple[bool, bool]]] = {
    "others may use it": (
        {"namespaceSelector": ML},
        a_queue("q", namespaceSelector=NOT_ML),
        (False, True),
    ),
    "all may use it": ({"namespaceSelector": ML}, a_queue("q"), (True, True)),
    "not all may use it": ({}, a_queue("q", namespaceSelector=ML), (True, False)),
    "the queue above it is not for all": ({}, a_queue("top", namespaceSelector=ML), (True, False)),
    "it moves below another": (
        {"namespaceSelector": NOT_ML},
        a_queue("q", parent="other", namespaceSelector=NOT_ML),
        (False, False),
    ),
    "it is deleted": ({"namespaceSelector": ML}, None, (True, True)),
}


@pytest.mark.parametrize(("rights", "edited", "expected"), EDITS.values(), ids=EDITS.keys())
def test_an_edit_of_queues_counts_for_who_was_asked_about_before(
    rights: Rights, edited: Any, expected: tuple[bool, bool]
) -> None:
    harness = quota(*_limited(**rights))
    asked = partial(map, partial(harness.ledger.rights.may_use, "q"), ("ml", "default"))
    assert tuple(asked()) != expected
    if edited is None:
        harness.ledger.remove_queue("q")
    else:
        harness.ledger.set_queue(edited)
    assert tuple(asked()) == expected


def test_a_namespace_that_has_not_been_seen_may_use_what_is_for_all_only() -> None:
    rights = quota(a_queue("q", namespaceSelector=NOT_ML), a_queue("open")).ledger.rights
    assert (rights.may_use("q", "new"), rights.may_use("open", "new")) == (False, True)
    assert rights.set_namespace(namespace("new"))
    assert rights.may_use("q", "new")
    assert rights.remove_namespace("new")
    assert not rights.may_use("q", "new")


def test_labels_that_no_answer_depends_on_change_nothing() -> None:
    rights = quota(a_queue("q", namespaceSelector=ML)).ledger.rights
    assert rights.may_use("q", "ml")
    assert not rights.set_namespace(namespace("ml", team="ml", colour="red"))
    assert not rights.set_namespace(namespace("new", team="ml")), "nobody has asked about it"
    assert rights.set_namespace(namespace("ml"))


def of(name: str, where: str, queue: str) -> PodBuilder:
    return a_pod(name).in_namespace(where).in_queue(queue).needs(cpu=1)


def test_who_may_not_use_a_queue_is_charged_to_the_default_queue_instead() -> None:
    books = quota(a_queue("q", namespaceSelector=ML), a_queue("default"))
    books.place(of("a", "ml", "q"), of("b", "default", "q"))
    assert (books.used("q"), books.used("default")) == ({"cpu": 1000}, {"cpu": 1000})
    why = books.ledger.why_refused(of("c", "default", "q").info())
    assert why == "Queue <q> is not for namespace <default>"
    assert not books.ledger.why_refused(of("d", "ml", "q").info())


def test_what_is_charged_follows_the_rights_when_these_change() -> None:
    books = quota(a_queue("q", capability={"cpu": 4}), a_queue("default"))
    books.place(of("a", "ml", "q"), of("b", "default", "q"))
    assert books.used("q") == {"cpu": 2000}
    books.ledger.set_queue(a_queue("q", capability={"cpu": 4}, namespaceSelector=ML))
    assert books.used("q") == {"cpu": 1000}
    books.ledger.rights.set_namespace(namespace("default", team="ml"))
    books.ledger.mark_stale()
    assert books.used("q") == {"cpu": 2000}


#: Types that are believed, what the pod says, and as what it counts.
SERVICES: dict[str, tuple[list[str] | None, str, tuple[str, bool]]] = {
    "silence: all": (None, "inference", ("inference", True)),
    "one that is believed": (["training"], "training", ("training", True)),
    "one that is not": (["training"], "inference", ("", False)),
    "no list member at all": ([], "training", ("", False)),
    "what follows from the owner is no better": (["training"], "", ("", False)),
}


@pytest.mark.parametrize(("believed", "says", "expected"), SERVICES.values(), ids=SERVICES.keys())
def test_which_service_types_are_believed(
    believed: list[str] | None, says: str, expected: tuple[str, bool]
) -> None:
    books = quota(a_queue("q", **({} if believed is None else {"serviceTypes": believed})))
    assert books.ledger.service_of(of("p", "ml", "q").serving(says).info()) == expected


def test_the_least_of_the_priorities_that_queues_believe_counts() -> None:
    rights = quota(
        a_queue("top", maxPriority=100), a_queue("q", parent="top", maxPriority=7), a_queue("open")
    ).ledger.rights
    assert [rights.believed_priority(q, 1000) for q in ("q", "top", "open")] == [7, 100, 1000]
    assert rights.believed_priority("q", -5) == -5


def test_what_is_wrong_with_rights_is_told() -> None:
    selector = {"matchExpressions": [{"key": "team", "operator": "Is", "values": ["x"]}]}
    queue = a_queue("q", namespaceSelector=selector, serviceTypes=["Training", "inference"])
    assert read_queue(queue).problems == [
        "spec.namespaceSelector: team Is x: matches nothing",
        "spec.serviceTypes: Training is unknown",
    ]


class OneGroup:
    """All pods are of one PodGroup."""

    def __init__(self, group: AnyPodGroup) -> None:
        self._group = group

    def pod_group_of(self, uid: str) -> AnyPodGroup:
        return self._group


@pytest.mark.parametrize("kind", [SigsPodGroup, CommunityPodGroup, VolcanoPodGroup])
@pytest.mark.parametrize("named", ["", "open", "ml"])
def test_a_group_is_in_the_queue_of_its_pods(kind: type[AnyPodGroup], named: str) -> None:
    manifest = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"queue": named}}
    group = msgspec.convert(manifest, kind)
    ledger = QuotaLedger(NodeTable(), pod_groups=OneGroup(group))
    ledger.set_queue(a_queue("open"))
    ledger.set_queue(a_queue("ml", namespaceSelector=ML))
    ledger.rights.set_namespace(namespace("default"))
    pod = a_pod().info()
    queue, is_stated = ledger.queue_of_group(group)
    assert queue == ledger.queue_name(pod) == ("open" if named == "open" else "default")
    assert is_stated == (queue == ledger.stated_queue(pod))


def test_whose_word_is_not_believed_is_what_its_owner_makes_it() -> None:
    table = NodeTable()
    ledger = QuotaLedger(table, service_by_owner={"Job": "training", "Deployment": "inference"})
    ledger.set_queue(a_queue("q", serviceTypes=["training"]))
    stated = a_pod().in_queue("q").serving("inference")
    by_owner = {kind: stated.owned_by(kind, "x").info() for kind in ("Job", "Deployment")}
    assert ledger.service_of(by_owner["Job"]) == ("training", False)
    assert ledger.service_of(by_owner["Deployment"]) == ("", False)
    assert ledger.service_of(stated.info()) == ("", False)
