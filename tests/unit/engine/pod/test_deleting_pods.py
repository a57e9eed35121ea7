"""Pods that are being deleted before they have a node are not tried, and are told so once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import Bind, PublishEvent
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind

NODE = a_node("n1").offers(cpu=4)
POD = a_pod().needs(cpu=1)
TOO_BIG = a_pod().needs(cpu=9)


def told(harness: EngineHarness) -> list[PublishEvent]:
    events = of_kind(PublishEvent, harness.effects)
    return [event for event in events if event.note == "skip schedule deleting pod: default/p"]


def binds(harness: EngineHarness) -> list[Bind]:
    return of_kind(Bind, harness.effects)


STORIES: dict[str, tuple[Callable[[EngineHarness], None], int]] = {
    "it came while it was being deleted": (lambda e: e.observe(POD.deleting()), 1),
    "it was waiting for room": (lambda e: _waits_then(e, TOO_BIG.deleting()), 1),
    "it was waiting for a gate": (lambda e: _waits_then(e, POD.gated("g").deleting()), 1),
    "it was waiting for the others of its gang": (
        lambda e: _waits_then(e, POD.in_gang("g", 2).deleting()),
        1,
    ),
    "it is edited while it is being deleted": (
        lambda e: e.observe(POD.deleting(), POD.deleting().labelled({"a": "b"})),
        1,
    ),
    "it is not being deleted": (lambda e: e.observe(TOO_BIG), 0),
    "it has a node already": (lambda e: e.observe(POD.on("n1").deleting()), 0),
    "it is another scheduler's": (lambda e: e.observe(POD.for_scheduler("x").deleting()), 0),
}


@pytest.mark.parametrize(("story", "times"), STORIES.values(), ids=STORIES.keys())
def test_a_pod_being_deleted_is_told_that_it_is_skipped(
    story: Callable[[EngineHarness], None], times: int, harness: EngineHarness
) -> None:
    harness.observe(NODE)
    story(harness)
    harness.run()
    assert not binds(harness)
    events = told(harness)
    assert len(events) == times
    for event in events:
        assert (event.type, event.reason, event.regarding.name) == (
            "Warning",
            "FailedScheduling",
            "p",
        )


def test_a_pod_whose_binding_is_on_its_way_is_not_told(harness: EngineHarness) -> None:
    harness.observe(NODE, POD)
    harness.run()
    assert len(binds(harness)) == 1
    harness.observe(POD.deleting())
    harness.run()
    assert not told(harness)


def _waits_then(harness: EngineHarness, deleting: PodBuilder) -> None:
    manifest = deleting.manifest()
    del manifest["metadata"]["deletionTimestamp"]
    harness.observe(PodBuilder(manifest))
    harness.run()
    harness.observe(deleting)
