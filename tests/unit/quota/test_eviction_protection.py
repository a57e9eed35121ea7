"""Whom time protects from eviction, and who hears when it does no more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from arranger.api.effects import DeletePod, Effect, PublishEvent
from arranger.plugins import default_profile
from arranger.quota.preemption.eviction_protection import EvictionProtection
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_queue
from tests.queueing import CARD, gpu_node, inference, training
from tests.unit.engine.harness import EngineHarness, of_kind, placements

HOUR = 3600.0


def when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def since(pod: PodBuilder, made: float, **status: Any) -> PodBuilder:
    """On the node, and made at a time."""
    manifest = pod.created(when(made)).on("n").manifest()
    return PodBuilder({**manifest, "status": {**manifest["status"], **status}})


def a_core(**rules: Any) -> EngineHarness:
    harness = EngineHarness(default_profile(), queues=QuotaConfig(**rules))
    cards = {CARD: 8}
    harness.observe(gpu_node(), a_queue("inference", cards=cards), a_queue("training", cards=cards))
    harness.now = 10 * HOUR
    harness.run()
    return harness


def evicted(effects: list[Effect]) -> set[str]:
    return {delete.pod.name for delete in of_kind(DeletePod, effects)}


def waits_because(harness: EngineHarness, name: str) -> str:
    notes = [e.note for e in of_kind(PublishEvent, harness.effects) if e.regarding.name == name]
    return notes[-1]


# --- since when a pod runs -----------------------------------------------------------------------

SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": when(200)}
#: What its status says, and until when it is protected if it is to run a minute.
RUNS: dict[str, tuple[dict[str, Any], float]] = {
    "since its node says": ({"startTime": when(300), "conditions": [SCHEDULED]}, 360),
    "since it was bound, until its node says": ({"conditions": [SCHEDULED]}, 260),
    "since it was made, if nobody says": ({}, 160),
}


class NothingInFlight:
    """A moment at which no pod is being bound."""

    def __init__(self, unix_now: float) -> None:
        self.unix_now = unix_now

    def is_being_bound(self, uid: str) -> bool:
        return False


def a_sparing(now: float = 0.0, **times: Any) -> EvictionProtection:
    none: dict[str, Any] = {
        "reclaim_min_runtime": 0.0,
        "preempt_min_runtime": 0.0,
        "cool_down": 0.0,
    }
    return EvictionProtection(NothingInFlight(now), **{**none, **times})


@pytest.mark.parametrize(("status", "ends"), RUNS.values(), ids=RUNS)
def test_a_pod_runs(status: dict[str, Any], ends: float) -> None:
    pod = since(training("t"), 100, **status).info()
    assert a_sparing(reclaim_min_runtime=60).protected_until(pod, same_queue=False) == ends


def test_who_has_no_node_is_not_protected() -> None:
    pod = training("t").created(when(100)).info()
    assert a_sparing(101, reclaim_min_runtime=60).protected_until(pod, same_queue=False) < 101


def test_what_was_evicted_long_ago_is_forgotten() -> None:
    pods = NothingInFlight(0.0)
    sparing = EvictionProtection(pods, reclaim_min_runtime=0, preempt_min_runtime=0, cool_down=60)
    for n in range(100):
        pods.unix_now = n * 10.0
        sparing.record_eviction(training(f"t{n}").info())
    assert len(sparing._last_eviction) == 7


@pytest.mark.parametrize(("gang", "protected"), [("default/g", True), ("default/h", False)])
def test_a_gang_by_owner_is_protected_that_comes_back_by_another_controller(
    gang: str, protected: bool
) -> None:
    """As a JobSet does that makes its Jobs anew."""
    victim = training("t").owned_by("Job", "first").info()
    again = since(training("t2").owned_by("Job", "second"), 120).info()
    victim.gang, again.gang = "default/g", gang
    sparing = a_sparing(110, cool_down=60)
    sparing.record_eviction(victim)
    assert sparing.is_protected(again, same_queue=True) == protected


def test_an_eviction_does_not_protect_whoever_names_the_uid_of_anothers_owner() -> None:
    sparing = a_sparing(110, cool_down=60)
    theirs = since(training("t").owned_by("ReplicaSet", "rs"), 200)
    sparing.record_eviction(training("t").owned_by("ReplicaSet", "rs").info())
    assert sparing.is_protected(theirs.info(), same_queue=False)
    assert not sparing.is_protected(theirs.in_namespace("culprit").info(), same_queue=False)


def test_whoever_asks_again_and_again_is_noted_once() -> None:
    sparing = a_sparing(110, reclaim_min_runtime=60, preempt_min_runtime=30)
    pods = [since(training(f"t{n}"), 100).info() for n in range(3)]
    for turn in range(100):
        assert all(sparing.is_protected(pod, same_queue=bool(turn % 2)) for pod in pods)
    assert len(sparing._expiries) == 6
    assert sparing.next_expiry() == 130


# --- minimum runtime -----------------------------------------------------------------------------

#: Rules, how long the victim has run, who comes, and whether it is evicted at once.
TAKEN: dict[str, tuple[dict[str, float], float, PodBuilder, bool]] = {
    "who has run long enough": ({"reclaim_min_runtime": 600}, 600, inference("i", 8), True),
    "not who has not": ({"reclaim_min_runtime": 600}, 599, inference("i", 8), False),
    "inside a queue another time counts": (
        {"reclaim_min_runtime": 600},
        1,
        training("u", 8, 80000),
        True,
    ),
    "which protects there": ({"preempt_min_runtime": 600}, 599, training("u", 8, 80000), False),
    "and only there": ({"preempt_min_runtime": 600}, 1, inference("i", 8), True),
    "by default nobody is protected": ({}, 1, inference("i", 8), True),
}


@pytest.mark.parametrize(("rules", "ran", "taker", "taken"), TAKEN.values(), ids=TAKEN)
def test_who_is_evicted(
    rules: dict[str, float], ran: float, taker: PodBuilder, taken: bool
) -> None:
    harness = a_core(**rules)
    harness.observe(since(training("t", 8), harness.now - ran))
    harness.observe(taker)
    assert evicted(harness.run()) == ({"t"} if taken else set())


def test_who_is_just_being_bound_has_run_for_no_time() -> None:
    harness = a_core(reclaim_min_runtime=600)
    harness.observe(training("t", 8))
    bind = harness.run()
    harness.observe(inference("i", 8))
    assert evicted(harness.run()) == set()
    harness.settle_all(bind)
    harness.now += 5
    harness.observe(since(training("t", 8), 1, startTime=when(harness.now)))
    assert evicted(harness.advance_to(10 * HOUR + 600)) == set()
    assert evicted(harness.advance_to(10 * HOUR + 605)) == {"t"}


def test_the_taker_is_told_and_wakes_when_the_time_is_over() -> None:
    harness = a_core(reclaim_min_runtime=600)
    harness.observe(since(training("t", 8), harness.now - 100), inference("i", 8))
    assert evicted(harness.run()) == set()
    assert "pods that have not run their minimum time" in waits_because(harness, "i")
    over = 10 * HOUR + 500
    while (due := harness.engine.next_timer()) is not None and due < over:
        assert evicted(harness.advance_to(due)) == set()
    assert due == over
    assert evicted(harness.advance_to(over)) == {"t"}


def test_of_two_takers_both_hear_of_it_and_one_gets_it() -> None:
    harness = a_core(reclaim_min_runtime=600)
    harness.observe(
        since(training("t", 4), harness.now - 100), since(training("u", 4), harness.now - 50)
    )
    harness.observe(inference("i", 4), inference("j", 4))
    assert evicted(harness.run()) == set()
    assert evicted(harness.advance_to(10 * HOUR + 500)) == {"t"}
    assert evicted(harness.advance_to(10 * HOUR + 549)) == set()
    assert evicted(harness.advance_to(10 * HOUR + 550)) == {"u"}


def test_others_are_taken_before_those_who_are_protected() -> None:
    harness = a_core(reclaim_min_runtime=600)
    harness.observe(since(training("young", 4, 20000), harness.now - 1))
    harness.observe(since(training("old", 4, 60000), harness.now - HOUR), inference("i", 4))
    assert evicted(harness.run()) == {"old"}


def test_a_gang_is_protected_by_its_youngest() -> None:
    harness = a_core(reclaim_min_runtime=600)
    for name, ran in (("g-0", HOUR), ("g-1", 100.0)):
        harness.observe(since(training(name, 4).in_gang("g", 2), harness.now - ran))
    harness.observe(inference("i", 4))
    assert evicted(harness.run()) == set()
    assert evicted(harness.advance_to(10 * HOUR + 500)) == {"g-0", "g-1"}


def test_a_gang_that_takes_wakes_as_well() -> None:
    harness = a_core(reclaim_min_runtime=600)
    harness.observe(since(training("t", 8), harness.now - 100))
    harness.observe(*(inference(f"g-{n}", 4).in_gang("g", 2) for n in range(2)))
    assert evicted(harness.run()) == set()
    assert "Others have not run their minimum time" in waits_because(harness, "g-0")
    assert evicted(harness.advance_to(10 * HOUR + 500)) == {"t"}


def test_what_would_not_help_is_not_hoped_for() -> None:
    harness = a_core(reclaim_min_runtime=600)
    harness.observe(since(training("t", 8), harness.now - 100), inference("i", 9))
    harness.run()
    assert "minimum time" not in waits_because(harness, "i")


# --- cool-down -----------------------------------------------------------------------------------


def again(pod: PodBuilder, life: int) -> PodBuilder:
    """In its place, with another uid."""
    return pod.with_uid(f"uid-{life}-{pod.manifest()['metadata']['name']}")


def owned(name: str, job: str) -> PodBuilder:
    pod = training(name, 8).owned_by("Job", job)
    manifest = pod.manifest()
    manifest["metadata"]["ownerReferences"][0].update(uid=f"uid-{job}", controller=True)
    return PodBuilder(manifest)


#: What is evicted, and who comes in its place.
SUCCESSORS: dict[str, tuple[list[PodBuilder], list[PodBuilder]]] = {
    "a pod of one name": ([training("t", 8)], [again(training("t", 8), 1)]),
    "a pod of one owner": ([owned("t", "j")], [owned("u", "j")]),
    "a gang of one name": (
        [training(f"g-{n}", 4).in_gang("g", 2) for n in range(2)],
        [again(training(f"g-{n}", 4).in_gang("g", 2), 1) for n in range(2)],
    ),
}


@pytest.mark.parametrize(("before", "after"), SUCCESSORS.values(), ids=SUCCESSORS)
def test_what_comes_back_is_left_alone(before: list[PodBuilder], after: list[PodBuilder]) -> None:
    harness = a_core(eviction_cool_down=600)
    harness.observe(*(since(pod, 1) for pod in before))
    first = inference("first", 8)
    harness.observe(first)
    assert len(evicted(harness.run())) == len(before)
    harness.observe_deleted(*before)
    harness.settle_all(harness.advance_to(harness.now + 30))
    harness.observe_deleted(first)
    harness.observe(*(since(pod, harness.now + 1) for pod in after))
    harness.now += 10
    harness.observe(inference("second", 8))
    assert evicted(harness.run()) == set()
    assert "back from an eviction" in waits_because(harness, "second")
    assert evicted(harness.advance_to(10 * HOUR + 599)) == set()
    assert len(evicted(harness.advance_to(10 * HOUR + 600))) == len(after)


def test_others_of_the_owner_are_not() -> None:
    harness = a_core(eviction_cool_down=600)
    manifests = [owned(name, "j").manifest() for name in "tu"]
    for manifest in manifests:
        manifest["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "4"
    harness.observe(*(since(PodBuilder(manifest), 1) for manifest in manifests))
    harness.observe(inference("i", 4))
    first = evicted(harness.run())
    harness.now += 10
    harness.observe(inference("j", 4))
    assert first | evicted(harness.run()) == {"t", "u"}


def test_nothing_is_kept_of_who_is_gone() -> None:
    harness = a_core(reclaim_min_runtime=600)
    pod = since(training("t", 8), harness.now - 100)
    harness.observe(pod, inference("i", 8))
    harness.run()
    harness.observe_deleted(pod)
    assert placements(harness.advance_to(10 * HOUR + 20)) == [("i", "n")]
    harness.settle_all(harness.effects)
    harness.observe(inference("i", 8).on("n"))
    harness.advance_to(10 * HOUR + 500)
    assert harness.engine.next_timer() is None
