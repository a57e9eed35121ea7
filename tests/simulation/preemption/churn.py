"""Busy worlds in which victims leave slowly, and a judge of what their leaving was good for.

Gangs and lone pods of several priorities come, end, are deleted and come back after an eviction;
nodes change, deletes and Bindings fail. Each eviction is held against the taker until that has its
place, or until something has happened after the plan that explains why it has none.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Bind,
    DeletePod,
    Outcome,
    PatchPodStatus,
    Refused,
)
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.simulation.harnesses.engine_trace import EngineTrace
from tests.specification.premises import Premises
from tests.unit.engine.harness import EngineHarness

#: Seconds that pods take to end.
GRACE = (0.0, 1.0, 5.0, 30.0, 120.0)
CONFLICT = Refused(409, "Conflict", "the object has been modified")
FORBIDDEN = Refused(403, "Forbidden", "not this one")
#: Seconds of quiet at the end, in which all plans come true and nobody else leaves.
CALM = 3000.0


@dataclass
class Plan:
    """Evictions for one taker that has no place yet.

    Attributes:
        excuses: what has happened since, by which the taker may have lost its place.
    """

    taker: str
    priority: int
    victims: set[str]
    excuses: set[str] = field(default_factory=set)


@dataclass
class Work:
    """A pod, or the pods of a gang: who comes, and comes back."""

    name: str
    priority: int
    sizes: list[int]
    least: int
    traits: dict[str, str] = field(default_factory=dict)
    apart: bool = False
    #: Pod → its size.
    pods: dict[str, int] = field(default_factory=dict)
    born: int = 0

    @property
    def is_gang(self) -> bool:
        return self.least > 0


@dataclass
class Churn:
    """One world.

    Attributes:
        in_vain: plans whose takers got no place although nothing was in the way.
        again: takers for which pods were evicted twice although nothing had happened.
        at_rest: whether nobody was evicted in the second half of the calm at the end.
        seen: how many evictions there were, takers that got their place, and so on.
    """

    seed: int
    steps: int = 25
    works: dict[str, Work] = field(default_factory=dict)
    #: Pod → its work.
    owner: dict[str, Work] = field(default_factory=dict)
    node_of: dict[str, str] = field(default_factory=dict)
    leaving: dict[str, float] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    in_vain: list[Plan] = field(default_factory=list)
    again: list[Plan] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    cpus: dict[str, int] = field(default_factory=dict)
    calm: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        premises = Premises(writes_may_fail=True, bind_seconds=float("inf"))
        self.trace = EngineTrace(premises)
        self.harness = EngineHarness(
            default_profile(), gangs=GangPolicy(starvation_after=float("inf"))
        )

    def play(self) -> Churn:
        """Let things happen, then let them come to rest; returns itself."""
        for n in range(self.rng.randint(1, 5)):
            self._node(f"n{n}", self.rng.randint(2, 6))
        for _ in range(self.rng.randint(2, 8)):
            self._comes(low=True)
        self._decide()
        for _ in range(self.steps):
            self._something_happens()
            self._pass(self.rng.choice((0.0, 0.5, 2.0, 10.0, 40.0)))
        self.calm = True
        until = self.harness.now + CALM
        while self.harness.now < until:
            self.at_rest = self.harness.now > until - CALM / 2 or not self.leaving
            self._pass(until - self.harness.now)
        self._look()
        self.trace.check(self.harness.now, at_rest=True)
        self.in_vain += [plan for plan in self.plans.values() if not plan.excuses]
        self.seen["takers excused"] += sum(1 for plan in self.plans.values() if plan.excuses)
        return self

    # --- what happens ----------------------------------------------------------------------------

    def _something_happens(self) -> None:
        kinds = ("comes", "ends", "goes", "node", "edit", "nothing")
        match self.rng.choices(kinds, (8, 4, 1, 1, 2, 6))[0]:
            case "comes":
                self._comes()
            case "ends" if self.node_of:
                pod = self.rng.choice(sorted(self.node_of))
                self._excuse_pod(pod, "one of its pods ended")
                self._gone(pod)
            case "goes" if waiting := self._waiting():
                self._goes(self.rng.choice(waiting))
            case "node":
                name = self.rng.choice(sorted(self.cpus))
                self._node(name, max(1, self.cpus[name] + self.rng.choice((-2, -1, 1, 2))))
                self._excuse_all("a node was changed")
            case "edit" if waiting := self._waiting():
                pod = self.rng.choice(waiting)
                self._excuse_pod(pod, "edited")
                self.owner[pod].traits[f"edit-{self.harness.now:g}"] = "yes"
                self._show(pod)
        self._decide()

    def _node(self, name: str, cpu: int) -> None:
        self.cpus[name] = cpu
        node = a_node(name).offers(cpu=cpu)
        self.trace.shows(node.manifest(), self.harness.now)
        self.harness.observe(node)

    def _comes(self, *, low: bool = False) -> None:
        rng, number = self.rng, len(self.works)
        priority = rng.choice((0, 0, 1) if low else (0, 1, 1, 2, 3))
        if rng.random() < 0.4:
            work = Work(f"p{number}", priority, [rng.randint(1, 3)], 0)
        else:
            count = rng.randint(1, 4)
            alike = rng.randint(1, 2)
            sizes = [alike if rng.random() < 0.7 else rng.randint(1, 3) for _ in range(count)]
            work = Work(f"g{number}", priority, sizes, rng.randint(1, count))
        work.apart = rng.random() < 0.15
        self.works[work.name] = work
        self._excuse_lower(priority, f"{work.name} came")
        self._create(work, work.sizes)

    def _create(self, work: Work, sizes: Iterable[int]) -> None:
        for cpu in sizes:
            name = f"{work.name}-{work.born}"
            work.born += 1
            work.pods[name], self.owner[name] = cpu, work
            self._show(name)

    def _show(self, name: str) -> None:
        pod = self._built(name)
        pod = pod.on(self.node_of[name]) if name in self.node_of else pod
        self.trace.shows(pod.manifest(), self.harness.now)
        self.harness.observe(pod.deleting() if name in self.leaving else pod)

    def _built(self, name: str) -> PodBuilder:
        work = self.owner[name]
        labels = {"work": work.name, **work.traits}
        pod = a_pod(name).needs(cpu=work.pods[name]).with_priority(work.priority).labelled(labels)
        pod = pod.apart("kubernetes.io/hostname", {"work": work.name}) if work.apart else pod
        return pod.in_gang(work.name, work.least) if work.is_gang else pod

    def _goes(self, name: str) -> None:
        """Its owner deletes one that waits, or all of them."""
        work = self.owner[name]
        self._excuse_pod(name, "deleted")
        all_of_it = self.rng.random() < 0.5
        names = [pod for pod in self._waiting() if pod in work.pods] if all_of_it else [name]
        for each in names:
            self._gone(each)

    def _gone(self, name: str) -> None:
        work, evicted = self.owner[name], self.leaving.pop(name, None) is not None
        self.node_of.pop(name, None)
        self.trace.gone(name, self.harness.now)
        self.harness.observe_deleted(a_pod(name))
        cpu = work.pods.pop(name)
        del self.owner[name]
        if evicted and self.rng.random() < 0.7:
            self._create(work, [cpu])  # as its controller does

    def _waiting(self) -> list[str]:
        return sorted(self.owner.keys() - self.node_of.keys())

    # --- time ------------------------------------------------------------------------------------

    def _pass(self, seconds: float) -> None:
        """Let time pass, but not beyond the next thing that is due."""
        due = [when for when in self.leaving.values() if when > self.harness.now]
        timer = self.harness.engine.next_timer()
        due += [timer] if timer is not None and timer > self.harness.now else []
        self.harness.now = min([self.harness.now + seconds, *due])
        for name in [n for n, when in self.leaving.items() if when <= self.harness.now]:
            if name in self.leaving:
                self._gone(name)
        self._decide()

    def _decide(self) -> None:
        self._look()
        self.harness.run()
        while todo := [e for e in self.harness.effects if isinstance(e, Bind | DeletePod)]:
            self._forget_effects()
            self._note_plans([each for each in todo if isinstance(each, DeletePod)])
            for effect in todo:
                if isinstance(effect, Bind):
                    self._bind(effect)
                else:
                    self._evict(effect)
            self._look()
        self._forget_effects()

    def _forget_effects(self) -> None:
        """Statuses are written at once; Bindings and deletions are carried out by who asks."""
        for effect in self.harness.effects:
            if isinstance(effect, PatchPodStatus):
                self.trace.applied(effect, self.harness.now)
        self.harness.effects.clear()

    def _bind(self, effect: Bind) -> None:
        name = effect.pod.name
        outcome: Outcome = Applied()
        if not self.calm and self.rng.random() < 0.03:
            outcome = CONFLICT
            self._excuse_pod(name, "its Binding was refused")
        elif name in self.owner:
            self.trace.applied(effect, self.harness.now)
            self.node_of[name] = effect.node
        self.harness.settle(effect, outcome)
        if outcome is not CONFLICT and name in self.owner:
            self._show(name)

    def _evict(self, effect: DeletePod) -> None:
        name = effect.pod.name
        outcome: Outcome = Applied()
        self.seen["evictions in the calm" if self.calm else "evictions"] += 1
        luck = 1.0 if self.calm else self.rng.random()
        if luck < 0.03:
            outcome = FORBIDDEN
            self._excuse(self._taker(effect), "a victim may not be deleted")
        elif luck < 0.06:
            outcome = Ambiguous("no answer")
        if outcome is not FORBIDDEN and name in self.owner and name not in self.leaving:
            self.trace.applied(effect, self.harness.now)
            self.leaving[name] = self.harness.now + self.rng.choice(GRACE)
        self.harness.settle(effect, outcome)
        if name in self.leaving:
            self._show(name)

    # --- the judge -------------------------------------------------------------------------------

    def _taker(self, effect: DeletePod) -> str:
        assert effect.eviction is not None, f"nobody knows for whom {effect.pod.name} leaves"
        return effect.eviction.gang.removeprefix("default/") or effect.eviction.taker

    def _note_plans(self, deletes: list[DeletePod]) -> None:
        together: dict[str, set[str]] = {}
        for effect in deletes:
            together.setdefault(self._taker(effect), set()).add(effect.pod.name)
        for taker, victims in together.items():
            name = taker.removeprefix("default/")
            work = self.works.get(name) or self.owner[name]
            plan = Plan(taker, work.priority, victims)
            earlier = self.plans.get(taker)
            if earlier is not None and not earlier.excuses:
                self.again.append(plan)
            for victim in victims:
                self._excuse_pod(victim, "evicted itself")
            self._excuse_lower(work.priority, f"{taker} took", but=taker)
            if any(self._priority(pod) > work.priority for pod in self._waiting()):
                plan.excuses.add("somebody more important waits")
            self.plans[taker] = plan

    def _priority(self, pod: str) -> int:
        return self.owner[pod].priority

    def _excuse_pod(self, pod: str, why: str) -> None:
        """Something has happened to a pod, and so to its gang."""
        for taker in (self.owner[pod].name, f"default/{pod}"):
            self._excuse(taker, why)

    def _excuse(self, taker: str, why: str) -> None:
        if taker in self.plans:
            self.plans[taker].excuses.add(why)

    def _excuse_all(self, why: str) -> None:
        for taker in self.plans:
            self._excuse(taker, why)

    def _excuse_lower(self, priority: int, why: str, but: str = "") -> None:
        for taker, plan in self.plans.items():
            if plan.priority < priority and taker != but:
                plan.excuses.add(why)

    def _look(self) -> None:
        """Forget the plans that have come true, and those whose takers are gone."""
        for taker in list(self.plans):
            if self._has_place(taker):
                self.seen["takers placed"] += 1
                del self.plans[taker]

    def _has_place(self, taker: str) -> bool:
        work = self.works.get(taker)
        if work is None:
            name = taker.removeprefix("default/")
            return name not in self.owner or name in self.node_of
        there = [pod for pod in work.pods if pod in self.node_of and pod not in self.leaving]
        return not work.pods or len(there) >= work.least
