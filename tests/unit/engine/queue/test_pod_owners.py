"""What a Deployment, a ReplicaSet or a PodGroup says by annotations counts for its pods."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from arranger.api.effects import DeletePod
from arranger.api.types.core import ObjectMeta, OwnerReference
from arranger.api.types.workloads import Owner
from arranger.plugins import default_profile
from arranger.quota.pod_owners import MAX_ASKED, PodOwners
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_pod, a_pod_group, a_queue
from tests.queueing import CARD, GPU, gpu_node
from tests.unit.engine.harness import EngineHarness, of_kind, placements

SERVICE = "volcano.sh/service.type"
PREEMPTABLE = "volcano.sh/preemptable"
CARD_NAME = "volcano.sh/card.name"


def workload(name: str, owner: str = "", **notes: str) -> Owner:
    """A workload; ``notes`` by their last words."""
    words = {"service": SERVICE, "preemptable": PREEMPTABLE, "card": CARD_NAME}
    owners = [OwnerReference(kind="Deployment", name=owner, uid=f"uid-Deployment-{owner}")]
    kind = "Deployment" if not owner else "ReplicaSet"
    return Owner(
        ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{kind}-{name}",
            annotations={words[key]: text for key, text in notes.items()} | {"other": "x"},
            owner_references=owners if owner else [],
        )
    )


def of_deployment(name: str, deployment: str, queue: str, **requests: Any) -> PodBuilder:
    pod = a_pod(name).needs({GPU: 4}, **requests).in_queue(queue)
    return pod.owned_by("ReplicaSet", f"{deployment}-rs")


class World:
    """One node of 8 cards; training has them all, and a service wants 4."""

    def __init__(self) -> None:
        # The kind of the owner says nothing.
        self.harness = EngineHarness(default_profile(), queues=QuotaConfig())
        queues = (a_queue("inference", reclaimable=False), a_queue("training"))
        self.harness.observe(gpu_node("n", 8), *queues)

    def owner(self, made: Owner) -> None:
        self.harness.engine.owner_handlers.on_updated(made, self.harness.now)
        self.harness.engine.check_consistent()

    def evicted(self) -> set[str]:
        self.harness.now += 20
        return {delete.pod.name for delete in of_kind(DeletePod, self.harness.run())}


TRAINING = [workload("train-rs", "train"), workload("train", service="training")]
SERVING = [workload("serve-rs", "serve"), workload("serve", service="inference")]
PODS = [
    of_deployment("t0", "train", "training").on("n"),
    of_deployment("t1", "train", "training").on("n"),
    of_deployment("s", "serve", "inference").with_priority(10),
]


@pytest.mark.parametrize("seed", range(24))
def test_in_whatever_order_they_appear_the_service_takes_from_training(seed: int) -> None:
    world = World()
    things: list[Any] = [*TRAINING, *SERVING, *PODS]
    random.Random(seed).shuffle(things)
    evicted: set[str] = set()
    for thing in things:
        if isinstance(thing, Owner):
            world.owner(thing)
        else:
            world.harness.observe(thing)
        evicted |= world.evicted()
    bound = [name for name, _ in placements(world.harness.effects)]
    assert len(evicted) == 1 or bound == ["s"], "it came before training was there"


@pytest.mark.parametrize("edited", ["serve", "train"])
def test_an_edit_counts_at_once(edited: str) -> None:
    world = World()
    for each in (*TRAINING, *SERVING):
        if each.metadata.name == edited:
            each = workload(edited, service="other")
        world.owner(each)
    world.harness.observe(*PODS)
    assert world.evicted() == set()
    world.owner(TRAINING[1] if edited == "train" else SERVING[1])
    assert len(world.evicted()) == 1


def test_a_deployment_that_may_not_be_evicted_is_left_alone_until_it_may() -> None:
    world = World()
    for each in (*TRAINING, *SERVING):
        world.owner(each)
    world.owner(workload("train", service="training", preemptable="false"))
    world.harness.observe(*PODS)
    assert world.evicted() == set()
    world.owner(workload("train", service="training", preemptable="true"))
    assert len(world.evicted()) == 1


SAID = ["", "false", "true"]


@pytest.mark.parametrize(
    ("own", "group", "owner"), list(itertools.product(SAID, repeat=3)), ids="-".join
)
def test_the_pod_goes_before_its_pod_group_and_that_before_its_owner(
    own: str, group: str, owner: str
) -> None:
    world = World()
    for each in (*TRAINING, *SERVING):
        world.owner(each)
    if owner:
        world.owner(workload("train", service="training", preemptable=owner))
    notes = {PREEMPTABLE: group} if group else {}
    world.harness.observe(a_pod_group("g", least=1).annotated(notes))
    for pod in PODS:
        if pod.manifest()["metadata"]["name"] != "s":
            pod = pod.in_pod_group("g").annotated({PREEMPTABLE: own} if own else {})
        world.harness.observe(pod)
    may_go = (own or group or owner or "true") == "true"
    assert bool(world.evicted()) == may_go


def test_the_card_that_a_deployment_names_is_the_one_its_pods_get() -> None:
    world = World()
    world.harness.observe(gpu_node("m", 8, "B"))
    world.owner(workload("serve-rs", "serve"))
    world.harness.observe(PODS[2])
    world.owner(workload("serve", card="B"))
    world.harness.run()
    assert placements(world.harness.effects) == [("s", "m")]


def test_cards_that_a_deployment_asks_for_are_counted_by_its_pods_alone() -> None:
    world = World()
    world.owner(workload("serve-rs", "serve"))
    asking = workload("serve")
    asking.metadata.annotations["volcano.sh/card.request"] = f'{{"{CARD}": 99}}'
    world.owner(asking)
    world.harness.observe(a_queue("inference", cards={CARD: 4}), PODS[2])
    world.harness.run()
    assert placements(world.harness.effects) == [("s", "n")]


def test_pods_of_owners_that_say_other_things_are_not_taken_for_each_other() -> None:
    world = World()
    world.harness.observe(gpu_node("m", 8, "B"))
    for name, card in (("one", "B"), ("two", CARD)):
        world.owner(workload(f"{name}-rs", name))
        world.owner(workload(name, card=card))
        world.harness.observe(of_deployment(name, name, "inference"))
    world.harness.run()
    assert dict(placements(world.harness.effects)) == {"one": "m", "two": "n"}


def test_of_owners_no_more_is_kept_than_what_counts() -> None:
    owners = PodOwners()
    made = workload("rs", "d", service="training")
    assert owners.set(made.metadata) is False, "no pod of it is known"
    pod = of_deployment("p", "", "q").owned_by("x", "x").build().metadata
    pod.owner_references = [OwnerReference(kind="ReplicaSet", uid="uid-ReplicaSet-rs")]
    assert owners.annotations_of(pod) == {SERVICE: "training"}
    assert owners.set(made.metadata) is False
    owners.set(workload("d", service="inference").metadata)
    assert owners.annotations_of(pod) == {SERVICE: "training"}, "the nearer one says"
    assert owners.set(workload("d", preemptable="false").metadata) is True
    assert owners.remove(made.metadata) is True
    assert owners.annotations_of(pod) == {}


def test_what_a_deployment_has_copied_onto_its_replica_set_counts_where_it_is_not_known() -> None:
    owners = PodOwners()
    copy = workload("rs", "d", service="training").metadata
    copy.annotations["deployment.kubernetes.io/revision"] = "1"
    owners.set(copy)
    pod = ObjectMeta(
        namespace="default", owner_references=[OwnerReference(kind="ReplicaSet", uid=copy.uid)]
    )
    assert owners.annotations_of(pod) == {SERVICE: "training"}
    owners.set(workload("d").metadata)
    assert owners.annotations_of(pod) == {}, "the Deployment does not say it any more"


def test_nobody_is_owned_by_what_is_in_another_namespace() -> None:
    owners = PodOwners()
    made = workload("rs", "d", service="training")
    pod = ObjectMeta(
        namespace="culprit",
        owner_references=[OwnerReference(kind="ReplicaSet", uid=made.metadata.uid)],
    )
    assert owners.annotations_of(pod) == {}
    owners.set(made.metadata)
    owners.set(workload("d", preemptable="false").metadata)
    assert owners.annotations_of(pod) == {}
    assert not owners.is_owned_by(pod, workload("d").metadata.uid)
    below = workload("mine", "d").metadata
    below.namespace = "culprit"
    owners.set(below)
    pod.owner_references = [OwnerReference(kind="ReplicaSet", uid=below.uid)]
    assert owners.annotations_of(pod) == {}


def test_owners_above_each_other_are_looked_at_up_to_the_fifth() -> None:
    owners = PodOwners()
    for number in range(1, 7):
        says = {CARD_NAME: "A"} if number == 6 else {SERVICE: "training"} if number == 5 else {}
        above = [OwnerReference(uid=f"{number + 1}")]
        owners.set(ObjectMeta(uid=f"{number}", annotations=says, owner_references=above))
    pod = ObjectMeta(owner_references=[OwnerReference(uid="1")])
    assert owners.annotations_of(pod) == {SERVICE: "training"}


def test_owners_that_own_each_other_end() -> None:
    owners = PodOwners()
    one, other = workload("a", "b"), workload("b")
    other.metadata.owner_references = [OwnerReference(uid=one.metadata.uid)]
    owners.set(one.metadata)
    owners.set(other.metadata)
    pod = ObjectMeta(namespace="default", owner_references=[OwnerReference(uid=one.metadata.uid)])
    assert owners.annotations_of(pod) == {}


def test_of_owners_that_nobody_has_seen_no_more_is_kept_than_so_much() -> None:
    owners = PodOwners()
    for number in range(MAX_ASKED + 10):
        uid = f"invented-{number}"
        owners.annotations_of(
            ObjectMeta(namespace="default", owner_references=[OwnerReference(uid=uid)])
        )
    owners.annotations_of(
        ObjectMeta(namespace="default", owner_references=[OwnerReference(uid="x" * 100_000)])
    )
    assert len(owners._asked) <= MAX_ASKED
    assert max(map(len, owners._asked), default=0) < 1000
    late = workload("late", service="training").metadata
    late.uid = "invented-3"
    assert owners.set(late) is True, "pods of it are told otherwise all the same"
