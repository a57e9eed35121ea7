"""Gangs whose members have claims: what was found for a member in one step is not searched anew."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from arranger.api.effects import Applied, Bind, ReserveClaim
from arranger.cluster import NodeView, PodInfo
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.engine.gang.attempt import attempts, suspended_members
from arranger.framework import FilterResult
from arranger.framework.status import CycleState
from arranger.plugins import default_profile
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from tests.builders import PodBuilder, a_node, a_pod
from tests.devices import ClaimBuilder, a_claim, a_device, a_device_class, a_slice, claiming
from tests.unit.engine.gang.placed_again import played_twice

NODES, DEVICES = 6, 4
HOST = "kubernetes.io/hostname"
Event = Callable[["World"], None]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "STEP_UNITS", 250)


class Searches(list[str]):
    """For which pods devices were looked for on all nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        original = DynamicResources.filter

        def counted(plugin: Any, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
            self.append(pod.pod.metadata.name)
            return original(plugin, state, pod, nodes)

        monkeypatch.setattr(DynamicResources, "filter", counted)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    return Searches(monkeypatch)


class World:
    """Nodes with devices, and a gang whose members have claims."""

    def __init__(self, nodes: int = NODES, devices: int = DEVICES) -> None:
        self.engine = Engine(EngineSettings([default_profile()]))
        self.steps, self._versions = 0, 1
        self.bound: dict[str, str] = {}
        #: Claim → what it has been given; and all that is given, by us or by others.
        self.given: dict[str, set[str]] = {}
        self.taken: set[str] = set()
        for n in range(nodes):
            node = a_node(f"n{n}").offers(cpu=8, pods=20).labelled({HOST: f"n{n}"})
            self.engine.handlers.on_node_updated(node.build(), 0.0)
            made = [a_device(f"d{k}", index=k) for k in range(devices)]
            self.show(a_slice(f"n{n}", *made))
        self.show(a_device_class())

    def show(self, *objects: Any) -> None:
        """Each in a newer version."""
        for each in objects:
            self._versions += 1
            shown = each.at_version(str(self._versions)).build()
            self.engine.handlers.on_object_updated(shown, 1.0)

    def come(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.engine.handlers.on_pod_updated(pod.build(), 1.0)

    def gang(self, size: int, *claims: str) -> list[PodBuilder]:
        """Members with a claim each, and with these claims beside it."""
        self.show(*(a_claim(f"g-{n}").asks() for n in range(size)))
        members = [a_pod(f"g-{n}").needs(cpu="100m").in_gang("g", size) for n in range(size)]
        return [claiming(pod, f"g-{n}", *claims) for n, pod in enumerate(members)]

    @property
    def suspended(self) -> Sequence[suspended_members.SuspendedMember]:
        """The members that have got nodes so far."""
        for pod in self.engine.pods():
            if pod.entity and isinstance(pod.entity.suspended, attempts.SuspendedAttempt):
                return pod.entity.suspended.placed.members
        return ()

    def step(self) -> bool:
        """One step; whether anything has been told in it."""
        self.steps += 1
        effects = self.engine.run(1.0, seconds=1e9, limit=1)
        for effect in effects:
            if isinstance(effect, ReserveClaim) and effect.allocation is not None:
                results = effect.allocation["devices"]["results"]
                given = {f"{each['pool']}/{each['device']}" for each in results}
                known = self.given.setdefault(effect.claim.name, given)
                assert known == given, "allocated twice"
                assert known is not given or not given & self.taken, "a device is given to two"
                self.taken |= given
            if isinstance(effect, Bind):
                self.bound[effect.pod.name] = effect.node
            self.engine.on_outcome(effect, Applied(), 1.0)
        self.engine.check_consistent()
        return bool(effects)

    def settle(self, *events: Event, first: int = 2) -> None:
        """Until nothing is left to do; events come after steps, from the ``first`` on."""
        left = list(events)
        while self.step() or self.engine.ready:
            if left and self.steps >= first:
                left.pop(0)(self)
                self.engine.check_consistent()
            assert self.steps < 2000, "it never comes to an end"
        assert not left, "it has come to an end before"

    def take(self, name: str, node: str, *devices: str) -> None:
        """Others have got devices."""
        self.taken |= {f"{node}/{device}" for device in devices}
        self.show(a_claim(name).asks(count=len(devices)).given(*devices, pool=node, on=node))


def test_devices_are_looked_for_once_for_each_member(searches: Searches) -> None:
    world = World()
    world.come(*world.gang(NODES * DEVICES))
    world.settle()
    assert len(world.bound) == NODES * DEVICES
    assert world.steps > 10
    assert sorted(searches) == sorted(world.bound)


def test_they_are_looked_for_anew_only_where_others_have_taken_them(searches: Searches) -> None:
    world, lost = World(), list[str]()
    world.come(*world.gang(12))

    def take_one(world: World) -> None:
        """What the first has, and what is free on another node."""
        first = world.suspended[0]
        claim = f"{first.member.pod.pod.metadata.name}"
        lost.append(claim)
        tracker = world.engine.cluster.devices.claim_tracker
        assert not tracker._pending, "nothing of an attempt is in the books between two steps"
        world.take("theirs", first.node, "d0")

    world.settle(take_one)
    assert len(world.bound) == 12
    assert lost
    assert len(searches) - 12 <= DEVICES, "on one node devices have changed"
    assert len(searches) > 12


def test_nobody_gets_a_device_that_is_not_offered_any_more() -> None:
    world = World()
    world.come(*world.gang(12))

    def withdraw(world: World) -> None:
        node = world.suspended[0].node
        world.show(a_slice(node, "x0", "x1", "x2", "x3"))
        world.taken |= {f"{node}/d{k}" for k in range(DEVICES)}

    world.settle(withdraw)
    assert len(world.bound) == 12


@pytest.mark.parametrize(
    "meanwhile", ["", "allocated", "allocated elsewhere", "about to be allocated", "deleted"]
)
def test_a_claim_that_members_share_is_allocated_once(meanwhile: str) -> None:
    world = World(nodes=3, devices=8)
    world.show(a_claim("all").asks())
    world.come(*world.gang(5, "all"))

    def change(world: World) -> None:
        node = world.suspended[0].node
        other = "n0" if node != "n0" else "n1"
        match meanwhile:
            case "allocated":
                world.take("all", node, "d0")
            case "allocated elsewhere":
                world.take("all", other, "d0")
            case "about to be allocated":
                lone = a_pod("lone").with_priority(9).selects({HOST: other})
                world.come(claiming(lone, "all"))
            case "deleted":
                world.engine.handlers.on_object_deleted(a_claim("all").asks().build(), 1.0)

    world.settle(*([change] if meanwhile else []))
    nodes = set(world.bound.values())
    if meanwhile == "deleted":
        assert not world.bound
        return
    assert len(world.bound) == 5 + ("lone" in world.bound)
    assert len(nodes) == 1, "the devices of the claim are of one node"
    assert ("all" in world.given) == (meanwhile in ("", "about to be allocated"))
    assert ("lone" in world.bound) == (meanwhile == "about to be allocated")


# --- as if they had been looked for in each step -----------------------------------------------


def _taker(seed: int, number: int) -> Event:
    """Others take some devices of a node, where they are free or held for the gang."""

    def take(world: World) -> None:
        rng = random.Random(f"{seed} {number}")
        node = rng.randrange(NODES)
        free = [f"d{k}" for k in range(DEVICES) if f"n{node}/d{k}" not in world.taken]
        if some := rng.sample(free, min(len(free), rng.randrange(3))):
            world.take(f"theirs-{number}", f"n{node}", *some)

    return take


def _random_gang(world: World, rng: random.Random) -> list[PodBuilder]:
    """Members with one claim or two, of one device or two, of some of them or any."""
    world.show(a_claim("all").asks())
    size, members = rng.randrange(3, 14), list[PodBuilder]()
    for n in range(size):
        wants = [a_claim(f"g-{n}-{k}") for k in range(rng.choice([0, 1, 1, 2]))]
        world.show(*(_random_request(claim, rng) for claim in wants))
        names = [f"g-{n}-{k}" for k in range(len(wants))]
        if rng.random() < 0.1:
            names.append("all")
        pod = a_pod(f"g-{n}").needs(cpu=rng.choice(["100m", "1"])).labelled(app="g")
        if rng.random() < 0.1:
            pod = pod.apart(HOST, {"app": "other"})
        members.append(claiming(pod.in_gang("g", size), *names))
    return members


def _random_request(claim: ClaimBuilder, rng: random.Random) -> ClaimBuilder:
    if rng.random() < 0.3:
        index = f'device.attributes["gpu.example.com"].index >= {rng.randrange(3)}'
        return claim.asks(selectors=[{"cel": {"expression": index}}])
    return claim.asks(count=rng.choice([1, 1, 2]))


def _play(seed: int, *, changes: int) -> World:
    world, rng = World(), random.Random(seed)
    world.come(*_random_gang(world, rng))
    while world.step() or world.engine.ready:
        if world.suspended and changes:
            changes -= 1
            _taker(seed, changes)(world)
        assert world.steps < 2000, "it never comes to an end"
    return world


@pytest.mark.parametrize("changes", [0, 1, 4])
def test_the_same_is_decided_as_if_all_were_placed_again_in_each_step(
    changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, anew = played_twice(partial(_play, changes=changes), 40, monkeypatch)
    assert [world.bound for world in now] == [world.bound for world in anew]
    assert [world.given for world in now] == [world.given for world in anew]
    assert sum(bool(world.bound) for world in now) > 5
    assert sum(world.steps > 4 for world in now) > 10
