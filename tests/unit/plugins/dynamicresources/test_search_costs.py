"""What a search for devices takes is counted, whatever takes it."""

from __future__ import annotations

from contextlib import suppress

from arranger.api.types.resource_claims import DeviceClass
from arranger.plugins.dynamicresources.allocator import search
from arranger.plugins.dynamicresources.cel_selectors import CompiledSelectors
from arranger.plugins.dynamicresources.effort import MAX_EFFORT, Effort
from arranger.plugins.dynamicresources.pools import pools_for
from arranger.plugins.dynamicresources.requests import AllocationError, DeviceSelection
from tests.builders import Member, a_cluster, a_node
from tests.devices import DRIVER, ClaimBuilder, a_claim, a_device, a_device_class, a_slice

GPUS = a_device_class()
N1 = a_node("n1")


def spent_on(claim: ClaimBuilder, *members: Member) -> int:
    """Units of effort that a search in vain takes."""
    effort = Effort(10**9)
    cluster = a_cluster(N1, *members)
    pools = pools_for(N1.build(), cluster.devices)
    with suppress(AllocationError):
        search(
            [claim.build()],
            pools,
            lambda name: cluster.objects.get(DeviceClass, "", name),
            cluster.devices.claim_tracker.is_taken,
            DeviceSelection(CompiledSelectors(), effort),
        )
    return 10**9 - effort.left


def test_what_many_constraints_take_is_counted_and_bounded() -> None:
    """Each device that is tried is compared by every one of them."""
    names = [f"a{n}" for n in range(31)]
    alike = dict.fromkeys(names, 1)
    cards = a_slice("n1", *(a_device(f"g{n:02}", **alike, numa=n // 4) for n in range(32)))
    riddle = a_claim().asks(count=8).constrained(matchAttribute=f"{DRIVER}/numa")
    few, many = spent_on(riddle, cards, GPUS), riddle
    for name in names:
        many = many.constrained(matchAttribute=f"{DRIVER}/{name}")
    units = spent_on(many, cards, GPUS)
    assert 2 * few < units < MAX_EFFORT
    repeated = riddle
    for _ in range(31):
        repeated = repeated.constrained(matchAttribute=f"{DRIVER}/numa")
    assert spent_on(repeated, cards, GPUS) == few


def test_what_tolerations_of_taints_take_is_counted() -> None:
    taints = [{"key": f"t{n}", "value": "x", "effect": "NoSchedule"} for n in range(4)]
    cards = a_slice("n1", *({**a_device(f"g{n}"), "taints": taints} for n in range(20)))
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(16)]
    plain = spent_on(a_claim().asks(), cards, GPUS)
    assert spent_on(a_claim().asks(tolerations=tolerations), cards, GPUS) > plain + 20 * 16
