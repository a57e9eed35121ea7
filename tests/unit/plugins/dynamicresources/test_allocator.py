"""The search for devices: which are chosen, and what makes it impossible."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arranger.api.types.resource_claims import DeviceClass, DeviceId
from arranger.cluster.cluster import Cluster
from arranger.plugins.dynamicresources.allocation_result import build_allocation
from arranger.plugins.dynamicresources.allocator import search
from arranger.plugins.dynamicresources.cel_selectors import CompiledSelectors
from arranger.plugins.dynamicresources.effort import Effort
from arranger.plugins.dynamicresources.pools import pools_for
from arranger.plugins.dynamicresources.requests import AllocationError, DeviceSelection
from tests.builders import Member, NodeBuilder, a_cluster, a_node
from tests.devices import (
    ATTRIBUTES,
    DRIVER,
    ClaimBuilder,
    a_claim,
    a_device,
    a_device_class,
    a_slice,
    cel,
    option,
)

GPUS = a_device_class()
N1 = a_node("n1").in_zone("a")
OTHER_CLASS = a_device_class("big", f'device.driver == "{DRIVER}"', f"{ATTRIBUTES}.big")


def search_on(
    node: NodeBuilder, claims: list[ClaimBuilder], *members: Member
) -> tuple[Cluster, Any]:
    cluster = a_cluster(node, *members)
    built = [claim.build() for claim in claims]

    def the_class(name: str) -> DeviceClass | None:
        return cluster.objects.get(DeviceClass, "", name)

    pools = pools_for(node.build(), cluster.devices)
    selection = DeviceSelection(CompiledSelectors(), Effort())
    is_taken = cluster.devices.claim_tracker.is_taken
    return cluster, search(built, pools, the_class, is_taken, selection)


def chosen(claims: list[ClaimBuilder], *members: Member, node: NodeBuilder = N1) -> list[list[str]]:
    """For each claim ``request=device`` of what it gets; nothing at all if they cannot be had."""
    _, found = search_on(node, claims, *members)
    return [
        [f"{wanted.name}={offer.id.device}" for wanted, offer in of_claim]
        for of_claim in found.chosen or []
    ]


def tainted(name: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {**a_device(name), "taints": [{"key": "sick", "value": "yes", "effect": effect}]}


def on(numa: int, name: str) -> dict[str, Any]:
    return a_device(name, numa=numa)


FOUR = a_slice("n1", on(0, "a"), on(1, "b"), on(0, "c"), on(1, "d"))
TOLERATES = [{"key": "sick", "operator": "Exists"}]
MATCH = {"matchAttribute": f"{DRIVER}/numa"}
MANY = a_slice("n1", *(f"g{n:02}" for n in range(40)))
Case = tuple[list[ClaimBuilder], list[Member], list[list[str]]]
CHOICES: dict[str, Case] = {
    "the first one": ([a_claim().asks()], [FOUR], [["gpu=a"]]),
    "as many as asked for": ([a_claim().asks(count=3)], [FOUR], [["gpu=a", "gpu=b", "gpu=c"]]),
    "more than there are": ([a_claim().asks(count=5)], [FOUR], []),
    "all of them": (
        [a_claim().asks(allocationMode="All")],
        [FOUR],
        [["gpu=a", "gpu=b", "gpu=c", "gpu=d"]],
    ),
    "all of none is not enough": ([a_claim().asks(allocationMode="All")], [], []),
    "all, but one is taken": (
        [a_claim().asks(allocationMode="All")],
        [FOUR, a_claim("other").given("c")],
        [],
    ),
    "two claims of one pod get different ones": (
        [a_claim("x").asks(), a_claim("y").asks()],
        [FOUR],
        [["gpu=a"], ["gpu=b"]],
    ),
    "not what another claim has": (
        [a_claim().asks()],
        [FOUR, a_claim("other").given("a")],
        [["gpu=b"]],
    ),
    "a device of that name in another pool is another": (
        [a_claim().asks()],
        [FOUR, a_claim("other").given("a", pool="n2")],
        [["gpu=a"]],
    ),
    "access for administration takes nothing from anybody": (
        [a_claim().asks(adminAccess=True, allocationMode="All")],
        [a_slice("n1", "a", "b"), a_claim("other").given("a")],
        [["gpu=a", "gpu=b"]],
    ),
    "what is given for administration is free": (
        [a_claim().asks()],
        [FOUR, a_claim("other").given("a", adminAccess=True)],
        [["gpu=a"]],
    ),
    "the selector of the request": (
        [a_claim().asks(selectors=[cel(f"{ATTRIBUTES}.numa == 1")])],
        [FOUR],
        [["gpu=b"]],
    ),
    "the selectors of the class": (
        [a_claim().asks(of="big")],
        [a_slice("n1", a_device("a", big=False), a_device("b", big=True)), OTHER_CLASS],
        [["gpu=b"]],
    ),
    "all that have something in common": (
        [a_claim().asks(count=2, selectors=[]).constrained(**MATCH)],
        [FOUR],
        [["gpu=a", "gpu=c"]],
    ),
    "in common over requests, by going back on an earlier choice": (
        [
            a_claim()
            .asks("one")
            .asks("two", selectors=[cel(f"{ATTRIBUTES}.numa == 1")])
            .constrained(**MATCH)
        ],
        [FOUR],
        [["one=b", "two=d"]],
    ),
    "the constraint is about other requests": (
        [a_claim().asks("one").asks("two").constrained(requests=["one"], **MATCH)],
        [FOUR],
        [["one=a", "two=b"]],
    ),
    "nothing in common that is not there": (
        [a_claim().asks().constrained(matchAttribute=f"{DRIVER}/color")],
        [FOUR],
        [],
    ),
    "all of them different": (
        [a_claim().asks(count=2).constrained(distinctAttribute=f"{DRIVER}/numa")],
        [FOUR],
        [["gpu=a", "gpu=b"]],
    ),
    "three cannot differ in two ways": (
        [a_claim().asks(count=3).constrained(distinctAttribute=f"{DRIVER}/numa")],
        [FOUR],
        [],
    ),
    "the better alternative": (
        [a_claim().asks_first(option("two", count=2), option("one"))],
        [FOUR],
        [["gpu/two=a", "gpu/two=b"]],
    ),
    "the next best": (
        [a_claim().asks_first(option("five", count=5), option("one"))],
        [FOUR],
        [["gpu/one=a"]],
    ),
    "a worse alternative leaves enough for another request": (
        [a_claim().asks_first(option("four", count=4), option("two", count=2)).asks("more")],
        [FOUR],
        [["gpu/two=a", "gpu/two=b", "more=c"]],
    ),
    "an alternative within the limit of a claim": (
        [a_claim().asks(count=30).asks_first(option("many", count=10), option("few"), name="z")],
        [MANY],
        [[*(f"gpu=g{n:02}" for n in range(30)), "z/few=g30"]],
    ),
    "no tainted device": ([a_claim().asks()], [a_slice("n1", tainted("a"), "b")], [["gpu=b"]]),
    "a tainted device if it is tolerated": (
        [a_claim().asks(tolerations=TOLERATES)],
        [a_slice("n1", tainted("a", "NoExecute"), "b")],
        [["gpu=a"]],
    ),
    "a taint without effect": (
        [a_claim().asks()],
        [a_slice("n1", tainted("a", "None"))],
        [["gpu=a"]],
    ),
    "pools, slices and devices in order": (
        [a_claim().asks(count=3)],
        [
            a_slice("n1", "z", name="late").in_pool("p1", of=2),
            a_slice("n1", "y", name="early").in_pool("p1", of=2),
            a_slice("n1", "x").in_pool("p0"),
        ],
        [["gpu=x", "gpu=y", "gpu=z"]],
    ),
    "devices of another node": ([a_claim().asks()], [a_slice("n2", "a")], []),
    "devices of the node's zone": (
        [a_claim().asks()],
        [a_slice("x", "far").usable_in("b"), a_slice("y", "near").usable_in("a")],
        [["gpu=near"]],
    ),
    "devices for all nodes": (
        [a_claim().asks()],
        [a_slice("x", "a").usable_everywhere()],
        [["gpu=a"]],
    ),
    "a pool of which a slice is missing": (
        [a_claim().asks()],
        [a_slice("n1", "a").in_pool("p", of=2)],
        [],
    ),
    "a pool whose other slices are for other nodes": (
        [a_claim().asks()],
        [a_slice("n1", "a").in_pool("p", of=2), a_slice("n2", "b").in_pool("p", of=2)],
        [["gpu=a"]],
    ),
    "a newer generation counts": (
        [a_claim().asks()],
        [
            a_slice("n1", "old", name="old").in_pool("p"),
            a_slice("n1", "new", name="new").in_pool("p", generation=2),
        ],
        [["gpu=new"]],
    ),
    "a newer generation without devices for the node": (
        [a_claim().asks()],
        [
            a_slice("n1", "old", name="old").in_pool("p", of=2),
            a_slice("n2", "new", name="new").in_pool("p", generation=2),
        ],
        [],
    ),
}


@pytest.mark.parametrize("case", CHOICES.values(), ids=CHOICES.keys())
def test_devices_are_chosen(case: Case) -> None:
    claims, members, want = case
    assert chosen(claims, GPUS, *members) == want


FAILURES: dict[str, tuple[ClaimBuilder, list[Member], str]] = {
    "a selector that some device cannot answer": (
        a_claim().asks(selectors=[cel(f"{ATTRIBUTES}.color == 1")]),
        [FOUR],
        "claim default/c: selector #0: CEL runtime error: no such key: color",
    ),
    "a selector of a class": (
        a_claim().asks(of="big"),
        [FOUR, OTHER_CLASS],
        "class big: selector #1: CEL runtime error: no such key: big",
    ),
    "a selector that cannot be read": (
        a_claim().asks(selectors=[cel("device.driver ==")]),
        [FOUR],
        "claim default/c: selector #0: CEL compile error: compilation failed: Syntax error: "
        "mismatched input '<EOF>' at 16",
    ),
    "more devices than a claim may have": (
        a_claim().asks(count=33),
        [FOUR],
        "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
    ),
    "all devices of a pool that is being updated": (
        a_claim().asks(allocationMode="All"),
        [a_slice("n1", "a").in_pool("p", of=2)],
        f"claim default/c, request gpu: asks for all devices, but resource pool {DRIVER}/p is "
        "currently being updated",
    ),
    "a device that is told of twice": (
        a_claim().asks(),
        [a_slice("n1", "a", "a")],
        "invalid resource pools were encountered",
    ),
    "all devices, which have not in common what they must": (
        a_claim().asks(allocationMode="All").constrained(**MATCH),
        [FOUR],
        f"claim default/c, request gpu: cannot add device {DRIVER}/n1/b because a claim "
        "constraint would not be satisfied",
    ),
    "a riddle": (
        a_claim().asks(count=16).asks("x", count=5).constrained(**MATCH),
        [a_slice("n1", *(a_device(f"g{n:02}", numa=n // 20) for n in range(40)))],
        "gave up looking for devices: there are too many combinations",
    ),
}


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES.keys())
def test_what_is_no_lack_of_devices_is_said(case: tuple[ClaimBuilder, list[Member], str]) -> None:
    claim, members, text = case
    with pytest.raises(AllocationError) as raised:
        search_on(N1, [claim], GPUS, *members)
    assert str(raised.value) == text


COUNTED = {**a_device("a"), "consumesCounters": [{"counterSet": "s", "counters": {}}]}
PASSED_OVER: dict[str, tuple[dict[str, Any], str]] = {
    "counters": (COUNTED, "devices that share counters (partitionable devices)"),
    "sharing": (
        {**a_device("a"), "allowMultipleAllocations": True},
        "devices for multiple allocations (consumable capacity)",
    ),
    "conditions": (
        {**a_device("a"), "bindingConditions": ["Ready"]},
        "devices with binding conditions",
    ),
}


@pytest.mark.parametrize("case", PASSED_OVER.values(), ids=PASSED_OVER.keys())
def test_devices_that_we_cannot_honour_are_passed_over(case: tuple[dict[str, Any], str]) -> None:
    made, why = case
    _, found = search_on(N1, [a_claim().asks()], GPUS, a_slice("n1", made))
    assert found.chosen is None
    assert found.unsupported == (why,)
    assert chosen([a_claim().asks()], GPUS, a_slice("n1", made, "b")) == [["gpu=b"]]


def allocated(claim: ClaimBuilder, *members: Member) -> dict[str, Any]:
    """What is written into the claim."""
    _, found = search_on(N1, [claim], *members)
    assert found.chosen is not None
    made: dict[str, Any] = msgspec.to_builtins(
        build_allocation(claim.build(), found.chosen[0], "n1")
    )
    return made


def test_devices_of_a_node_tie_the_claim_to_it() -> None:
    assert allocated(a_claim().asks(), GPUS, FOUR) == {
        "devices": {
            "results": [{"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "a"}],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
            ]
        },
    }


def test_devices_of_a_zone_tie_the_claim_to_the_zone() -> None:
    made = allocated(a_claim().asks(), GPUS, a_slice("x", "a").usable_in("a"))
    key = "topology.kubernetes.io/zone"
    zone = {"key": key, "operator": "In", "values": ["a"]}
    assert made["nodeSelector"] == {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}


def test_devices_for_all_nodes_tie_the_claim_to_none() -> None:
    made = allocated(a_claim().asks(), GPUS, a_slice("x", "a").usable_everywhere())
    assert "nodeSelector" not in made


def test_administration_and_tolerations_are_written_down() -> None:
    claim = a_claim().asks(adminAccess=True, tolerations=TOLERATES)
    (result,) = allocated(claim, GPUS, FOUR)["devices"]["results"]
    assert result["adminAccess"] is True
    assert result["tolerations"] == TOLERATES


def test_drivers_are_told_what_concerns_them() -> None:
    claim = a_claim().asks("x").asks("y").asks_first(option("a", count=9), option("b"), name="z")
    claim = claim.told(all=1).told("x", one=1).told("z", any=1).told("z/b", got=1).told("z/a", no=1)
    config = allocated(claim, GPUS.told(base=1), FOUR)["devices"]["config"]
    said = [
        (each["source"], each.get("requests"), *each["opaque"]["parameters"]) for each in config
    ]
    assert said == [
        ("FromClass", ["x", "y", "z/b"], "base"),
        ("FromClaim", None, "all"),
        ("FromClaim", ["x"], "one"),
        ("FromClaim", ["z"], "any"),
        ("FromClaim", ["z/b"], "got"),
    ]


def test_a_taken_device_is_known_by_driver_pool_and_name() -> None:
    cluster, _ = search_on(N1, [a_claim().asks()], GPUS, FOUR, a_claim("other").given("a"))
    claims = cluster.devices.claim_tracker
    assert claims.is_taken(DeviceId(DRIVER, "n1", "a"))
    assert not claims.is_taken(DeviceId(DRIVER, "n1", "b"))
