"""VolumeRestrictions: one writer a disk, one pod a claim that says so."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.cluster.cluster import Cluster
from arranger.framework import ActionType, ClusterEvent
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins.volumes.volume_restrictions import VolumeRestrictions
from tests.builders import Member, PodBuilder, StoredBuilder, a_cluster, a_node, a_pod
from tests.storage import a_claim
from tests.unit.plugins.evaluation import evaluate_with, rejected, single_plugin_profile

N1, N2 = a_node("n1"), a_node("n2")
NO_DISK = ("node(s) had no available disk",)
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod",
)
ONE_POD = a_claim().with_spec(accessModes=["ReadWriteOncePod"])
POD = a_pod().with_claim("data")
OTHER = a_pod("other").with_claim("data")


def mounting(source: str, name: str = "p", **fields: Any) -> PodBuilder:
    return a_pod(name).with_spec(volumes=[{"name": "disk", source: fields}])


GCE, EBS, ISCSI, RBD = "gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"
MONITORS = ["m1", "m2"]
CASES: dict[str, tuple[PodBuilder, list[Member], dict[str, tuple[str, ...]]]] = {
    "nothing to do with volumes": (a_pod(), [OTHER.on("n1"), ONE_POD], {}),
    "a claim for one pod that nobody uses": (POD, [ONE_POD], {}),
    "a claim for one pod in use": (POD, [ONE_POD, OTHER.on("n1")], {"n1": IN_USE, "n2": IN_USE}),
    "a claim for many pods in use": (POD, [a_claim(), OTHER.on("n1")], {}),
    "a claim of the same name elsewhere": (POD, [ONE_POD, OTHER.in_namespace("b").on("n1")], {}),
    "one disk, two writers": (
        mounting(GCE, pdName="d"),
        [mounting(GCE, "b", pdName="d").on("n1")],
        {"n1": NO_DISK},
    ),
    "two disks": (mounting(GCE, pdName="d"), [mounting(GCE, "b", pdName="e").on("n1")], {}),
    "one disk, two readers": (
        mounting(GCE, pdName="d", readOnly=True),
        [mounting(GCE, "b", pdName="d", readOnly=True).on("n1")],
        {},
    ),
    "one disk, a reader and a writer": (
        mounting(GCE, pdName="d", readOnly=True),
        [mounting(GCE, "b", pdName="d").on("n1")],
        {"n1": NO_DISK},
    ),
    "one disk in two namespaces": (
        mounting(GCE, pdName="d"),
        [mounting(GCE, "b", pdName="d").in_namespace("other").on("n1")],
        {"n1": NO_DISK},
    ),
    "a volume that is not even read twice": (
        mounting(EBS, volumeID="v", readOnly=True),
        [mounting(EBS, "b", volumeID="v", readOnly=True).on("n2")],
        {"n2": NO_DISK},
    ),
    "one target": (
        mounting(ISCSI, iqn="q"),
        [mounting(ISCSI, "b", iqn="q").on("n1")],
        {"n1": NO_DISK},
    ),
    "one target, two readers": (
        mounting(ISCSI, iqn="q", readOnly=True),
        [mounting(ISCSI, "b", iqn="q", readOnly=True).on("n1")],
        {},
    ),
    "one image by another monitor": (
        mounting(RBD, monitors=MONITORS, image="i"),
        [mounting(RBD, "b", monitors=["m2", "m3"], image="i", pool="rbd").on("n1")],
        {"n1": NO_DISK},
    ),
    "an image of another cluster": (
        mounting(RBD, monitors=MONITORS, image="i"),
        [mounting(RBD, "b", monitors=["m3"], image="i").on("n1")],
        {},
    ),
    "an image of another pool": (
        mounting(RBD, monitors=MONITORS, image="i"),
        [mounting(RBD, "b", monitors=MONITORS, image="i", pool="fast").on("n1")],
        {},
    ),
    "a disk and a claim": (
        mounting(GCE, pdName="d").with_claim("data"),
        [ONE_POD, mounting(GCE, "b", pdName="d").on("n1"), OTHER.on("n2")],
        {"n1": NO_DISK, "n2": IN_USE},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_rejects_nodes(
    case: tuple[PodBuilder, list[Member], dict[str, tuple[str, ...]]],
) -> None:
    pod, members, expected = case
    assert rejected(VolumeRestrictions(), pod, N1, N2, *members) == expected


def test_a_missing_claim_refuses_the_pod() -> None:
    verdict = evaluate_with(VolumeRestrictions(), POD, N1)
    assert verdict["preFilter"] == {
        "plugin": "VolumeRestrictions",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ['persistentvolumeclaim "data" not found'],
    }


def test_evicting_the_user_of_a_claim_would_help() -> None:
    verdict = evaluate_with(VolumeRestrictions(), POD, N1, ONE_POD, OTHER.on("n1"))
    assert verdict["rejected"]["n1"]["code"] == "Unschedulable"


def _feasible(evaluation: Evaluation, cluster: Cluster) -> list[str]:
    evaluation.refresh()
    return [cluster.table.name(row) for row in evaluation.feasible.nonzero()[0].tolist()]


def test_a_claim_is_free_again_when_its_user_has_gone_from_any_node() -> None:
    cluster = a_cluster(N1, N2, ONE_POD)
    evaluation = Evaluation(single_plugin_profile(VolumeRestrictions()), cluster, POD.info())
    assert _feasible(evaluation, cluster) == ["n1", "n2"]
    cluster.observe_pod(OTHER.on("n2").info())
    assert _feasible(evaluation, cluster) == []
    cluster.remove_pod(OTHER.info().uid)
    assert _feasible(evaluation, cluster) == ["n1", "n2"]


def _came(claim: StoredBuilder, before: StoredBuilder | None = None) -> ClusterEvent:
    return ClusterEvent(
        ActionType.OTHER,
        resource="PersistentVolumeClaim",
        stored=claim.build(),
        stored_before=None if before is None else before.build(),
    )


def _went(pod: PodBuilder) -> ClusterEvent:
    return ClusterEvent(ActionType.POD_REMOVED, pod=pod.on("n1").build())


DISK_POD = mounting(GCE, pdName="d").with_claim("data")
HINTS: dict[str, tuple[ClusterEvent, bool]] = {
    "who used the claim went": (_went(OTHER), True),
    "who used its namesake went": (_went(OTHER.in_namespace("b")), False),
    "who used the disk went": (_went(mounting(GCE, pdName="d").in_namespace("b")), True),
    "who used another disk went": (_went(mounting(GCE, pdName="e")), False),
    "the claim came": (_came(a_claim()), True),
    "the claim changed": (_came(a_claim(), a_claim()), False),
    "a node came": (ClusterEvent(ActionType.NODE_ADDED, node=N1.build()), True),
    "nobody knows what went": (ClusterEvent(ActionType.POD_REMOVED), True),
}


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_wakes(case: tuple[ClusterEvent, bool]) -> None:
    event, expected = case
    fits = [wake.matches(DISK_POD.info(), event) for wake in VolumeRestrictions.queueing_hints]
    assert any(fits) == expected
