"""Nodes that come, go and change under pods; and nothing left when all is gone."""

from __future__ import annotations

import pytest

from arranger.api.effects import Ambiguous, Refused
from arranger.engine.context.queue_state import QueueState
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import CONFLICT, EngineHarness, placements

N1 = a_node("n1")
RUNNING = a_pod("running").needs(cpu=3).on("n1")


def room(harness: EngineHarness, node: str) -> int:
    table = harness.engine.cluster.table
    cpu, row = table.resource_column("cpu"), table.index[node]
    return int(table.allocatable[cpu, row] - table.requested[cpu, row])


def test_a_node_that_comes_back_still_carries_its_pods(harness: EngineHarness) -> None:
    harness.observe(N1, RUNNING)
    harness.observe_deleted(N1)
    harness.observe(a_pod("p").needs(cpu=3))
    assert placements(harness.run()) == []
    harness.observe(N1)
    assert room(harness, "n1") == 1000
    assert placements(harness.advance_to(10)) == []

    harness.observe_deleted(RUNNING)
    assert placements(harness.advance_to(20)) == [("p", "n1")]


def test_a_pod_that_ends_while_its_node_is_away_is_not_on_it_when_it_comes_back(
    harness: EngineHarness,
) -> None:
    harness.observe(N1, RUNNING)
    harness.start()
    harness.observe_deleted(N1, RUNNING)
    harness.observe(N1)

    assert room(harness, "n1") == 4000


def test_pods_seen_before_their_node_take_its_room(harness: EngineHarness) -> None:
    harness.observe(RUNNING, a_pod("p").needs(cpu=3), N1)

    assert placements(harness.run()) == []
    assert room(harness, "n1") == 1000


@pytest.mark.parametrize("refused", [False, True], ids=["applied", "refused"])
def test_a_node_deleted_while_a_binding_is_on_its_way(
    harness: EngineHarness, refused: bool
) -> None:
    pod = a_pod("p").needs(cpu=3)
    harness.observe(N1, pod)
    harness.run()
    harness.observe_deleted(N1)
    harness.observe(N1)
    assert room(harness, "n1") == 1000

    harness.settle(harness.binding("p"), CONFLICT if refused else None)
    assert room(harness, "n1") == (4000 if refused else 1000)


def test_a_cordoned_node_takes_nobody_and_keeps_those_it_has(harness: EngineHarness) -> None:
    harness.observe(N1, RUNNING, N1.cordoned(), a_pod("p"))

    assert placements(harness.run()) == []
    assert room(harness, "n1") == 1000
    assert harness.queue_state("p") is QueueState.UNSCHEDULABLE


def test_a_node_shrunk_below_its_use_takes_nobody_until_there_is_room(
    harness: EngineHarness,
) -> None:
    harness.observe(N1, RUNNING, N1.offers(cpu=2), a_pod("p").needs(cpu=1))
    assert placements(harness.run()) == []
    assert room(harness, "n1") == -1000
    harness.observe_deleted(RUNNING)

    assert placements(harness.advance_to(10)) == [("p", "n1")]


def test_a_row_taken_over_by_another_node_knows_nothing_of_the_first(
    harness: EngineHarness,
) -> None:
    pod = a_pod("p").selects(disk="ssd")
    harness.observe(N1.labelled(disk="ssd").tainted("team", "a"), RUNNING, pod)
    harness.run()
    harness.observe_deleted(N1)
    harness.observe(a_node("n2"))

    assert placements(harness.advance_to(10)) == []
    assert room(harness, "n2") == 4000
    harness.observe(a_pod("q").needs(cpu=4))
    assert placements(harness.run()) == [("q", "n2")]


def test_nothing_is_left_when_everything_is_gone(harness: EngineHarness) -> None:
    """One pod for every way a life can go."""
    names = ["bound", "shown", "refused", "doubtful", "replaced", "elsewhere", "ended"]
    pods = {name: a_pod(name) for name in names}
    idle = [a_pod("unplaceable").needs(cpu=99), a_pod("gated").gated("g")]
    foreign = a_pod("foreign").for_scheduler("x")
    unreadable = a_pod("unreadable").needs(cpu="lots")
    harness.expects_faults = True
    harness.observe(N1, *pods.values(), *idle, foreign, foreign.on("away"), unreadable)
    harness.run()
    harness.settle(harness.binding("bound"))
    harness.settle(harness.binding("shown"))
    harness.observe(pods["shown"].on("n1"))
    harness.settle(harness.binding("refused"), CONFLICT)
    harness.settle(harness.binding("doubtful"), Ambiguous("time-out"))
    harness.observe(pods["replaced"].with_uid("uid-2"))
    harness.settle(harness.binding("replaced"), Refused(409, "Replaced"))
    harness.observe(pods["elsewhere"].on("n2"), pods["ended"].on("n1").in_phase("Failed"))
    harness.advance_to(50)

    harness.observe_deleted(*pods.values(), *idle, foreign, unreadable, N1)
    harness.advance_to(1000)

    engine = harness.engine
    maps = {
        "entities": engine.pods(),
        "uids": engine.handlers.pods.uids,
        "waiting": engine._context.waiting_pods,
        "pending effects": engine._effects,
        "gangs": engine.registry.gangs,
        "gang entities": engine._gangs._entities,
        "holds": engine._gangs._holds,
        "queue": list(engine.queue.entities()),
        "timers": engine.queue._timers,
        "active": engine.queue._active,
        "unschedulable": list(engine.queue._unschedulable.entities()),
        "gated": engine.queue._gated,
        "placed": engine.cluster._pods,
        "places": engine.cluster._node_of,
        "strays": engine.cluster._unknown_node_pods,
        "assumed": engine.cluster.assumed,
        "nodes": engine.cluster.table.index,
        "images": engine.cluster.table.images,
        "namespaces": engine.cluster.table.placed.by_namespace,
    }
    assert {name: kept for name, kept in maps.items() if kept} == {}
    assert engine.next_timer() is None
    assert not engine.ready


def test_timers_of_a_pod_tried_again_and_again_do_not_pile_up(harness: EngineHarness) -> None:
    harness.observe(a_pod("p"))
    for minute in range(200):
        harness.advance_to(minute * 20.0)
        harness.observe(N1.cordoned().labelled(turn=str(minute)), N1.cordoned())
        harness.observe(a_pod("p").labelled(turn=str(minute)))

    # An entry lives at most the five minutes until it is due.
    assert len(harness.engine.queue._timers) <= 300 / 20 * 3
