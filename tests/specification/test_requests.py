"""The specification objects to requests that are wrong, done or not, and to nothing near them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.specification.premises import Premises
from tests.specification.requests import Asked, RequestBook
from tests.specification.traces import Trace, a_node, a_pod

A, B = (
    Asked("one", "bind", "default/p", "Pod-p", "n1"),
    Asked("one", "bind", "default/p", "Pod-p", "n2"),
)
BY_TWO = Asked("two", "bind", "default/p", "Pod-p", "n2")
BY_AN_EXTENDER = Asked("the extender", "bind", "default/p", "Pod-p", "n1")
GONE = Asked("one", "evict", "default/p", "Pod-p")
#: Another part of the process reads the pod for itself.
OTHER_READ = Asked("one", "read", "default/p", "", number=1)
READ, LIST = Asked("one", "read", "default/p", ""), Asked("one", "list", "", "")


def book(*happened: tuple[str, Asked | float], extenders_may_fail: bool = False) -> RequestBook:
    """What is asked, done by the server, heard; and ``passes`` so many seconds."""
    premises = Premises(schedulers={"one", "two"}, extenders_may_fail=extenders_may_fail)
    found = RequestBook(premises)
    trace = Trace().has(a_node("n1"), a_node("n2"), a_pod("p"))
    for what, which in happened:
        if isinstance(which, float):
            trace.passes(which)
            continue
        match what:
            case "sends":
                found.sent(which, trace.now)
            case "does":
                found.done(which)
                if which.verb == "bind":
                    trace.binds("p", which.node, by=which.by)
                    found.take(trace.steps[-1])
            case "hears":
                found.told(which)
            case "hears nothing":
                found.told(which, 0)
            case "hears of a fault":
                found.told(which, 503)
            case "hears of a conflict":
                found.told(which, 409)
            case "hears that it is forbidden":
                found.told(which, 403)
    return found


SENT_AND_DONE = (("sends", A), ("does", A))
CASES: dict[str, tuple[Sequence[tuple[str, Asked | float]], str]] = {
    "a pod is bound": ((*SENT_AND_DONE, ("hears", A)), ""),
    "the same is asked again where the answer is lost": ((*SENT_AND_DONE, ("sends", A)), ""),
    "the same is asked again after its answer": (
        (*SENT_AND_DONE, ("hears", A), ("sends", A)),
        "a_pod_is_asked_for_once",
    ),
    "a pod is asked for that somebody else has bound a moment ago": (
        (("does", BY_TWO), ("passes", 1.0), ("sends", A)),
        "",
    ),
    "a pod is asked for that was read, bound by somebody else": (
        (("does", BY_TWO), ("passes", 1.0), ("sends", READ), ("hears", READ), ("sends", A)),
        "a_pod_is_asked_for_once",
    ),
    "the same is asked again until it is answered, though it was read meanwhile": (
        (
            *(("sends", A), ("does", A), ("hears nothing", A), ("passes", 1.0)),
            *(("sends", READ), ("hears", READ), ("passes", 200.0), ("sends", A)),
        ),
        "",
    ),
    "a node is asked for though another part has read the pod on another": (
        (
            *(("sends", A), ("does", BY_TWO), ("hears nothing", A), ("passes", 1.0)),
            *(("sends", READ), ("hears", READ), ("sends", A)),
        ),
        "a_pod_is_asked_for_once",
    ),
    "the same is asked again before any answer, though another part has read the pod": (
        (
            *SENT_AND_DONE,
            ("passes", 1.0),
            ("sends", OTHER_READ),
            ("hears", OTHER_READ),
            ("sends", A),
        ),
        "",
    ),
    "a node is asked for to which somebody else has bound the pod, and that was read": (
        (
            *(("does", BY_AN_EXTENDER), ("passes", 0.1)),
            *(("sends", READ), ("hears", READ), ("sends", A)),
        ),
        "a_pod_is_asked_for_once",
    ),
    "a node is asked for after a read that began before the pod was bound": (
        (
            *(("sends", READ), ("passes", 1.0), ("does", BY_TWO), ("passes", 1.0)),
            *(("sends", OTHER_READ), ("hears", READ), ("sends", A)),
        ),
        "",
    ),
    "and after one that began when it was, though an earlier one is still under way": (
        (
            *(("sends", READ), ("passes", 1.0), ("does", BY_TWO), ("passes", 1.0)),
            *(("sends", OTHER_READ), ("hears", OTHER_READ), ("sends", A)),
        ),
        "a_pod_is_asked_for_once",
    ),
    "the same is asked again after a conflict that nothing explains, whatever another part reads": (
        (
            *(*SENT_AND_DONE, ("hears of a conflict", A), ("passes", 1.0), ("sends", READ)),
            *(("sends", OTHER_READ), ("hears", OTHER_READ), ("hears nothing", READ), ("sends", A)),
        ),
        "",
    ),
    "a node is asked for again after a conflict with another's Binding, while the watch is late": (
        (
            *(("sends", A), ("does", BY_TWO), ("hears of a conflict", A), ("passes", 1.0)),
            *(("sends", READ), ("hears", READ), ("sends", A)),
        ),
        "",
    ),
    "a node is asked for again after a conflict with the process's own Binding": (
        (
            *(*SENT_AND_DONE, ("hears of a conflict", A), ("passes", 1.0)),
            *(("sends", READ), ("hears", READ), ("sends", A)),
        ),
        "a_pod_is_asked_for_once",
    ),
    "and when it must have come": (
        (
            *(("sends", A), ("does", BY_TWO), ("hears of a conflict", A), ("passes", 1.0)),
            *(("sends", READ), ("hears", READ), ("passes", 60.0), ("sends", A)),
        ),
        "a_pod_is_asked_for_once",
    ),
    "another node is asked where the answer is lost": (
        (*SENT_AND_DONE, ("sends", B)),
        "a_pod_is_asked_for_once",
    ),
    "another node is asked while the first request is still on its way": (
        (("sends", A), ("sends", B), ("does", B)),
        "",
    ),
    "another node is asked and nobody has answered about the first": (
        (("sends", A), ("hears nothing", A), ("sends", B)),
        "nothing_is_asked_on_doubt",
    ),
    "another node is asked after a fault of the server": (
        (("sends", A), ("hears of a fault", A), ("sends", B)),
        "nothing_is_asked_on_doubt",
    ),
    "another node is asked after a fault and a refusal for another reason": (
        (("sends", A), ("hears nothing", A), ("hears that it is forbidden", A), ("sends", B)),
        "nothing_is_asked_on_doubt",
    ),
    "reading the pod does not tell what a lost request may still do": (
        (("sends", A), ("hears nothing", A), ("sends", READ), ("hears", READ), ("sends", B)),
        "nothing_is_asked_on_doubt",
    ),
    "another node is asked after a conflict of which nobody knows the reason": (
        (("sends", A), ("hears of a conflict", A), ("sends", B)),
        "nothing_is_asked_on_doubt",
    ),
    "the same is asked again after a conflict, without a look at the pod": (
        (("sends", A), ("hears of a conflict", A), ("sends", A)),
        "nothing_is_asked_on_doubt",
    ),
    "the same is asked again after a conflict where the pod could not be read": (
        (("sends", A), ("hears of a conflict", A), ("sends", READ), ("sends", A)),
        "",
    ),
    "another node is asked after a conflict where the pod could not be read": (
        (("sends", A), ("hears of a conflict", A), ("sends", READ), ("sends", B)),
        "nothing_is_asked_on_doubt",
    ),
    "another node is asked after a conflict and a look at the pod": (
        (("sends", A), ("hears of a conflict", A), ("sends", READ), ("hears", READ), ("sends", B)),
        "",
    ),
    "another node is asked after a refusal": (
        (("sends", A), ("hears that it is forbidden", A), ("sends", B)),
        "",
    ),
    "another node is asked after the lost request was sent again and refused": (
        (
            *(("sends", A), ("hears nothing", A)),
            *(("sends", A), ("hears of a conflict", A)),
            *(("sends", READ), ("hears", READ), ("sends", B)),
        ),
        "",
    ),
    "another node is asked once all pods were listed anew": (
        (("sends", A), ("hears nothing", A), ("sends", LIST), ("sends", B)),
        "",
    ),
    "another replica asks before it can know": (
        (*SENT_AND_DONE, ("sends", Asked("two", "bind", "default/p", "Pod-p", "n2"))),
        "",
    ),
    "another replica asks when it must know": (
        (
            *SENT_AND_DONE,
            ("passes", 60.0),
            ("sends", Asked("two", "bind", "default/p", "Pod-p", "n2")),
        ),
        "a_pod_is_asked_for_once",
    ),
    "somebody else asks, whoever that is": (
        (*SENT_AND_DONE, ("passes", 60.0), ("sends", Asked("x", "bind", "default/p", "", "n2"))),
        "",
    ),
    "a pod is bound by its name alone": (
        (("sends", Asked("one", "bind", "default/p", "", "n1")),),
        "a_pod_is_meant_by_its_uid",
    ),
    "a pod is evicted": ((("sends", GONE), ("does", GONE), ("hears", GONE)), ""),
    "a pod is evicted by its name alone": (
        (("sends", Asked("one", "evict", "default/p", "")),),
        "a_pod_is_meant_by_its_uid",
    ),
    "a pod is evicted a second time": (
        (("sends", GONE), ("does", GONE), ("hears", GONE), ("sends", GONE)),
        "a_pod_is_asked_for_once",
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_what_is_asked_wrongly_is_found(what: str) -> None:
    happened, rule = CASES[what]
    assert [found for found, _ in book(*happened).violations] == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        (
            "POST",
            "/api/v1/namespaces/a/pods/p/binding",
            {"metadata": {"uid": "u"}, "target": {"name": "n"}},
            Asked("one", "bind", "a/p", "u", "n"),
        ),
        (
            "DELETE",
            "/api/v1/namespaces/a/pods/p",
            {"preconditions": {"uid": "u"}},
            Asked("one", "evict", "a/p", "u"),
        ),
        (
            "POST",
            "/api/v1/namespaces/a/pods/p/eviction",
            {"deleteOptions": {"preconditions": {"uid": "u"}}},
            Asked("one", "evict", "a/p", "u"),
        ),
        ("DELETE", "/api/v1/namespaces/a/pods/p", None, Asked("one", "evict", "a/p", "")),
        ("PATCH", "/api/v1/namespaces/a/pods/p", {}, None),
        ("POST", "/api/v1/namespaces/a/pods", {}, None),
    ],
)
def test_how_a_request_is_read(
    method: str, path: str, body: dict[str, object] | None, expected: Asked | None
) -> None:
    assert Asked.read("one", method, path, lambda: body) == expected


def test_we_may_ask_for_the_node_to_which_an_extender_that_may_fail_has_bound_a_pod() -> None:
    read = (("does", BY_AN_EXTENDER), ("passes", 0.1), ("sends", READ), ("hears", READ))
    assert book(*read, ("sends", A), extenders_may_fail=True).violations == []
    assert book(*read, ("sends", B), extenders_may_fail=True).violations != []
