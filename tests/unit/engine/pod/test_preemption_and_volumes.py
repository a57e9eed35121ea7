"""Who waits because evictions do not help yet is tried again when its claims change."""

from __future__ import annotations

import pytest

from arranger.api.annotations import SELECTED_NODE
from arranger.api.effects import Bind, DeletePod
from arranger.api.types.storage import PersistentVolumeClaim
from arranger.plugins import default_profile
from tests.builders import PodBuilder, StoredBuilder, a_node, a_pod
from tests.storage import a_claim, a_class, a_volume
from tests.unit.engine.harness import EngineHarness, of_kind


def store(harness: EngineHarness, *objects: StoredBuilder) -> None:
    """The watch shows these."""
    for each in objects:
        built = each.build()
        harness.engine.handlers.kinds[type(built)].updated(built, harness.now)
        harness.engine.check_consistent()


def a_full_cluster() -> EngineHarness:
    """A node whose pod could leave, and one whose pod could not."""
    harness = EngineHarness(default_profile())
    harness.observe(a_node("n").offers(cpu=4), a_node("o").offers(cpu=4))
    harness.observe(a_pod("old").needs(cpu=4).on("n"))
    harness.observe(a_pod("stays").needs(cpu=4).with_priority(9).on("o"))
    return harness


def evicted(harness: EngineHarness) -> set[str]:
    return {delete.pod.name for delete in of_kind(DeletePod, harness.effects)}


def taker() -> PodBuilder:
    return a_pod("new").needs(cpu=3).with_priority(9)


def test_room_is_made_as_soon_as_the_volume_of_a_claim_is_there() -> None:
    """No node is refused for the claim, as all are full: it is found where victims are sought.

    kube-scheduler tries such a pod again after five minutes.
    """
    harness = a_full_cluster()
    store(harness, a_class(), a_claim("data").annotated({SELECTED_NODE: "o"}))
    harness.observe(taker().with_claim("data"))
    harness.run()
    assert evicted(harness) == set(), "the volume is made for the other node"
    harness.advance_to(2)
    store(harness, a_volume("v").held_by("data"), a_claim("data").bound_to("v"))
    harness.advance_to(12)
    assert evicted(harness) == {"old"}


def test_claims_of_others_wake_nobody() -> None:
    harness = a_full_cluster()
    store(harness, a_class(), a_claim("data").annotated({SELECTED_NODE: "o"}))
    harness.observe(taker().with_claim("data"))
    harness.run()
    store(harness, a_volume("v").held_by("theirs"), a_claim("theirs").bound_to("v"))
    before = harness.entity("new").attempts
    harness.advance_to(60)
    assert harness.entity("new").attempts == before


@pytest.mark.parametrize("taker", [taker(), taker().in_gang("g", 1)], ids=["a pod", "a gang"])
def test_room_is_not_kept_for_a_pod_whose_claim_has_gone(taker: PodBuilder) -> None:
    """kube-scheduler keeps it as long as the pod waits."""
    harness = a_full_cluster()
    store(harness, a_class(), a_claim("data"))
    harness.observe(taker.with_claim("data"))
    harness.observe(a_pod("small").needs(cpu=2).with_priority(1))
    harness.run()
    assert evicted(harness) == {"old"}
    harness.engine.handlers.kinds[PersistentVolumeClaim].deleted(
        a_claim("data").build(), harness.now
    )
    harness.observe_deleted(a_pod("old").needs(cpu=4).on("n"))
    harness.advance_to(30)
    assert {bind.pod.name for bind in of_kind(Bind, harness.effects)} == {"small"}
