"""DynamicResources' verdicts: where pods with resource claims may go, and who is woken by what."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.cluster.object_store import StoredObject
from arranger.framework.cluster_event import ActionType, ClusterEvent
from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins.default_binder import DefaultBinder
from arranger.plugins.dynamicresources import allocation_cache
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from arranger.plugins.nodes.node_unschedulable import NodeUnschedulable
from arranger.plugins.queueing.priority_sort import PrioritySort
from tests.builders import Member, PodBuilder, a_cluster, a_node, a_pod
from tests.devices import (
    ATTRIBUTES,
    DRIVER,
    a_claim,
    a_device,
    a_device_class,
    a_slice,
    cel,
    claiming,
    claiming_from,
    option,
)
from tests.unit.plugins.evaluation import evaluate_with, rejected, scores, single_plugin_profile

N1, N2 = a_node("n1").in_zone("a"), a_node("n2").in_zone("b")
GPUS = a_device_class()
POD = claiming(a_pod(), "c")
MADE = claiming_from(a_pod(), "gpu", "c")
ASKING = a_claim().asks()
NEEDED = (PrioritySort(), DefaultBinder())
NONE = ("cannot allocate all claims",)
ELSEWHERE = ("resourceclaim not available on the node",)

REFUSED: dict[str, tuple[PodBuilder, list[Member], str]] = {
    "the claim does not exist": (POD, [], 'could not find ResourceClaim "default/c"'),
    "the claim is in another namespace": (
        POD.in_namespace("other"),
        [ASKING],
        'could not find ResourceClaim "other/c"',
    ),
    "the claim is yet to be made": (
        claiming_from(a_pod(), "gpu"),
        [ASKING],
        'pod "default/p": ResourceClaim not created yet',
    ),
    "the claim is going": (POD, [ASKING.deleting()], 'resourceclaim "c" is being deleted'),
    "the claim was made for another pod": (
        MADE,
        [ASKING.made_for(a_pod("other"))],
        "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
    ),
    "the class does not exist": (
        POD,
        [a_claim().asks(of="gone")],
        "request gpu: device class gone does not exist",
    ),
    "the class of an alternative does not exist": (
        POD,
        [a_claim().asks_first(option("a"), option("b", of="gone"))],
        "request gpu/b: device class gone does not exist",
    ),
    "the claim asks for part of a device": (
        POD,
        [a_claim().asks(capacity={"requests": {"memory": "1Gi"}})],
        "resource claim default/c, request gpu: capacity requests (consumable capacity) are not "
        "supported yet",
    ),
    "the claim asks for nothing that is known": (
        POD,
        [a_claim()._request({"name": "gpu"})],
        "resource claim default/c, request gpu: unknown request type",
    ),
    "the claim asks in a way that is not known": (
        POD,
        [a_claim().asks(allocationMode="Some")],
        "resource claim default/c, request gpu: allocation mode Some is not supported",
    ),
    "a constraint is not known": (
        POD,
        [ASKING.constrained(requests=["gpu"])],
        "resource claim default/c, constraint #0: not supported",
    ),
    "the claim waits for its devices": (
        POD,
        [ASKING.given("a", bindingConditions=["Ready"])],
        "resource claim default/c: binding conditions are not supported yet",
    ),
    "the pod asks for devices as for a resource": (
        a_pod().needs({"example.com/gpu": 1}),
        [GPUS.with_spec(extendedResourceName="example.com/gpu")],
        "extended resource example.com/gpu is of device class gpu, which is not supported yet: "
        "a resource claim can ask for it",
    ),
    "the pod asks for a class as for a resource": (
        a_pod().needs({"deviceclass.resource.kubernetes.io/gpu": 1}),
        [],
        "extended resource deviceclass.resource.kubernetes.io/gpu is of device class gpu, which "
        "is not supported yet: a resource claim can ask for it",
    ),
    "as many pods as may have it have it": (
        POD,
        [ASKING.given("a").reserved_for(*(f"u{n}" for n in range(256)))],
        "resourceclaim in use",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_a_pod_waits_for_its_claims(case: tuple[PodBuilder, list[Member], str]) -> None:
    pod, members, reason = case
    verdict = evaluate_with(DynamicResources(), pod, N1, N2, GPUS, *members)
    assert verdict["preFilter"] == {
        "plugin": "DynamicResources",
        "code": "UnschedulableAndUnresolvable",
        "reasons": [reason],
    }


FILTERED: dict[str, tuple[PodBuilder, list[Member], dict[str, tuple[str, ...]]]] = {
    "a pod without claims goes anywhere": (a_pod(), [], {}),
    "a claim that turned out not to be needed": (
        claiming_from(a_pod(), "gpu")._append("status", resourceClaimStatuses={"name": "gpu"}),
        [],
        {},
    ),
    "a resource that a node has by itself is not looked for among devices": (
        a_pod().needs({"example.com/gpu": 1}),
        [
            GPUS.with_spec(extendedResourceName="example.com/gpu"),
            a_node("n3").offers({"example.com/gpu": 8}),
        ],
        {},
    ),
    "where there is a device": (POD, [ASKING, a_slice("n1", "a")], {"n2": NONE}),
    "where there is a free one": (
        POD,
        [ASKING, a_slice("n1", "a"), a_slice("n2", "a"), a_claim("x").given("a", pool="n2")],
        {"n2": NONE},
    ),
    "the claim made for it": (
        MADE,
        [ASKING.made_for(a_pod().with_uid("uid-judged")), a_slice("n2", "a")],
        {"n1": NONE},
    ),
    "where all of its claims can be had": (
        claiming(a_pod(), "c", "d"),
        [ASKING, a_claim("d").asks(), a_slice("n1", "a", "b"), a_slice("n2", "a")],
        {"n2": NONE},
    ),
    "where its claim is": (POD, [ASKING.given("a", on="n2")], {"n1": ELSEWHERE}),
    "where its claim is, whoever else uses it": (
        POD,
        [ASKING.given("a", on="n2").reserved_for("uid-other")],
        {"n1": ELSEWHERE},
    ),
    "a claim that can be used from everywhere": (POD, [ASKING.given("a")], {}),
    "where one claim is and another can be had": (
        claiming(a_pod(), "c", "d"),
        [ASKING.given("a", on="n2"), a_claim("d").asks(), a_slice("n2", "b")],
        {"n1": NONE},
    ),
    "a node whose devices cannot be judged is out, the others are not": (
        POD,
        [
            a_claim().asks(selectors=[cel(f"{ATTRIBUTES}.numa == 1")]),
            a_slice("n1", "a"),
            a_slice("n2", a_device("a", numa=1)),
        ],
        {"n1": ("claim default/c: selector #0: CEL runtime error: no such key: numa",)},
    ),
    "devices that we cannot honour are named": (
        POD,
        [ASKING, a_slice("n1", {**a_device("a"), "allowMultipleAllocations": True})],
        {
            "n1": (
                "cannot allocate all claims; not supported yet: devices for multiple allocations "
                "(consumable capacity)",
            ),
            "n2": NONE,
        },
    ),
}


@pytest.mark.parametrize("case", FILTERED.values(), ids=FILTERED.keys())
def test_nodes_are_rejected(
    case: tuple[PodBuilder, list[Member], dict[str, tuple[str, ...]]],
) -> None:
    pod, members, want = case
    assert rejected(DynamicResources(), pod, N1, N2, GPUS, *members) == want


POST_FILTERED: dict[str, tuple[PodBuilder, list[Member], str]] = {
    "no claims": (a_pod(), [], "no new claims to deallocate"),
    "a claim that has no devices": (POD, [ASKING], "still not schedulable"),
    "a claim that is elsewhere": (
        POD,
        [ASKING.given("a", on="gone")],
        "deallocation of ResourceClaim completed",
    ),
    "a claim that is elsewhere and reserved for the pod": (
        POD,
        [ASKING.given("a", on="gone").reserved_for("uid-judged")],
        "deallocation of ResourceClaim completed",
    ),
    "a claim that is elsewhere, and only cordoned nodes": (
        POD,
        [ASKING.given("a", on="gone"), N1.cordoned()],
        "still not schedulable",
    ),
    "a claim that others use elsewhere": (
        POD,
        [ASKING.given("a", on="gone").reserved_for("uid-other")],
        "still not schedulable",
    ),
}


@pytest.mark.parametrize("case", POST_FILTERED.values(), ids=POST_FILTERED.keys())
def test_what_is_in_the_way_goes_back(case: tuple[PodBuilder, list[Member], str]) -> None:
    pod, members, said = case
    cluster = a_cluster(N1, GPUS, *members)
    info = pod.with_uid("uid-judged").info()
    plugin = DynamicResources()
    profile = Profile("test", [*map(PluginWeight, (NodeUnschedulable(), plugin, *NEEDED))])
    evaluation = Evaluation(profile, cluster, info)
    what_if = DryRun(profile, cluster, info, evaluation)
    status = plugin.post_filter(evaluation.state, info, what_if, evaluation.diagnosis())
    assert status is not None
    assert status.message() == said
    releases = cluster.devices.claim_tracker.take_effects()
    assert bool(releases) == ("completed" in said)


TWO_OR_ONE = a_claim().asks_first(option("two", count=2), option("one"))
SCORED: dict[str, tuple[PodBuilder, list[Member], dict[str, int | None]]] = {
    "the better alternative counts more": (
        POD,
        [TWO_OR_ONE, a_slice("n1", "a"), a_slice("n2", "a", "b")],
        {"n1": 7 * 100 // 8, "n2": 100},
    ),
    "over all claims": (
        claiming(a_pod(), "c", "d"),
        [
            TWO_OR_ONE,
            TWO_OR_ONE.named("d"),
            a_slice("n1", "a", "b", "c", "d"),
            a_slice("n2", *"abc"),
        ],
        {"n1": 100, "n2": 15 * 100 // 16},
    ),
    "what has been given counts everywhere": (
        claiming(a_pod(), "c", "d"),
        [
            TWO_OR_ONE,
            TWO_OR_ONE.named("d").given("z", request="gpu/one"),
            a_slice("n1", "a"),
            a_slice("n2", "a", "b"),
        ],
        {"n1": 14 * 100 // 15, "n2": 100},
    ),
    "one thing only is no matter of taste": (
        POD,
        [ASKING, a_slice("n1", "a"), a_slice("n2", "a", "b")],
        {"n1": None, "n2": None},
    ),
}


@pytest.mark.parametrize("case", SCORED.values(), ids=SCORED.keys())
def test_alternatives_are_scored(
    case: tuple[PodBuilder, list[Member], dict[str, int | None]],
) -> None:
    pod, members, want = case
    assert scores(DynamicResources(), pod, N1, N2, GPUS, *members) == want


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

    def counting(self: Any, row: int) -> Any:
        searches.append(cluster.table.name(row))
        return search(self, row)

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
    cluster.set_node(nodes[3].in_zone("other").build())
    cluster.remove_node("n4")
    cluster.set_node(a_node("n20").build())
    assert feasible("c1") == 18
    assert searches[22:] == ["n3", "n20"], "a row may belong to another node by now"
    cluster.objects.set(a_device_class("gpu", "false").at_version("2").build())
    assert feasible("c1") == 0
    assert len(searches) == 24 + 20


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
