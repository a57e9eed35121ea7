"""Nodes that come, go and change under pods; and nothing left when all is gone."""

from __future__ import annotations

import pytest

from arranger.api.effects import Ambiguous, Refused
from arranger.engine.entity import QueueState
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import CONFLICT, EngineHarness, placements

N1 = a_node("n1")
RUNNING = a_pod("running").needs(cpu=3).on("n1")


def room(core: EngineHarness, node: str) -> int:
    table = core.engine.cluster.table
    cpu, row = table.resource_column("cpu"), table.index[node]
    return int(table.allocatable[cpu, row] - table.requested[cpu, row])


def test_a_node_that_comes_back_still_carries_its_pods(core: EngineHarness) -> None:
    core.observe(N1, RUNNING)
    core.observe_deleted(N1)
    core.observe(a_pod("p").needs(cpu=3))
    assert placements(core.run()) == []
    core.observe(N1)
    assert room(core, "n1") == 1000
    assert placements(core.advance_to(10)) == []

    core.observe_deleted(RUNNING)
    assert placements(core.advance_to(20)) == [("p", "n1")]


def test_a_pod_that_ends_while_its_node_is_away_is_not_on_it_when_it_comes_back(
    core: EngineHarness,
) -> None:
    core.observe(N1, RUNNING)
    core.observe_deleted(N1, RUNNING)
    core.observe(N1)

    assert room(core, "n1") == 4000


def test_pods_seen_before_their_node_take_its_room(core: EngineHarness) -> None:
    core.observe(RUNNING, a_pod("p").needs(cpu=3), N1)

    assert placements(core.run()) == []
    assert room(core, "n1") == 1000


@pytest.mark.parametrize("refused", [False, True], ids=["applied", "refused"])
def test_a_node_deleted_while_a_binding_is_on_its_way(core: EngineHarness, refused: bool) -> None:
    pod = a_pod("p").needs(cpu=3)
    core.observe(N1, pod)
    core.run()
    core.observe_deleted(N1)
    core.observe(N1)
    assert room(core, "n1") == 1000

    core.settle(core.binding("p"), CONFLICT if refused else None)
    assert room(core, "n1") == (4000 if refused else 1000)


def test_a_cordoned_node_takes_nobody_and_keeps_those_it_has(core: EngineHarness) -> None:
    core.observe(N1, RUNNING, N1.cordoned(), a_pod("p"))

    assert placements(core.run()) == []
    assert room(core, "n1") == 1000
    assert core.queue_state("p") is QueueState.UNSCHEDULABLE


def test_a_node_shrunk_below_its_use_takes_nobody_until_there_is_room(core: EngineHarness) -> None:
    core.observe(N1, RUNNING, N1.offers(cpu=2), a_pod("p").needs(cpu=1))
    assert placements(core.run()) == []
    assert room(core, "n1") == -1000
    core.observe_deleted(RUNNING)

    assert placements(core.advance_to(10)) == [("p", "n1")]


def test_a_row_taken_over_by_another_node_knows_nothing_of_the_first(core: EngineHarness) -> None:
    pod = a_pod("p").selects(disk="ssd")
    core.observe(N1.labelled(disk="ssd").tainted("team", "a"), RUNNING, pod)
    core.run()
    core.observe_deleted(N1)
    core.observe(a_node("n2"))

    assert placements(core.advance_to(10)) == []
    assert room(core, "n2") == 4000
    core.observe(a_pod("q").needs(cpu=4))
    assert placements(core.run()) == [("q", "n2")]


def test_nothing_is_left_when_everything_is_gone(core: EngineHarness) -> None:
    """One pod for every way a life can go."""
    names = ["bound", "shown", "refused", "doubtful", "replaced", "elsewhere", "ended"]
    pods = {name: a_pod(name) for name in names}
    idle = [a_pod("unplaceable").needs(cpu=99), a_pod("gated").gated("g")]
    foreign = a_pod("foreign").for_scheduler("x")
    unreadable = a_pod("unreadable").needs(cpu="lots")
    core.observe(N1, *pods.values(), *idle, foreign, foreign.on("away"), unreadable)
    core.run()
    core.settle(core.binding("bound"))
    core.settle(core.binding("shown"))
    core.observe(pods["shown"].on("n1"))
    core.settle(core.binding("refused"), CONFLICT)
    core.settle(core.binding("doubtful"), Ambiguous("time-out"))
    core.observe(pods["replaced"].with_uid("uid-2"))
    core.settle(core.binding("replaced"), Refused(409, "Replaced"))
    core.observe(pods["elsewhere"].on("n2"), pods["ended"].on("n1").in_phase("Failed"))
    core.advance_to(50)

    core.observe_deleted(*pods.values(), *idle, foreign, unreadable, N1)
    core.advance_to(1000)

    engine = core.engine
    maps = {
        "entities": engine.pods(),
        "uids": engine._uid_of,
        "waiting": engine._context.waiting_pods,
        "prerequisites": engine._binding_cycle._pre_bind_writes,
        "gangs": engine.registry.gangs,
        "gang entities": engine._gangs._entities,
        "holds": engine._gangs._holds,
        "notices": engine._gangs._notices,
        "queue": list(engine.queue.entities()),
        "timers": engine.queue._timers,
        "active": engine.queue._active,
        "resting": engine.queue._unschedulable,
        "gated": engine.queue._gated,
        "placed": engine.cluster._pods,
        "places": engine.cluster._node_of,
        "strays": engine.cluster._unknown_node_pods,
        "assumed": engine.cluster.assumed,
        "nodes": engine.cluster.table.index,
        "images": engine.cluster.table.images,
        "namespaces": engine.cluster.table.pods_by_namespace,
    }
    assert {name: kept for name, kept in maps.items() if kept} == {}
    assert engine.next_timer() is None
    assert not engine.ready


def test_timers_of_a_pod_tried_again_and_again_do_not_pile_up(core: EngineHarness) -> None:
    core.observe(a_pod("p"))
    for minute in range(200):
        core.advance_to(minute * 20.0)
        core.observe(N1.cordoned().labelled(turn=str(minute)), N1.cordoned())
        core.observe(a_pod("p").labelled(turn=str(minute)))

    # An entry lives at most the five minutes until it is due.
    assert len(core.engine.queue._timers) <= 300 / 20 * 3
