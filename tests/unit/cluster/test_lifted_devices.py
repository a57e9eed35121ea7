"""What pods have reserved leaves the books for a while, and comes back only as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import ObjectKey
from arranger.api.types.resource_claims import DeviceId
from arranger.cluster.cluster import Cluster
from arranger.cluster.device_inventory import DeviceInventory
from tests.builders import a_cluster, a_node
from tests.devices import DRIVER, a_claim, a_device_class, a_slice

CLAIMS = {name: a_claim(name).asks() for name in ("own", "shared", "other")}
POD, MATE, STRANGER = (ObjectKey("default", name, f"uid-{name}") for name in ("p", "q", "s"))
Meanwhile = Callable[[Cluster], object]


def reserve(cluster: Cluster, claim: str, device: str, *pods: ObjectKey) -> None:
    found = CLAIMS[claim].build()
    given = CLAIMS[claim].given(device, on="n1").build().status.allocation
    for pod in pods:
        cluster.devices.claim_tracker.reserve(found, pod, given)


def shows(cluster: Cluster, claim: str, device: str) -> None:
    changed = CLAIMS[claim].given(device, on="n1").at_version("2")
    cluster.objects.set(changed.build())


def with_two_pods() -> tuple[Cluster, DeviceInventory]:
    """A pod with a claim of its own and one that it shares with its mate."""
    n1, n2 = a_slice("n1", "a", "b", "c", "d"), a_slice("n2", "x")
    cluster = a_cluster(a_node("n1"), a_node("n2"), n1, n2, a_device_class(), *CLAIMS.values())
    reserve(cluster, "own", "a", POD)
    reserve(cluster, "shared", "b", POD, MATE)
    return cluster, cluster.devices


def taken(devices: DeviceInventory) -> set[str]:
    ids = {DeviceId(DRIVER, pool, name) for pool in ("n1", "n2") for name in "abcdx"}
    devices.check_consistent()
    return {device.device for device in devices.claim_tracker.taken_of(ids)}


def test_it_is_out_of_the_books_and_comes_back_as_if_nothing_had_been() -> None:
    _, devices = with_two_pods()
    before, state = devices.version, devices.state_at("n1")
    lifted = devices.lift([POD.uid, MATE.uid, "uid-of-nobody"])
    assert taken(devices) == set()
    assert devices.changed_since(before) == {"n1"}
    assert devices.put_back(lifted)
    assert taken(devices) == {"a", "b"}
    assert devices.state_at("n1") == state
    assert devices.changed_since(before) == set(), "nobody need hear of it"
    writes = devices.claim_tracker.prepare_writes(POD.uid)
    assert [write.claim.name for write in writes] == ["own", "shared"]
    assert devices.claim_tracker.take_effects() == []


def test_a_claim_that_somebody_keeps_stays_allocated() -> None:
    _, devices = with_two_pods()
    lifted = devices.lift([POD.uid])
    assert taken(devices) == {"b"}
    assert devices.put_back(lifted)
    assert taken(devices) == {"a", "b"}


@pytest.mark.parametrize(
    ("meanwhile", "comes_back"),
    [
        pytest.param(lambda c: reserve(c, "other", "c", STRANGER), True, id="another device"),
        pytest.param(lambda c: reserve(c, "other", "a", STRANGER), False, id="the same device"),
        pytest.param(lambda c: reserve(c, "own", "d", STRANGER), False, id="the same claim"),
        pytest.param(lambda c: shows(c, "other", "c"), True, id="another claim is shown"),
        pytest.param(lambda c: shows(c, "own", "d"), False, id="its claim is shown"),
        pytest.param(
            lambda c: c.objects.remove(CLAIMS["shared"].build()), False, id="its claim is deleted"
        ),
        pytest.param(
            lambda c: c.objects.set(a_slice("n1", "b", "c").at_version("2").build()),
            False,
            id="a device is gone",
        ),
        pytest.param(
            lambda c: c.objects.set(a_device_class("gpu", "false").at_version("2").build()),
            False,
            id="its class is another",
        ),
        pytest.param(
            lambda c: reserve(c, "other", "c", POD), False, id="the pod has reserved again"
        ),
    ],
)
def test_it_comes_back_only_while_it_is_nobody_elses(
    meanwhile: Meanwhile, comes_back: bool
) -> None:
    cluster, devices = with_two_pods()
    before = devices.version
    lifted = devices.lift([POD.uid, MATE.uid])
    meanwhile(cluster)
    left = taken(devices)
    assert devices.put_back(lifted) == comes_back
    assert taken(devices) == (left | {"a", "b"} if comes_back else left)
    assert devices.changed_since(before) == {"n1"}, "others have to look at what has changed"


def test_an_allocation_that_others_have_given_up_meanwhile_does_not_come_back() -> None:
    _, devices = with_two_pods()
    lifted = devices.lift([POD.uid])
    devices.claim_tracker.release_pod(MATE.uid)
    assert not devices.put_back(lifted)
    assert taken(devices) == set()


def test_nor_does_one_that_is_being_taken_back() -> None:
    cluster, devices = with_two_pods()
    lifted = devices.lift([POD.uid, MATE.uid])
    devices.claim_tracker.plan_deallocation(CLAIMS["own"].build(), STRANGER)
    devices.claim_tracker.take_effects()
    assert not devices.put_back(lifted)
    assert taken(devices) == set()
    cluster.check_consistent()
