"""VolumeBinding from Reserve to the Binding: what is assumed, written, waited for and given up."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.effects import PatchObject
from arranger.api.types.storage import PersistentVolume, PersistentVolumeClaim
from arranger.cluster.cluster import Cluster
from arranger.framework.interface import Wait
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.registry import Registry
from arranger.framework.status import CycleState, Status
from arranger.plugins.volumes.volume_binding import VolumeBinding
from tests.builders import Member, StoredBuilder, a_cluster, a_node, a_pod
from tests.storage import a_claim, a_class, a_volume
from tests.unit.plugins.evaluation import single_plugin_profile

N1, N2 = a_node("n1").in_zone("a"), a_node("n2").in_zone("b")
POD = a_pod().with_claim("data").info()
HAND, LATE = a_class("hand", by="kubernetes.io/no-provisioner"), a_class()
CLAIM = a_claim(of="hand")
VOLUME = a_volume(of="hand").usable_in("a")
SELECTED = {"volume.kubernetes.io/selected-node": "n1"}
WAIT = Wait(600.0, "binding volumes: context deadline exceeded")


class Reserved:
    """A pod that has been given ``n1``."""

    def __init__(self, *members: Member, args: dict[str, Any] | None = None) -> None:
        made = Registry([VolumeBinding]).make("VolumeBinding", args)
        assert isinstance(made, VolumeBinding)
        self.plugin = made
        self.cluster = a_cluster(N1, N2, *members)
        evaluation = Evaluation(single_plugin_profile(self.plugin), self.cluster, POD)
        assert evaluation.pre_filter_status is None
        assert evaluation.feasible[self.cluster.table.index["n1"]]
        self.state = CycleState(evaluation.state)
        assert self.plugin.reserve(self.state, POD, "n1") is None

    def writes(self) -> list[PatchObject]:
        effects = self.plugin.pre_bind(self.state, POD, "n1")
        assert not isinstance(effects, Status)
        return [effect for effect in effects or () if isinstance(effect, PatchObject)]

    def shows(self, *objects: StoredBuilder) -> None:
        """The API shows newer states."""
        for number, each in enumerate(objects, start=2):
            self.cluster.objects.set(each.at_version(str(number)).build())

    def answer(self) -> Wait | str | None:
        answer = self.plugin.wait_pre_bind(self.state, POD, "n1")
        return answer.message() if isinstance(answer, Status) else answer


def feasible(cluster: Cluster, claim: str) -> list[str]:
    """Where a pod with another claim could go."""
    evaluation = Evaluation(
        single_plugin_profile(VolumeBinding()), cluster, a_pod("q").with_claim(claim).info()
    )
    return [cluster.table.name(row) for row in evaluation.feasible.nonzero()[0].tolist()]


def test_a_volume_is_bound_to_its_claim_in_the_version_we_decided_on() -> None:
    (write,) = Reserved(HAND, CLAIM, VOLUME).writes()
    assert write.path == "/api/v1/persistentvolumes/v"
    assert write.change == {
        "metadata": {
            "uid": "uid-v",
            "resourceVersion": "1",
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "data",
                "uid": "uid-data",
                "resourceVersion": "1",
            }
        },
    }


def test_a_volume_kept_for_the_claim_is_not_marked_as_ours() -> None:
    (write,) = Reserved(HAND, CLAIM, VOLUME.kept_for("data")).writes()
    assert "annotations" not in write.change["metadata"]
    assert write.change["spec"]["claimRef"]["uid"] == "uid-data"


def test_a_claim_is_handed_to_its_provisioner() -> None:
    (write,) = Reserved(LATE, a_claim()).writes()
    assert write == PatchObject(
        "/api/v1/namespaces/default/persistentvolumeclaims/data",
        {"metadata": {"uid": "uid-data", "resourceVersion": "1", "annotations": SELECTED}},
    )


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([HAND, CLAIM, VOLUME.held_by("data")], id="the volume is"),
        pytest.param([LATE, a_claim().annotated(SELECTED)], id="the node is selected"),
    ],
)
def test_what_an_earlier_life_of_ours_has_written_is_only_waited_for(members: list[Member]) -> None:
    reserved = Reserved(*members)
    assert reserved.writes() == []
    assert reserved.answer() == WAIT


def test_nothing_is_written_or_waited_for_when_all_is_bound() -> None:
    reserved = Reserved(HAND, CLAIM.bound_to("v"), VOLUME.held_by("data"))
    assert reserved.writes() == []
    assert reserved.answer() is None


def test_pods_decided_later_count_on_the_decision() -> None:
    reserved = Reserved(HAND, CLAIM, a_claim("more", of="hand"), VOLUME)
    assert feasible(reserved.cluster, "more") == []
    reserved.plugin.unreserve(reserved.state, POD, "n1")
    assert feasible(reserved.cluster, "more") == ["n1"]


def test_a_pod_with_the_same_claim_follows_the_selected_node() -> None:
    reserved = Reserved(LATE, a_claim())
    assert feasible(reserved.cluster, "data") == ["n1"]


def test_giving_up_twice_is_giving_up_once() -> None:
    reserved = Reserved(HAND, CLAIM, VOLUME)
    for _ in range(2):
        reserved.plugin.unreserve(reserved.state, POD, "n1")
    volume = reserved.cluster.objects.get(PersistentVolume, "", "v")
    assert volume == VOLUME.build()


def test_giving_up_leaves_what_the_api_has_shown() -> None:
    reserved = Reserved(HAND, CLAIM, VOLUME)
    reserved.shows(VOLUME.held_by("data"))
    reserved.plugin.unreserve(reserved.state, POD, "n1")
    volume = reserved.cluster.objects.get(PersistentVolume, "", "v")
    assert volume is not None
    assert volume.spec.claim_ref is not None


def test_a_list_that_repeats_the_old_state_ends_no_assumption() -> None:
    reserved = Reserved(LATE, a_claim())
    reserved.cluster.objects.set(a_claim().build())
    claim = reserved.cluster.objects.get(PersistentVolumeClaim, "default", "data")
    assert claim is not None
    assert claim.metadata.annotations == SELECTED
    assert reserved.answer() == WAIT


BOUND, HELD = CLAIM.bound_to("v"), VOLUME.held_by("data")
MADE = a_volume("made").held_by("data")
CHOSEN = a_claim().annotated(SELECTED)
#: What the API shows one after the other, and what becomes of the pod then.
STATIC: dict[str, tuple[list[StoredBuilder], Wait | str | None]] = {
    "nothing yet": ([], WAIT),
    "the volume is ours, the claim follows": ([HELD], WAIT),
    "both are bound": ([HELD, BOUND], None),
    "the claim is bound, the volume not shown": ([BOUND], WAIT),
    "the volume was taken back": ([VOLUME], 'binding volumes: ClaimRef got reset for pv "v"'),
    "the volume was moved": (
        [HELD.usable_in("b")],
        'binding volumes: pv "v" node affinity doesn\'t match node "n1": '
        "no matching NodeSelectorTerms",
    ),
}
DYNAMIC: dict[str, tuple[list[StoredBuilder], Wait | str | None]] = {
    "nothing yet": ([], WAIT),
    "the provisioner is at work": ([CHOSEN], WAIT),
    "the volume is made": ([MADE, CHOSEN.bound_to("made")], None),
    "the claim names its volume and is not done": (
        [MADE, CHOSEN.with_spec(volumeName="made")],
        WAIT,
    ),
    "the volume has not been shown": ([CHOSEN.bound_to("made")], WAIT),
    "the volume was made elsewhere": (
        [MADE.usable_in("b"), CHOSEN.bound_to("made")],
        'binding volumes: pv "made" node affinity doesn\'t match node "n1": '
        "no matching NodeSelectorTerms",
    ),
    "the provisioner could not": (
        [a_claim().annotated(other="x")],
        'binding volumes: provisioning failed for PVC "data"',
    ),
    "no annotation is left": (
        [a_claim()],
        'binding volumes: selectedNode annotation reset for PVC "data"',
    ),
}


@pytest.mark.parametrize("case", STATIC.values(), ids=STATIC.keys())
def test_a_binding_goes_on(case: tuple[list[StoredBuilder], Wait | str | None]) -> None:
    shown, expected = case
    reserved = Reserved(HAND, CLAIM, VOLUME)
    reserved.shows(*shown)
    assert reserved.answer() == expected


@pytest.mark.parametrize("case", DYNAMIC.values(), ids=DYNAMIC.keys())
def test_a_provisioning_goes_on(case: tuple[list[StoredBuilder], Wait | str | None]) -> None:
    shown, expected = case
    reserved = Reserved(LATE, a_claim())
    reserved.shows(*shown)
    assert reserved.answer() == expected


@pytest.mark.parametrize(
    ("members", "gone", "problem"),
    [
        ([HAND, CLAIM, VOLUME], VOLUME, 'failed to check binding: persistentvolumes "v" not found'),
        (
            [HAND, CLAIM, VOLUME],
            CLAIM,
            'failed to check binding: persistentvolumeclaims "default/data" not found',
        ),
        (
            [LATE, a_claim()],
            a_claim(),
            'failed to check provisioning pvc: persistentvolumeclaims "default/data" not found',
        ),
    ],
)
def test_what_was_deleted_is_not_waited_for(
    members: list[Member], gone: StoredBuilder, problem: str
) -> None:
    reserved = Reserved(*members)
    reserved.cluster.objects.remove(gone.build())
    assert reserved.answer() == f"binding volumes: {problem}"


def test_a_node_that_has_gone_is_left_to_the_binding() -> None:
    reserved = Reserved(HAND, CLAIM, VOLUME)
    reserved.cluster.remove_node("n1")
    assert reserved.answer() is None


def test_the_time_to_wait_is_configured() -> None:
    reserved = Reserved(LATE, a_claim(), args={"bindTimeoutSeconds": 30})
    assert isinstance(answer := reserved.answer(), Wait)
    assert answer.timeout == 30


def test_the_smallest_volume_that_will_do_is_chosen_on_the_node() -> None:
    volumes = [
        a_volume("large", of="hand", size="9Gi"),
        a_volume("tiny", of="hand", size="1Mi"),
        a_volume("small-elsewhere", of="hand", size="1Gi").usable_in("b"),
        a_volume("small", of="hand", size="2Gi"),
    ]
    (write,) = Reserved(HAND, CLAIM, *volumes).writes()
    assert write.path.endswith("/small")
