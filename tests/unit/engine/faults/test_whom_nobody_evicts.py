"""Which pods are spared because of what is not known, and which are not."""

from __future__ import annotations

from collections.abc import Callable

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
