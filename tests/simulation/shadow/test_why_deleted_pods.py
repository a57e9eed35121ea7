"""``arranger why`` about pods that are being deleted, and about those that wait for their room."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arranger.api.timestamps import second_time
from tests.builders import Manifest, a_pod, a_pod_group
from tests.builders.base import ManifestBuilder
from tests.simulation.shadow.asking import NOW, Given, busy, node, why


def deleted(pod: ManifestBuilder, seconds: float = 30) -> ManifestBuilder:
    """One that has so many seconds left to go."""
    return pod.deleting(second_time(NOW + timedelta(seconds=seconds)))


def held(pod: ManifestBuilder, finalizer: str) -> Manifest:
    manifest = pod.manifest()
    manifest["metadata"]["finalizers"] = [finalizer]
    return manifest


SOON = "2026-01-02 00:00:30 UTC"
#: Sentence → a pod on its way out, what is said of it.
GOING: dict[str, tuple[Given, str]] = {
    "it has time left": (
        deleted(busy("old", 1)),
        f"it is being deleted, and has to be gone from node n1 by {SOON}",
    ),
    "its time is over": (
        deleted(busy("old", 1), -60),
        "it is being deleted, and should have gone from node n1 by 2026-01-01 23:59:00 UTC",
    ),
    "somebody holds it back": (
        held(deleted(busy("old", 1)), "example.com/hold"),
        f"it is being deleted, and has to be gone from node n1 by {SOON}; "
        "it waits for finalizers: example.com/hold",
    ),
    "it has ended": (
        deleted(busy("old", 1).in_phase("Succeeded")),
        f"it has ended (Succeeded) and is being deleted, and has to be gone from node n1 by {SOON}",
    ),
    "it had no node": (
        deleted(a_pod("old").needs(cpu=1)),
        f"it is being deleted, and has to be gone by {SOON}",
    ),
    "its controller makes it again": (
        deleted(busy("old", 1).owned_by("StatefulSet", "db")),
        f"it is being deleted, and has to be gone from node n1 by {SOON}",
    ),
}


@pytest.mark.parametrize(("pod", "reason"), GOING.values(), ids=GOING.keys())
def test_a_pod_that_is_being_deleted_says_so(pod: Given, reason: str) -> None:
    (answer,) = why("old", node(), pod)
    assert (answer.state, answer.reason) == ("Terminating", reason)


GONE = "1 pod that is being deleted there is gone"
NEW = a_pod("new").needs(cpu=3)
#: Sentence → the cluster beside node n1 of 4 cpus, who leaves, what is said of it.
WAITS: dict[str, tuple[list[Given], list[str], str]] = {
    "it waits for one": (
        [deleted(busy("old", 3)), NEW],
        ["default/old"],
        f", once {GONE}",
    ),
    "it waits for two": (
        [deleted(busy("old", 2)), deleted(busy("older", 2)), NEW],
        ["default/old", "default/older"],
        ", once 2 pods that are being deleted there are gone",
    ),
    "it waits for a port": (
        [deleted(busy("old", 1).host_port(80)), a_pod("new").needs(cpu=1).host_port(80)],
        ["default/old"],
        f", once {GONE}",
    ),
    "there is room beside": ([deleted(busy("old", 1)), NEW], [], ""),
    "who is deleted there has ended": (
        [deleted(busy("old", 3).in_phase("Succeeded")), NEW],
        [],
        "",
    ),
    "another node has room": ([deleted(busy("old", 4)), node("n2", cpu=3), NEW], [], ""),
    "one is evicted, too": (
        [deleted(busy("old", 1)), busy("low", 3), NEW.with_priority(9).needs(cpu=4)],
        ["default/low", "default/old"],
        f", once 1 pod has left for it and {GONE}",
    ),
    "it was nominated": (
        [deleted(busy("old", 3)), NEW.with_priority(9).with_status(nominatedNodeName="n1")],
        ["default/old"],
        f", once {GONE}",
    ),
}


@pytest.mark.parametrize(("given", "left", "once"), WAITS.values(), ids=WAITS.keys())
def test_who_is_being_deleted_and_has_to_leave_first_is_named(
    given: list[Given], left: list[str], once: str
) -> None:
    (answer,) = why("new", node(), *given)
    (at,) = answer.nodes.values()
    assert answer.state == "Placeable"
    assert answer.reason == f"it goes to node {at} when it is tried{once}"
    assert answer.evicted == left


def test_a_gang_waits_for_the_room_of_a_pod_that_is_being_deleted() -> None:
    members = [a_pod(name).needs(cpu=2).in_pod_group("g") for name in "ab"]
    group = a_pod_group("g").with_spec(minMember=2)
    answers = why("gang/g", node(), deleted(busy("old", 2)), group, *members)
    assert [answer.evicted for answer in answers] == [["default/old"]] * 2
