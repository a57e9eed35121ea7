"""Gangs by owner in the engine: queues, events, edits of pods, and any history at all."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from arranger.api.event_reasons import INVALID_ANNOTATION, INVALID_GANG
from arranger.api.types.pod_groups import WorkloadGroup
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.builders.workloads import (
    WorkloadBuilder,
    a_job_set,
    job_set_pods,
    kubeflow_pods,
    replicas,
)
from tests.unit.engine.gang.workload_engine import KINDS, WorkloadEngine, kind_of
from tests.unit.engine.harness import placements

TRAIN = replicas("PyTorchJob", Worker=3)
PODS = [pod.needs(cpu=1) for pod in kubeflow_pods(TRAIN, Worker=3)]
NAME = "default/pytorchjob-train-a0000000"


@pytest.fixture
def known() -> WorkloadEngine:
    engine = WorkloadEngine()
    engine.observe(a_node("n").offers(cpu=8))
    engine.run()
    return engine


def in_queue(name: str) -> WorkloadBuilder:
    return TRAIN.with_spec(runPolicy={"schedulingPolicy": {"queue": name}})


def test_the_queue_of_the_owner_is_that_of_its_pods_and_edits_count(
    known: WorkloadEngine,
) -> None:
    known.observe(a_queue("small", capability={"cpu": "2"}), a_queue("large"))
    known.see(in_queue("small"))
    known.observe(*PODS)
    assert not placements(known.run())
    known.see(in_queue("large"))
    assert len(placements(known.run())) == 3
    assert known.engine.ledger.queues["large"].used["cpu"] == 3000


def test_pods_that_are_placed_are_charged_anew_when_their_owner_names_another_queue(
    known: WorkloadEngine,
) -> None:
    known.observe(a_queue("one"), a_queue("two"))
    known.see(in_queue("one"))
    known.observe(*(pod.on("n") for pod in PODS))
    known.run()
    assert known.engine.ledger.queues["one"].used["cpu"] == 3000
    known.see(in_queue("two"))
    known.run()
    used = [known.engine.ledger.queues[name].used["cpu"] for name in ("one", "two")]
    assert used == [0, 3000]


def test_settings_of_pods_are_not_told_to_be_without_a_gang(known: WorkloadEngine) -> None:
    mode = {"gang.scheduling.koordinator.sh/mode": "NonStrict"}
    known.see(TRAIN)
    known.observe(*(pod.annotated(mode) for pod in PODS[:2]))
    known.run()
    assert not known.told(INVALID_ANNOTATION)
    assert known.engine.registry.gangs[NAME].mode.value == "NonStrict"
    known.observe(a_pod("lone").annotated(mode))
    known.run()
    assert known.told(INVALID_ANNOTATION), "of a pod on its own they are"


def test_an_edit_of_numbers_looks_at_one_pod_of_each_gang(known: WorkloadEngine) -> None:
    known.see(TRAIN)
    known.observe(*PODS)
    index, kind = known.engine._workload_index, kind_of(TRAIN)
    assert len(index.set_owner(kind, replicas("PyTorchJob", Worker=2).build())) == 1
    known.see(replicas("PyTorchJob", Worker=1))
    assert known.engine.registry.gangs[NAME].minimum == 1
    off = TRAIN.annotated({"arranger.io/gang-by-owner": "false"})
    assert len(index.set_owner(kind, off.build())) == 3


def test_a_pod_that_names_its_gang_itself_is_in_that_one(known: WorkloadEngine) -> None:
    known.see(TRAIN)
    known.observe(*PODS[:2])
    assert known.engine.registry.gangs.keys() == {NAME}
    own = [pod.in_gang("own", 2) for pod in PODS[:2]]
    known.observe(own[0])
    assert known.engine.registry.gangs.keys() == {NAME, "default/own"}
    known.observe(own[1])
    assert known.engine.registry.gangs.keys() == {"default/own"}
    assert len(placements(known.run())) == 2
    assert len(known.engine._workload_index) == 0


def test_each_state_of_an_owner_that_makes_no_sense_is_told_once(known: WorkloadEngine) -> None:
    known.see(replicas("PyTorchJob", Worker=10**12))
    known.observe(*PODS)
    known.run()
    assert len(known.told(INVALID_GANG)) == 1
    known.see(TRAIN)
    known.see(replicas("PyTorchJob", Worker=10**13))
    known.observe(PODS[0].labelled(seen="again"))
    known.run()
    assert len(known.told(INVALID_GANG)) == 2


def test_nothing_is_kept_when_all_is_gone(known: WorkloadEngine) -> None:
    known.see(TRAIN)
    known.observe(*PODS)
    known.run()
    known.observe_deleted(*PODS)
    known.see_gone(TRAIN)
    known.run()
    engine = known.engine
    assert len(engine._workload_index) == len(engine.registry.gangs) == 0
    assert not engine.registry._pod_groups
    assert not engine._workload_index._owners


# --- any history -----------------------------------------------------------------------------

JOB_SET = a_job_set(driver=(1, 1), workers=(1, 2))
#: Owners as they may be, one of each name at a time.
OWNERS: dict[str, list[WorkloadBuilder]] = {
    "train": [
        TRAIN,
        replicas("PyTorchJob", Worker=2),
        replicas("PyTorchJob", Worker=0),
        TRAIN.annotated({"arranger.io/gang-by-owner": "false"}),
        TRAIN.with_spec(runPolicy={"schedulingPolicy": {"minAvailable": 1, "queue": "q"}}),
        TRAIN.with_uid("bbbbbbbb-0000-4000-8000-000000000000"),
    ],
    "set": [
        JOB_SET,
        a_job_set(order="InOrder", driver=(1, 1), workers=(1, 2)),
        a_job_set(driver=(1, 1), workers=(2, 2)),
    ],
}
SET_PODS = [*job_set_pods(JOB_SET, "driver", 1, 1), *job_set_pods(JOB_SET, "workers", 1, 2)]


class History:
    """Owners, pods and kinds come, change and go at random; an engine hears of all of it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.engine = WorkloadEngine()
        self.owners: dict[str, WorkloadBuilder] = {}
        self.pods: dict[str, PodBuilder] = {}
        self.absent: set[str] = set()
        self.all_pods = [*PODS, *SET_PODS]
        self.engine.observe(a_node("n").offers(cpu=2))

    def play(self, steps: int) -> None:
        for _ in range(steps):
            happens = [self._owner, self._owner, self._pod, self._pod, self._pod, self._kind]
            self.rng.choice(happens)()
            if self.rng.random() < 0.3:
                self.engine.run()
        for kind in KINDS:
            if kind.kind in self.absent:
                self.engine.serves(kind, served=False)
        self.engine.run()

    def _owner(self) -> None:
        name = self.rng.choice(list(OWNERS))
        present = self.owners.get(name)
        if present is not None and self.rng.random() < 0.3:
            del self.owners[name]
            self.engine.see_gone(present)
        elif (OWNERS[name][0].kind) not in self.absent:
            after = self.rng.choice(OWNERS[name])
            if present is not None and present.uid != after.uid:
                self.engine.see_gone(present)
            self.owners[name] = after
            self.engine.see(after)

    def _pod(self) -> None:
        pod = self.rng.choice(self.all_pods)
        name = str(pod.manifest()["metadata"]["name"])
        if name in self.pods and self.rng.random() < 0.3:
            self.engine.observe_deleted(self.pods.pop(name))
            return
        if "nodeName" in self.pods.get(name, pod).manifest()["spec"]:
            pod = pod.on("n").in_phase(self.rng.choice(["Running", "Succeeded", "Failed"]))
        elif self.rng.random() < 0.3:
            pod = pod.on("n")
        if self.rng.random() < 0.1:
            pod = pod.annotated({"arranger.io/gang-by-owner": "false"})
        self.pods[name] = pod
        self.engine.observe(pod)

    def _kind(self) -> None:
        kind = self.rng.choice([kind for kind in KINDS if kind.kind in ("PyTorchJob", "JobSet")])
        if kind.kind in self.absent:
            self.absent.discard(kind.kind)
            self.engine.serves(kind, served=True)
        elif self.rng.random() < 0.3:
            for name, owner in list(self.owners.items()):
                if owner.kind == kind.kind:
                    del self.owners[name]
                    self.engine.see_gone(owner)
            self.absent.add(kind.kind)
            self.engine.serves(kind, served=False)


def gangs_of(engine: WorkloadEngine) -> dict[str, object]:
    """Gang → its members and minimums, and what defines it."""
    return {
        name: (
            sorted(gang.memberships),
            gang.minimum,
            gang.bundle_minimums,
            isinstance(gang.pod_group, WorkloadGroup),
        )
        for name, gang in engine.engine.registry.gangs.items()
    }


def fresh(history: History) -> WorkloadEngine:
    """An engine that is told of nothing but what there is."""
    engine = WorkloadEngine()
    for kind in KINDS:
        if kind.kind in history.absent:
            engine.serves(kind, served=False)
    shown: list[WorkloadBuilder | PodBuilder] = [*history.owners.values(), *history.pods.values()]
    history.rng.shuffle(shown)
    _show(engine, shown)
    engine.start()
    return engine


def _show(engine: WorkloadEngine, shown: Iterable[WorkloadBuilder | PodBuilder]) -> None:
    for each in shown:
        if isinstance(each, WorkloadBuilder):
            engine.see(each)
        else:
            engine.observe(each)


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_whatever_has_happened_the_gangs_are_those_of_what_there_is(first: int) -> None:
    for seed in range(first, first + 20):
        history = History(seed)
        history.play(40)
        engine = history.engine.engine
        known = [member.pod for member in engine.pods()]
        known += [pod for pod, _ in engine.cluster.placed_pods()]
        for pod in known:
            gang = engine.registry.gang_of(pod.uid)
            assert pod.gang == ("" if gang is None else gang.name), f"{pod.key}, seed {seed}"
        assert gangs_of(history.engine) == gangs_of(fresh(history)), f"seed {seed}"
