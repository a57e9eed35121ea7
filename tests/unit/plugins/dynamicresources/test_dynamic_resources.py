"""DynamicResources' verdicts: where pods with resource claims may go, and who is woken by what."""

from __future__ import annotations

import pytest

from arranger.framework.runtime.dry_run import DryRun
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.plugins.default_binder import DefaultBinder
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from arranger.plugins.nodes.node_unschedulable import NodeUnschedulable
from arranger.plugins.queueing.priority_sort import PrioritySort
from tests.builders import Member, PodBuilder, a_cluster, a_node, a_pod
from tests.devices import (
    ATTRIBUTES,
    a_claim,
    a_device,
    a_device_class,
    a_slice,
    cel,
    claiming,
    claiming_from,
    option,
)
from tests.unit.plugins.evaluation import evaluate_with, rejected, scores

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
