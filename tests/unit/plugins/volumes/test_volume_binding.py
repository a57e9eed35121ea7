"""VolumeBinding's Filter: where a pod's volumes can be used, found or made."""

from __future__ import annotations

import pytest

from arranger.framework import ActionType, ClusterEvent
from arranger.plugins.volumes.volume_binding import VolumeBinding
from tests.builders import Member, PodBuilder, StoredBuilder, a_node, a_pod, expr
from tests.storage import (
    ZONE,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_volume,
    space_in,
)
from tests.unit.plugins.evaluation import evaluate_with

A1, A2 = a_node("a1").in_zone("a"), a_node("a2").in_zone("a")
B1 = a_node("b1").in_zone("b")
NODES: list[Member] = [A1, A2, B1]
POD = a_pod().with_claim("data")
LATE, NOW, BY_HAND = (
    a_class(),
    a_class("now").immediate(),
    a_class("hand", by="kubernetes.io/no-provisioner"),
)
ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
BY_HAND_CLAIM = a_claim(of="hand")


def hand_made(name: str, zone: str, size: str = "10Gi") -> Member:
    return a_volume(name, of="hand", size=size).usable_in(zone)


REFUSED: dict[str, tuple[PodBuilder, list[Member], str]] = {
    "the claim does not exist": (POD, [], 'persistentvolumeclaim "data" not found'),
    "the claim is in another namespace": (
        POD.in_namespace("other"),
        [a_claim().bound_to("v"), a_volume()],
        'persistentvolumeclaim "data" not found',
    ),
    "its volume was deleted": (
        POD,
        [a_claim().bound_to("v").with_status(phase="Lost")],
        'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
    ),
    "the claim is being deleted": (
        POD,
        [a_claim().deleting()],
        'persistentvolumeclaim "data" is being deleted',
    ),
    "the claim of an ephemeral volume is not there yet": (
        a_pod("web").with_scratch("tmp"),
        [],
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-tmp"',
    ),
    "the claim of an ephemeral volume is an earlier pod's": (
        a_pod("web").with_scratch("tmp"),
        [a_claim("web-tmp").made_for(a_pod("web").with_uid("earlier"))],
        "PVC default/web-tmp was not created for pod default/web (pod is not owner)",
    ),
    "the class binds at once and has not": (
        POD,
        [NOW, a_claim(of="now")],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "the class does not exist": (
        POD,
        [a_claim(of="gone")],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "there is no class": (
        POD,
        [a_claim(of="")],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "its owner has named a volume": (
        POD,
        [LATE, a_claim().with_spec(volumeName="v"), a_volume()],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_refuses_as_a_whole(case: tuple[PodBuilder, list[Member], str]) -> None:
    pod, members, reason = case
    assert evaluate_with(VolumeBinding(), pod, *NODES, *members)["preFilter"] == {
        "plugin": "VolumeBinding",
        "code": "UnschedulableAndUnresolvable",
        "reasons": [reason],
    }


def test_a_class_without_a_mode_is_an_error() -> None:
    verdict = evaluate_with(VolumeBinding(), POD, A1, a_class().without_mode(), a_claim())
    assert verdict["preFilter"] == {
        "plugin": "VolumeBinding",
        "code": "Error",
        "reasons": ['VolumeBindingMode not set for StorageClass "late"'],
    }


REJECTED: dict[str, tuple[PodBuilder, list[Member], dict[str, list[str]]]] = {
    "no volumes": (a_pod(), [], {}),
    "volumes that live anywhere": (
        a_pod().with_spec(volumes=[{"name": "cfg", "configMap": {"name": "c"}}]),
        [],
        {},
    ),
    "a bound volume is used where it can be": (
        POD,
        [a_claim().bound_to("v"), a_volume().held_by("data").usable_in("a")],
        {"b1": [ELSEWHERE]},
    ),
    "a bound volume that can be used anywhere": (
        POD,
        [a_claim().bound_to("v"), a_volume().held_by("data")],
        {},
    ),
    "one of several terms is enough": (
        POD,
        [
            a_claim().bound_to("v"),
            a_volume().usable(expr("kubernetes.io/hostname", "In", "a2"), expr(ZONE, "In", "b")),
        ],
        {"a1": [ELSEWHERE]},
    ),
    "a term that cannot be read means nothing": (
        POD,
        [a_claim().bound_to("v"), a_volume().usable(expr(ZONE, "In"))],
        {"a1": [ELSEWHERE], "a2": [ELSEWHERE], "b1": [ELSEWHERE]},
    ),
    "the volume of the claim does not exist": (
        POD,
        [a_claim().bound_to("v")],
        {"a1": [MISSING], "a2": [MISSING], "b1": [MISSING]},
    ),
    "the first bound volume that does not fit tells why": (
        POD.with_claim("more"),
        [
            a_claim().bound_to("v"),
            a_volume().usable_in("a"),
            a_claim("more").bound_to("gone"),
        ],
        {"a1": [MISSING], "a2": [MISSING], "b1": [ELSEWHERE]},
    ),
    "the claim of an ephemeral volume is the pod's": (
        a_pod("web").with_uid("uid-judged").with_scratch("tmp"),
        [
            a_claim("web-tmp").made_for(a_pod("web").with_uid("uid-judged")).bound_to("v"),
            a_volume().usable_in("b"),
        ],
        {"a1": [ELSEWHERE], "a2": [ELSEWHERE]},
    ),
    "a volume is made where the class allows it": (
        POD,
        [LATE.allowed_in("b"), a_claim()],
        {"a1": [NO_VOLUME], "a2": [NO_VOLUME]},
    ),
    "a volume is made anywhere": (POD, [LATE, a_claim()], {}),
    "nobody makes volumes of this class": (
        POD,
        [BY_HAND, BY_HAND_CLAIM],
        {"a1": [NO_VOLUME], "a2": [NO_VOLUME], "b1": [NO_VOLUME]},
    ),
    "a free volume is found where it can be used": (
        POD,
        [BY_HAND, BY_HAND_CLAIM, hand_made("v", "b")],
        {"a1": [NO_VOLUME], "a2": [NO_VOLUME]},
    ),
    "a volume of each zone": (
        POD,
        [BY_HAND, BY_HAND_CLAIM, hand_made("v", "a"), hand_made("w", "b")],
        {},
    ),
    "a free volume serves where none may be made": (
        POD,
        [LATE.allowed_in("b"), a_claim(), a_volume().usable_in("a")],
        {},
    ),
    "a volume on a node's own disk": (
        POD,
        [
            BY_HAND,
            BY_HAND_CLAIM,
            a_volume(of="hand").usable(expr("kubernetes.io/hostname", "In", "a2")),
        ],
        {"a1": [NO_VOLUME], "b1": [NO_VOLUME]},
    ),
    "a claim named twice needs one volume": (
        POD.with_claim("data"),
        [BY_HAND, BY_HAND_CLAIM, hand_made("v", "a")],
        {"b1": [NO_VOLUME]},
    ),
    "two claims need two volumes": (
        POD.with_claim("more"),
        [
            BY_HAND,
            BY_HAND_CLAIM,
            a_claim("more", of="hand"),
            hand_made("v", "a"),
            hand_made("w", "a"),
            hand_made("x", "b"),
        ],
        {"b1": [NO_VOLUME]},
    ),
    "the smaller claim leaves the larger volume to the larger one": (
        a_pod().with_claim("large").with_claim("small"),
        [
            BY_HAND,
            a_claim("large", of="hand", size="9Gi"),
            a_claim("small", of="hand", size="1Gi"),
            hand_made("v", "a", "10Gi"),
            hand_made("w", "a", "2Gi"),
        ],
        {"b1": [NO_VOLUME]},
    ),
    "bound elsewhere and nothing free": (
        POD.with_claim("more"),
        [
            BY_HAND,
            a_claim().bound_to("v"),
            a_volume().usable_in("a"),
            a_claim("more", of="hand"),
        ],
        {"a1": [NO_VOLUME], "a2": [NO_VOLUME], "b1": [ELSEWHERE, NO_VOLUME]},
    ),
    "a node has been selected": (
        POD,
        [LATE, a_claim().annotated({"volume.kubernetes.io/selected-node": "a2"})],
        {"a1": [NO_VOLUME], "b1": [NO_VOLUME]},
    ),
    "the selected node is gone": (
        POD,
        [LATE, a_claim().annotated({"volume.kubernetes.io/selected-node": "z9"})],
        {"a1": [NO_VOLUME], "a2": [NO_VOLUME], "b1": [NO_VOLUME]},
    ),
    "the driver has space in one zone": (
        POD,
        [LATE, a_claim(), a_driver(), space_in("a", "5Gi"), space_in("b", "512Mi")],
        {"b1": [NO_SPACE]},
    ),
    "the largest volume counts, not all the space": (
        POD,
        [LATE, a_claim(), a_driver(), space_in("a", "5Gi", maximumVolumeSize="512Mi")],
        {"a1": [NO_SPACE], "a2": [NO_SPACE], "b1": [NO_SPACE]},
    ),
    "space of another class is no space": (
        POD,
        [LATE, a_claim(), a_driver(), space_in("a", "5Gi", of="other")],
        {"a1": [NO_SPACE], "a2": [NO_SPACE], "b1": [NO_SPACE]},
    ),
    "a driver that does not tell where it has space": (
        POD,
        [LATE, a_claim(), a_driver(counts_space=False)],
        {},
    ),
    "where none may be made, space does not matter": (
        POD,
        [LATE.allowed_in("a"), a_claim(), a_driver(), space_in("b", "5Gi")],
        {"a1": [NO_SPACE], "a2": [NO_SPACE], "b1": [NO_VOLUME]},
    ),
    "an old volume on nodes where a driver serves it": (
        POD,
        [
            a_claim().bound_to("v"),
            a_volume().with_spec(awsElasticBlockStore={"volumeID": "vol-1"}).usable_in("a"),
            a_csi_node("a1", migrated="kubernetes.io/aws-ebs,kubernetes.io/cinder"),
        ],
        {"a1": [ELSEWHERE], "b1": [ELSEWHERE]},
    ),
    "a volume kept for another claim is left alone, and one is made": (
        POD,
        [LATE, a_claim(), a_volume().kept_for("other")],
        {},
    ),
}


@pytest.mark.parametrize("case", REJECTED.values(), ids=REJECTED.keys())
def test_rejects_nodes(case: tuple[PodBuilder, list[Member], dict[str, list[str]]]) -> None:
    pod, members, expected = case
    verdict = evaluate_with(VolumeBinding(), pod, *NODES, *members)
    assert {node: why["reasons"] for node, why in verdict["rejected"].items()} == {
        node: sorted(reasons) for node, reasons in expected.items()
    }
    assert all(w["code"] == "UnschedulableAndUnresolvable" for w in verdict["rejected"].values())


#: Volumes of the one node that there is, and whether the claim could be bound to one of them.
SUITABLE: dict[str, tuple[Member, bool]] = {
    "just large enough": (a_volume(of="hand", size="1Gi"), True),
    "too small": (a_volume(of="hand", size="1Mi"), False),
    "of another class": (a_volume(of="late"), False),
    "of the class by its old annotation": (
        a_volume(of="").annotated({"volume.beta.kubernetes.io/storage-class": "hand"}),
        True,
    ),
    "not free yet": (a_volume(of="hand").with_status(phase="Pending"), False),
    "released by another claim": (a_volume(of="hand").held_by("other"), False),
    "kept for the claim by name": (a_volume(of="hand").kept_for("data"), True),
    "kept for an earlier claim of this name": (
        a_volume(of="hand").kept_for("data", uid="earlier"),
        False,
    ),
    "kept for the claim and not free": (
        a_volume(of="hand").kept_for("data").with_status(phase="Pending"),
        True,
    ),
    "kept for the claim and too small": (a_volume(of="hand", size="1Mi").kept_for("data"), False),
    "being deleted": (a_volume(of="hand").deleting(), False),
    "a block device": (a_volume(of="hand").with_spec(volumeMode="Block"), False),
    "with other attributes": (
        a_volume(of="hand").with_spec(volumeAttributesClassName="fast"),
        False,
    ),
    "read by many only": (a_volume(of="hand").with_spec(accessModes=["ReadOnlyMany"]), False),
    "written by many": (
        a_volume(of="hand").with_spec(accessModes=["ReadWriteMany", "ReadWriteOnce"]),
        True,
    ),
}


@pytest.mark.parametrize("case", SUITABLE.values(), ids=SUITABLE.keys())
def test_a_claim_is_bound_to_a_volume(case: tuple[Member, bool]) -> None:
    volume, suitable = case
    verdict = evaluate_with(VolumeBinding(), POD, A1, BY_HAND, BY_HAND_CLAIM, volume)
    assert (verdict["feasible"] == ["a1"]) == suitable


def test_a_claim_may_ask_for_labels_of_its_volume() -> None:
    claim = BY_HAND_CLAIM.with_spec(selector={"matchLabels": {"disk": "fast"}})
    for label, feasible in (("fast", ["a1"]), ("slow", [])):
        volume = a_volume(of="hand").labelled(disk=label)
        assert (
            evaluate_with(VolumeBinding(), POD, A1, BY_HAND, claim, volume)["feasible"] == feasible
        )


def stored(after: StoredBuilder | None, before: StoredBuilder | None = None) -> ClusterEvent:
    built = (after or before or a_class()).build()
    return ClusterEvent(
        ActionType.OTHER,
        resource=type(built).__name__,
        stored=None if after is None else after.build(),
        stored_before=None if before is None else before.build(),
    )


HINTS: dict[str, tuple[ClusterEvent, bool]] = {
    "its claim came": (stored(a_claim()), True),
    "its claim was bound": (stored(a_claim().bound_to("v"), a_claim()), True),
    "its claim went": (stored(None, a_claim()), False),
    "another claim came": (stored(a_claim("other")), False),
    "a free volume came": (stored(a_volume()), True),
    "its volume changed": (stored(a_volume().held_by("data"), a_volume()), True),
    "another claim's volume changed": (stored(a_volume().held_by("other"), a_volume()), False),
    "a class came": (stored(LATE), True),
    "a class allows other places": (stored(LATE.allowed_in("a"), LATE), True),
    "a class was made anew": (stored(a_class(by="other.example.com"), a_class()), True),
    "a class changed otherwise": (stored(LATE.labelled(a="b"), LATE), False),
    "there is more space": (stored(space_in("a", "2Gi"), space_in("a", "1Gi")), True),
    "there is less space": (stored(space_in("a", "1Gi"), space_in("a", "2Gi")), False),
    "space was told of": (stored(space_in("a", "1Gi")), True),
    "space is not counted any more": (stored(a_driver(counts_space=False), a_driver()), True),
    "a driver came": (stored(a_driver()), False),
    "a node's drivers came": (stored(a_csi_node("a1")), True),
    "a node's drivers took over": (
        stored(a_csi_node("a1", migrated="kubernetes.io/cinder"), a_csi_node("a1")),
        True,
    ),
    "a node's drivers changed": (stored(a_csi_node("a1", x=1), a_csi_node("a1")), False),
    "a pod with volumes went": (
        ClusterEvent(ActionType.POD_REMOVED, pod=a_pod().with_claim("other").build()),
        True,
    ),
    "a pod without volumes went": (
        ClusterEvent(ActionType.POD_REMOVED, pod=a_pod().build()),
        False,
    ),
    "a node came": (ClusterEvent(ActionType.NODE_ADDED, node=A1.build()), True),
    "a service came": (ClusterEvent(ActionType.OTHER, resource="Service"), False),
}


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_wakes(case: tuple[ClusterEvent, bool]) -> None:
    event, expected = case
    assert any(wake.matches(POD.info(), event) for wake in VolumeBinding.queueing_hints) == expected
