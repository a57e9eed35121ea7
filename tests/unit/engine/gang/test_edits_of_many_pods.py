"""One edit that concerns thousands of pods is followed in steps: nobody waits for all of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest

from arranger.api.types.pod_groups import NativePodGroup
from arranger.engine.gang.priority import CHANGED_AT_ONCE
from arranger.engine.handlers import owned_pods, workload_handlers
from arranger.engine.queue.scheduling_queue import SchedulingQueue
from arranger.engine.quota.recharging import CHARGED_AT_ONCE
from arranger.gangs.registry import GangRegistry
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.builders.workloads import WorkloadBuilder, an_owner, job_pods, kubeflow_pods, replicas
from tests.unit.engine.gang.workload_engine import WITH_JOBS, WorkloadEngine, kind_of
from tests.unit.engine.harness import placements

QUEUE = "scheduling.volcano.sh/queue-name"
OFF = {"arranger.io/gang-by-owner": "false"}
#: More than any step takes.
MANY = 2 * CHARGED_AT_ONCE + 50
JOB = an_owner("Job", parallelism=MANY)
TRAIN = replicas("PyTorchJob", Worker=MANY)

# sentence: owner, its pods
OWNERS: dict[str, tuple[WorkloadBuilder, list[PodBuilder]]] = {
    "a gang": (TRAIN, kubeflow_pods(TRAIN, Worker=MANY)),
    "pods in no gang": (JOB, job_pods(JOB, MANY)),
}


class Counts:
    """How often something was done since it was asked last."""

    def __init__(self, patch: pytest.MonkeyPatch, of: type, name: str) -> None:
        self._times, done = 0, getattr(of, name)

        def counted(*args: object, **more: object) -> object:
            self._times += 1
            return done(*args, **more)

        patch.setattr(of, name, counted)

    def take(self) -> int:
        times, self._times = self._times, 0
        return times


@pytest.fixture
def known() -> WorkloadEngine:
    """A large node, a queue that these pods fill, and one without limits."""
    engine = WorkloadEngine(WITH_JOBS)
    engine.observe(a_node("n").offers(cpu=2 * MANY, pods=2 * MANY))
    engine.observe(a_queue("full", capability={"cpu": str(MANY)}), a_queue("large"))
    engine.run()
    return engine


def edit(known: WorkloadEngine, owner: WorkloadBuilder) -> None:
    known.engine.workload_handlers.on_updated(kind_of(owner), owner.build(), known.now)


def observe(known: WorkloadEngine, *pods: PodBuilder) -> None:
    for pod in pods:
        known.engine.handlers.on_pod_updated(pod.build(), known.now)


def steps(known: WorkloadEngine, measured: Callable[[], int]) -> list[int]:
    """What is measured after each run of the engine, until there is nothing more to do."""
    found = [measured()]
    while known.engine.ready:
        known.effects += known.engine.run(known.now)
        found.append(measured())
    known.engine.check_consistent()
    return found


@pytest.mark.parametrize(("owner", "pods"), OWNERS.values(), ids=OWNERS)
def test_pods_on_nodes_are_charged_anew_in_steps_and_then_who_waits_is_tried(
    known: WorkloadEngine, owner: WorkloadBuilder, pods: list[PodBuilder]
) -> None:
    edit(known, owner.annotated({QUEUE: "full"}))
    observe(known, *(pod.needs(cpu=1).on("n") for pod in pods))
    observe(known, a_pod("waits").needs(cpu=MANY).in_queue("full"))
    known.run()
    queues = known.engine.ledger.queues
    assert not placements(known.effects)
    edit(known, owner.annotated({QUEUE: "large"}))
    charged = steps(known, lambda: queues["large"].used["cpu"] // 1000)
    assert charged[-1] == MANY
    each = [after - before for before, after in pairwise(charged)]
    assert max(each) <= CHARGED_AT_ONCE
    assert [pod for pod, _ in placements(known.effects)] == ["waits"]


def test_pods_that_wait_are_judged_anew_in_steps(
    known: WorkloadEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, pods = OWNERS["pods in no gang"]
    known.observe(a_queue("none", capability={"cpu": "0"}))
    edit(known, owner.annotated({QUEUE: "none"}))
    observe(known, *(pod.needs(cpu=1) for pod in pods))
    steps(known, lambda: 0)
    assert not placements(known.effects)
    judged = Counts(monkeypatch, SchedulingQueue, "update")
    edit(known, owner.annotated({QUEUE: "full"}))
    each = steps(known, judged.take)
    assert sum(each) == MANY
    assert max(each) <= owned_pods.LOOKED_AT
    assert len(placements(known.effects)) == MANY


def test_pods_leave_their_gang_in_steps_where_gangs_are_switched_off(
    known: WorkloadEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, pods = OWNERS["a gang"]
    edit(known, owner)
    observe(known, *(pod.needs(cpu=1) for pod in pods[:-1]))
    known.run()
    assert not placements(known.effects)
    moved = Counts(monkeypatch, GangRegistry, "on_pod_updated")
    edit(known, owner.annotated(OFF))
    each = steps(known, moved.take)
    assert sum(each) == MANY - 1
    assert max(each) <= workload_handlers.LOOKED_AT
    assert len(placements(known.effects)) == MANY - 1
    assert not known.engine.registry.gangs


def test_edits_that_come_again_and_again_cost_no_more_each_time(
    known: WorkloadEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, pods = OWNERS["pods in no gang"]
    known.observe(a_queue("none", capability={"cpu": "0"}))
    observe(known, *(pod.needs(cpu=1) for pod in pods))
    judged = Counts(monkeypatch, SchedulingQueue, "update")
    for n in range(30):
        edit(known, owner.annotated({QUEUE: ("none", "other")[n % 2]}))
        if n % 10 == 0:
            known.effects += known.engine.run(known.now)
        assert judged.take() <= owned_pods.LOOKED_AT
    edit(known, owner.annotated({QUEUE: "full"}))
    steps(known, lambda: 0)
    assert known.engine.ledger.queues["full"].used["cpu"] == 1000 * MANY


def test_the_priority_of_a_pod_group_reaches_pods_on_nodes_in_steps(known: WorkloadEngine) -> None:
    def group(priority: int) -> NativePodGroup:
        spec = {"priority": priority, "schedulingPolicy": {"gang": {"minCount": 2}}}
        meta = {"name": "g", "namespace": "default", "uid": "uid-g"}
        return msgspec.convert({"metadata": meta, "spec": spec}, NativePodGroup)

    handlers, cluster = known.engine.handlers, known.engine.cluster
    handlers.on_pod_group_updated(group(3), known.now)
    member = {"schedulingGroup": {"podGroupName": "g"}}
    pods = [a_pod(f"p{n}").needs(cpu=1).with_spec(**member).on("n") for n in range(MANY)]
    observe(known, *pods)
    known.run()
    handlers.on_pod_group_updated(group(7), known.now)
    reached = steps(known, lambda: sum(pod.priority == 7 for pod, _ in cluster.placed_pods()))
    assert reached[-1] == MANY
    assert max(after - before for before, after in pairwise(reached)) <= CHANGED_AT_ONCE
