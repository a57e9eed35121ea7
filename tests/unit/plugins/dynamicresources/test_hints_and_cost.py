"""What a change of devices wakes, and how often plugins look at them."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.cluster.object_store import StoredObject
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.runtime.evaluation import Evaluation
from arranger.plugins.dynamicresources import allocation_cache
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from arranger.plugins.dynamicresources.requests import DeviceSelection
from tests.builders import Member, PodBuilder, a_cluster, a_node, a_pod
from tests.devices import (
    DRIVER,
    a_claim,
    a_device,
    a_device_class,
    a_slice,
    claiming,
    claiming_from,
)
from tests.unit.plugins.dynamicresources.test_dynamic_resources import ASKING, GPUS, N1, POD
from tests.unit.plugins.evaluation import rejected, single_plugin_profile

# --- cost --------------------------------------------------------------------------------------


def test_replicas_are_searched_for_only_where_devices_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [a_node(f"n{n}") for n in range(20)]
    slices = [a_slice(f"n{n}", "a", "b") for n in range(20)]
    claims = [a_claim(f"c{n}").asks() for n in range(4)]
    cluster = a_cluster(*nodes, *slices, GPUS, *claims)
    searches: list[str] = []
    search = allocation_cache.AllocationQuery._search

    def counting(self: Any, row: int, selection: DeviceSelection) -> Any:
        searches.append(cluster.table.name(row))
        return search(self, row, selection)

    monkeypatch.setattr(allocation_cache.AllocationQuery, "_search", counting)
    plugin = DynamicResources()

    def feasible(claim: str) -> int:
        pod = claiming(a_pod(claim), claim).info()
        return int(Evaluation(single_plugin_profile(plugin), cluster, pod).feasible.sum())

    assert feasible("c0") == 20
    assert len(searches) == 20
    assert feasible("c1") == 20
    assert len(searches) == 20, "the same wish on the same devices"
    cluster.objects.set(claims[2].given("a", pool="n7").at_version("2").build())
    assert feasible("c1") == 20
    assert searches[20:] == ["n7"]
    cluster.objects.set(claims[3].given("b", pool="n7").at_version("2").build())
    assert feasible("c1") == 19
    assert searches[21:] == ["n7"]
    cluster.objects.set(claims[3].at_version("3").build())
    assert feasible("c1") == 20
    cluster.objects.set(claims[3].given("b", pool="n7").at_version("4").build())
    assert feasible("c1") == 19
    assert len(searches) == 22, "its devices are as they have been before"
    cluster.devices.check_consistent()
    cluster.set_node(nodes[3].in_zone("other").build())
    cluster.remove_node("n4")
    cluster.set_node(a_node("n20").build())
    assert feasible("c1") == 18
    assert searches[22:] == ["n3", "n20"], "a row may belong to another node by now"
    cluster.objects.set(a_device_class("gpu", "false").at_version("2").build())
    assert feasible("c1") == 0
    assert len(searches) == 24 + 20


def test_who_takes_a_device_is_noticed_though_an_older_slice_that_listed_it_is_gone() -> None:
    older, claims = a_slice("n1", "a"), [a_claim(f"c{n}").asks() for n in range(2)]
    newer = a_slice("n1", "a", name="newer").in_pool("n1", generation=2)
    cluster, plugin = a_cluster(N1, older, newer, GPUS, *claims), DynamicResources()
    cluster.objects.remove(older.build())

    def feasible() -> bool:
        pod = claiming(a_pod("c1"), "c1").info()
        return bool(Evaluation(single_plugin_profile(plugin), cluster, pod).feasible.any())

    assert feasible()
    cluster.objects.set(claims[0].given("a", pool="n1").at_version("2").build())
    assert not feasible(), "nobody gets it a second time"
    cluster.devices.check_consistent()


def test_a_riddle_is_given_up_on_every_node_soon() -> None:
    riddle = a_claim().asks(count=16).asks("x", count=5)
    riddle = riddle.constrained(matchAttribute=f"{DRIVER}/numa")
    cards = [a_device(f"g{n:02}", numa=n // 20) for n in range(40)]
    members: list[Member] = [a_node(f"n{n}") for n in range(50)]
    members += [a_slice(f"n{n}", *cards) for n in range(50)]
    reasons = rejected(DynamicResources(), POD, GPUS, riddle, *members)
    assert set(reasons.values()) == {
        ("gave up looking for devices: there are too many combinations",)
    }


def test_pods_without_claims_do_not_notice_them() -> None:
    cluster = a_cluster(N1, GPUS)
    version, storage = cluster.objects.version, cluster.objects.storage_version
    cluster.objects.set(ASKING.build())
    cluster.objects.set(a_slice("n1", "a").build())
    cluster.objects.set(ASKING.given("a").at_version("2").build())
    cluster.objects.set(a_device_class("gpu", "true").at_version("2").build())
    assert (cluster.objects.version, cluster.objects.storage_version) == (version, storage)
    cluster.objects.set(a_device_class("nic").build())
    assert cluster.objects.version == version + 1, "there is a resource of that class now"
    assert DynamicResources().sign_pod(a_pod().info()) == ()
    assert DynamicResources().sign_pod(POD.info()) is None, "judged alone"


# --- waking ------------------------------------------------------------------------------------


def stored(after: Any = None, before: Any = None) -> ClusterEvent:
    built: list[StoredObject | None] = [each and each.build() for each in (after, before)]
    resource = type(built[0] or built[1]).__name__
    return ClusterEvent(
        ActionType.OTHER, resource=resource, stored=built[0], stored_before=built[1]
    )


OTHERS = a_claim("other").asks()
HINTS: dict[str, tuple[PodBuilder, ClusterEvent, bool]] = {
    "its claim came": (POD, stored(ASKING), True),
    "its claim was allocated": (POD, stored(ASKING.given("a"), ASKING), True),
    "its claim got a finalizer": (POD, stored(ASKING.annotated({"a": "b"}), ASKING), False),
    "others came to use its claim": (
        POD,
        stored(ASKING.given("a").reserved_for("x", "y"), ASKING.given("a").reserved_for("x")),
        False,
    ),
    "its claim was reserved for it": (
        POD,
        stored(
            ASKING.given("a").reserved_for("x", POD.build().metadata.uid),
            ASKING.given("a").reserved_for("x"),
        ),
        True,
    ),
    "others use its claim no more": (
        POD,
        stored(ASKING.given("a").reserved_for("x"), ASKING.given("a").reserved_for("x", "y")),
        True,
    ),
    "another claim came": (POD, stored(OTHERS), False),
    "another claim was allocated": (POD, stored(OTHERS.given("a"), OTHERS), False),
    "another claim gave its devices back": (POD, stored(OTHERS, OTHERS.given("a")), True),
    "another claim went with its devices": (POD, stored(None, OTHERS.given("a")), True),
    "another claim went": (POD, stored(None, OTHERS), False),
    "a claim of that name in another namespace": (
        POD.in_namespace("x"),
        stored(ASKING),
        False,
    ),
    "a claim came while its own is yet to be made": (
        claiming_from(a_pod(), "gpu"),
        stored(ASKING),
        False,
    ),
    "devices came": (POD, stored(a_slice("n1", "a")), True),
    "a class came": (POD, stored(GPUS), True),
    "a namespace came": (
        POD,
        ClusterEvent(ActionType.OTHER, resource="Namespace"),
        False,
    ),
    "we took something back ourselves": (
        POD,
        ClusterEvent(ActionType.OTHER, resource="ResourceClaim"),
        True,
    ),
    "a pod with claims went": (
        POD,
        ClusterEvent(ActionType.POD_REMOVED, pod=POD.build()),
        True,
    ),
    "a pod without claims went": (
        POD,
        ClusterEvent(ActionType.POD_REMOVED, pod=a_pod().build()),
        False,
    ),
    "its claim was made": (POD, ClusterEvent(ActionType.OWN_UPDATE, pod=POD.build()), True),
}


@pytest.mark.parametrize("case", HINTS.values(), ids=HINTS.keys())
def test_a_pod_is_woken_by_what_may_help_it(
    case: tuple[PodBuilder, ClusterEvent, bool],
) -> None:
    pod, event, wakes = case
    info = pod.info()
    assert any(wake.matches(info, event) for wake in DynamicResources.queueing_hints) == wakes
