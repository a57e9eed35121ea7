"""A gang's attempt goes on in steps, and comes to the same as one that is done at once."""

from __future__ import annotations

import random

import msgspec
import pytest

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.api.types.workloads import Service
from arranger.cluster.pod_info import PodInfo
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.context.entity import QueuedPod
from arranger.engine.engine import Engine
from arranger.engine.gang.attempt import attempts, suspended_members
from arranger.engine.pod import binding_cycle
from arranger.engine.queue.in_flight_events import MAX_KEPT
from arranger.framework.interface import SpecOnlyPlugin
from arranger.framework.runtime.profile import Profile
from arranger.framework.status import CycleState, Status
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import small_profile

ZONE, HOST, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"


class World:
    """A random cluster, with random gangs that come to it."""

    def __init__(self, seed: int, *, in_steps: bool, profile: Profile | None = None) -> None:
        self.rng, self._in_steps, self.steps = random.Random(seed), in_steps, 0
        self.engine = Engine(EngineSettings([profile or default_profile()]))
        self.decided: list[str] = []
        rng = self.rng
        self.nodes = rng.randrange(6, 24)
        for n in range(self.nodes):
            node = a_node(f"n{n}").offers(cpu=rng.choice([4, 8]), pods=20).in_zone(f"z{n % 3}")
            self.engine.handlers.on_node_updated(node.labelled(rack=f"r{n % 5}").build(), 0.0)
        for n in range(rng.randrange(3 * self.nodes)):
            pod = a_pod(f"old-{n}").labelled(app="old").needs(cpu="500m").with_priority(n % 2)
            self.show(pod.on(f"n{rng.randrange(self.nodes)}"), 0.0)
        self.engine.run(0.0)

    def show(self, pod: PodBuilder, now: float = 1.0) -> None:
        self.engine.handlers.on_pod_updated(pod.build(), now)

    def step(self, now: float = 1.0) -> None:
        """One step, after which the books are right, and nobody has half a gang's nodes."""
        self.steps += 1
        effects = self.engine.run(now, seconds=1e9 if self._in_steps else float("inf"), limit=1)
        for effect in effects:
            if isinstance(effect, Bind):
                self.decided.append(f"{effect.pod.name} to {effect.node}")
                self.engine.on_outcome(effect, Applied(), now)
            if isinstance(effect, DeletePod):
                self.decided.append(f"not {effect.pod.name}")
        self.engine.check_consistent()

    def settle(self, now: float = 1.0) -> None:
        for _ in range(3000):
            self.step(now)
            if not self.engine.ready:
                return
        raise AssertionError("it never comes to an end")

    def gang(self, name: str) -> list[PodBuilder]:
        """A random gang: kinds of members, a topology, affinity, spread, a minimum, a priority."""
        rng = self.rng
        size, kinds, priority = rng.randrange(2, 40), rng.randrange(1, 5), rng.randrange(3)
        least = rng.choice([size, max(1, size // 2)])
        more = rng.choice([{}, {}, {"mode": "NonStrict"}])
        topology = rng.choice(
            ["", "", f"required={ZONE}", f"preferred={RACK}", f"preferred={HOST}"]
        )
        shape = rng.randrange(5)
        members = []
        for n in range(size):
            pod = a_pod(f"{name}-{n}").labelled(app=name).with_priority(priority)
            pod = pod.needs(cpu=f"{500 + 250 * (n % kinds)}m").in_gang(name, least, **more)
            if topology:
                pod = pod.annotated({"arranger.io/topology": topology})
            if shape == 0:
                pod = pod.apart(HOST, {"app": name})
            elif shape == 1:
                pod = pod.spreads(ZONE, over={"app": name})
            members.append(pod)
        rng.shuffle(members)
        return members


def play(seed: int, *, in_steps: bool) -> World:
    world = World(seed, in_steps=in_steps)
    for n in range(3):
        for pod in world.gang(f"g{n}"):
            world.show(pod)
        world.settle()
    return world


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "STEP_UNITS", 250)
    monkeypatch.setattr(attempts, "MANY_PLACED", 3)


@pytest.fixture
def few_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding_cycle, "BINDINGS_PER_STEP", 5)


@pytest.mark.parametrize("seed", range(60))
def test_the_same_is_decided_as_at_once(seed: int, small_steps: None, few_bindings: None) -> None:
    at_once, in_steps = play(seed, in_steps=False), play(seed, in_steps=True)
    assert in_steps.decided == at_once.decided
    assert in_steps.engine.summary() == at_once.engine.summary()


def test_many_of_these_attempts_take_several_steps(small_steps: None) -> None:
    steps = [
        (play(seed, in_steps=True).steps, play(seed, in_steps=False).steps) for seed in range(9)
    ]
    assert sum(many > 2 * few for many, few in steps) > 4


@pytest.mark.parametrize(("size", "steps"), [(3, 1), (4, 2)])
def test_what_follows_for_very_many_members_is_a_step_of_its_own(
    size: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "MANY_PLACED", 4)
    world = World(1, in_steps=True)
    for pod in _limit(world, "g", size):
        world.show(pod)
    while not world.decided:
        world.step()
    assert world.steps == steps
    assert len(world.decided) == size


def _limit(world: World, name: str, size: int) -> list[PodBuilder]:
    return [a_pod(f"{name}-{n}").needs(cpu=1).in_gang(name, size) for n in range(size)]


@pytest.mark.parametrize("seed", range(25))
def test_whatever_changes_between_two_steps_the_books_are_right_and_nobody_is_lost(
    seed: int, small_steps: None, few_bindings: None
) -> None:
    world, shown = World(seed, in_steps=True), list[PodBuilder]()
    rng, engine = random.Random(seed), world.engine
    for n in range(4):
        for pod in world.gang(f"g{n}"):
            shown.append(pod)
            world.show(pod)
    for n in range(60):
        now = 1.0 + n / 100
        world.step(now)
        match rng.randrange(8):
            case 0:
                world.show(rng.choice(shown).labelled(edited=str(n)), now)
            case 1:
                gone = shown.pop(rng.randrange(len(shown))).build()
                engine.handlers.on_pod_deleted(gone.key, now)
            case 2:
                pod = a_pod(f"other-{n}").needs(cpu=1).on(f"n{rng.randrange(world.nodes)}")
                world.show(pod, now)
            case 3:
                world.show(a_pod(f"lone-{n}").needs(cpu=1), now)
            case 4:
                node = a_node(f"n{rng.randrange(world.nodes)}").offers(cpu=8, pods=20)
                engine.handlers.on_node_updated(node.labelled(edited=str(n)).build(), now)
            case 5:
                engine.handlers.on_pod_deleted(f"default/old-{rng.randrange(20)}", now)
            case 6 if n > 40:
                name = f"n{rng.randrange(world.nodes)}"
                engine.handlers.on_node_deleted(name, now)
        engine.check_consistent()
    now = 10.0
    while now < 400.0 and (engine.ready or engine.next_timer() is not None):
        now += 5.0
        world.settle(now)


def test_room_that_others_have_taken_between_two_steps_is_not_given_twice(
    small_steps: None,
) -> None:
    world = World(1, in_steps=True)
    engine = world.engine
    for n in range(world.nodes):
        engine.handlers.on_node_updated(a_node(f"n{n}").offers(cpu=2, pods=9).build(), 0.5)
    for n in range(60):
        engine.handlers.on_pod_deleted(f"default/old-{n}", 0.5)
    size = 2 * world.nodes
    for pod in _limit(world, "all", size):
        world.show(pod)
    world.step()
    world.show(a_pod("first").needs(cpu=1).with_priority(9))
    world.settle()
    bound = [text.split(" to ")[0] for text in world.decided]
    assert bound == ["first"]
    engine.handlers.on_pod_deleted("default/first", 2.0)
    world.settle(20.0)
    assert len(world.decided) == size + 1


@pytest.mark.parametrize("later", [0, MAX_KEPT, 3 * MAX_KEPT])
def test_what_happens_between_two_steps_and_helps_is_not_missed(
    small_steps: None, later: int
) -> None:
    """However much that is of no use happens after it."""
    world = World(1, in_steps=True)
    engine = world.engine
    size = 12
    for n in range(world.nodes):
        engine.handlers.on_node_updated(a_node(f"n{n}").offers(cpu=1, pods=9).build(), 0.5)
    for n in range(60):
        engine.handlers.on_pod_deleted(f"default/old-{n}", 0.5)
    for n in range(world.nodes):
        world.show(a_pod(f"here-{n}").needs(cpu=1).with_priority(9).on(f"n{n}"), 0.6)
    size = 4
    kinds = ["900m", "800m", "700m", "600m"]
    for n, cpu in enumerate(kinds):
        world.show(a_pod(f"g-{n}").needs(cpu=cpu).in_gang("g", size))
    world.step()
    for n in range(size):
        engine.handlers.on_pod_deleted(f"default/here-{n}", 1.0)
    for n in range(later):
        service = {"metadata": {"name": f"s{n}", "namespace": "default"}}
        engine.handlers.on_object_updated(msgspec.convert(service, Service), 1.0)
    now = 1.0
    while now < 30.0:
        world.settle(now)
        now += 1.0
    assert len(world.decided) == size


def _place_all(world: World, size: int) -> None:
    """A gang of so many members comes, and gets nodes that it just fills."""
    for n in range(size // 8):
        world.engine.handlers.on_node_updated(a_node(f"m{n}").offers(cpu=8, pods=9).build(), 0.5)
    for pod in _limit(world, "all", size):
        world.show(pod)
    world.settle()
    assert len(world.decided) == size


def test_of_members_that_were_put_back_nothing_is_found_out_again(
    small_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, size = 0, 80

    def counting(member: QueuedPod) -> bool:
        nonlocal asked
        asked += 1
        return False

    monkeypatch.setattr(suspended_members, "has_claims", counting)
    world = World(1, in_steps=True)
    _place_all(world, size)
    assert world.steps > 20
    assert size <= asked <= 2 * size


class _Reserves(SpecOnlyPlugin):
    """Reserves something of its own for each pod."""

    name = "Reserves"

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return None


def test_where_members_are_placed_again_in_each_step_there_are_few_steps(
    small_steps: None,
) -> None:
    world = World(1, in_steps=True, profile=small_profile(_Reserves()))
    size = 120
    _place_all(world, size)
    assert 3 < world.steps < 12  # each as long as those before it together, not some members long


def test_an_attempt_that_has_ended_in_between_is_not_gone_on_with_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One zone was found too small; all room is taken; then that zone becomes free."""
    monkeypatch.setattr(attempts, "STEP_UNITS", 1)
    engine = Engine(EngineSettings([default_profile()]))
    handlers, bound = engine.handlers, dict[str, str]()

    def step(now: float) -> None:
        for effect in engine.run(now, seconds=1e9, limit=1):
            if isinstance(effect, Bind):
                bound[effect.pod.name] = effect.node
                engine.on_outcome(effect, Applied(), now)

    def settle(now: float) -> None:
        step(now)
        while engine.ready:
            step(now)

    def fills(name: str, node: str, now: float) -> None:
        pod = a_pod(f"{name}-{node}").needs(cpu=1).with_priority(9).on(node)
        handlers.on_pod_updated(pod.build(), now)

    nodes = [f"{zone}{n}" for zone in "ab" for n in range(4)]
    for node in nodes:
        handlers.on_node_updated(a_node(node).offers(cpu=1).in_zone(node[0]).build(), 0.0)
        fills("here", node, 0.0)
    together = {"arranger.io/topology": "required=topology.kubernetes.io/zone"}
    for n, cpu in enumerate(["900m", "900m", "450m", "450m"]):
        pod = a_pod(f"g-{n}").needs(cpu=cpu).in_gang("g", 4).annotated(together)
        handlers.on_pod_updated(pod.build(), 1.0)
    settle(1.0)
    some = [node for node in nodes if node[1] in "01"]
    for node in some:
        handlers.on_pod_deleted(f"default/here-{node}", 20.0)
    for _ in range(3):
        step(20.0)
    for node in some:
        fills("taker", node, 21.0)
    settle(21.0)
    for node in nodes[:4]:
        for name in ("here", "taker"):
            handlers.on_pod_deleted(f"default/{name}-{node}", 30.0)
    for now in range(30, 60):
        settle(float(now))
    assert sorted(bound.values()) == nodes[:4]
