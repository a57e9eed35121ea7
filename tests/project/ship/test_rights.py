"""Which right a request takes, what is recorded of it, and what is said of too many and too few."""

from __future__ import annotations

import json

import pytest

from tests.controlplane.audit import PREFIX, RARE, UNASKED, asked_in, compare
from tests.rights import ROLES, Right, granted, right_of

PODS = "/api/v1/namespaces/a/pods"
REQUESTS: dict[str, tuple[str, str, bool, Right | None]] = {
    "a list": ("GET", "/api/v1/pods", False, ("", "pods", "list")),
    "a watch": ("GET", "/api/v1/pods", True, ("", "pods", "watch")),
    "one object": ("GET", f"{PODS}/p", False, ("", "pods", "get")),
    "a binding": ("POST", f"{PODS}/p/binding", False, ("", "pods/binding", "create")),
    "a status": ("PATCH", f"{PODS}/p/status", False, ("", "pods/status", "patch")),
    "all of a namespace": ("DELETE", PODS, False, ("", "pods", "deletecollection")),
    "a namespace": ("GET", "/api/v1/namespaces/a", False, ("", "namespaces", "get")),
    "all namespaces": ("GET", "/api/v1/namespaces", False, ("", "namespaces", "list")),
    "of a group": (
        "PUT",
        "/apis/coordination.k8s.io/v1/namespaces/a/leases/l",
        False,
        ("coordination.k8s.io", "leases", "update"),
    ),
    "which groups there are": ("GET", "/apis", False, None),
    "which kinds there are": ("GET", "/apis/apps/v1", False, None),
    "the version": ("GET", "/version", False, None),
}


@pytest.mark.parametrize(("method", "path", "watch", "right"), REQUESTS.values(), ids=REQUESTS)
def test_the_right_that_a_request_takes(
    method: str, path: str, watch: bool, right: Right | None
) -> None:
    assert right_of(method, path, watch=watch) == right


def test_what_an_audit_log_says_of_us() -> None:
    def line(user: str, verb: str, decision: str, **about: str) -> str:
        notes = {"authorization.k8s.io/decision": decision}
        event = {"user": {"username": user}, "verb": verb, "annotations": notes}
        return json.dumps({**event, "objectRef": about} if about else event)

    ours = f"{PREFIX}arranger"
    lines = [
        line(ours, "create", "allow", resource="pods", subresource="binding", name="p"),
        line(ours, "watch", "allow", resource="jobs", apiGroup="batch"),
        line(ours, "delete", "forbid", resource="nodes"),
        line(ours, "get", "allow"),
        line("admin", "list", "allow", resource="secrets"),
    ]
    assert asked_in(lines) == {
        ("arranger", "allow", "", "pods/binding", "create"),
        ("arranger", "allow", "batch", "jobs", "watch"),
        ("arranger", "forbid", "", "nodes", "delete"),
    }


def test_rights_must_be_asked_for_and_given() -> None:
    asked = {account: set(granted(account)) for account in ROLES}
    assert compare(asked) == []
    asked["arranger"].remove(("", "pods/binding", "create"))
    asked["arranger"].add(("", "secrets", "get"))
    assert compare(asked) == [
        "arranger lacks ('', 'secrets', 'get')",
        "arranger never asks for ('', 'pods/binding', 'create')",
    ]


def test_what_may_stay_unasked_is_given_and_has_a_reason() -> None:
    given = {right[:2] for account in ROLES for right in granted(account)}
    assert UNASKED.keys() <= given
    assert all(UNASKED.values())
    assert {right[2] for account in ROLES for right in granted(account)} >= RARE.keys()


def test_what_a_fault_only_asks_for_may_stay_unasked() -> None:
    asked = {account: set(granted(account)) for account in ROLES}
    asked["arranger"] -= {("", "pods", "get"), ("", "nodes", "list")}
    assert compare(asked) == []
