"""What a Binding ends in, whatever the server answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Outcome,
    Refused,
)
from tests.unit.kube.scripted_transport import (
    HANG,
    REFUSED,
    RESET,
    After,
    ScriptedTransport,
    failure,
    ok,
)
from tests.unit.kube.writes.harness import BIND, CONFLICT, CREATED, outcomes_of, writing

pytestmark = pytest.mark.looptime(noop_cycles=0)


def the_pod(uid: str = "uid-1", node: str = "") -> Any:
    return ok({"metadata": {"name": "web-0", "uid": uid}, "spec": {"nodeName": node}})


def refused(status: int, reason: str) -> tuple[int, str]:
    return status, reason


BINDINGS: dict[str, dict[str, Any]] = {
    "201 binds": {"answers": [CREATED], "want": ["Applied"], "sent": "P"},
    "409 and the pod is on our node: it was us": {
        "answers": [CONFLICT, the_pod(node="n1")],
        "want": ["Applied"],
        "sent": "PG",
    },
    "409 and the pod is elsewhere": {
        "answers": [CONFLICT, the_pod(node="n2")],
        "want": [(409, "AlreadyBound")],
        "sent": "PG",
    },
    "409 and the name belongs to another pod": {
        "answers": [CONFLICT, the_pod(uid="uid-2", node="n1")],
        "want": [(409, "Replaced")],
        "sent": "PG",
    },
    "409 and the pod is unbound: gated or terminating": {
        "answers": [CONFLICT, the_pod()],
        "want": [(409, "Conflict")],
        "sent": "PG",
    },
    "409 and the pod is gone": {
        "answers": [CONFLICT, failure(404, "NotFound")],
        "want": [(404, "NotFound")],
        "sent": "PG",
    },
    "404": {"answers": [failure(404, "NotFound")], "want": [(404, "NotFound")], "sent": "P"},
    "403": {"answers": [failure(403, "Forbidden")], "want": [(403, "Forbidden")], "sent": "P"},
    "422": {"answers": [failure(422, "Invalid")], "want": [(422, "Invalid")], "sent": "P"},
    "429 was not executed and is tried again": {
        "answers": [failure(429, "TooManyRequests", retry_after="3"), CREATED],
        "want": ["Applied"],
        "sent": "PP",
        "took": (3.0, 3.1),
    },
    "429 up to the deadline": {
        "answers": [failure(429, "TooManyRequests", retry_after="30"), CREATED],
        "want": ["Applied"],
        "sent": "PP",
        "took": (30.0, 30.1),
    },
    "429 beyond the deadline": {
        "answers": [failure(429, "TooManyRequests", retry_after="31")],
        "want": [(429, "TooManyRequests")],
        "sent": "P",
    },
    "no connection, then one": {
        "answers": [REFUSED, REFUSED, CREATED],
        "want": ["Applied"],
        "sent": "PPP",
    },
    "reply lost, applied": {
        "answers": [RESET, CONFLICT, the_pod(node="n1")],
        "want": ["Ambiguous", "Applied"],
        "sent": "PPG",
    },
    "reply lost, not applied": {
        "answers": [RESET, CREATED],
        "want": ["Ambiguous", "Applied"],
        "sent": "PP",
    },
    "reply lost, pod deleted meanwhile": {
        "answers": [RESET, failure(404, "NotFound")],
        "want": ["Ambiguous", (404, "NotFound")],
        "sent": "PP",
    },
    "reply lost, then bound by another": {
        "answers": [RESET, CONFLICT, the_pod(node="n2")],
        "want": ["Ambiguous", (409, "AlreadyBound")],
        "sent": "PPG",
    },
    "reply lost, then our rights: doubt goes on": {
        "answers": [RESET, failure(403, "Forbidden"), CREATED],
        "want": ["Ambiguous", "Applied"],
        "sent": "PPP",
    },
    "500 and 504 are doubt, told once": {
        "answers": [failure(500), failure(504), CREATED],
        "want": ["Ambiguous", "Applied"],
        "sent": "PPP",
    },
    "no answer for 5 s is doubt": {
        "answers": [HANG, CREATED],
        "want": ["Ambiguous", "Applied"],
        "sent": "PP",
        "took": (5.1, 5.5),
    },
    "an answer after 40 s comes too late": {
        "answers": [After(40.0, CREATED), CONFLICT, the_pod(node="n1")],
        "want": ["Ambiguous", "Applied"],
        "sent": "PPG",
    },
    "doubt has no deadline": {
        "answers": [RESET, *[REFUSED] * 20, CREATED],
        "want": ["Ambiguous", "Applied"],
        "sent": "P" * 22,
    },
    "the conflict cannot be looked into": {
        "answers": [CONFLICT, RESET, CONFLICT, the_pod(node="n1")],
        "want": ["Ambiguous", "Applied"],
        "sent": "PGPG",
    },
    "the conflict is looked into for 5 s": {
        "answers": [CONFLICT, HANG, CONFLICT, the_pod(node="n1")],
        "want": ["Ambiguous", "Applied"],
        "sent": "PGPG",
        "took": (5.1, 5.5),
    },
}


@pytest.mark.parametrize("case", BINDINGS.values(), ids=BINDINGS.keys())
async def test_every_binding_ends_in_what_happened(case: dict[str, Any]) -> None:
    outcomes, calls = await outcomes_of(BIND, *case["answers"], wait=400)
    got = [
        refused(o.status, o.reason) if isinstance(o, Refused) else type(o).__name__
        for o in outcomes
    ]
    assert got == case["want"]
    assert "".join(call.method[0] for call in calls) == case["sent"]
    posts = [call for call in calls if call.method == "POST"]
    assert len({call.body for call in posts}) == 1
    assert {call.path for call in posts} == {"/api/v1/namespaces/team/pods/web-0/binding"}
    if "took" in case:
        low, high = case["took"]
        assert low <= calls[-1].at <= high


async def test_a_binding_carries_uid_annotations_and_node() -> None:
    _, [call] = await outcomes_of(BIND, CREATED)
    assert call.json == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "web-0",
            "namespace": "team",
            "uid": "uid-1",
            "annotations": {"arranger.io/txn": "7"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


async def test_an_unreachable_server_refuses_after_the_deadline() -> None:
    transport = ScriptedTransport(otherwise=lambda call: REFUSED)
    outcomes: list[Outcome] = []
    async with writing(transport) as writer:
        writer.submit(BIND, outcomes.append)
        await asyncio.sleep(60)
    assert outcomes == [Refused(0, "Unreachable", "connection refused")]
    assert 20 < transport.calls[-1].at <= 31
    assert len(transport.calls) < 12


async def test_doubt_without_leadership_is_settled_by_reading_only() -> None:
    leading = True
    transport = ScriptedTransport(RESET, the_pod(), RESET, the_pod(node="n1"))
    outcomes: list[Outcome] = []
    async with writing(transport, may_write=lambda: leading) as writer:
        writer.submit(BIND, outcomes.append)
        await asyncio.sleep(0.1)
        leading = False
        await asyncio.sleep(60)
    assert outcomes == [Ambiguous("connection reset"), Applied()]
    assert [call.method for call in transport.calls] == ["POST", "GET", "GET", "GET"]
