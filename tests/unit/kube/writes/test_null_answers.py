"""Fields that are null count as left out in answers to reads and writes, as they do in watches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arranger.api.parsing.errors import ParseError
from arranger.api.parsing.objects import decode_object
from arranger.api.types.resource_claims import ResourceClaim
from arranger.controllers.queue.entries import ObservedQueue
from arranger.kube.client.status import Status, parse_status
from arranger.kube.lease import Lease
from arranger.kube.writes.binding import bound_node

METADATA = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
NO_LISTS = {"labels": None, "annotations": None, "ownerReferences": None, "finalizers": None}


@pytest.mark.parametrize(
    ("kind", "with_null", "without"),
    [
        (ResourceClaim, {"spec": None, "status": {"reservedFor": None}}, {"status": {}}),
        (
            ResourceClaim,
            {"status": {"allocation": {"devices": None}}},
            {"status": {"allocation": {}}},
        ),
        (
            Lease,
            {"spec": {"holderIdentity": None, "leaseTransitions": 3}},
            {"spec": {"leaseTransitions": 3}},
        ),
        (ObservedQueue, {"spec": {"weight": 2}, "status": None}, {"spec": {"weight": 2}}),
    ],
)
def test_an_answer_with_nulls_is_read_as_without(
    kind: type[Any], with_null: dict[str, Any], without: dict[str, Any]
) -> None:
    answer = json.dumps({"metadata": {**METADATA, **NO_LISTS}, **with_null}).encode()
    plain = json.dumps({"metadata": METADATA, **without}).encode()
    assert decode_object(answer, kind, cut=True) == decode_object(plain, kind, cut=True)


def test_where_a_pod_is_bound_is_read_beside_nulls() -> None:
    pod = {"metadata": {"uid": None}, "spec": {"nodeName": "n1"}}
    assert bound_node(json.dumps(pod).encode()) == "n1"
    assert bound_node(b'{"metadata":{"uid":"u"},"spec":{"nodeName":null}}') == ""


def test_why_something_is_refused_is_read_beside_nulls() -> None:
    body = b'{"kind":"Status","metadata":null,"reason":"Conflict","message":null,"details":null}'
    assert parse_status(body, 409).reason == "Conflict"
    assert isinstance(parse_status(body, 409), Status)


def test_what_is_wrong_beside_a_null_is_still_wrong() -> None:
    with pytest.raises(ParseError, match="Expected"):
        decode_object(b'{"metadata":{"labels":null,"uid":5}}', ResourceClaim)
