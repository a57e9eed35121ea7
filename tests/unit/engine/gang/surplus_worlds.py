"""Small random worlds of gangs with members beyond their minimum, and a judge of what leaves.

Members have priorities of their own; minimums are edited while members run, wait, are nominated or
are being evicted; members come, end, fail and are made again; writes fail; the scheduler restarts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from arranger.api.effects import Applied, Bind, DeletePod, Refused
from arranger.engine.gang.state.policy import GangPolicy
from arranger.plugins import default_profile
from tests.builders import PodBuilder, PodGroupBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.harness import CONFLICT, EngineHarness

FORBIDDEN = Refused(403, "Forbidden", "not this one")
CALM = 6000.0


@dataclass
class Member:
    """A pod of the world; of no gang where that is empty."""

    name: str
    gang: str
    cpu: int
    priority: int
    node: str = ""
    leaves_at: float | None = None
    failed: bool = False
    nominated: str = ""

    @property
    def runs(self) -> bool:
        return bool(self.node) and self.leaves_at is None and not self.failed


@dataclass
class World:
    """One world; :attr:`wrong` is what the judge has to say."""

    seed: int
    restarts: bool = True
    policies: tuple[str, ...] = ("once-satisfied", "waiting-and-running", "only-waiting")
    nodes: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    strict: dict[str, bool] = field(default_factory=dict)
    priority: dict[str, int] = field(default_factory=dict)
    pods: dict[str, Member] = field(default_factory=dict)
    #: Gangs that may be below their minimum, for something that was done to them.
    excused: set[str] = field(default_factory=set)
    #: Gangs that have had their minimum since they had no node.
    satisfied: set[str] = field(default_factory=set)
    takers: dict[str, set[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    #: Pods whose Bindings are on their way.
    binding: set[str] = field(default_factory=set)
    #: Gang → its match policy.
    match: dict[str, str] = field(default_factory=dict)
    born: int = 0
    calm: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.harness = self._begin()

    def _begin(self) -> EngineHarness:
        policy = GangPolicy(starvation_after=float("inf"), wait_time=120.0, on_timeout="Retry")
        return EngineHarness(default_profile(), gangs=policy)

    def play(self) -> World:
        rng = self.rng
        for n in range(rng.randint(1, 3)):
            self.nodes[f"n{n}"] = rng.randint(1, 5)
            self.harness.observe(a_node(f"n{n}").offers(cpu=self.nodes[f"n{n}"]))
        self.harness.start()
        for _ in range(rng.randint(1, 2)):
            self._gang()
        self._run()
        for _ in range(rng.randint(5, 25)):
            self._something()
            self._pass(rng.choice((0.0, 0.5, 3.0, 20.0, 150.0)))
        self.calm = True
        end = self.harness.now + CALM
        while self.harness.now < end:
            self.quiet = self.harness.now > end - CALM / 2
            self._pass(end - self.harness.now)
        self._at_rest()
        return self

    # --- what happens --------------------------------------------------------------------------

    def _something(self) -> None:
        rng = self.rng
        kinds = {"gang": 1, "lone": 3, "member": 4, "goes": 3, "fails": 1, "least": 5, "nothing": 3}
        kinds["restart"] = 1 if self.restarts else 0
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        self.seen[kind] += 1
        match kind:
            case "gang" if len(self.least) < 3:
                self._gang()
            case "lone":
                self._create("", rng.randint(1, 2), rng.choice((0, 1, 2, 3)))
            case "member" if self.least:
                gang = rng.choice(sorted(self.least))
                self._create(gang, 1, self._own_priority(gang))
            case "goes" if self.pods:
                self._gone(rng.choice(sorted(self.pods)), "deleted")
            case "fails" if running := [p for p in self.pods.values() if p.runs]:
                pod = rng.choice(sorted(running, key=lambda p: p.name))
                pod.failed = True
                self.log.append(f"{self.harness.now:g} {pod.name} fails")
                self._excuse(pod)
                self._show(pod.name)
            case "least" if self.least:
                gang = rng.choice(sorted(self.least))
                self.least[gang] = max(0, self.least[gang] + rng.choice((-2, -1, 1, 2)))
                self.log.append(f"{self.harness.now:g} least of {gang} is {self.least[gang]}")
                self.excused.add(gang)
                self.takers.clear()
                self.harness.observe(self._group(gang))
            case "restart":
                self._restart()
        self._run()

    def _gang(self) -> None:
        name = f"g{len(self.least)}"
        size = self.rng.randint(1, 5)
        self.least[name] = self.rng.randint(1, size)
        self.strict[name] = self.rng.random() < 0.7
        self.priority[name] = self.rng.choice((0, 1, 2))
        self.match[name] = self.rng.choice(self.policies)
        stated = f"{self.least[name]} of {size}, {self.match[name]}"
        self.log.append(f"{self.harness.now:g} gang {name}: {stated}")
        self.harness.observe(self._group(name))
        for _ in range(size):
            self._create(name, 1, self._own_priority(name))

    def _own_priority(self, gang: str) -> int:
        return self.priority[gang] + (3 if self.rng.random() < 0.25 else 0)

    def _group(self, gang: str) -> PodGroupBuilder:
        return a_pod_group(gang, least=self.least[gang])

    def _create(self, gang: str, cpu: int, priority: int) -> None:
        name = f"{gang or 'p'}-{self.born}"
        self.born += 1
        self.pods[name] = Member(name, gang, cpu, priority)
        self.log.append(f"{self.harness.now:g} {name} comes: cpu {cpu}, priority {priority}")
        self.takers.clear()
        self._show(name)

    def _built(self, pod: Member) -> PodBuilder:
        built = a_pod(pod.name).needs(cpu=pod.cpu).with_priority(pod.priority)
        if pod.gang:
            mode = "Strict" if self.strict[pod.gang] else "NonStrict"
            built = built.in_pod_group(pod.gang)
            words = {"mode": mode, "match-policy": self.match[pod.gang]}
            prefix = "gang.scheduling.koordinator.sh/"
            built = built.annotated({prefix + word: text for word, text in words.items()})
        if pod.node:
            built = built.on(pod.node)
        elif pod.nominated:
            built = built.nominated_to(pod.nominated)
        if pod.failed:
            built = built.in_phase("Failed")
        return built.deleting() if pod.leaves_at is not None else built

    def _show(self, name: str) -> None:
        self.harness.observe(self._built(self.pods[name]))

    def _excuse(self, pod: Member) -> None:
        if pod.gang:
            self.excused.add(pod.gang)
        self.takers.clear()

    def _gone(self, name: str, why: str) -> None:
        pod = self.pods.pop(name)
        self.log.append(f"{self.harness.now:g} {name} is gone: {why}")
        if why == "deleted":
            self._excuse(pod)
        self.harness.observe_deleted(a_pod(name))
        if why == "evicted" and pod.gang and self.rng.random() < 0.6:
            self._again(pod)

    def _again(self, pod: Member) -> None:
        name = f"{pod.gang}-{self.born}"
        self.born += 1
        self.pods[name] = Member(name, pod.gang, pod.cpu, pod.priority)
        self.log.append(f"{self.harness.now:g} {name} comes in its place")
        self._show(name)

    def _restart(self) -> None:
        self.log.append(f"{self.harness.now:g} restart")
        self.harness.settle_gangs()
        before, self.harness = self.harness, self._begin()
        self.harness.now, self.harness.gang_server = before.now, before.gang_server
        for name, cpu in self.nodes.items():
            self.harness.observe(a_node(name).offers(cpu=cpu))
        for gang in self.least:
            self.harness.observe(self._group(gang))
        for name in self.harness.gang_server.objects:
            known = self.harness.gang_server.get(name)
            self.harness.engine.handlers.on_gang_updated(known, self.harness.now)
        for name in self.pods:
            self._show(name)
        self.harness.start()
        self.takers.clear()

    # --- time ----------------------------------------------------------------------------------

    def _pass(self, seconds: float) -> None:
        due = [p.leaves_at for p in self.pods.values() if p.leaves_at is not None]
        timer = self.harness.engine.next_timer()
        due += [timer] if timer is not None else []
        later = [when for when in due if when > self.harness.now]
        self.harness.now = min([self.harness.now + seconds, *later])
        for name in sorted(self.pods):
            pod = self.pods.get(name)
            if pod is not None and pod.leaves_at is not None and pod.leaves_at <= self.harness.now:
                self._gone(name, "evicted")
        self._run()

    def _run(self) -> None:
        self.harness.run()
        while True:
            self.harness.settle_gangs()
            todo, self.harness.effects = self.harness.effects, []
            for effect in todo:
                condition = getattr(effect, "nominated_node", None)
                if condition is not None and effect.pod.name in self.pods:
                    self.pods[effect.pod.name].nominated = condition
            acts = [e for e in todo if isinstance(e, Bind | DeletePod)]
            if not acts:
                break
            self.binding = {e.pod.name for e in acts if isinstance(e, Bind)}
            self._judge_plan([e for e in acts if isinstance(e, DeletePod)])
            self.binding = set()
            for effect in acts:
                if isinstance(effect, Bind):
                    self._bind(effect)
                else:
                    self._evict(effect)
            self._note_satisfied()
        self._note_satisfied()

    def _note_satisfied(self) -> None:
        for gang, least in self.least.items():
            count = self._running(gang)
            if count and count >= least:
                self.satisfied.add(gang)
                self.excused.discard(gang)
            elif not count:
                self.satisfied.discard(gang)
                self.excused.discard(gang)

    def _running(self, gang: str) -> int:
        return sum(pod.gang == gang and self._counts(pod) for pod in self.pods.values())

    def _counts(self, pod: Member) -> bool:
        return pod.runs or (pod.name in self.binding and pod.leaves_at is None)

    def _bind(self, effect: Bind) -> None:
        pod = self.pods.get(effect.pod.name)
        if pod is None or pod.node or (not self.calm and self.rng.random() < 0.04):
            self.log.append(f"{self.harness.now:g} no Binding of {effect.pod.name}")
            if pod is not None:
                self._excuse(pod)
            self.harness.settle(effect, CONFLICT)
            return
        self.log.append(f"{self.harness.now:g} {pod.name} is bound to {effect.node}")
        pod.node, pod.nominated = effect.node, ""
        self.harness.settle(effect, Applied())
        self._show(pod.name)

    def _evict(self, effect: DeletePod) -> None:
        pod = self.pods.get(effect.pod.name)
        if pod is None or (not self.calm and self.rng.random() < 0.04):
            self.log.append(f"{self.harness.now:g} {effect.pod.name} is not evicted")
            if pod is not None:
                self._excuse(pod)
            self.harness.settle(effect, FORBIDDEN)
            return
        pod.leaves_at = self.harness.now + self.rng.choice((0.1, 1.0, 30.0))
        self.harness.settle(effect, Applied())
        if pod.name in self.pods:
            self._show(pod.name)

    # --- the judge -----------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self.wrong.append(f"{self.harness.now:g} {text}")
        self.log.append(f"{self.harness.now:g} WRONG {text}")

    def _judge_plan(self, deletes: list[DeletePod]) -> None:
        if not deletes:
            return
        victims = {d.pod.name for d in deletes if d.pod.name in self.pods}
        by: dict[str, set[str]] = {}
        for each in deletes:
            assert each.eviction is not None
            taker = each.eviction.gang or each.eviction.taker
            if each.eviction.reason == "preemption":
                by.setdefault(taker.removeprefix("default/"), set()).add(each.pod.name)
        for taker, who in by.items():
            self.log.append(f"{self.harness.now:g} {sorted(who)} have to leave for {taker}")
            self.seen["evictions"] += len(who)
            if self.quiet:
                self._say(f"{sorted(who)} have to leave though nothing happens")
            mates = [p for p in self.pods.values() if p.gang == taker and not p.node]
            pods = [self.pods[taker]] if taker in self.pods else mates
            for name in who & self.pods.keys():
                victim = self.pods[name]
                if pods and victim.priority >= max(p.priority for p in pods):
                    self._say(f"{name} leaves for {taker}, which is not more important")
                if victim.leaves_at is not None:
                    self._say(f"{name} is evicted a second time")
            own = pods[0].gang if pods else ""
            theirs = {name for name in who if self.pods[name].gang == own} if own else set()
            if theirs and self._running(own) - len(theirs) < self.least[own]:
                self._say(f"{taker} breaks its own gang")
            if taker in self.takers:
                self._say(f"{taker} evicts again, though nothing has happened")
            top = max((p.priority for p in pods), default=0)
            if not any(p.priority > top for p in self.pods.values() if not p.node):
                self.takers[taker] = who  # else the more important ones may take the room
        for gang, least in self.least.items():
            lost = sum(self.pods[name].gang == gang for name in victims)
            left = self._running(gang) - sum(
                self.pods[name].gang == gang and self._counts(self.pods[name]) for name in victims
            )
            if lost and 0 < left < least:
                self._say(f"{gang} is left with {left} of {least}")
            if lost and left:
                self.seen["surplus evicted"] += 1

    def _free(self, node: str, without: Iterable[str] = ()) -> int:
        gone = set(without)
        there = (p for p in self.pods.values() if p.node == node and not p.failed)
        return self.nodes[node] - sum(p.cpu for p in there if p.name not in gone)

    def _at_rest(self) -> None:
        waiting = [p for p in self.pods.values() if not p.node and not p.failed]
        lone = [p for p in waiting if not p.gang or self._is_open(p.gang)]
        for pod in lone:
            for node in self.nodes:
                if self._free(node) >= pod.cpu:
                    self._say(f"{pod.name} waits though it fits on {node}")
            self._look_for_victims(pod)
        for gang, least in self.least.items():
            here = [p for p in waiting if p.gang == gang]
            runs = self._running(gang)
            if runs and runs < least and gang not in self.excused:
                self._say(f"{gang} runs with {runs} of {least}")
            counted = 0 if self.match[gang] == "only-waiting" and gang in self.satisfied else runs
            if self._is_open(gang) or not here or counted + len(here) < least:
                continue
            room = sum(max(0, self._free(node)) for node in self.nodes)
            if room >= max(1, least - counted):
                self._say(f"{gang} waits though there is room for {room}")
        for taker in self.takers:
            pods = [p for p in self.pods.values() if taker in (p.gang, p.name)]
            if pods and not any(p.node for p in pods):
                self._say(f"pods were evicted for {taker} in vain")

    def _is_open(self, gang: str) -> bool:
        """Whether members are placed one by one."""
        if not self.least[gang] or self.match[gang] == "once-satisfied":
            return gang in self.satisfied
        return self.match[gang] == "waiting-and-running" and self._running(gang) >= self.least[gang]

    def _look_for_victims(self, pod: Member) -> None:
        for node in self.nodes:
            gone: list[str] = []
            spare = {gang: self._running(gang) - least for gang, least in self.least.items()}
            for other in sorted(self.pods.values(), key=lambda p: p.name):
                if other.node != node or not other.runs or other.priority >= pod.priority:
                    continue
                if other.gang:
                    spare[other.gang] -= 1
                    if spare[other.gang] < 0:
                        continue
                gone.append(other.name)
            if gone and self._free(node, gone) >= pod.cpu:
                self._say(f"{pod.name} waits though {gone} could leave {node}")
