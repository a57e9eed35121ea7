"""Which pods are spared because of what is not known, and which are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from arranger.api.settings.gang_membership import gang_membership, owned_membership
from arranger.engine.context.spared_pods import SparedPods
from arranger.gangs.registry import GangRegistry
from arranger.quota.pod_owners import PodOwners
from tests.builders import PodBuilder, a_pod
from tests.builders.workloads import a_job_set, controlled, job_set_pods, kubeflow_pods, replicas

TRAIN = replicas("PyTorchJob", "net", Worker=1)
SET = a_job_set(worker=(1, 1))
OF_TRAIN, OF_SET = kubeflow_pods(TRAIN, Worker=1)[0], job_set_pods(SET, "worker", 1, 1)[0]
IN_GANG, IN_GROUP, LONE = a_pod("g").in_gang("g", 2), a_pod("v").in_pod_group("v"), a_pod("p")
#: Below a Deployment, whose ReplicaSet is known.
BELOW = controlled(a_pod("d"), "apps/v1", "ReplicaSet", "set", "uid-set")
EVERYBODY = {
    "of the PyTorchJob": OF_TRAIN,
    "of the JobSet": OF_SET,
    "of the gang": IN_GANG,
    "of the PodGroup": IN_GROUP,
    "of the Deployment": BELOW,
    "alone": LONE,
}

NOT_KNOWN: dict[str, tuple[Callable[[SparedPods], None], Callable[[SparedPods], None], set[str]]]
NOT_KNOWN = {
    "a PyTorchJob": (
        lambda spared: spared.spare_owned("default", TRAIN.uid, "PyTorchJob net"),
        lambda spared: spared.end_owned(TRAIN.uid),
        {"of the PyTorchJob"},
    ),
    "a JobSet, whose pods Jobs control": (
        lambda spared: spared.spare_owned("default", SET.uid, f"JobSet {SET.name}"),
        lambda spared: spared.end_owned(SET.uid),
        {"of the JobSet"},
    ),
    "a Deployment": (
        lambda spared: spared.spare_owned("default", "uid-deployment", "Deployment d"),
        lambda spared: spared.end_owned("uid-deployment"),
        {"of the Deployment"},
    ),
    "an owner of another namespace": (
        lambda spared: spared.spare_owned("other", TRAIN.uid, "PyTorchJob net"),
        lambda spared: spared.end_owned(TRAIN.uid),
        set(),
    ),
    "a PodGroup": (
        lambda spared: spared.spare_group("default/v"),
        lambda spared: spared.end_group("default/v"),
        {"of the PodGroup"},
    ),
    "a namespace": (
        lambda spared: spared.spare_namespace("default"),
        lambda spared: spared.end_namespace("default"),
        set(EVERYBODY),
    ),
    "another namespace": (
        lambda spared: spared.spare_namespace("other"),
        lambda spared: spared.end_namespace("other"),
        set(),
    ),
    "a pod": (
        lambda spared: spared.spare_pod(LONE.info().uid, ""),
        lambda spared: spared.end_pod(LONE.info().uid),
        {"alone"},
    ),
}


def a_world() -> tuple[GangRegistry, SparedPods]:
    registry, owners = GangRegistry(), PodOwners()
    owners.set(
        controlled(a_pod("set"), "apps/v1", "Deployment", "d", "uid-deployment")
        .with_uid("uid-set")
        .build()
        .metadata
    )
    for pod, title in ((OF_TRAIN, "PyTorchJob net"), (OF_SET, f"JobSet {SET.name}")):
        registry.on_pod_updated(
            pod.build(), owned_membership(pod.build(), f"of-{pod.info().uid}", "", title)
        )
    return registry, SparedPods(registry, owners)


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_spared_are_the_pods_of_what_is_not_known(name: str) -> None:
    begin, end, expected = NOT_KNOWN[name]
    _, spared = a_world()
    assert not spared
    begin(spared)
    assert {who for who, pod in EVERYBODY.items() if spared.spares(pod.info())} == expected
    version = spared.version
    end(spared)
    assert not spared
    assert spared.version > version
    assert not any(spared.spares(pod.info()) for pod in EVERYBODY.values())


def test_a_gang_has_somebody_whom_nobody_evicts_where_one_of_its_pods_is_set_aside() -> None:
    registry, spared = a_world()
    pod: PodBuilder = IN_GANG
    registry.on_pod_updated(pod.build(), gang_membership(pod.build()))
    gang = registry.gangs["default/g"]
    assert not spared.spares_any_of(gang)
    spared.spare_pod("uid-of-a-member-that-is-set-aside", "default/g")
    assert spared.spares_any_of(gang)
    assert not spared.spares(pod.info()), "the others are judged by what is said of them"


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_who_is_spared_already_is_no_news(name: str) -> None:
    begin, end, _ = NOT_KNOWN[name]
    _, spared = a_world()
    end(spared)
    assert spared.version == 0
    begin(spared)
    version = spared.version
    begin(spared)
    assert spared.version == version > 0


class Looks(dict[Any, Any]):
    """Counts how often somebody has looked at all of it."""

    count = 0

    def __iter__(self) -> Iterator[Any]:
        type(self).count += len(self)
        return super().__iter__()

    def values(self) -> Any:
        type(self).count += len(self)
        return super().values()

    def items(self) -> Any:
        type(self).count += len(self)
        return super().items()


def test_who_is_spared_is_found_without_a_look_at_the_whole_gang_or_at_all_owners() -> None:
    registry, spared = a_world()
    pods = [a_pod(f"p{each}") for each in range(50)]
    for pod in pods:
        membership = owned_membership(pod.build(), "of-train", "", "PyTorchJob net")
        registry.on_pod_updated(pod.build(), membership)
    for each in range(50):
        spared.spare_owned("default", f"uid-{each}", f"PyTorchJob other-{each}")
        spared.spare_pod(f"uid-of-{each}", f"default/other-{each}")
    gang = registry.gangs["default/of-train"]
    Looks.count = 0
    gang.memberships = Looks(gang.memberships)
    spared._by_owner, spared._pods = Looks(spared._by_owner), Looks(spared._pods)
    assert not any(spared.spares(pod.info()) for pod in pods)
    assert not spared.spares_any_of(gang)
    spared.spare_owned("default", "uid-net", "PyTorchJob net")
    assert all(spared.spares(pod.info()) for pod in pods)
    assert spared.spares_any_of(gang)
    assert Looks.count == 0


def test_an_owner_that_is_made_again_is_not_known_until_both_are_gone() -> None:
    _, spared = a_world()
    spared.spare_owned("default", "uid-old", "PyTorchJob net")
    spared.spare_owned("default", "uid-new", "PyTorchJob net")
    spared.end_owned("uid-old")
    assert spared.spares(OF_TRAIN.info())
    spared.end_owned("uid-new")
    assert not spared.spares(OF_TRAIN.info())


def test_a_pod_that_is_set_aside_in_another_gang_than_before_spares_the_other_gang() -> None:
    registry, spared = a_world()
    registry.on_pod_updated(IN_GANG.build(), gang_membership(IN_GANG.build()))
    gang = registry.gangs["default/g"]
    spared.spare_pod("uid-odd", "default/g")
    spared.spare_pod("uid-odd", "default/other")
    assert not spared.spares_any_of(gang)
    spared.spare_pod("uid-odd", "default/g")
    spared.end_pod("uid-odd")
    assert not spared.spares_any_of(gang)
