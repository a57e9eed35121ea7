"""Pods with resource claims from the queue to the Binding, and gangs of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import (
    Ambiguous,
    Bind,
    Effect,
    ObjectKey,
    Refused,
    ReleaseClaim,
    ReserveClaim,
)
from arranger.cluster.object_store import StoredObject
from arranger.engine.context.queue_state import QueueState
from arranger.plugins.dynamicresources import dynamic_resources
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from tests.builders import PodBuilder, StoredBuilder, a_node, a_pod
from tests.devices import (
    ClaimBuilder,
    a_claim,
    a_device_class,
    a_slice,
    claiming,
    claiming_from,
)
from tests.unit.engine.harness import (
    CONFLICT,
    EngineHarness,
    conditions,
    event_notes,
    of_kind,
    placements,
    small_profile,
)

MakeCore = Callable[..., EngineHarness]
N1, N2 = a_node("n1").offers(cpu=8), a_node("n2").offers(cpu=8)
FULL = "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable"


class Devices:
    """An engine with devices, and what the API shows of claims."""

    def __init__(self, harness: EngineHarness, *slices: StoredBuilder) -> None:
        self.harness = harness
        self._versions = 1
        harness.observe(N1)
        self.show(a_device_class(), *(slices or (a_slice("n1", "a", "b"),)))

    def show(self, *objects: StoredBuilder) -> None:
        for each in objects:
            self._versions += 1
            shown = each.at_version(str(self._versions)).build()
            self.harness.engine.handlers.on_object_updated(shown, self.harness.now)
            self.harness.engine.check_consistent()

    def pods(self, *names: str) -> list[Effect]:
        """Pods, each with a claim of its own called like it."""
        self.show(*(claim(name) for name in names))
        self.harness.observe(*(pod(name) for name in names))
        return self.harness.run()


def pod(name: str, *claims: str) -> PodBuilder:
    return claiming(a_pod(name).needs(cpu=1), *(claims or (name,)))


def claim(name: str) -> ClaimBuilder:
    return a_claim(name).asks()


def devices_of(effects: list[Effect]) -> dict[str, list[str]]:
    """Claim → the devices that are written into it."""
    return {
        write.claim.name: [
            each["device"] for each in (write.allocation or {})["devices"]["results"]
        ]
        for write in of_kind(ReserveClaim, effects)
    }


@pytest.fixture
def harness(make_harness: MakeCore) -> EngineHarness:
    return make_harness(small_profile(DynamicResources()))


@pytest.fixture
def devices(harness: EngineHarness) -> Devices:
    return Devices(harness)


def test_claims_are_written_before_their_pod_is_bound(
    harness: EngineHarness, devices: Devices
) -> None:
    wanted = devices.pods("p")
    assert placements(wanted) == []
    (write,) = of_kind(ReserveClaim, wanted)
    assert write.claim == ObjectKey("default", "p", "uid-p")
    assert write.pod == ObjectKey("default", "p", "uid-default-p")
    assert harness.engine.awaits(write)
    assert harness.settle(write, Ambiguous("lost")) == []
    assert placements(harness.settle(write)) == [("p", "n1")]


def test_pods_get_different_devices_and_one_too_many_waits(
    harness: EngineHarness, devices: Devices
) -> None:
    wanted = devices.pods("p", "q", "r")
    assert devices_of(wanted) == {"p": ["a"], "q": ["b"]}
    assert conditions(wanted) == [("Unschedulable", FULL)]
    for write in of_kind(ReserveClaim, wanted):
        harness.settle(write)
    harness.settle_all(harness.effects)
    devices.show(claim("p").given("a", on="n1").reserved_for("uid-default-p"))
    assert harness.advance_to(100) == [], "nothing has helped it"
    devices.show(claim("p"))
    assert devices_of(harness.advance_to(200)) == {"r": ["a"]}


def test_a_pod_waits_for_a_claim_that_is_made_for_it(
    harness: EngineHarness, devices: Devices
) -> None:
    waiting = claiming_from(a_pod("p").needs(cpu=1), "gpu")
    harness.observe(waiting)
    assert harness.run() == []
    assert harness.queue_state("p") is QueueState.GATED
    devices.show(claim("p-gpu").made_for(waiting))
    assert harness.run() == []
    harness.observe(
        waiting._append(
            "status", resourceClaimStatuses={"name": "gpu", "resourceClaimName": "p-gpu"}
        )
    )
    assert devices_of(harness.run()) == {"p-gpu": ["a"]}


def test_a_refused_write_is_told_and_the_pod_tries_again(
    harness: EngineHarness, devices: Devices
) -> None:
    (write,) = of_kind(ReserveClaim, devices.pods("p"))
    gone = Refused(409, "Conflict", "claim default/p got allocated elsewhere in the meantime")
    said = harness.settle(write, gone)
    assert event_notes(said) == [
        ("FailedScheduling", f"preparing to bind: {gone.message}"),
    ]
    assert not harness.engine.cluster.devices.claim_tracker.is_being_released(claim("p").build())
    assert devices_of(harness.advance_to(10)) == {"p": ["a"]}


def test_a_refused_binding_gives_the_devices_back_before_others_get_them(
    harness: EngineHarness, devices: Devices
) -> None:
    devices = Devices(harness, a_slice("n1", "a"))
    (write,) = of_kind(ReserveClaim, devices.pods("p"))
    (bind,) = of_kind(Bind, harness.settle(write))
    devices.show(claim("p").given("a", on="n1").reserved_for("uid-default-p"))
    said = harness.settle(bind, CONFLICT)
    (release,) = of_kind(ReleaseClaim, said)
    assert release == ReleaseClaim(write.claim, write.pod, deallocate=True)
    assert of_kind(ReserveClaim, harness.advance_to(5)) == [], "it waits until that is done"
    harness.settle(release)
    devices.show(claim("p"))
    assert devices_of(harness.advance_to(20)) == {"p": ["a"]}


def test_a_pod_deleted_while_its_claim_is_written_leaves_nothing(
    harness: EngineHarness, devices: Devices
) -> None:
    (write,) = of_kind(ReserveClaim, devices.pods("p"))
    harness.observe_deleted(pod("p"))
    assert of_kind(ReleaseClaim, harness.run()) == []
    (release,) = of_kind(ReleaseClaim, harness.settle(write))
    assert harness.engine.cluster.devices.claim_tracker.is_being_released(claim("p").build())
    harness.settle(release)
    assert not harness.engine.cluster.devices.claim_tracker.is_being_released(claim("p").build())


def test_a_bound_pod_keeps_its_claim_whatever_its_binding_came_to(
    harness: EngineHarness, devices: Devices
) -> None:
    (write,) = of_kind(ReserveClaim, devices.pods("p"))
    (bind,) = of_kind(Bind, harness.settle(write))
    harness.observe(pod("p").on("n1"))
    said = harness.settle(bind, Refused(409, "AlreadyBound"))
    assert of_kind(ReleaseClaim, said) == []


def test_pods_share_a_claim_from_the_first_decision_on(harness: EngineHarness) -> None:
    harness.observe(N2)
    devices = Devices(harness, a_slice("n2", "a"))
    devices.show(claim("shared"))
    harness.observe(pod("p", "shared"), pod("q", "shared"))
    wanted = harness.run()
    assert [write.pod.name for write in of_kind(ReserveClaim, wanted)] == ["p", "q"]
    for write in of_kind(ReserveClaim, wanted):
        harness.settle(write)
    assert placements(harness.effects) == [("p", "n2"), ("q", "n2")]


def test_a_pod_goes_where_its_claim_has_been_allocated(
    harness: EngineHarness, devices: Devices
) -> None:
    harness.observe(N2)
    devices.show(claim("p").given("a", on="n1"), a_slice("n2", "a"))
    harness.observe(pod("p"))
    wanted = harness.run()
    (write,) = of_kind(ReserveClaim, wanted)
    assert write.allocation is None
    assert placements(harness.settle(write)) == [("p", "n1")]


def test_what_an_earlier_life_has_written_is_taken_up(
    harness: EngineHarness, devices: Devices
) -> None:
    devices.show(claim("p").given("a", on="n1").reserved_for("uid-default-p"), claim("q"))
    harness.observe(pod("q"), pod("p"))
    wanted = harness.run()
    assert placements(wanted) == [("p", "n1")], "nothing is left to be written"
    assert devices_of(wanted) == {"q": ["b"]}


def test_an_allocation_where_there_is_no_room_is_taken_back(
    harness: EngineHarness, devices: Devices
) -> None:
    harness.observe(N2, a_pod("full").needs(cpu=8).on("n1"))
    devices.show(claim("p").given("a", on="n1").reserved_for("uid-default-p"), a_slice("n2", "a"))
    harness.observe(pod("p"))
    wanted = harness.run()
    (release,) = of_kind(ReleaseClaim, wanted)
    assert release.deallocate
    assert conditions(wanted)[0][1].endswith("deallocation of ResourceClaim completed")
    harness.settle(release)
    devices.show(claim("p"))
    (write,) = of_kind(ReserveClaim, harness.advance_to(20))
    assert write.allocation is not None
    assert placements(harness.settle(write)) == [("p", "n2")]


def test_a_claim_is_not_taken_back_that_another_pod_is_about_to_use(
    harness: EngineHarness, devices: Devices
) -> None:
    devices.show(claim("shared"))
    both = [claiming(a_pod(name).needs(cpu=8), "shared") for name in "pq"]
    harness.observe(N2, *both)  # there is room for the other one, and no device
    assert of_kind(ReleaseClaim, harness.run()) == []


def gang(*names: str, least: int) -> list[PodBuilder]:
    return [pod(name).in_gang("g", least) for name in names]


def test_a_gang_gets_all_its_devices_or_none(harness: EngineHarness, devices: Devices) -> None:
    devices.show(*(claim(name) for name in "pqr"))
    harness.observe(*gang("p", "q", "r", least=3))
    assert of_kind(ReserveClaim, harness.run()) == []
    free = harness.engine.cluster.devices.claim_tracker
    assert free.allocation_of(claim("p").build()) is None, "the first two gave theirs back"
    harness.observe(N2)
    devices.show(a_slice("n2", "c"))
    wanted = harness.advance_to(20)
    got = [*devices_of(wanted).values()]
    assert sorted(got) == [["a"], ["b"], ["c"]]
    for write in of_kind(ReserveClaim, wanted):
        harness.settle(write)
    assert len(of_kind(Bind, harness.effects)) == 3


def test_what_an_earlier_life_left_to_a_gang_goes_back_if_there_is_no_room(
    harness: EngineHarness, devices: Devices
) -> None:
    harness.observe(N2, a_pod("full").needs(cpu=8).on("n1"))
    devices.show(a_slice("n2", "c", "d"), claim("q"))
    devices.show(claim("p").given("a", on="n1").reserved_for("uid-default-p"))
    harness.observe(*gang("p", "q", least=2))
    (release,) = of_kind(ReleaseClaim, harness.run())
    assert release.deallocate
    harness.settle(release)
    devices.show(claim("p"))
    wanted = harness.advance_to(20)
    assert sorted(devices_of(wanted).values()) == [["c"], ["d"]]


def test_nothing_is_left_when_everything_is_gone(harness: EngineHarness, devices: Devices) -> None:
    (write,) = of_kind(ReserveClaim, devices.pods("p"))
    (bind,) = of_kind(Bind, harness.settle(write))
    harness.settle(bind)
    harness.observe(pod("p").on("n1"))
    devices.show(claim("p").given("a", on="n1").reserved_for("uid-default-p"))
    harness.observe_deleted(pod("p"))
    gone: list[StoredObject] = [claim("p").build(), a_slice("n1").build(), a_device_class().build()]
    for each in gone:
        harness.engine.handlers.on_object_deleted(each, harness.now)
    held = vars(harness.engine.cluster.devices.claim_tracker)
    kept = {name: value for name, value in held.items() if value and not callable(value)}
    assert kept == {}


@pytest.mark.parametrize("gang", [True, False], ids=["a gang", "lone pods"])
def test_no_more_pods_get_a_claim_than_it_can_be_reserved_for(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch, *, gang: bool
) -> None:
    """The API server refuses the others: the gang would be bound in part."""
    monkeypatch.setattr(dynamic_resources, "MAX_RESERVED_FOR", 3)
    devices = Devices(harness)
    devices.show(claim("shared"))
    pods = [pod(f"p{n}", "shared") for n in range(4)]
    harness.observe(*(each.in_gang("g", 4) if gang else each for each in pods))
    wanted = harness.run()
    assert len(of_kind(ReserveClaim, wanted)) == (0 if gang else 3)
    texts = [text for _, text in conditions(wanted)]
    assert len(texts) == (4 if gang else 1)
    assert all("resourceclaim in use" in text for text in texts)
