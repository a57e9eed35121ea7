"""VolumeZone: volumes labelled with zones."""

from __future__ import annotations

import pytest

from arranger.framework import ActionType, ClusterEvent
from arranger.plugins.volumes.volume_zone import VolumeZone
from tests.builders import Member, StoredBuilder, a_node, a_pod
from tests.storage import ZONE, a_claim, a_class, a_volume
from tests.unit.plugins.evaluation import evaluate_with, rejected

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
A, B, BARE = a_node("a").in_zone("a"), a_node("b").in_zone("b", "r2"), a_node("bare")
OLD = a_node("old").labelled({BETA_ZONE: "a", BETA_REGION: "r1"})
NODES: list[Member] = [A, B, BARE, OLD]
POD = a_pod().with_claim("data")
BOUND = a_claim().bound_to("v")
NOT_HERE = ("node(s) had no available volume zone",)

CASES: dict[str, tuple[list[Member], dict[str, tuple[str, ...]]]] = {
    "no labels": ([BOUND, a_volume()], {}),
    "a zone of today": (
        [BOUND, a_volume().labelled({ZONE: "a"})],
        {"b": NOT_HERE, "old": NOT_HERE},
    ),
    "a zone of old is met by either name": (
        [BOUND, a_volume().labelled({BETA_ZONE: "a"})],
        {"b": NOT_HERE},
    ),
    "several zones": ([BOUND, a_volume().labelled({BETA_ZONE: "a__ b"})], {}),
    "zones that cannot be read": ([BOUND, a_volume().labelled({ZONE: "a____b"})], {}),
    "a region": (
        [BOUND, a_volume().labelled({BETA_REGION: "r2"})],
        {"a": NOT_HERE, "old": NOT_HERE},
    ),
    "unbound and waiting": ([a_claim(), a_class()], {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_rejects_nodes(case: tuple[list[Member], dict[str, tuple[str, ...]]]) -> None:
    members, expected = case
    assert rejected(VolumeZone(), POD, *NODES, *members) == expected


REFUSED: dict[str, tuple[list[Member], str]] = {
    "no claim": ([], 'persistentvolumeclaim "data" not found'),
    "no volume": ([BOUND], 'persistentvolume "v" not found'),
    "neither volume nor class": (
        [a_claim(of="")],
        "PersistentVolumeClaim had no pv name and storageClass name",
    ),
    "no such class": ([a_claim()], 'storageclass.storage.k8s.io "late" not found'),
    "a class without a mode": (
        [a_claim(), a_class().without_mode()],
        'VolumeBindingMode not set for StorageClass "late"',
    ),
    "unbound and not waiting": ([a_claim(), a_class().immediate()], "PersistentVolume had no name"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_refuses_as_a_whole(case: tuple[list[Member], str]) -> None:
    members, reason = case
    assert evaluate_with(VolumeZone(), POD, A, *members)["preFilter"] == {
        "plugin": "VolumeZone",
        "code": "UnschedulableAndUnresolvable",
        "reasons": [reason],
    }


def test_ephemeral_volumes_are_left_to_their_node_affinity() -> None:
    assert rejected(VolumeZone(), a_pod().with_scratch("tmp"), *NODES) == {}


def _stored(after: StoredBuilder, before: StoredBuilder | None = None) -> ClusterEvent:
    built = after.build()
    return ClusterEvent(
        ActionType.OTHER,
        resource=type(built).__name__,
        stored=built,
        stored_before=None if before is None else before.build(),
    )


HINTS: dict[str, tuple[ClusterEvent, bool]] = {
    "a class that waits came": (_stored(a_class()), True),
    "a class that does not wait came": (_stored(a_class().immediate()), False),
    "a class changed": (_stored(a_class(), a_class()), False),
    "its claim changed": (_stored(BOUND, a_claim()), True),
    "another claim changed": (_stored(a_claim("other"), a_claim("other")), False),
    "a volume came": (_stored(a_volume()), True),
    "a volume is in another zone": (_stored(a_volume().labelled({ZONE: "a"}), a_volume()), True),
    "a volume changed otherwise": (_stored(a_volume().held_by("data"), a_volume()), False),
}


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_wakes(case: tuple[ClusterEvent, bool]) -> None:
    event, expected = case
    assert any(wake.matches(POD.info(), event) for wake in VolumeZone.queueing_hints) == expected
