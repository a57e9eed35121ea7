"""A plan whom to evict for a gang goes on in steps, and comes to the same as one made at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.api.types.core import Namespace, Node
from arranger.api.types.disruption_budgets import PodDisruptionBudget
from arranger.api.types.storage import PersistentVolumeClaim
from arranger.api.types.workloads import ReplicaSet, Service
from arranger.cluster.attempt_work import AttemptWork
from arranger.cluster.pod_info import PodInfo
from arranger.engine.engine import Engine
from arranger.engine.gang.attempt import attempts
from arranger.engine.gang.preemption import plan_search, plans, trial
from arranger.engine.gang.preemption.executor import GIVEN_UP_MESSAGE, MAX_EVICTION_INTERVAL
from arranger.framework.interface import SpecOnlyPlugin
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.framework.status import CycleState, Status
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_disruption_budget, a_node, a_pod
from tests.differential.gang_preemption.play import Played, play
from tests.differential.gang_preemption.world import random_world
from tests.unit.engine.harness import EngineHarness, of_kind


@pytest.fixture
def in_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called on, everything is done in very small steps."""

    def begin() -> None:
        run = Engine.run
        monkeypatch.setattr(plans, "STEP_UNITS", 40)
        monkeypatch.setattr(attempts, "STEP_UNITS", 250)
        monkeypatch.setattr(Engine, "run", lambda self, now: run(self, now, seconds=1e9))

    return begin


def _same(played: Played) -> tuple[object, ...]:
    return played.evicted, played.later, played.bound


@pytest.mark.parametrize("first", range(0, 90, 15))
@pytest.mark.parametrize("many", [False, True], ids=["all sets", "as for many"])
def test_the_same_pods_are_evicted_as_at_once(
    first: int, many: bool, in_steps: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        monkeypatch.setattr(plan_search, "MAX_SEARCH_COST", 0)
        monkeypatch.setattr(plan_search, "MANY_MOVED", 0)
    worlds = [random_world(seed) for seed in range(first, first + 15)]
    at_once = [_same(play(world)) for world in worlds]
    in_steps()
    assert [_same(play(world)) for world in worlds] == at_once


def _budget(allowed: int) -> PodDisruptionBudget:
    return a_disruption_budget({"matchLabels": {"app": "low"}}, allowed)


class Busy:
    """Nodes that are full of pods of three priorities, and a gang of a higher one."""

    def __init__(self, nodes: int = 12, size: int = 6, *, profile: Profile | None = None) -> None:
        self.harness = EngineHarness(profile or default_profile())
        self.harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(nodes)))
        self.low = {
            f"low-{n}": a_pod(f"low-{n}")
            .labelled(app="low")
            .needs(cpu=1)
            .on(f"n{n % nodes}")
            .with_priority(n % 3)
            for n in range(4 * nodes)
        }
        self.harness.observe(*self.low.values())
        self.harness.engine.run(0.0)
        self.evicted, self.bound, self.steps = set[str](), dict[str, str](), 0
        self.gang = [
            a_pod(f"g-{n}").needs(cpu=2).with_priority(9).in_gang("g", size) for n in range(size)
        ]
        self.harness.observe(*self.gang)

    def step(self) -> None:
        """One step; nothing of a plan may be in the books after it."""
        engine, now = self.harness.engine, self.harness.now
        self.steps += 1
        effects = engine.run(now, seconds=1e9, limit=1)
        engine.check_consistent()
        for effect in effects:
            if isinstance(effect, Bind):
                self.bound[effect.pod.name] = effect.node
                engine.on_outcome(effect, Applied(), now)
        self.evicted |= {delete.pod.name for delete in of_kind(DeletePod, effects)}

    def until_evicted(self, between: Callable[[int], None] = lambda step: None) -> None:
        for number in range(2000):
            self.step()
            if self.evicted or self.bound or not self.harness.engine.ready:
                return
            between(number)
            self.harness.engine.check_consistent()
        raise AssertionError("it never comes to an end")

    def leave(self, *names: str) -> None:
        self.harness.observe_deleted(*(self.low.pop(name) for name in names))

    def victims_leave(self) -> None:
        """Whom it has evicted; the gang has its place then."""
        for later in (20.0, 40.0, 400.0, 400.0):
            self.leave(*(self.evicted & self.low.keys()))
            self.harness.now += later
            for _ in range(2000):
                self.step()
                if not self.harness.engine.ready:
                    break


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "STEP_UNITS", 300)
    monkeypatch.setattr(attempts, "STEP_UNITS", 250)
    monkeypatch.setattr(plan_search, "MAX_SEARCH_COST", 0)


def test_a_plan_takes_many_steps_and_others_are_bound_in_between(small_steps: None) -> None:
    busy = Busy()
    busy.harness.observe(a_node("free").offers(cpu=1))

    def another_comes(step: int) -> None:
        if step == 3:
            other = a_pod("other").needs(cpu=1).with_priority(9)
            busy.harness.observe(other.in_namespace("others"))

    busy.until_evicted(another_comes)
    assert busy.bound == {"other": "free"}
    busy.bound.clear()
    busy.until_evicted()
    assert len(busy.evicted) == 12
    assert busy.steps > 20


def test_a_plan_that_takes_too_long_is_given_up_for_a_while(
    small_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Busy()
    monkeypatch.setattr(plans, "MAX_PLAN_UNITS", 1500)
    busy.until_evicted()
    steps, entity = busy.steps, busy.harness.entity("g-0")
    assert GIVEN_UP_MESSAGE in entity.reason
    assert steps < 12
    busy.harness.observe(a_node("small").offers(cpu=1))
    busy.until_evicted()
    assert busy.steps < steps + 4, "nothing is planned so soon again"
    monkeypatch.undo()
    busy.harness.now += MAX_EVICTION_INTERVAL
    busy.until_evicted()
    assert len(busy.evicted) == 12
    assert GIVEN_UP_MESSAGE not in busy.harness.entity("g-0").reason


def test_a_plan_that_has_taken_long_is_content_with_enough(
    small_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = list[int]()
    for units in (10**9, 0):
        monkeypatch.setattr(trial, "THRIFTY_UNITS", units)
        busy = Busy()
        busy.until_evicted()
        steps.append(busy.steps)
        assert len(busy.evicted) >= 12
        busy.victims_leave()
        assert len(busy.bound) == 6
    assert steps[1] < steps[0]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_between_nobody_is_evicted_in_vain(seed: int, small_steps: None) -> None:
    rng, busy = random.Random(seed), Busy()
    handlers = busy.harness.engine.handlers

    def anything(step: int) -> None:
        now = busy.harness.now = busy.harness.now + 0.01
        match rng.randrange(12):
            case 0 if busy.low:
                busy.leave(rng.choice(sorted(busy.low)))
            case 1:
                name = f"new-{step}"
                pod = a_pod(name).needs(cpu=1).with_priority(rng.choice((0, 1, 9)))
                node = rng.choice([f"n{n}" for n in range(12)])
                busy.low[name] = pod.on(node)
                busy.harness.observe(busy.low[name])
            case 2:
                name = rng.choice(sorted(busy.low))
                busy.low[name] = busy.low[name].labelled(edited=str(step))
                busy.harness.observe(busy.low[name])
            case 3:
                handlers.on_disruption_budget_updated(_budget(rng.randrange(3)), now)
            case 4 if step < 60:
                busy.harness.observe(a_node(f"n{rng.randrange(12)}").offers(cpu=4).labelled(a="b"))
            case 5 if step < 60:
                busy.harness.observe(busy.gang[0].labelled(edited=str(step)))

    busy.until_evicted(anything)
    assert busy.evicted <= busy.low.keys(), "all of them are there"
    assert all(busy.low[name].build().spec.priority < 9 for name in busy.evicted)
    first = len(busy.evicted)
    busy.victims_leave()
    assert not first or len(busy.evicted) == first, "they were enough"
    assert len(busy.bound) == 6, busy.harness.entity("g-0").reason


def test_where_room_comes_up_meanwhile_nobody_is_evicted(small_steps: None) -> None:
    busy = Busy()

    def room_comes_up(step: int) -> None:
        if step == 8:
            busy.leave(*(f"low-{n}" for n in range(48) if n % 12 < 6))

    busy.until_evicted(room_comes_up)
    assert (len(busy.bound), busy.evicted) == (6, set())


def test_under_steady_change_the_steps_become_longer_and_it_ends(small_steps: None) -> None:
    """Each change is one that leaves nothing of the plan."""
    busy = Busy()

    def a_node_changes(step: int) -> None:
        busy.harness.observe(a_node("n0").offers(cpu=4).labelled(at=str(step)))

    busy.until_evicted(a_node_changes)
    assert len(busy.evicted) == 12
    busy.victims_leave()
    assert len(busy.bound) == 6


def _stored(kind: type[Any], name: str, namespace: str = "other", **more: Any) -> Any:
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    return msgspec.convert({"metadata": metadata, **more}, kind)


def _heartbeat(node: Node, number: int) -> Node:
    metadata = msgspec.structs.replace(node.metadata, resource_version=str(number))
    return msgspec.structs.replace(node, metadata=metadata)


#: Sentence → what happens in each step.
OF_OTHERS: dict[str, Callable[[int], Any]] = {
    "another's Service": lambda n: _stored(Service, "s", spec={"selector": {"app": f"a{n}"}}),
    "a new ReplicaSet of another": lambda n: _stored(ReplicaSet, f"r{n}"),
    "another's claim": lambda n: _stored(PersistentVolumeClaim, f"c{n}"),
    "a node's heartbeat": lambda n: _heartbeat(a_node("n0").offers(cpu=4).build(), n),
    "an image on a node": lambda n: a_node("n0").offers(cpu=4).holding(f"i{n}", 1).build(),
    "a budget of another": lambda n: a_disruption_budget(None, n, namespace="other"),
}


@pytest.mark.parametrize("change", OF_OTHERS.values(), ids=OF_OTHERS)
def test_what_changes_all_the_time_does_not_have_a_plan_begin_anew(
    change: Callable[[int], Any], small_steps: None
) -> None:
    def busy() -> Busy:
        made = Busy()
        for name in ("default", "other"):
            made.harness.engine.handlers.on_object_updated(_stored(Namespace, name, ""), 0.0)
        return made

    alone = busy()
    alone.until_evicted()
    beside = busy()
    handlers = beside.harness.engine.handlers

    def changes(step: int) -> None:
        obj = change(step)
        handlers.kinds[type(obj)].updated(obj, 0.0)

    beside.until_evicted(changes)
    assert beside.evicted == alone.evicted
    # Not anew: at the end it is looked at once more whether the plan still holds.
    assert beside.steps <= alone.steps + 8


class _Reserves(SpecOnlyPlugin):
    """Reserves something of its own for each pod."""

    name = "Reserves"

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return None


def test_where_each_step_places_all_again_the_steps_of_a_question_become_longer(
    small_steps: None,
) -> None:
    plain = default_profile()
    busy = Busy(profile=Profile("arranger", [*plain.plugins, PluginWeight(_Reserves())]))
    busy.until_evicted()
    assert len(busy.evicted) == 12
    busy.victims_leave()
    assert len(busy.bound) == 6


def _evicted_for(*gang: PodBuilder) -> int:
    """How many leave for a gang on twenty nodes with a pod each."""
    harness = EngineHarness(default_profile())
    harness.observe(*(a_node(f"n{n}").offers(cpu=2).in_zone("z") for n in range(20)))
    harness.observe(*(a_pod(f"low-{n}").needs(cpu=2).on(f"n{n}") for n in range(20)))
    harness.observe(*gang)
    harness.run()
    harness.engine.check_consistent()
    return len(of_kind(DeletePod, harness.effects))


def test_a_trial_goes_on_where_a_member_fits_once_others_have_places() -> None:
    seeker = a_pod("g-0").needs(cpu=2).near("topology.kubernetes.io/zone", {"app": "sought"})
    others = [a_pod(f"g-{n}").needs(cpu="1500m").labelled(app="sought") for n in range(1, 14)]
    gang = [pod.with_priority(9).in_gang("g", 14) for pod in (seeker, *others)]
    assert _evicted_for(*gang) == 14


def test_a_trial_goes_on_where_members_were_passed_over_for_another_bundle() -> None:
    gang = [a_pod(f"g-{n}").needs(cpu="1500m").in_bundle("g", "a", 1) for n in range(12)]
    gang += [a_pod("g-12").needs(cpu=1).in_bundle("g", "b", 1).selects(on="no node")]
    gang += [a_pod("g-13").needs(cpu="100m").in_bundle("g", "b", 1)]
    assert _evicted_for(*(pod.with_priority(9).in_gang("g", 13) for pod in gang)) == 12


def test_what_it_takes_to_take_victims_away_again_is_left_out_of_what_a_step_may_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits, limit = list[int](), AttemptWork.limit

    def limiting(work: AttemptWork, units: int) -> None:
        limits.append(units)
        limit(work, units)

    monkeypatch.setattr(plans, "STEP_UNITS", 400)
    monkeypatch.setattr(trial, "MOVING", 15)
    monkeypatch.setattr(trial, "FREEING", 15)
    busy = Busy()
    monkeypatch.setattr(AttemptWork, "limit", limiting)
    busy.until_evicted()
    assert busy.evicted
    assert {400, 200} <= set(limits), "all of it, and never less than half of it"
    assert min(limit for limit in limits) == 200
