"""What the core makes of edits of queues, PodGroups, nodes and pods while pods run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from arranger.api.effects import DeletePod, Effect, PublishEvent
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod, a_queue
from tests.queueing import CARD, GPU, gpu_node, inference, training
from tests.unit.engine.harness import EngineHarness, of_kind, placements


@pytest.fixture
def harness() -> EngineHarness:
    harness = EngineHarness(default_profile())
    harness.start()
    return harness


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


def a_group(queue: str) -> VolcanoPodGroup:
    meta = {"name": "g", "namespace": "default", "uid": "uid-g"}
    return msgspec.convert({"metadata": meta, "spec": {"queue": queue}}, VolcanoPodGroup)


def used(harness: EngineHarness, queue: str) -> int:
    harness.run()
    return harness.engine.ledger.queues[queue].used["cpu"]


def test_a_node_that_is_gone_takes_its_cards_along(harness: EngineHarness) -> None:
    harness.observe(gpu_node(), a_queue("training", cards={CARD: 8}), training("t", 2).on("n"))
    harness.observe_deleted(gpu_node())
    harness.run()
    assert harness.engine.ledger.queues["training"].used[CARD] == 0
    harness.observe(gpu_node())
    harness.run()
    assert harness.engine.ledger.queues["training"].used[CARD] == 2


@pytest.mark.parametrize("key", ["scheduling.k8s.io", "scheduling.volcano.sh"])
def test_running_pods_move_with_their_pod_group(key: str, harness: EngineHarness) -> None:
    pod = a_pod().needs(cpu=1).annotated({f"{key}/group-name": "g"})
    harness.observe(a_node(), a_queue("a"), a_queue("b"), a_queue("default"), pod.on("n"))
    assert used(harness, "default") == 1000
    for queue in ("a", "b"):
        harness.engine.handlers.on_pod_group_updated(a_group(queue), 0.0)
        assert used(harness, queue) == 1000
    harness.engine.handlers.on_pod_group_deleted(a_group("b"), 0.0)
    assert (used(harness, "b"), used(harness, "default")) == (0, 1000)


def test_a_running_pod_moves_with_its_annotation(harness: EngineHarness) -> None:
    harness.observe(
        a_node(), a_queue("a"), a_queue("b"), a_pod().needs(cpu=1).in_queue("a").on("n")
    )
    harness.observe(a_pod().needs(cpu=1).in_queue("b").on("n"))
    assert (used(harness, "a"), used(harness, "b")) == (0, 1000)


def test_writes_of_a_queue_s_status_wake_nobody_and_void_no_verdict(harness: EngineHarness) -> None:
    harness.observe(a_node(), a_queue("q", capability={"cpu": 1}, state=""))
    harness.observe(a_pod().needs(cpu=2).in_queue("q"))
    harness.run()
    version = harness.engine.cluster.objects.version
    (entity,) = harness.engine.queue.entities()
    for state in ("Open", "Unknown"):
        harness.engine.handlers.on_queue_updated(
            a_queue("q", capability={"cpu": 1}, state=state), 20.0
        )
        harness.advance_to(20)
        assert entity.attempts == 1
    assert harness.engine.cluster.objects.version == version


def test_nor_do_those_of_a_pod_group(harness: EngineHarness) -> None:
    harness.observe(a_node(), a_queue("a"), a_pod().needs(cpu=1).on("n"))
    harness.engine.handlers.on_pod_group_updated(a_group("a"), 0.0)
    harness.run()
    version = harness.engine.cluster.objects.version
    group = a_group("a")
    group = msgspec.structs.replace(group, status=type(group.status)("Running"))
    harness.engine.handlers.on_pod_group_updated(group, 0.0)
    harness.run()
    assert harness.engine.cluster.objects.version == version


def test_a_queue_closed_by_its_user_or_above_it_takes_nothing_until_it_is_opened(
    harness: EngineHarness,
) -> None:
    def team(word: str) -> None:
        queue = a_queue("team", state="Open")
        queue.metadata.annotations["arranger.io/queue-state"] = word
        harness.observe(queue)

    harness.observe(a_node(), a_queue("a", parent="team"))
    team("Closed")
    harness.observe(a_pod().needs(cpu=1).in_queue("a"))
    assert bound(harness.run()) == set()
    team("Open")
    assert bound(harness.advance_to(20)) == {"p"}


def test_a_queue_with_parts_takes_pods_when_it_has_none_any_more(harness: EngineHarness) -> None:
    running, part = a_pod("runs").needs(cpu=1).in_queue("team"), a_queue("part", parent="team")
    harness.observe(a_node().offers(cpu=8), a_queue("team"), running.on("n"))
    harness.observe(part, a_pod("p").needs(cpu=1).in_queue("team"))
    harness.observe(a_pod("q").needs(cpu=1).in_queue("part"))
    assert bound(harness.run()) == {"q"}
    assert used(harness, "team") == 2000, "those that run keep running, and count"
    harness.observe(a_queue("part"))
    assert bound(harness.advance_to(20)) == {"p"}
    harness.observe(part, a_pod("r").needs(cpu=1).in_queue("team"))
    assert bound(harness.advance_to(40)) == set()
    harness.engine.handlers.on_queue_deleted(part, harness.now)
    assert bound(harness.advance_to(60)) == {"r"}


def test_a_gang_of_a_queue_with_parts_waits_evicts_nobody_and_is_told(
    harness: EngineHarness,
) -> None:
    low = a_pod("low").needs(cpu=2).in_queue("team")
    gang = [a_pod(f"g-{n}").needs(cpu=1).in_queue("team").in_gang("g", 2) for n in range(2)]
    harness.observe(a_node().offers(cpu=2), a_queue("team"), low.on("n"))
    harness.observe(a_queue("part", parent="team"), *(pod.with_priority(9) for pod in gang))
    effects = harness.run() + harness.advance_to(30)
    assert not of_kind(DeletePod, effects)
    notes = [e.note for e in of_kind(PublishEvent, effects) if e.reason == "FailedScheduling"]
    assert any("Queue <team> takes no pods: 1 other queue is part of it" in n for n in notes)


def test_two_takers_at_once_do_not_undercut_a_guarantee_that_one_would_not(
    harness: EngineHarness,
) -> None:
    guarantee = {"resource": {GPU: 3}}
    harness.observe(a_queue("inference"), a_queue("training", guarantee=guarantee))
    for node in ("n", "m"):
        harness.observe(gpu_node(node, 2), *(training(f"{node}{n}").on(node) for n in range(2)))
    harness.observe(inference("i"), inference("j"))
    assert len(of_kind(DeletePod, harness.run())) == 1


def test_who_may_not_be_evicted_any_more_is_not(harness: EngineHarness) -> None:
    harness.observe(gpu_node(count=1), a_queue("inference"), a_queue("training"))
    harness.observe(training("t").on("n"), inference("i", 1, 20000))
    assert not of_kind(DeletePod, harness.run())
    harness.observe(training("t").annotated({"volcano.sh/preemptable": "false"}).on("n"))
    harness.observe(inference("j"))
    assert not of_kind(DeletePod, harness.advance_to(20))
    harness.observe(training("t").on("n"))
    harness.observe(inference("k"))
    assert len(of_kind(DeletePod, harness.advance_to(400))) == 1
