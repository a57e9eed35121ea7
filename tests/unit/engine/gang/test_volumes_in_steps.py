"""Gangs whose members have volumes: what was chosen for a member in one step is not sought anew."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from arranger.api.effects import Applied, Bind, PatchObject
from arranger.cluster import NodeView, PodInfo
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.gang.attempt import attempts
from arranger.framework import FilterResult
from arranger.framework.status import CycleState
from arranger.plugins import default_profile
from arranger.plugins.volumes.volume_binding import VolumeBinding
from tests.builders import PodBuilder, a_node, a_pod
from tests.storage import a_claim, a_class, a_volume
from tests.unit.engine.gang.placed_again import played_twice

NODES, SIZE = 6, 12
Event = Callable[["World"], None]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "STEP_UNITS", 250)


class World:
    """Nodes in two zones, volumes in the first, and a gang whose members have a claim each."""

    def __init__(self, volumes: int = 4) -> None:
        self.engine = Engine(EngineSettings([default_profile()]))
        self.steps = 0
        self.bound: dict[str, str] = {}
        #: What was written about volumes and claims, in order.
        self.written: list[tuple[str, str]] = []
        #: The volumes that there were, and those that others have got.
        self.volumes = {f"v{n}" for n in range(volumes)}
        self.held = set[str]()
        for n in range(NODES):
            node = a_node(f"n{n}").offers(cpu=4, pods=20).in_zone(f"z{n % 2}")
            self.engine.handlers.on_node_updated(node.build(), 0.0)
        self.show(a_class(), *(a_volume(f"v{n}").usable_in("z0") for n in range(volumes)))

    def show(self, *objects: Any) -> None:
        for each in objects:
            built = each.build()
            self.engine.handlers.kinds[type(built)].updated(built, 1.0)

    def come(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.engine.handlers.on_pod_updated(pod.build(), 1.0)

    def gang(self, size: int = SIZE, cpu: str = "1") -> list[PodBuilder]:
        self.show(*(a_claim(f"c{n}") for n in range(size)))
        members = [a_pod(f"g-{n}").needs(cpu=cpu).in_gang("g", size) for n in range(size)]
        return [pod.with_claim(f"c{n}") for n, pod in enumerate(members)]

    def resting(self) -> dict[str, str]:
        """The members that have got nodes so far, with these."""
        for pod in self.engine.pods():
            if pod.entity and isinstance(pod.entity.suspended, attempts.SuspendedAttempt):
                members = pod.entity.suspended.placed.members
                return {each.pod.pod.metadata.name: each.node for each in members}
        return {}

    def step(self) -> bool:
        """One step; whether anything has been told in it."""
        self.steps += 1
        effects = self.engine.run(1.0, seconds=1e9, limit=1)
        for effect in effects:
            if isinstance(effect, PatchObject):
                self.written.append((effect.path, str(effect.change)))
            if isinstance(effect, Bind):
                self.bound[effect.pod.name] = effect.node
            self.engine.on_outcome(effect, Applied(), 1.0)
        self.engine.check_consistent()
        return bool(effects)

    def settle(self, *events: Event, first: int = 2) -> None:
        """Until nothing is left to do; events come after steps, from the ``first`` on."""
        left = list(events)
        while self.step() or self.engine.ready:
            if self.resting():
                assumed = self.engine.cluster.objects._observed
                assert not assumed, "nothing of an attempt is in the books between two steps"
            if left and self.steps >= first:
                left.pop(0)(self)
                self.engine.check_consistent()
            assert self.steps < 2000, "it never comes to an end"
        assert not left, "it has come to an end before"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For which pods it was looked on all nodes where they might have their volumes."""
    found, original = list[str](), VolumeBinding.filter

    def counted(plugin: Any, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
        found.append(pod.pod.metadata.name)
        return original(plugin, state, pod, nodes)

    monkeypatch.setattr(VolumeBinding, "filter", counted)
    return found


def test_volumes_are_looked_for_once_for_each_member(looks: list[str]) -> None:
    world = World()
    world.come(*world.gang())
    world.settle()
    assert world.steps > 5
    assert sorted(looks) == sorted(f"g-{n}" for n in range(SIZE))
    assert len({path for path, _ in world.written}) == SIZE


def test_who_is_beside_a_pod_that_has_come_is_looked_at_again(looks: list[str]) -> None:
    world, others = World(), list[str]()

    def come(world: World) -> None:
        node = next(iter(world.resting().values()))
        others.extend(name for name, at in world.resting().items() if at == node)
        world.come(a_pod("other").needs(cpu="100m").on(node))

    world.come(*world.gang(10))
    world.settle(come)
    assert len(looks) - 10 == len(others) > 0


# --- as if all were placed again in each step ---------------------------------------------------


def _random_gang(world: World, rng: random.Random) -> list[PodBuilder]:
    """Some members with a claim or two, some of these shared, some bound already."""
    size, members = rng.randrange(3, 14), list[PodBuilder]()
    world.show(a_claim("all"), a_volume("v9").usable_in("z1").held_by("b"), a_claim("b"))
    world.show(a_claim("b").bound_to("v9"))
    for n in range(size):
        pod = a_pod(f"g-{n}").needs(cpu=rng.choice(["100m", "1", "1"])).in_gang("g", size)
        for k in range(rng.choice([0, 1, 1, 2])):
            world.show(a_claim(f"c{n}-{k}"))
            pod = pod.with_claim(f"c{n}-{k}")
        if rng.random() < 0.1:
            pod = pod.with_claim(rng.choice(["all", "b"]))
        members.append(pod)
    return members


def _something(seed: int, number: int, *, storage: bool) -> Event:
    """A pod comes beside the members, or storage of others changes."""

    def happen(world: World) -> None:
        rng = random.Random(f"{seed} {number}")
        node = f"n{rng.randrange(NODES)}"
        match rng.randrange(6 if storage else 3):
            case 0 | 1:
                world.come(a_pod(f"x{number}").needs(cpu=rng.choice([1, 3])).on(node))
            case 2:
                world.come(a_pod(f"x{number}").needs(cpu="100m").on(node).with_claim("all"))
            case 3:
                world.show(a_volume(f"new-{number}").usable_in("z1"))
            case 4:
                world.show(a_claim(f"theirs-{number}"))
            case 5 if volumes := sorted(world.volumes - world.held):
                world.held.add(held := rng.choice(volumes))
                world.show(a_volume(held).usable_in("z0").held_by(f"theirs-{number}"))

    return happen


def _play(seed: int, *, changes: int, storage: bool = False) -> World:
    rng = random.Random(seed)
    world = World(volumes=rng.randrange(8))
    world.come(*_random_gang(world, rng))
    while world.step() or world.engine.ready:
        if world.resting() and changes:
            changes -= 1
            _something(seed, changes, storage=storage)(world)
        assert world.steps < 2000, "it never comes to an end"
    return world


@pytest.mark.parametrize("changes", [0, 1, 4])
def test_the_same_is_decided_as_if_all_were_placed_again_in_each_step(
    changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, anew = played_twice(partial(_play, changes=changes), 60, monkeypatch)
    assert [world.bound for world in now] == [world.bound for world in anew]
    assert [world.written for world in now] == [world.written for world in anew]
    assert sum(bool(world.bound) for world in now) > 10
    assert sum(world.steps > 4 for world in now) > 10


def test_nobody_gets_a_volume_that_others_have_got_meanwhile() -> None:
    """What others do with storage is no reason to begin anew."""
    begun = 0
    for seed in range(100):
        world = _play(seed, changes=4, storage=True)
        paths = [path for path, _ in world.written]
        assert len(paths) == len(set(paths)), "each volume and each claim is written once"
        taken = {path.rpartition("/")[2] for path in paths if "/persistentvolumes/" in path}
        assert not taken & world.held
        begun += bool(world.held and taken)
    assert begun > 10


def test_claims_of_others_keep_no_gang_from_coming_to_an_end(looks: list[str]) -> None:
    world, number = World(), 0
    world.come(*world.gang())
    while world.step() or world.engine.ready:
        world.show(a_claim(f"theirs-{(number := number + 1)}"))
    assert len({path for path, _ in world.written}) == SIZE
    assert sorted(looks) == sorted(f"g-{n}" for n in range(SIZE))


@pytest.mark.parametrize(
    ("cpu", "written"),
    [
        pytest.param("1", {"persistentvolumes/v0"}, id="both are where that can be used"),
        pytest.param("3", set(), id="where these nodes have room for one only, neither is placed"),
    ],
)
def test_members_that_share_a_claim_share_the_volume_that_is_chosen_for_it(
    cpu: str, written: set[str]
) -> None:
    """The class could provision another one, but there is one claim only."""
    world = World(volumes=1)
    for node in ("n2", "n4"):
        world.engine.handlers.on_node_deleted(node, 0.0)
    world.show(a_claim("shared"))
    pods = [a_pod(f"g-{n}").needs(cpu=cpu).in_gang("g", 2).with_claim("shared") for n in range(2)]
    world.come(*pods)
    world.settle()
    volumes = {"/".join(path.split("/")[-2:]) for path, _ in world.written if "volume" in path}
    assert volumes == written
