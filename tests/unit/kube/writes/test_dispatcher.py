from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Bind,
    DeletePod,
    Effect,
    ObjectKey,
    ObjectReference,
    Outcome,
    PatchObject,
    PatchPodStatus,
    PodCondition,
    PublishEvent,
    Refused,
)
from arranger.kube.writes.dispatcher import ApiDispatcher
from tests.unit.kube.scripted_transport import (
    HANG,
    REFUSED,
    RESET,
    After,
    Call,
    ScriptedTransport,
    failure,
    ok,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

POD = ObjectKey("team", "web-0", "uid-1")
BIND = Bind(POD, "n1", {"arranger.io/txn": "7"})
CREATED = ok({"kind": "Status", "status": "Success"}, 201)
CONFLICT = failure(409, "Conflict", "pod web-0 is already assigned")
EVENT = PublishEvent(
    regarding=ObjectReference("v1", "Pod", "team", "web-0", "uid-1"),
    reason="Scheduled",
    action="Binding",
    note="Successfully assigned team/web-0 to n1",
)


@asynccontextmanager
async def writing(
    transport: ScriptedTransport, may_write: Callable[[], bool] = lambda: True
) -> AsyncIterator[ApiDispatcher]:
    writer = ApiDispatcher(
        transport,
        may_write=may_write,
        host="here",
        rng=random.Random(1),
        clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    running = asyncio.create_task(writer.run())
    yield writer
    writer.close()
    await running


async def outcomes_of(
    effect: Effect, *answers: Any, wait: float = 200.0
) -> tuple[list[Outcome], list[Call]]:
    transport = ScriptedTransport(*answers)
    outcomes: list[Outcome] = []
    async with writing(transport) as writer:
        writer.submit(effect, outcomes.append)
        await asyncio.sleep(wait)
        assert writer.backlog == 0 or wait < 200
    return outcomes, transport.calls


def the_pod(uid: str = "uid-1", node: str = "") -> Any:
    return ok({"metadata": {"name": "web-0", "uid": uid}, "spec": {"nodeName": node}})


def pod(number: int) -> ObjectKey:
    return ObjectKey("team", f"p{number}", f"uid-{number}")


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


async def test_nothing_is_sent_without_leadership() -> None:
    transport = ScriptedTransport()
    outcomes: list[Outcome] = []
    async with writing(transport, may_write=lambda: False) as writer:
        writer.submit(BIND, outcomes.append)
        writer.submit(PatchPodStatus(POD, nominated_node=""), outcomes.append)
        writer.submit(DeletePod(POD), outcomes.append)
        writer.submit(EVENT)
        await asyncio.sleep(60)
    assert outcomes == [Refused(0, "NotLeader")] * 3
    assert transport.calls == []


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


CONDITION = PodCondition("PodScheduled", "False", "Unschedulable", "0/1 nodes", 3)
CHANGE = {"metadata": {"uid": "uid-v", "resourceVersion": "7"}, "spec": {"claimRef": {}}}
OTHERS: dict[str, dict[str, Any]] = {
    "patch applied": {
        "effect": PatchPodStatus(POD, CONDITION),
        "answers": [ok()],
        "want": Applied(),
    },
    "patch of a pod that is gone": {
        "effect": PatchPodStatus(POD, CONDITION),
        "answers": [failure(404, "NotFound")],
        "want": Refused(404, "NotFound"),
    },
    "patch repeated after silence": {
        "effect": PatchPodStatus(POD, CONDITION),
        "answers": [HANG, RESET, failure(503), ok()],
        "want": Applied(),
    },
    "patch in conflict for good": {
        "effect": PatchPodStatus(POD, CONDITION),
        "answers": [failure(409, "Conflict")] * 4,
        "want": Refused(409, "Conflict"),
    },
    "one version of an object patched": {
        "effect": PatchObject("/api/v1/persistentvolumes/v", CHANGE),
        "answers": [failure(503), ok()],
        "want": Applied(),
    },
    "an object that has changed is not patched again": {
        "effect": PatchObject("/api/v1/persistentvolumes/v", CHANGE),
        "answers": [failure(409, "Conflict")],
        "want": Refused(409, "Conflict"),
    },
    "delete applied": {"effect": DeletePod(POD), "answers": [ok()], "want": Applied()},
    "delete of what is gone": {
        "effect": DeletePod(POD),
        "answers": [failure(404, "NotFound")],
        "want": Applied(),
    },
    "delete of what was replaced": {
        "effect": DeletePod(POD),
        "answers": [failure(409, "Conflict")],
        "want": Applied(),
    },
    "delete forbidden": {
        "effect": DeletePod(POD),
        "answers": [failure(403, "Forbidden")],
        "want": Refused(403, "Forbidden"),
    },
    "delete with its condition first": {
        "effect": DeletePod(POD, CONDITION),
        "answers": [ok(), RESET, ok()],
        "want": Applied(),
    },
    "the victim goes before its condition is written": {
        "effect": DeletePod(POD, CONDITION),
        "answers": [failure(404, "NotFound")],
        "want": Applied(),
    },
    "the condition meets another pod, the delete decides": {
        "effect": DeletePod(POD, CONDITION),
        "answers": [failure(422, "Invalid"), failure(409, "Conflict")],
        "want": Applied(),
    },
}


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS.keys())
async def test_patches_and_deletes_are_repeated_until_answered(case: dict[str, Any]) -> None:
    outcomes, calls = await outcomes_of(case["effect"], *case["answers"])
    assert outcomes == [case["want"]]
    assert len(calls) == len(case["answers"])


async def test_a_patch_never_answered_ends_at_the_deadline() -> None:
    transport = ScriptedTransport(otherwise=lambda call: failure(500, "InternalError", "etcd"))
    outcomes: list[Outcome] = []
    async with writing(transport) as writer:
        writer.submit(PatchPodStatus(POD, CONDITION), outcomes.append)
        await asyncio.sleep(60)
    assert outcomes == [Refused(500, "DeadlineExceeded", "etcd")]


async def test_a_status_patch_holds_only_its_delta() -> None:
    transport = ScriptedTransport()
    async with writing(transport) as writer:
        writer.submit(PatchPodStatus(POD, CONDITION, nominated_node="n1"))
        await asyncio.sleep(1)
        writer.submit(PatchPodStatus(POD, CONDITION))
        await asyncio.sleep(1)
        writer.submit(PatchPodStatus(POD, nominated_node=""))
        await asyncio.sleep(1)
    first, second, third = transport.calls
    assert first.path == "/api/v1/namespaces/team/pods/web-0/status"
    assert first.content_type == "application/strategic-merge-patch+json"
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes",
        "observedGeneration": 3,
    }
    assert first.json == {
        "metadata": {"uid": "uid-1"},
        "status": {
            "conditions": [condition | {"lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "nominatedNodeName": "n1",
        },
    }
    # The status did not change, so the transition time on the server is left alone.
    assert second.json["status"] == {"conditions": [condition]}
    assert third.json["status"] == {"nominatedNodeName": None}


async def test_what_is_said_last_of_a_pods_status_stays() -> None:
    transport = ScriptedTransport(After(0.1, failure(503, "", "busy")))
    outcomes: list[Outcome] = []
    async with writing(transport) as writer:
        writer.submit(PatchPodStatus(POD, CONDITION, nominated_node="n1"), outcomes.append)
        writer.submit(PatchPodStatus(POD, nominated_node="n2"), outcomes.append)
        await asyncio.sleep(0.01)
        writer.submit(PatchPodStatus(POD, nominated_node=""), outcomes.append)
        await asyncio.sleep(5)
    assert outcomes == [Applied()] * 3
    *_, last = transport.calls
    assert last.json["status"]["nominatedNodeName"] is None
    (condition,) = last.json["status"]["conditions"]
    assert condition["lastTransitionTime"], "it has not arrived before"
    nominations = [call.json["status"].get("nominatedNodeName") for call in transport.calls]
    assert nominations == ["n2", None], "one at a time, and each but once"


async def test_a_pod_that_is_being_bound_is_not_said_to_wait() -> None:
    transport = ScriptedTransport(otherwise=lambda call: After(1.0, ok()))
    outcomes: list[Outcome] = []
    async with writing(transport) as writer:
        for n in range(100, 132):  # these take every slot, so that what follows has to queue
            writer.submit(DeletePod(pod(n)))
        await asyncio.sleep(0.5)
        writer.submit(PatchPodStatus(POD, CONDITION), outcomes.append)
        writer.submit(PatchPodStatus(pod(1), CONDITION, "n1"), outcomes.append)
        writer.submit(PatchPodStatus(pod(2), CONDITION, ""), outcomes.append)
        for each in (BIND, Bind(pod(1), "n1"), Bind(pod(2), "n1")):
            writer.submit(each)
        await asyncio.sleep(10)
    patches = [call for call in transport.calls[32:] if call.path.endswith("/status")]
    assert [call.json["status"] for call in patches] == [{"nominatedNodeName": None}]
    assert outcomes == [Applied(), Applied(), Applied()]


async def test_nor_is_it_said_again_that_it_waits_when_the_answer_was_lost() -> None:
    transport = ScriptedTransport(RESET, otherwise=lambda call: ok())
    async with writing(transport) as writer:
        writer.submit(PatchPodStatus(POD, CONDITION))
        await asyncio.sleep(0.001)
        writer.submit(BIND)
        await asyncio.sleep(60)
    assert [call.path.rsplit("/", 1)[-1] for call in transport.calls] == ["status", "binding"]


async def test_when_it_could_not_be_bound_it_is_said_why() -> None:
    transport = ScriptedTransport(CONFLICT, otherwise=lambda call: ok())
    async with writing(transport) as writer:
        writer.submit(BIND)
        await asyncio.sleep(1)
        writer.submit(PatchPodStatus(POD, CONDITION))
        await asyncio.sleep(60)
    assert transport.calls[-1].json["status"]["conditions"][0]["status"] == "False"


async def test_a_delete_names_uid_and_grace() -> None:
    _, [call] = await outcomes_of(DeletePod(POD, grace_seconds=5), ok())
    assert (call.method, call.path) == ("DELETE", "/api/v1/namespaces/team/pods/web-0")
    assert call.json["preconditions"] == {"uid": "uid-1"}
    assert call.json["gracePeriodSeconds"] == 5


async def test_an_object_is_merge_patched_in_the_version_it_had() -> None:
    _, [call] = await outcomes_of(PatchObject("/api/v1/persistentvolumes/v", CHANGE), ok())
    assert (call.method, call.path) == ("PATCH", "/api/v1/persistentvolumes/v")
    assert call.content_type == "application/merge-patch+json"
    assert call.json == CHANGE
