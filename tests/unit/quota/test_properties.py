"""Whatever comes, and however it is limited: quotas and guarantees hold, and it comes to rest.

What must hold is judged here by sums over the pods there are, and by nothing of the program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arranger.api.effects import Applied, Bind, DeletePod, Effect, PublishEvent
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_pod, a_queue
from tests.queueing import CARD, GPU, gpu_node
from tests.unit.engine.harness import EngineHarness, of_kind

#: Rounds within which all comes to rest, and rounds in a row without anything that prove it.
ROUNDS, QUIET = 60, 4
SERVICE = {"inference": "inference", "training": "training", "more": "training"}


@dataclass(slots=True)
class Job:
    """A lone pod, or a gang of several that only run together.

    Attributes:
        lives: how often it has been made; what is evicted is made again.
    """

    name: str
    queue: str
    cards: int
    size: int
    priority: int
    preemptable: bool = True
    lives: int = 0

    def pods(self) -> Iterator[PodBuilder]:
        """Its pods in this life."""
        for n in range(self.size):
            pod = a_pod(f"{self.name}-{n}-{self.lives}").needs({GPU: self.cards}, cpu="10m")
            pod = pod.with_priority(self.priority).in_queue(self.queue)
            pod = pod.serving(SERVICE[self.queue])
            if not self.preemptable:
                pod = pod.annotated({"volcano.sh/preemptable": "false"})
            yield pod.in_gang(f"{self.name}-{self.lives}", self.size) if self.size > 1 else pod


@dataclass(slots=True)
class Limits:
    """A queue: its quota and what it is guaranteed; None for no quota."""

    quota: int | None
    guarantee: int = 0
    reclaimable: bool = True
    parent: str = ""


@dataclass(slots=True)
class World:
    """The cluster as it is, without the scheduler's idea of it.

    Attributes:
        runtime: seconds that a pod runs at least.
    """

    nodes: list[int]
    limits: dict[str, Limits]
    runtime: int = 0
    harness: EngineHarness = field(init=False)
    jobs: dict[str, Job] = field(default_factory=dict)
    pods: dict[str, tuple[Job, PodBuilder]] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    evictions: int = 0

    def __post_init__(self) -> None:
        # A starving gang would have nodes kept free for it.
        patient = GangPolicy(starvation_after=float("inf"))
        times = QuotaConfig(reclaim_min_runtime=self.runtime, preempt_min_runtime=self.runtime)
        self.harness = EngineHarness(default_profile(), queues=times, gangs=patient)
        self.harness.observe(*(gpu_node(f"n{n}", count) for n, count in enumerate(self.nodes)))
        for name, limits in self.limits.items():
            spec: dict[str, Any] = {"reclaimable": limits.reclaimable, "parent": limits.parent}
            if limits.guarantee:
                spec["guarantee"] = {"resource": {GPU: limits.guarantee}}
            cards = None if limits.quota is None else {CARD: limits.quota}
            self.harness.observe(a_queue(name, cards=cards, **spec))

    # --- what happens ------------------------------------------------------------------------

    def arrive(self, job: Job) -> None:
        self.jobs[job.name] = job
        for pod in job.pods():
            self.pods[pod.info().pod.metadata.name] = job, pod
            self.harness.observe(pod)

    def leave(self, job: Job) -> None:
        for name in [name for name, (of_job, _) in self.pods.items() if of_job is job]:
            self._gone(name)
        del self.jobs[job.name]

    def rest(self) -> None:
        """Let the scheduler and the owners of what it evicts act until nothing happens."""
        quiet = 0
        for _ in range(ROUNDS):
            effects = self.harness.run()
            quiet = 0 if self._carry_out(effects) else quiet + 1
            if quiet == QUIET:
                self.check_at_rest()
                return
            self.harness.now += 400.0  # beyond any back-off or rest
        raise AssertionError(f"it does not come to rest: {self.evictions} evictions")

    def _carry_out(self, effects: Sequence[Effect]) -> bool:
        binds, deletes = of_kind(Bind, effects), of_kind(DeletePod, effects)
        for bind in binds:
            self._bind(bind)
        victims = {delete.pod.name for delete in deletes}
        before = {queue: self.used(queue) for queue in self.limits}
        takers = {
            e.related.name
            for e in of_kind(PublishEvent, effects)
            if e.reason == "Preempted" and e.related is not None
        }
        self._check_victims(victims)
        own = {q for name in takers for q in self.chain(self.pods[name][0].queue)}
        again = {self.pods[name][0].name: self.pods[name][0] for name in victims}
        for delete in deletes:
            self.harness.engine.on_outcome(delete, Applied(), self.harness.now)
            self._gone(delete.pod.name)
        for queue, limits in self.limits.items():
            after = self.used(queue)
            undercut = queue not in own and after < before[queue] and after < limits.guarantee
            assert not undercut, f"{queue} has {after} and is guaranteed {limits.guarantee}"
        self.evictions += len(deletes)
        if deletes:
            self._bind_takers(takers)
        for job in again.values():
            self.leave(job)
            job.lives += 1
            self.arrive(job)
        return bool(binds or deletes)

    def _bind_takers(self, takers: set[str]) -> None:
        """Nobody is evicted for nothing: with the victims gone, somebody gets their room.

        Unless others are evicted at once for who goes before; they too are waited for then.
        """
        self.harness.now += 20.0  # beyond their back-off
        effects = self.harness.run()
        goes_on = any(isinstance(effect, Bind | DeletePod) for effect in effects)
        assert goes_on, f"evicted for {takers}, and nobody was bound"
        self._carry_out(effects)

    def _bind(self, bind: Bind) -> None:
        job, pod = self.pods[bind.pod.name]
        assert self.is_beside_guarantees(job.queue, job.cards), f"{job} takes what is guaranteed"
        self.where[bind.pod.name] = bind.node
        assert self.free(bind.node) >= 0, f"{bind.node} is over its capacity"
        for queue in self.chain(job.queue):
            quota = self.limits[queue].quota
            assert quota is None or self.used(queue) <= quota, f"{queue} is over its quota"
        self.harness.engine.on_outcome(bind, Applied(), self.harness.now)
        self.started[bind.pod.name] = self.harness.now
        manifest = pod.on(bind.node).manifest()
        manifest["status"]["startTime"] = datetime.fromtimestamp(self.harness.now, UTC).isoformat()
        self.harness.observe(PodBuilder(manifest))

    def _gone(self, name: str) -> None:
        _, pod = self.pods.pop(name)
        self.where.pop(name, None)
        self.harness.observe_deleted(pod)

    # --- sums --------------------------------------------------------------------------------

    def chain(self, queue: str) -> Iterator[str]:
        while queue:
            yield queue
            queue = self.limits[queue].parent

    def used(self, queue: str) -> int:
        return sum(
            self.pods[name][0].cards
            for name in self.where
            if queue in self.chain(self.pods[name][0].queue)
        )

    def stake(self, queue: str, extra: Counter[str]) -> int:
        """What a queue and those below it use, or are guaranteed if that is more."""
        own = sum(self.pods[n][0].cards for n in self.where if self.pods[n][0].queue == queue)
        below = (name for name, limits in self.limits.items() if limits.parent == queue)
        used = own + extra[queue] + sum(self.stake(name, extra) for name in below)
        return max(used, self.limits[queue].guarantee) if queue else used

    def is_beside_guarantees(self, queue: str, cards: int) -> bool:
        """Whether a queue may have so many more, beside what is guaranteed to others."""
        after = self.stake("", Counter({queue: cards}))
        return after <= sum(self.nodes) or after == self.stake("", Counter())

    def free(self, node: str) -> int:
        there = sum(self.pods[name][0].cards for name, at in self.where.items() if at == node)
        return self.nodes[int(node[1:])] - there

    def bound(self, job: Job) -> int:
        return sum(self.pods[name][0] is job for name in self.where)

    def room(self, job: Job) -> int:
        """How many more cards the quotas of its queues allow."""
        limits = [(queue, self.limits[queue].quota) for queue in self.chain(job.queue)]
        return min((quota - self.used(q) for q, quota in limits if quota is not None), default=999)

    # --- what must hold ----------------------------------------------------------------------

    def _check_victims(self, victims: set[str]) -> None:
        lost: Counter[str] = Counter()
        for name in victims:
            job, _ = self.pods[name]
            assert job.preemptable, f"{name} may not be evicted"
            ran = self.harness.now - self.started.get(name, float("-inf"))
            assert ran >= self.runtime, f"{name} has run {ran} seconds only"
            lost[job.name] += 1
        for name, count in lost.items():
            assert count == self.jobs[name].size, f"{name} loses {count} of {self.jobs[name].size}"

    def check_at_rest(self) -> None:
        """No gang is in pieces, and nobody waits for what he could have."""
        for job in self.jobs.values():
            bound = self.bound(job)
            assert bound in (0, job.size), f"{job} has {bound} bound"
            if bound:
                continue
            nodes = [f"n{n}" for n in range(len(self.nodes))]
            fit = sum(self.free(node) // job.cards for node in nodes)
            wanted = job.size * job.cards
            fits = fit >= job.size and self.room(job) >= wanted
            fits = fits and self.is_beside_guarantees(job.queue, wanted)
            assert not fits, f"{job} starves while there is room"
            if job.size == 1 and self.room(job) >= job.cards:
                for node in nodes:
                    gain = sum(cards for cards in self._takeable(job, node))
                    beside = self.is_beside_guarantees(job.queue, job.cards)
                    can = beside and self.free(node) + gain >= job.cards
                    assert not can, f"{job} could reclaim on {node}"

    def _takeable(self, taker: Job, node: str) -> Iterator[int]:
        """Cards of lone pods that must give way to a taker whatever is guaranteed."""
        for name, at in self.where.items():
            job, _ = self.pods[name]
            reclaims = SERVICE[taker.queue] == "inference" and SERVICE[job.queue] == "training"
            inside = taker.queue == job.queue
            limits = self.limits[job.queue]
            safe = any(self.limits[queue].guarantee for queue in self.chain(job.queue))
            above = taker.priority - job.priority
            gives = above > 0 and (inside or (reclaims and limits.reclaimable))
            if at == node and job.size == 1 and job.preemptable and gives and not safe:
                yield job.cards


quotas = st.one_of(st.none(), st.integers(0, 16))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=3))
    limits: dict[str, Limits] = {}
    if draw(st.booleans()):
        limits["team"] = Limits(draw(quotas), guarantee=draw(st.sampled_from([0, 0, 3])))
    for name in SERVICE:
        quota = draw(quotas)
        most = 4 if quota is None else min(4, quota)
        limits[name] = Limits(
            quota,
            guarantee=draw(st.sampled_from([0, 0, most])),
            reclaimable=draw(st.sampled_from([True, True, False])),
            parent=draw(st.sampled_from(["", "team"])) if "team" in limits else "",
        )
    return World(nodes, limits, draw(st.sampled_from([0, 0, 500, 1000])))


jobs = st.tuples(
    st.sampled_from(list(SERVICE)),
    st.integers(1, 4),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.sampled_from([80000, 60000, 20000]),
    st.sampled_from([True, True, True, False]),
)
#: Jobs that come before all comes to rest again, and how many of those there are leave.
steps = st.lists(st.tuples(st.lists(jobs, max_size=5), st.integers(0, 2)), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(worlds(), steps)
def test_quotas_and_guarantees_hold_nobody_starves_and_it_comes_to_rest(
    world: World, script: list[tuple[list[tuple[str, int, int, int, bool]], int]]
) -> None:
    count = 0
    for arrivals, leavers in script:
        for queue, cards, size, priority, preemptable in arrivals:
            world.arrive(Job(f"j{count}", queue, cards, size, priority, preemptable))
            count += 1
        world.rest()
        for name in sorted(world.jobs)[:leavers]:
            world.leave(world.jobs[name])
        world.rest()
    world.harness.engine.check_consistent()
