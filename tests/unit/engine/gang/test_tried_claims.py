"""What an earlier life of ours has reserved for a gang: a decision that is only tried leaves it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import DeletePod, ReleaseClaim
from arranger.engine.gang.attempt import attempts
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.devices import ClaimBuilder, a_claim, a_device_class, a_slice, claiming
from tests.unit.engine.harness import EngineHarness, of_kind, placements

MakeCore = Callable[..., EngineHarness]
ZONE = "zone"


@pytest.fixture
def harness(make_harness: MakeCore) -> EngineHarness:
    harness = make_harness(default_profile())
    harness.observe(
        a_node("n1").offers(cpu=8).labelled(zone="a"), a_node("n2").offers(cpu=8).labelled(zone="b")
    )
    show(harness, a_device_class(), a_slice("n1", "a", "b"), _reserved("p", "a"))
    return harness


def show(harness: EngineHarness, *objects: object) -> None:
    for each in objects:
        harness.engine.handlers.on_object_updated(each.build(), harness.now)  # type: ignore[attr-defined]


def _reserved(name: str, device: str) -> ClaimBuilder:
    """A claim that an earlier life has allocated on n1 and reserved for the pod of its name."""
    return a_claim(name).asks().given(device, on="n1").reserved_for(f"uid-default-{name}")


def gang(*pods: PodBuilder, name: str = "g", mode: str = "Strict") -> list[PodBuilder]:
    return [pod.in_gang(name, len(pods), mode=mode) for pod in pods]


def one(name: str) -> PodBuilder:
    return claiming(a_pod(name).needs(cpu=1), name)


def taken_back(harness: EngineHarness) -> list[str]:
    """The claims that the API has been asked to free."""
    return [each.claim.name for each in of_kind(ReleaseClaim, harness.effects)]


def test_a_gang_that_is_placed_after_another_try_keeps_it(harness: EngineHarness) -> None:
    wish = {"arranger.io/topology": f"preferred={ZONE}"}
    members = gang(one("p").needs(cpu=6), a_pod("q").needs(cpu=4))
    harness.observe(*(each.annotated(wish) for each in members))
    harness.run()
    assert sorted(placements(harness.effects)) == [("p", "n1"), ("q", "n2")]
    assert taken_back(harness) == []


def test_so_does_one_that_is_tried_in_steps(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "STEP_UNITS", 1)
    wish = {"arranger.io/topology": f"preferred={ZONE}"}
    members = gang(one("p").needs(cpu=6), a_pod("q").needs(cpu=4))
    harness.observe(*(each.annotated(wish) for each in members))
    for _ in range(20):
        harness.effects += harness.engine.run(harness.now, seconds=1e9, limit=1)
    assert sorted(placements(harness.effects)) == [("p", "n1"), ("q", "n2")]
    assert taken_back(harness) == []


def test_one_for_which_others_leave_keeps_it_while_they_do(harness: EngineHarness) -> None:
    harness.observe(a_pod("low").needs(cpu=8).on("n2"))
    members = gang(one("p").needs(cpu=6), a_pod("q").needs(cpu=4))
    harness.observe(*(each.with_priority(9) for each in members))
    harness.run()
    assert [each.pod.name for each in of_kind(DeletePod, harness.effects)] == ["low"]
    assert taken_back(harness) == []
    harness.observe_deleted(a_pod("low").needs(cpu=8).on("n2"))
    harness.advance_to(20)
    assert sorted(placements(harness.effects)) == [("p", "n1"), ("q", "n2")]
    assert taken_back(harness) == []


def test_one_that_has_no_place_gives_it_back_to_others(harness: EngineHarness) -> None:
    show(harness, _reserved("r", "b"), a_claim("q").asks(), a_claim("s").asks())
    harness.observe(*gang(one("p"), one("q")), *gang(one("r"), one("s"), name="h"))
    harness.run()
    for each in of_kind(ReleaseClaim, harness.effects):
        assert each.deallocate
    assert sorted(taken_back(harness)) == ["p", "r"], "else neither could ever start"
    harness.advance_to(40)
    assert sorted(taken_back(harness)) == ["p", "r"], "once each"


def test_one_that_waits_for_the_others_on_its_node_gives_it_back_when_the_wait_ends(
    harness: EngineHarness,
) -> None:
    members = gang(one("p"), a_pod("q").needs(cpu=9), mode="NonStrict")
    harness.observe(*(each.annotated({"arranger.io/waiting-time": "60s"}) for each in members))
    harness.run()
    assert taken_back(harness) == []
    harness.advance_to(1000)
    assert taken_back(harness)[:1] == ["p"]
