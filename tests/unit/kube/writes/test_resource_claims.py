"""Writing ResourceClaims: what is sent for each state of a claim, and how it ends."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from arranger.api.effects import (
    Ambiguous,
    Applied,
    ObjectKey,
    Outcome,
    Refused,
    ReleaseClaim,
    ReserveClaim,
)
from arranger.kube.client.transport import Response
from arranger.kube.writes.dispatcher import ApiDispatcher
from tests.unit.kube.scripted_transport import (
    HANG,
    REFUSED,
    RESET,
    Call,
    ScriptedTransport,
    failure,
    ok,
)

pytestmark = pytest.mark.looptime(noop_cycles=0)

CLAIM, POD = ObjectKey("team", "gpu", "uid-gpu"), ObjectKey("team", "web-0", "uid-web")
PATH = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/gpu"
DEVICE = {"request": "r", "driver": "d", "pool": "n1", "device": "a"}
GIVEN = {"devices": {"results": [DEVICE]}}
OTHER = {"devices": {"results": [{**DEVICE, "device": "b"}]}}
ALLOCATE, RESERVE = ReserveClaim(CLAIM, POD, GIVEN), ReserveClaim(CLAIM, POD)
RELEASE, LEAVE = ReleaseClaim(CLAIM, POD, True), ReleaseClaim(CLAIM, POD, False)
FINALIZER = "resource.kubernetes.io/delete-protection"
US = {"resource": "pods", "name": "web-0", "uid": "uid-web"}
THEM = {"resource": "pods", "name": "web-1", "uid": "uid-other"}


def claim(
    version: str = "1",
    *users: Any,
    given: Any = None,
    uid: str = "uid-gpu",
    finalizers: tuple[str, ...] = (),
    **metadata: Any,
) -> Any:
    """An answer: the claim at a version."""
    meta = {"name": "gpu", "uid": uid, "resourceVersion": version, "finalizers": finalizers}
    status = {"allocation": given, "reservedFor": list(users)}
    return ok({"metadata": {**meta, **metadata}, "status": {k: v for k, v in status.items() if v}})


async def written(
    effect: ReserveClaim | ReleaseClaim, *answers: Any, may_write: bool = True
) -> tuple[list[Outcome], list[Call]]:
    transport = ScriptedTransport(*answers)
    outcomes: list[Outcome] = []
    writer = ApiDispatcher(transport, may_write=lambda: may_write, host="h", rng=random.Random(1))
    running = asyncio.create_task(writer.run())
    writer.submit(effect, outcomes.append)
    await asyncio.sleep(300)
    assert writer.backlog == 0
    writer.close()
    await running
    return outcomes, transport.calls


def patches(calls: list[Call]) -> list[tuple[str, Any]]:
    """(what of the claim, the patch without its precondition) of each."""
    found = []
    for call in calls:
        if call.method == "PATCH":
            assert call.content_type == "application/merge-patch+json"
            body = call.json
            assert body["metadata"].pop("uid") == "uid-gpu"
            assert body["metadata"].pop("resourceVersion")
            found.append((call.path.removeprefix(PATH), {k: v for k, v in body.items() if v}))
    return found


ALLOCATED = ("/status", {"status": {"reservedFor": [US], "allocation": GIVEN}})
PROTECTED = ("", {"metadata": {"finalizers": [FINALIZER]}})
OUTCOMES: dict[str, tuple[ReserveClaim | ReleaseClaim, list[Any], Outcome, list[Any]]] = {
    "a new claim is protected, allocated and reserved": (
        ALLOCATE,
        [claim(), claim("2"), claim("3")],
        Applied(),
        [PROTECTED, ALLOCATED],
    ),
    "other finalizers stay": (
        ALLOCATE,
        [claim(finalizers=("mine",)), claim("2"), claim("3")],
        Applied(),
        [("", {"metadata": {"finalizers": ["mine", FINALIZER]}}), ALLOCATED],
    ),
    "a claim that is protected already": (
        ALLOCATE,
        [claim(finalizers=(FINALIZER,)), claim("2")],
        Applied(),
        [ALLOCATED],
    ),
    "another pod has allocated it as we would": (
        ALLOCATE,
        [claim("5", THEM, given=GIVEN), claim("6")],
        Applied(),
        [("/status", {"status": {"reservedFor": [THEM, US]}})],
    ),
    "it has been allocated otherwise": (
        ALLOCATE,
        [claim(given=OTHER)],
        Refused(409, "Conflict", "claim team/gpu got allocated elsewhere in the meantime"),
        [],
    ),
    "an allocated claim is reserved": (
        RESERVE,
        [claim(given=GIVEN), claim("2")],
        Applied(),
        [("/status", {"status": {"reservedFor": [US]}})],
    ),
    "it is reserved already": (RESERVE, [claim("9", US, given=GIVEN)], Applied(), []),
    "it is not allocated any more": (
        RESERVE,
        [claim()],
        Refused(409, "Conflict", "claim team/gpu got deallocated elsewhere in the meantime"),
        [],
    ),
    "it is going": (
        ALLOCATE,
        [claim(deletionTimestamp="2026-01-01T00:00:00Z")],
        Refused(409, "Conflict", "claim team/gpu got deleted in the meantime"),
        [],
    ),
    "it is gone": (
        ALLOCATE,
        [failure(404, "NotFound")],
        Refused(404, "NotFound", 'resourceclaims.resource.k8s.io "gpu" not found'),
        [],
    ),
    "its name is another's": (
        ALLOCATE,
        [claim(uid="uid-new")],
        Refused(404, "NotFound", 'resourceclaims.resource.k8s.io "gpu" not found'),
        [],
    ),
    "somebody was faster: once more with what there is now": (
        ALLOCATE,
        [claim(), claim("2"), failure(409, "Conflict"), claim("4", THEM, given=GIVEN), claim("5")],
        Applied(),
        [PROTECTED, ALLOCATED, ("/status", {"status": {"reservedFor": [THEM, US]}})],
    ),
    "it is refused for good": (
        ALLOCATE,
        [claim(finalizers=(FINALIZER,)), failure(422, "Invalid", "too many")],
        Refused(422, "Invalid", "too many"),
        [ALLOCATED],
    ),
    "we may not": (
        ALLOCATE,
        [failure(403, "Forbidden")],
        Refused(403, "Forbidden", ""),
        [],
    ),
    "the server was busy": (
        RESERVE,
        [failure(429, "TooManyRequests", retry_after="2"), claim("9", US, given=GIVEN)],
        Applied(),
        [],
    ),
    "it could not be read at first": (
        RESERVE,
        [RESET, failure(503), REFUSED, claim("9", US, given=GIVEN)],
        Applied(),
        [],
    ),
    "taken back with its allocation": (
        RELEASE,
        [claim("9", US, given=GIVEN), claim("10")],
        Applied(),
        [("/status", {"status": {"reservedFor": None, "allocation": None, "devices": None}})],
    ),
    "others use it, so the allocation stays": (
        RELEASE,
        [claim("9", US, THEM, given=GIVEN), claim("10")],
        Applied(),
        [("/status", {"status": {"reservedFor": [THEM]}})],
    ),
    "only the reservation is taken back": (
        LEAVE,
        [claim("9", US, given=GIVEN), claim("10")],
        Applied(),
        [("/status", {"status": {"reservedFor": None}})],
    ),
    "nothing is left to be taken back": (RELEASE, [claim()], Applied(), []),
    "what is gone needs no taking back": (RELEASE, [failure(404, "NotFound")], Applied(), []),
    "nor does what was replaced": (RELEASE, [claim(uid="uid-new")], Applied(), []),
}


@pytest.mark.parametrize("case", OUTCOMES.values(), ids=OUTCOMES.keys())
async def test_a_claim_is_brought_to_where_it_is_wanted(case: Any) -> None:
    effect, answers, want, sent = case
    outcomes, calls = await written(effect, *answers)
    assert outcomes == [want]
    assert patches(calls) == sent


async def test_a_lost_answer_is_looked_after_before_anything_is_repeated() -> None:
    outcomes, calls = await written(RESERVE, claim(given=GIVEN), HANG, claim("9", US, given=GIVEN))
    assert isinstance(outcomes[0], Ambiguous)
    assert outcomes[1:] == [Applied()]
    assert [call.method for call in calls] == ["GET", "PATCH", "GET"]


async def test_what_was_lost_for_good_is_written_again() -> None:
    outcomes, calls = await written(
        RESERVE, claim(given=GIVEN), failure(504), claim(given=GIVEN), claim("2")
    )
    assert outcomes[1:] == [Applied()]
    assert len(patches(calls)) == 2


async def test_each_patch_is_for_the_version_that_was_read_last() -> None:
    _, calls = await written(ALLOCATE, claim("7"), claim("8"), claim("9"))
    versions = [c.json["metadata"]["resourceVersion"] for c in calls if c.method == "PATCH"]
    assert versions == ["7", "8"]


async def test_conflicts_without_end_are_told() -> None:
    answers = [claim(given=GIVEN), failure(409, "Conflict")] * 9
    outcomes, calls = await written(RESERVE, *answers)
    assert outcomes == [Refused(409, "Conflict", "")]
    assert 3 < len(patches(calls)) <= 9


async def test_who_does_not_lead_writes_nothing() -> None:
    outcomes, calls = await written(ALLOCATE, claim(), may_write=False)
    assert outcomes == [Refused(0, "NotLeader")]
    assert patches(calls) == []


#: ``Unknown`` of a type "x", of 130 bytes of an object, and of nothing more.
BINARY = b"k8s\x00" + b"\x0a\x01x" + b"\x12\x82\x01" + bytes(130) + b"\x1a\x00"


async def test_a_spec_that_json_would_change_is_passed_on_as_it_is() -> None:
    immutable = failure(422, "Invalid", "spec: field is immutable")
    protected = claim("2", finalizers=(FINALIZER,))
    outcomes, calls = await written(
        ALLOCATE, claim(), immutable, Response(200, BINARY, {}), ok(), protected, claim("3")
    )
    assert outcomes == [Applied()]
    (put,) = [call for call in calls if call.method == "PUT"]
    assert put.content_type == "application/vnd.kubernetes.protobuf"
    metadata = b"\x72\x28" + FINALIZER.encode()
    added = b"\x0a\x2a" + metadata
    grown = b"\x12\xae\x01" + bytes(130) + added
    assert put.body == BINARY.replace(b"\x12\x82\x01" + bytes(130), grown)
    assert patches(calls)[-1] == ALLOCATED


@pytest.mark.parametrize("body", [b"{}", b"k8s\x00\x08\x01", b"k8s\x00\x12"])
async def test_what_has_another_form_is_left_alone(body: bytes) -> None:
    immutable = failure(422, "Invalid", "spec: field is immutable")
    (outcome,), calls = await written(ALLOCATE, claim(), immutable, Response(200, body, {}))
    assert isinstance(outcome, Refused)
    assert [call.method for call in calls] == ["GET", "PATCH", "GET"]
