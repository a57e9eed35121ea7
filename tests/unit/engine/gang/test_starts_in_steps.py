"""The start of a gang that is planned in steps: what happens to it, and to others, meanwhile."""

from __future__ import annotations

import pytest

from arranger.api.effects import Applied, Bind, DeletePod
from arranger.cluster.columns import CPU
from arranger.cluster.nodes.node_view import NodeInfo
from arranger.cluster.pod_info import PodInfo
from arranger.engine.gang.placement.search import PlacementSearcher
from arranger.engine.gang.preemption import executor
from arranger.framework.interface import DependsOn, SpecOnlyPlugin
from arranger.framework.runtime.profile import PluginWeight, Profile
from arranger.framework.status import CycleState, Status
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.gang.test_planned_starts import at, gang, policy, running, starts
from tests.unit.engine.harness import EngineHarness, of_kind, plan_starts_in_tiny_steps
from tests.unit.engine.reservations.test_reservations import reserved

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(autouse=True)
def in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_starts_in_tiny_steps(monkeypatch)


def aged(name: str, size: int, cpu: int, age: int) -> list[PodBuilder]:
    return [pod.with_priority(5).created(at(age)) for pod in gang(name, size, cpu)]


def test_who_has_heard_when_it_starts_does_not_wait_to_hear_it_again() -> None:
    """One that is older than a planned gang, and is not planned itself, is told again and again."""
    harness = EngineHarness(default_profile(), gangs=policy(wait_instead_of_preempting=30.0))
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(2)))
    for name, node, end in (("a", "n0", 600), ("b", "n1", 700)):
        harness.observe(running(name, node, 4, end).with_priority(5))
    harness.observe(*aged("bb", 4, 1, 5))
    for now in (0.0, 11.0, 12.0, 13.0):
        harness.advance_to(now)
    harness.observe(*aged("aa", 2, 4, 1))
    harness.run()
    for now in (20.0, 21.0, 23.5):
        harness.now, steps = now, 0
        harness.engine.run(now)
        while harness.engine.ready:
            harness.engine.run(now)
            harness.engine.check_consistent()
            steps += 1
            assert steps < 200, "it never comes to rest"


def test_who_fails_while_others_are_planned_waits_to_hear_rather_than_evicts() -> None:
    more = {"planned_gangs": 2, "wait_instead_of_preempting": 500.0}
    harness = EngineHarness(default_profile(), gangs=policy(**more))
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(3)))
    for name, node, end in (("b", "n1", 900), ("c", "n2", 900), ("a", "n0", 300)):
        harness.observe(running(name, node, 4, end).with_priority(9))
    harness.observe(*(pod.with_priority(5) for pod in gang("first", 2, 4)))
    for now in (0.0, 11.0, 12.5):
        harness.advance_to(now)
    harness.observe(a_node("n3").offers(cpu=2))
    harness.observe(running("low", "n3", 2, 200, start=12.0).with_priority(-1))
    for now in (14.0, 16.0):
        harness.advance_to(now)
    harness.observe(*(pod.with_priority(2) for pod in gang("second", 2, 1)))
    harness.entity("second-0").starving_since = -100.0
    harness.now = 20.0  # for a pod that ends others are planned anew
    harness.observe_deleted(running("c", "n2", 4, 900))
    harness.observe(running("c2", "n2", 4, 900).with_priority(9))
    assert of_kind(DeletePod, harness.run()) == []
    assert starts(harness)["second"] == (212.0, "KnownEnds")


def test_a_planned_gang_that_is_deleted_before_the_next_outcome() -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(*(a_node(f"n{n}").offers(cpu=4) for n in range(2)), a_node("n2").offers(cpu=1))
    harness.observe(running("a", "n0", 4, 600), running("b", "n1", 4, 700), *gang("bb", 4))
    harness.run()
    harness.advance_to(11.0)
    harness.observe(a_pod("solo").needs(cpu=1))
    bind = of_kind(Bind, harness.run())[0]
    harness.now = 30.0
    harness.observe_deleted(*gang("bb", 4))
    harness.observe_deleted(running("b", "n1", 4, 700))
    harness.engine.on_outcome(bind, Applied(), harness.now)
    harness.engine.check_consistent()
    assert harness.engine.planned_room.plans == {}


class _Breaks(SpecOnlyPlugin):
    """Raises when it is asked for the nth time by a search for another way."""

    depends_on = DependsOn.USAGE

    def __init__(self, nth: int) -> None:
        self.searching, self.left = False, nth

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if self.searching:
            self.left -= 1
            if not self.left:
                raise RuntimeError("broken")
        return None


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_plugin_that_raises_while_it_is_tried_leaves_nobody_on_a_node(
    nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, search = _Breaks(nth), PlacementSearcher.search
    default = default_profile()
    profile = Profile(default.scheduler_name, [*default.plugins, PluginWeight(plugin)])
    harness = EngineHarness(profile, gangs=policy())
    harness.expects_faults = True
    harness.observe(*(a_node(f"n{n}").offers(cpu=6) for n in range(2)))
    harness.observe(running("a", "n0", 6, 600), running("b", "n1", 6, 600))
    sizes = enumerate((3, 3, 2, 2, 2))
    harness.observe(*(a_pod(f"g-{n}").needs(cpu=cpu).in_gang("g", 5) for n, cpu in sizes))
    for now in (0.0, 11.0, 12.0):
        harness.advance_to(now)

    def searched(self: PlacementSearcher, *args: object) -> object:
        plugin.searching = True
        try:
            return search(self, *args)  # type: ignore[arg-type]
        finally:
            plugin.searching = False

    monkeypatch.setattr(PlacementSearcher, "search", searched)
    harness.now = 40.0  # it is planned anew, in no attempt
    harness.observe(a_node("n9").offers(cpu=1))
    harness.observe_deleted(a_node("n9"))
    for _ in range(60):
        harness.engine.run(harness.now)
        harness.engine.check_consistent()
        if not harness.engine.ready:
            break
    assert plugin.left <= 0


def test_where_it_is_not_tried_whether_a_gang_fits_nothing_is_promised() -> None:
    """Pods come to its nodes all the time, so that it cannot be told why it does not fit."""
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(*(a_node(f"n{n}").offers(cpu=4).in_zone("z") for n in range(2)))
    harness.observe(running("a", "n0", 4, 600), running("b", "n1", 4, 700))
    harness.observe(*(pod.labelled(app="g").apart(ZONE, {"app": "g"}) for pod in gang("g", 2, 2)))
    harness.run()
    harness.now = 11.0
    for n in range(3000):
        harness.engine.run(harness.now)
        harness.engine.check_consistent()
        harness.observe(running(f"t{n}", "n0", 0, 30, start=harness.now))
        if n:
            harness.observe_deleted(running(f"t{n - 1}", "n0", 0, 30))
        if not harness.engine.ready and starts(harness):
            break
    assert starts(harness) == {"g": (600.0, "Estimate")}


def test_intervals_are_not_doubled_without_end() -> None:
    assert executor.interval_after(5000) == executor.MAX_EVICTION_INTERVAL


# --- what changes while room is looked for ------------------------------------------------------


def _in_one_step(harness: EngineHarness) -> None:
    harness.engine.run(harness.now, seconds=1e9, limit=1)
    harness.engine.check_consistent()


def _two_full_nodes(*gangs: PodBuilder) -> EngineHarness:
    """Pods on the first end at 600, on the second at 700; the gangs have waited long enough."""
    harness = EngineHarness(default_profile(), gangs=policy(planned_gangs=2))
    harness.observe(*(a_node(f"n{n}").offers(cpu=8) for n in range(2)))
    harness.observe(running("a1", "n0", 5, 600), running("a2", "n0", 3, 600))
    harness.observe(running("b", "n1", 8, 700), *gangs)
    harness.run()
    harness.now = 11.0
    return harness


@pytest.mark.parametrize("steps", range(1, 9))
def test_nodes_that_come_while_room_is_looked_for_put_nobody_aside(steps: int) -> None:
    pods = [a_pod(f"g-{n}").needs(cpu=1 + n).in_gang("g", 3) for n in range(3)]
    harness = _two_full_nodes(*pods)
    for number in range(steps):
        _in_one_step(harness)
        harness.observe(a_node(f"late-{number}").offers({f"example.com/{number}": 1}, cpu=1))
    harness.run()
    assert not harness.engine.barrier.quarantine.count()
    assert starts(harness)["g"][0] == 600.0


def test_a_node_that_comes_before_a_domain_is_tried_is_no_fault() -> None:
    harness = EngineHarness(default_profile(), gangs=policy())
    harness.observe(*(a_node(f"n{n}").offers(cpu=4).in_zone(f"z{n % 2}") for n in range(4)))
    harness.observe(*(running(f"a{n}", f"n{n}", 4, None) for n in range(4)))
    where = {"arranger.io/topology": f"preferred={ZONE}"}
    members = [a_pod(f"g-{n}").needs(cpu=2).in_gang("g", 3) for n in range(3)]
    harness.observe(*(pod.annotated(where) for pod in members))
    harness.run()
    harness.now = 11.0
    for number in range(2):
        _in_one_step(harness)
        harness.observe(a_node(f"late-{number}").offers(cpu=1).in_zone(f"z{number}"))
    harness.run()
    (plan,) = harness.engine.planned_room.plans.values()
    assert plan.nodes in ({"n0", "n2"}, {"n1", "n3"}), "both in the zone that it prefers"


@pytest.mark.parametrize("steps", range(1, 30))
@pytest.mark.parametrize("others", [False, True], ids=["alone", "before others"])
def test_what_is_promised_is_what_its_members_need_now(steps: int, others: bool) -> None:
    pods = [a_pod(f"g-{n}").needs(cpu=1 + 3 * n).in_gang("g", 2) for n in range(2)]
    more = [a_pod(f"h-{n}").needs(cpu=7).in_gang("h", 2) for n in range(2)] if others else []
    harness = _two_full_nodes(*pods, *more)
    for _ in range(steps):
        _in_one_step(harness)
    for number, pod in enumerate(pods):
        harness.observe_deleted(pod)
        new = a_pod(f"g-{number}").with_uid(f"new-{number}")
        harness.observe(new.needs(cpu=4).in_gang("g", 2))
    harness.run()
    plan = harness.engine.planned_room.plans.get("gang:default/g")
    if plan is not None and plan.claim is not None:
        assert plan.claim.amounts[CPU].sum() == 8000


def test_reservations_that_change_all_the_time_keep_nobody_from_being_planned() -> None:
    pods = [a_pod(f"g-{n}").needs(cpu=1 + n).in_gang("g", 3) for n in range(3)]
    harness = _two_full_nodes(*pods)
    harness.observe(a_node("other").offers(cpu=1))
    for number in range(1000):
        _in_one_step(harness)
        kept = reserved("r", 5000 + number, 6000 + number, "other")
        harness.engine.handlers.on_object_updated(kept, harness.now)
        if starts(harness):
            break
    assert starts(harness)
