"""A PodGroup is tried when the cluster and its queue may have room for its ``minResources``."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from arranger.api.effects import Bind, DeletePod, Effect, PublishEvent
from arranger.api.types.pod_groups import AnyPodGroup, CommunityPodGroup, VolcanoPodGroup
from arranger.plugins import default_profile
from arranger.quota.preemption import evictable_use
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, of_kind, placements

GROUP = "scheduling.k8s.io/group-name"
COMMUNITY = "scheduling.x-k8s.io/pod-group"


@pytest.fixture
def harness() -> EngineHarness:
    harness = EngineHarness(default_profile(), queues=QuotaConfig())
    harness.start()
    return harness


def a_group(
    name: str,
    cpu: object,
    *,
    least: int = 1,
    queue: str = "",
    kind: type[Any] = VolcanoPodGroup,
    namespace: str = "default",
    **more: object,
) -> AnyPodGroup:
    resources = {**({} if cpu is None else {"cpu": cpu}), **more}
    spec = {"minMember": least, "queue": queue, "minResources": resources}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return msgspec.convert({"metadata": meta, "spec": spec}, kind)


def tell(harness: EngineHarness, *groups: AnyPodGroup) -> None:
    for group in groups:
        harness.engine.handlers.on_pod_group_updated(group, harness.now)


def member(group: str, n: int = 0, cpu: int = 1, priority: int = 0) -> PodBuilder:
    pod = a_pod(f"{group}-{n}").needs(cpu=cpu).with_priority(priority)
    return pod.annotated({GROUP: group})


def bound(effects: Sequence[Effect]) -> set[str]:
    return {name for name, _ in placements(effects)}


def evicted(effects: Sequence[Effect]) -> set[str]:
    return {delete.pod.name for delete in of_kind(DeletePod, effects)}


def test_what_pods_want_beyond_their_node_leaves_room_elsewhere(harness: EngineHarness) -> None:
    harness.observe(a_node("n1").offers(cpu=10), a_node("n2").offers(cpu=10))
    harness.observe(a_pod("greedy").needs(cpu=10**9).on("n1"))
    tell(harness, a_group("g", 10))
    harness.observe(member("g"))
    assert bound(harness.run()) == {"g-0"}


#: On 10 cpus: queues, cpus that others use in queue q, the PodGroup, and whether its pod of one
#: cpu is bound.
ADMITTED: dict[str, tuple[list[Any], int, AnyPodGroup, bool]] = {
    "who says nothing": ([], 0, a_group("g", None), True),
    "what the cluster has": ([], 0, a_group("g", 10), True),
    "a fifth more, as Volcano's overcommit": ([], 0, a_group("g", 12), True),
    "but no more": ([], 0, a_group("g", "12001m"), False),
    "beside what is used": ([], 5, a_group("g", 7), True),
    "not beyond": ([], 5, a_group("g", 8), False),
    "thirty on eight": ([], 2, a_group("g", 30), False),
    "of scheduler-plugins what the cluster has": (
        [],
        0,
        a_group("g", 10, kind=CommunityPodGroup),
        True,
    ),
    "and no fifth more": ([], 0, a_group("g", 11, kind=CommunityPodGroup), False),
    "nor beyond what is used": ([], 5, a_group("g", 6, kind=CommunityPodGroup), False),
    "within the capability of its queue": (
        [a_queue("q", capability={"cpu": 4})],
        0,
        a_group("g", 4, queue="q"),
        True,
    ),
    "not beyond that": (
        [a_queue("q", capability={"cpu": 4})],
        0,
        a_group("g", 5, queue="q"),
        False,
    ),
    "beside what its queue uses": (
        [a_queue("q", capability={"cpu": 4})],
        2,
        a_group("g", 3, queue="q"),
        False,
    ),
    "nor beyond its parent's": (
        [a_queue("team", capability={"cpu": 4}), a_queue("q", parent="team")],
        2,
        a_group("g", 3, queue="q"),
        False,
    ),
    "nor what others are guaranteed": (
        [a_queue("q"), a_queue("r", guarantee={"resource": {"cpu": 7}})],
        2,
        a_group("g", 2, queue="q"),
        False,
    ),
    "what cannot be read counts as nothing": ([], 0, a_group("g", "lots"), True),
    "what ResourceQuotas count does not": (
        [],
        0,
        msgspec.convert(
            {
                "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
                "spec": {
                    "minMember": 1,
                    "minResources": {"requests.cpu": 99, "count/pods": 99, "pods": 9999},
                },
            },
            VolcanoPodGroup,
        ),
        True,
    ),
    "a hundred resources": ([], 0, a_group("g", 1, **{f"x.com/{n}": 0 for n in range(100)}), True),
    "of so many that each would be looked for on all nodes none counts": (
        [],
        0,
        a_group("g", 13, **{f"x.com/{n}": 1 for n in range(1000)}),
        True,
    ),
    "nobody has what no node has": (
        [],
        0,
        msgspec.convert(
            {
                "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
                "spec": {"minMember": 1, "minResources": {"example.com/none": 1}},
            },
            VolcanoPodGroup,
        ),
        False,
    ),
}


@pytest.mark.parametrize(("queues", "used", "group", "expected"), ADMITTED.values(), ids=ADMITTED)
def test_who_is_admitted(
    queues: list[Any], used: int, group: AnyPodGroup, expected: bool, harness: EngineHarness
) -> None:
    harness.observe(a_node("n").offers(cpu=10), *queues)
    if used:
        harness.observe(a_pod("other").needs(cpu=used).in_queue("q").on("n"))
    tell(harness, group)
    pod = member("g") if isinstance(group, VolcanoPodGroup) else a_pod("g-0").needs(cpu=1)
    if not isinstance(group, VolcanoPodGroup):
        pod = pod.labelled({COMMUNITY: "g"})
    harness.observe(pod)
    assert bound(harness.run()) == ({"g-0"} if expected else set())


def test_a_pod_group_that_is_too_large_evicts_nobody_and_its_pods_are_told(
    harness: EngineHarness,
) -> None:
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(2)))
    harness.observe(*(a_pod(f"low{n}").needs(cpu=4).on(f"n{n}") for n in range(2)))
    tell(harness, a_group("g", 30))
    harness.observe(member("g", priority=9))
    effects = harness.run() + harness.advance_to(60)
    assert not evicted(effects)
    assert not bound(effects)
    (told,) = {e.note for e in of_kind(PublishEvent, effects) if e.reason == "FailedScheduling"}
    assert told == (
        "gang default/g waits: Insufficient cpu in the cluster for its minResources: requested "
        "<30>, total would be <30>, but capability is <9600m>"
    )


def test_where_its_pods_could_never_be_placed_that_is_told_first(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=4))
    tell(harness, a_group("g", 8, least=2))
    harness.observe(*(member("g", n, 4) for n in range(2)))
    effects = harness.run() + harness.advance_to(60)
    (told,) = {e.note for e in of_kind(PublishEvent, effects) if e.reason == "FailedScheduling"}
    assert told.startswith("Unsatisfiable: ")
    assert "gang default/g waits: Insufficient cpu in the cluster for its minResources" in told


def test_what_it_may_evict_counts_as_room(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=8), a_queue("q", capability={"cpu": 8}))
    harness.observe(*(a_pod(f"l{n}").needs(cpu=4).in_queue("q").on("n") for n in range(2)))
    tell(harness, a_group("g", 8, least=2, queue="q"))
    harness.observe(*(member("g", n, 4, priority=9) for n in range(2)))
    assert evicted(harness.run()) == {"l0", "l1"}


def test_what_a_running_group_has_not_got_yet_is_kept_from_others_groups(
    harness: EngineHarness,
) -> None:
    """As a Spark job, whose driver runs first."""
    harness.observe(a_node("n").offers(cpu=10))
    tell(harness, a_group("spark", 8), a_group("other", 6))
    driver = member("spark")
    harness.observe(driver)
    harness.settle_all(harness.run())
    harness.observe(member("other"), a_pod("lone").needs(cpu=1))
    harness.settle_all(harness.run())
    assert bound(harness.effects) == {"spark-0", "lone"}, "8 are promised of 12, and one is used"
    harness.observe(*(member("spark", n) for n in range(1, 4)))
    harness.settle_all(harness.advance_to(20))
    assert len(bound(harness.effects)) == 5
    for n in range(4):
        harness.observe_deleted(member("spark", n))
    harness.settle_all(harness.advance_to(40))
    assert "other-0" in bound(harness.effects)


def test_nobody_of_another_namespace_waits_for_what_a_running_group_has_not_got(
    harness: EngineHarness,
) -> None:
    """One small pod whose PodGroup asks for the cluster holds up its owner's jobs, no others."""
    harness.observe(a_node("n").offers(cpu=10), a_queue("q", capability={"cpu": 12}))
    tell(harness, a_group("hog", 12, queue="q", namespace="tenant"))
    tell(harness, a_group("more", 6, queue="q", namespace="tenant"), a_group("g", 6, queue="q"))
    harness.observe(member("hog").in_namespace("tenant"))
    harness.settle_all(harness.run())
    harness.observe(member("more").in_namespace("tenant"), member("g"))
    harness.settle_all(harness.run())
    assert bound(harness.effects) == {"hog-0", "g-0"}


def test_so_it_is_after_a_restart(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=10), member("spark").on("n"))
    tell(harness, a_group("spark", 8), a_group("other", 6))
    harness.observe(member("other"))
    assert bound(harness.run()) == set()
    harness.observe_deleted(member("spark").on("n"))
    assert bound(harness.advance_to(20)) == {"other-0"}


def test_nothing_is_kept_for_a_group_of_which_less_than_its_minimum_runs(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=10), member("spark").on("n"))
    tell(harness, a_group("spark", 8, least=2), a_group("other", 6))
    harness.observe(member("other"))
    assert bound(harness.run()) == {"other-0"}


#: What wakes a PodGroup that wants 8 of 10 cpus, of which 5 are used (capability 8 in queue q).
def more_nodes(harness: EngineHarness) -> None:
    harness.observe(a_node("m").offers(cpu=1))


def fewer_pods(harness: EngineHarness) -> None:
    harness.observe_deleted(a_pod("other").needs(cpu=5).in_queue("q").on("n"))


def an_edit(harness: EngineHarness) -> None:
    tell(harness, a_group("g", 2, queue="q"))


def a_larger_queue(harness: EngineHarness) -> None:
    harness.observe(a_queue("q", capability={"cpu": 13}))


def another_pod_goes(harness: EngineHarness) -> None:
    harness.observe_deleted(a_pod("memory").needs(memory="1Gi").in_queue("r").on("n"))


@pytest.mark.parametrize(
    ("capability", "event", "helps"),
    [
        (20, more_nodes, True),
        (20, fewer_pods, True),
        (20, an_edit, True),
        (20, another_pod_goes, False),
        (8, fewer_pods, True),
        (8, a_larger_queue, False),
        (8, an_edit, True),
        (8, another_pod_goes, False),
    ],
)
def test_what_helps_wakes_it(
    capability: int, event: Any, helps: bool, harness: EngineHarness
) -> None:
    harness.observe(a_node("n").offers(cpu=10), a_queue("q", capability={"cpu": capability}))
    harness.observe(a_queue("r"), a_pod("other").needs(cpu=5).in_queue("q").on("n"))
    harness.observe(a_pod("memory").needs(memory="1Gi").in_queue("r").on("n"))
    tell(harness, a_group("g", 8, queue="q"))
    harness.observe(member("g"))
    assert bound(harness.run()) == set()
    event(harness)
    assert (bound(harness.run()) == {"g-0"}) == helps


# --- over random worlds --------------------------------------------------------------------------

TOTAL = 12


@dataclass
class Job:
    """A PodGroup with pods of one cpu, of which so many must run together."""

    name: str
    least: int
    pods: int
    minimum: int
    queue: str
    running: set[str] = field(default_factory=set)

    @property
    def stake(self) -> int:
        """What it has, or is still to get."""
        has = len(self.running)
        return max(has, self.minimum) if has >= self.least else has


class World:
    """Jobs come and go; what must hold is added up here."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.jobs = rng, dict[str, Job]()
        self.limits = {"q": rng.randint(3, TOTAL), "r": rng.randint(3, TOTAL)}
        self.harness = EngineHarness(default_profile(), queues=QuotaConfig())
        self.harness.start()
        self.harness.observe(*(a_node(f"n{n}").offers(cpu=TOTAL // 3) for n in range(3)))
        for name, limit in self.limits.items():
            self.harness.observe(a_queue(name, capability={"cpu": limit}))

    def stakes(self, queue: str = "") -> int:
        return sum(job.stake for job in self.jobs.values() if queue in ("", job.queue))

    def come(self, number: int) -> None:
        rng = self.rng
        least = rng.randint(1, 3)
        pods = least + rng.randint(0, 2)
        minimum = rng.choice([0, least, pods, rng.randint(1, 16)])
        job = Job(f"j{number}", least, pods, minimum, rng.choice(list(self.limits)))
        self.jobs[job.name] = job
        tell(self.harness, a_group(job.name, minimum or None, least=least, queue=job.queue))
        self.harness.observe(*(member(job.name, n) for n in range(pods)))

    def go(self, job: Job) -> None:
        del self.jobs[job.name]
        group = a_group(job.name, job.minimum or None, least=job.least, queue=job.queue)
        self.harness.engine.handlers.on_pod_group_deleted(group, self.harness.now)
        for n in range(job.pods):
            self.harness.observe_deleted(member(job.name, n))

    def rest(self) -> None:
        quiet = 0
        while quiet < 2:
            binds = of_kind(Bind, self.harness.run())
            for bind in binds:
                job = self.jobs[bind.pod.name.partition("-")[0]]
                job.running.add(bind.pod.name)
                self.harness.settle(bind)
                if job.minimum and len(job.running) == job.least:
                    assert self.stakes() <= int(TOTAL * 1.2), f"{job} was not to be admitted"
                    assert self.stakes(job.queue) <= self.limits[job.queue], job
            quiet = 0 if binds else quiet + 1
            self.harness.now += 400.0
        self.harness.engine.check_consistent()

    def check(self) -> int:
        """Nobody waits who could run; returns how many wait for their minimum alone."""
        waits = 0
        for job in self.jobs.values():
            if job.running:
                continue
            used = {
                q: sum(len(j.running) for j in self.jobs.values() if j.queue == q) for q in "qr"
            }
            fits = job.least <= TOTAL - sum(used.values())
            fits = fits and job.least <= self.limits[job.queue] - used[job.queue]
            admitted = self.stakes() + job.minimum <= int(TOTAL * 1.2)
            admitted &= self.stakes(job.queue) + job.minimum <= self.limits[job.queue]
            assert not (fits and (admitted or not job.minimum)), (job, self.jobs, self.limits)
            waits += fits
        return waits


def test_minima_are_kept_and_nobody_waits_in_vain() -> None:
    waited = 0
    for seed in range(80):
        world = World(random.Random(seed))
        number = 0
        for _ in range(6):
            for _ in range(world.rng.randint(0, 3)):
                world.come(number)
                number += 1
            world.rest()
            waited += world.check()
            for name in [name for name in world.jobs if world.rng.random() < 0.3]:
                world.go(world.jobs[name])
            world.rest()
            waited += world.check()
    assert waited > 80


def test_who_waits_for_protected_pods_is_let_in_when_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evictable_use, "_SECONDS_A_POD", 0.1)
    config = QuotaConfig(preempt_min_runtime=100.0)
    harness = EngineHarness(default_profile(), queues=config)
    harness.start()
    harness.observe(a_node("n1").offers(cpu=10), a_queue("default"))
    status = {"phase": "Running", "startTime": "1970-01-01T00:00:00Z"}
    lows = [a_pod(f"low{n}").needs(cpu=1).on("n1").with_status(**status) for n in range(10)]
    harness.observe(*lows)
    tell(harness, a_group("g", 10))
    harness.observe(member("g", priority=10))
    harness.run()
    harness.advance_to(99.5)
    harness.observe(a_node("n1").offers(cpu=10).labelled(edited="yes"))
    harness.observe(a_node("n2").offers(cpu="100m"))  # it is asked about once more
    assert evicted(harness.run()) == set()
    assert len(evicted(harness.advance_to(100) + harness.advance_to(101))) == 1


@pytest.mark.parametrize("launcher", ["launcher", "zlauncher"])
def test_what_any_kind_of_member_may_evict_counts_as_room(launcher: str) -> None:
    harness, gpu = EngineHarness(default_profile(), queues=QuotaConfig()), "nvidia.com/gpu"
    harness.observe(a_node("n1").offers({gpu: 4}, cpu=64))
    harness.observe(a_queue("a", deserved={gpu: 4}), a_queue("b"))
    others = (a_pod(f"b{n}").needs({gpu: 2}, cpu=1).in_queue("b").on("n1") for n in range(2))
    harness.observe(*others)
    tell(harness, a_group("g", 1, least=2, queue="a", **{gpu: 4}))
    pods = a_pod("worker").needs({gpu: 4}, cpu=1), a_pod(launcher).needs(cpu=1)
    harness.observe(*(pod.annotated({GROUP: "g"}) for pod in pods))
    assert evicted(harness.run()) == {"b0", "b1"}


def test_what_is_promised_stays_so_when_a_pod_is_made_anew_while_another_asks(
    harness: EngineHarness,
) -> None:
    harness.observe(a_node("n").offers(cpu=10, pods=50))
    tell(harness, a_group("a", 10, least=2))
    harness.observe(member("a", 0), member("a", 1))
    harness.settle_all(of_kind(Bind, harness.run()))
    harness.observe(member("a", 0).on("n"), member("a", 1).on("n"))
    harness.run()
    harness.engine.handlers.on_pod_deleted("default/a-1", harness.now)
    tell(harness, a_group("b", 2))
    harness.observe(member("b"))
    harness.run()
    harness.observe(member("a", 2))
    effects = harness.run()
    assert bound(effects) == {"a-2"}
    harness.settle_all(of_kind(Bind, effects))
    harness.observe(member("a", 2).on("n"))
    tell(harness, a_group("c", 5))
    harness.observe(member("c"))
    assert bound(harness.run()) == set()
