"""What the core makes of edits of queues, PodGroups, nodes and pods while pods run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from arranger.api.effects import DeletePod, Effect
from arranger.api.types.pod_groups import VolcanoPodGroup
from arranger.plugins import default_profile
from tests.builders import a_node, a_pod, a_queue
from tests.queueing import CARD, GPU, gpu_node, inference, training
from tests.unit.engine.harness import EngineHarness, of_kind, placements


@pytest.fixture
def core() -> EngineHarness:
    return EngineHarness(default_profile())


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


def a_group(queue: str) -> VolcanoPodGroup:
    meta = {"name": "g", "namespace": "default", "uid": "uid-g"}
    return msgspec.convert({"metadata": meta, "spec": {"queue": queue}}, VolcanoPodGroup)


def used(core: EngineHarness, queue: str) -> int:
    core.engine.check_consistent()
    return core.engine.ledger.queues[queue].used["cpu"]


def test_a_node_that_is_gone_takes_its_cards_along(core: EngineHarness) -> None:
    core.observe(gpu_node(), a_queue("training", cards={CARD: 8}), training("t", 2).on("n"))
    core.observe_deleted(gpu_node())
    assert core.engine.ledger.queues["training"].used[CARD] == 0
    core.observe(gpu_node())
    assert core.engine.ledger.queues["training"].used[CARD] == 2


@pytest.mark.parametrize("key", ["scheduling.k8s.io", "scheduling.volcano.sh"])
def test_running_pods_move_with_their_pod_group(key: str, core: EngineHarness) -> None:
    pod = a_pod().needs(cpu=1).annotated({f"{key}/group-name": "g"})
    core.observe(a_node(), a_queue("a"), a_queue("b"), a_queue("default"), pod.on("n"))
    assert used(core, "default") == 1000
    for queue in ("a", "b"):
        core.engine.on_pod_group_updated(a_group(queue), 0.0)
        assert used(core, queue) == 1000
    core.engine.on_pod_group_deleted(a_group("b"), 0.0)
    assert (used(core, "b"), used(core, "default")) == (0, 1000)


def test_a_running_pod_moves_with_its_annotation(core: EngineHarness) -> None:
    core.observe(a_node(), a_queue("a"), a_queue("b"), a_pod().needs(cpu=1).in_queue("a").on("n"))
    core.observe(a_pod().needs(cpu=1).in_queue("b").on("n"))
    assert (used(core, "a"), used(core, "b")) == (0, 1000)


def test_writes_of_a_queue_s_status_wake_nobody_and_void_no_verdict(core: EngineHarness) -> None:
    core.observe(a_node(), a_queue("q", capability={"cpu": 1}, state=""))
    core.observe(a_pod().needs(cpu=2).in_queue("q"))
    core.run()
    version = core.engine.cluster.objects.version
    (entity,) = core.engine.queue.entities()
    for state in ("Open", "Unknown"):
        core.engine.on_queue_updated(a_queue("q", capability={"cpu": 1}, state=state), 20.0)
        core.advance_to(20)
        assert entity.attempts == 1
    assert core.engine.cluster.objects.version == version


def test_nor_do_those_of_a_pod_group(core: EngineHarness) -> None:
    core.observe(a_node(), a_queue("a"), a_pod().needs(cpu=1).on("n"))
    core.engine.on_pod_group_updated(a_group("a"), 0.0)
    core.run()
    version = core.engine.cluster.objects.version
    group = a_group("a")
    group = msgspec.structs.replace(group, status=type(group.status)("Running"))
    core.engine.on_pod_group_updated(group, 0.0)
    core.run()
    assert core.engine.cluster.objects.version == version


def test_a_queue_closed_by_its_user_or_above_it_takes_nothing_until_it_is_opened(
    core: EngineHarness,
) -> None:
    def team(word: str) -> None:
        queue = a_queue("team", state="Open")
        queue.metadata.annotations["arranger.io/queue-state"] = word
        core.observe(queue)

    core.observe(a_node(), a_queue("a", parent="team"))
    team("Closed")
    core.observe(a_pod().needs(cpu=1).in_queue("a"))
    assert bound(core.run()) == set()
    team("Open")
    assert bound(core.advance_to(20)) == {"p"}


def test_two_takers_at_once_do_not_undercut_a_guarantee_that_one_would_not(
    core: EngineHarness,
) -> None:
    guarantee = {"resource": {GPU: 3}}
    core.observe(a_queue("inference"), a_queue("training", guarantee=guarantee))
    for node in ("n", "m"):
        core.observe(gpu_node(node, 2), *(training(f"{node}{n}").on(node) for n in range(2)))
    core.observe(inference("i"), inference("j"))
    assert len(of_kind(DeletePod, core.run())) == 1


def test_who_may_not_be_evicted_any_more_is_not(core: EngineHarness) -> None:
    core.observe(gpu_node(count=1), a_queue("inference"), a_queue("training"))
    core.observe(training("t").on("n"), inference("i", 1, 20000))
    assert not of_kind(DeletePod, core.run())
    core.observe(training("t").annotated({"volcano.sh/preemptable": "false"}).on("n"))
    core.observe(inference("j"))
    assert not of_kind(DeletePod, core.advance_to(20))
    core.observe(training("t").on("n"))
    core.observe(inference("k"))
    assert len(of_kind(DeletePod, core.advance_to(400))) == 1
