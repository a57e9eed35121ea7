"""Patches and deletes of pods, and writes of every kind without leadership."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arranger.api.effects import (
    Applied,
    Bind,
    CreateObject,
    DeletePod,
    Outcome,
    PatchObject,
    PatchPodStatus,
    Refused,
)
from tests.unit.kube.scripted_transport import (
    HANG,
    RESET,
    After,
    ScriptedTransport,
    failure,
    ok,
)
from tests.unit.kube.writes.harness import (
    BIND,
    CONDITION,
    CONFLICT,
    EVENT,
    POD,
    outcomes_of,
    pod,
    writing,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)


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
        "answers": [failure(409, "Conflict", "the UID in the precondition (a) does not match (b)")],
        "want": Applied(),
    },
    "delete of what was replaced while it was being deleted": {
        "effect": DeletePod(POD),
        "answers": [failure(409, "Conflict", "Precondition failed: UID in precondition: a, b")],
        "want": Applied(),
    },
    "delete in a conflict about something else": {
        "effect": DeletePod(POD),
        "answers": [failure(409, "Conflict", "please try again"), failure(409), ok()],
        "want": Applied(),
    },
    "delete in conflict for good: the pod stays": {
        "effect": DeletePod(POD),
        "answers": [failure(409, "Conflict", "a webhook says no")] * 4,
        "want": Refused(409, "Conflict", "a webhook says no"),
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
    "the condition meets another pod of the name": {
        "effect": DeletePod(POD, CONDITION),
        "answers": [failure(422, "Invalid", fields=["metadata.uid"])],
        "want": Applied(),
    },
    "the condition is invalid, and the victim stays": {
        "effect": DeletePod(POD, CONDITION),
        "answers": [failure(422, "Invalid", fields=["status.conditions"])],
        "want": Refused(422, "Invalid"),
    },
    "the condition is refused, and the victim stays": {
        "effect": DeletePod(POD, CONDITION),
        "answers": [failure(403, "Forbidden")],
        "want": Refused(403, "Forbidden"),
    },
    "the condition meets other writers, and then none": {
        "effect": DeletePod(POD, CONDITION),
        "answers": [failure(409, "Conflict"), failure(409, "Conflict"), ok(), ok()],
        "want": Applied(),
    },
    "the condition is in conflict for good, and the victim stays": {
        "effect": DeletePod(POD, CONDITION),
        "answers": [failure(409, "Conflict")] * 4,
        "want": Refused(409, "Conflict"),
    },
    "an object that is there already is created": {
        "effect": CreateObject("/apis/arranger.io/v1alpha1/namespaces/team/gangs", CHANGE),
        "answers": [failure(409, "AlreadyExists")],
        "want": Applied(),
    },
    "an object that is not valid is not created": {
        "effect": CreateObject("/apis/arranger.io/v1alpha1/namespaces/team/gangs", CHANGE),
        "answers": [failure(422, "Invalid")],
        "want": Refused(422, "Invalid"),
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
    # The status did not change, so its time did not; a restored server may not have it.
    assert second.json["status"] == {"conditions": first.json["status"]["conditions"]}
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
