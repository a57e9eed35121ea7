"""New pods in a forecast have the claims that controllers would make for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from arranger.api.types.resource_claims import ResourceClaim
from arranger.api.types.storage import PersistentVolumeClaim
from arranger.shadow.forecasts.changes import ClusterChange, create, delete, more_members
from arranger.shadow.forecasts.forecast import Driver, Forecast
from tests import devices, storage
from tests.builders import Manifest, PodBuilder, a_pod
from tests.simulation.shadow.asking import NOW, Given, a_shadow, manifests, node
from tests.simulation.shadow.truth import CONFIG
from tests.simulation.shadow.what_if.test_daemon_sets import (
    a_daemon,
    a_daemon_set,
    answered,
    written,
)

#: By the kind of its controller: what there is with a pod that has a claim.
OldPod = Callable[[str], list[Given]]
SPACE = {"requests": {"storage": "1Gi"}}


def a_template(name: str = "gpu") -> Manifest:
    """Each claim that is made from it asks for one device."""
    spec = {"spec": devices.a_claim().asks().manifest()["spec"]}
    meta = {"name": name, "namespace": "default"}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    return {**kind, "metadata": meta, "spec": spec}


def scratching(name: str, *, of: str | None = "late") -> PodBuilder:
    """It has a volume of its own."""
    named = {} if of is None else {"storageClassName": of}
    modes = ["ReadWriteOnce"]
    return a_pod(name).needs(cpu=1).with_scratch("tmp", accessModes=modes, resources=SPACE, **named)


def using(name: str) -> PodBuilder:
    """It has a device of its own."""
    return devices.claiming_from(a_pod(name).needs(cpu=1), "gpu")


DEVICES: list[Given] = [node(), devices.a_device_class(), devices.a_slice("n1", "d0", "d1")]
DEFAULT = storage.a_class().annotated({"storageclass.kubernetes.io/is-default-class": "true"})


def given_volumes(of: storage.ClassBuilder) -> list[Given]:
    return [node(), of]


#: What there is, and what is created.
CREATED: dict[str, tuple[Sequence[Given], Sequence[Given]]] = {
    "a volume of a class that waits for pods": (
        given_volumes(storage.a_class()),
        [scratching("new")],
    ),
    "a volume that is made at once": (
        given_volumes(storage.a_class().immediate()),
        [scratching("new")],
    ),
    "a volume of the default class": (given_volumes(DEFAULT), [scratching("new", of=None)]),
    "devices, by a template that is created, too": (DEVICES, [a_template(), using("new")]),
    "devices, by a template that is there": ([*DEVICES, a_template()], [using("new")]),
}


@pytest.mark.parametrize("case", CREATED)
def test_who_is_created_has_claims(case: str, tmp_path: Path) -> None:
    there, new = CREATED[case]
    cluster, file = written(tmp_path / "c.yaml", *there), written(tmp_path / "new.yaml", *new)
    told = answered("whatif", "--snapshot", cluster, "-f", file)
    assert told["placed"] == {"default/new": "n1"}, told


@pytest.mark.parametrize("own", [False, True], ids=["of the cluster", "of the copy"])
def test_copies_have_claims_of_their_own(own: bool, tmp_path: Path) -> None:
    """Of two devices one is for each copy."""
    template: list[Given] = [a_template()]
    cluster = written(tmp_path / "c.yaml", *DEVICES, *([] if own else template))
    file = written(tmp_path / "new.yaml", *(template if own else []), using("new"))
    told = answered("capacity", "--snapshot", cluster, "-f", file)
    assert told["copies"] == 2


def settled(driver: Driver, *changes: ClusterChange) -> Forecast:
    driver.change(changes)
    told = driver.settle()
    told.engine.check_consistent()
    return told


def a_driver(*given: Given) -> Driver:
    shadow = a_shadow(given)
    driver = Driver(shadow.engine, shadow.objects, CONFIG, NOW)
    driver.settle()
    return driver


def old_with_a_device(kind: str) -> list[Given]:
    """``old`` uses the device ``d0`` by a claim that was made for it; nobody shows the template."""
    old = a_pod("old").needs(cpu=1).owned_by(kind, "web").with_uid("uid-old").on("n1")
    old = devices.claiming_from(old.in_phase("Running"), "gpu", "old-gpu")
    claim = devices.a_claim("old-gpu").asks().given("d0", on="n1").reserved_for("uid-old")
    return [*DEVICES, claim.made_for(old), old]


def old_with_a_volume(kind: str) -> list[Given]:
    """The same with a volume."""
    old = scratching("old").owned_by(kind, "web").with_uid("uid-old").on("n1").in_phase("Running")
    claim = storage.a_claim("old-tmp").bound_to("v").made_for(old)
    return [node(), storage.a_class(), storage.a_volume("v").held_by("old-tmp"), claim, old]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("given", [old_with_a_device, old_with_a_volume])
def test_who_comes_back_has_claims_in_place_of_those_that_went(kind: str, given: OldPod) -> None:
    told = settled(a_driver(*given(kind)), delete("pod", "default/old"))
    (again,) = told.replaced.values()
    assert told.nodes == {again: "n1"}
    claims = [*told.objects.of(PersistentVolumeClaim), *told.objects.of(ResourceClaim)]
    name = again.rpartition("/")[2]
    owners = [each.metadata.controller for each in claims]
    assert [owner and owner.name for owner in owners] == [name]
    assert "uid-old" not in {owner and owner.uid for owner in owners}


@pytest.mark.parametrize("given", [old_with_a_device, old_with_a_volume])
def test_more_members_have_claims_like_those_of_the_member_they_are_like(given: OldPod) -> None:
    driver = a_driver(*given("Job"))
    told = settled(driver, more_members({"default/old": 1}, "one more"))
    assert told.nodes == {"default/old-more-1": "n1"}


def test_a_pod_of_a_daemon_set_on_a_new_node_has_its_claims(tmp_path: Path) -> None:
    daemon = a_daemon("log-abc", "n1").with_uid("uid-log")
    daemon = devices.claiming_from(daemon, "gpu", "log-gpu")
    claim = devices.a_claim("log-gpu").asks().given("d0", on="n1").reserved_for("uid-log")
    cluster = written(tmp_path / "c.yaml", *DEVICES, claim.made_for(daemon), daemon)
    told = answered("whatif", "--snapshot", cluster, "--add-nodes", "1xn1")
    assert told["placed"] == {"default/log-abc-n1-like-1": "n1-like-1"}


def test_pods_of_a_daemon_set_of_a_file_have_claims(tmp_path: Path) -> None:
    made = a_daemon_set(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    cluster = written(tmp_path / "c.yaml", *DEVICES, a_template())
    told = answered("whatif", "--snapshot", cluster, "-f", written(tmp_path / "new.yaml", made))
    assert list(told["placed"].values()) == ["n1"]


def test_a_claim_of_which_nobody_knows_what_it_asks_for_is_not_made() -> None:
    told = settled(a_driver(*DEVICES), create(manifests([using("new")]), "new"))
    assert list(told.waiting) == ["default/new"]
    assert "ResourceClaim not created yet" in told.waiting["default/new"]


def test_who_is_gone_for_good_leaves_no_claims() -> None:
    driver = a_driver(*old_with_a_device("Job"))
    told = settled(
        driver, delete("job", "default/web"), create(manifests([a_template(), using("new")]), "new")
    )
    (claim,) = told.objects.of(ResourceClaim)
    assert claim.metadata.name == "new-gpu"
    assert told.nodes == {"default/new": "n1"}
