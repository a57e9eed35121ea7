"""Nodes that come, go and change under pods; and nothing left when all is gone."""

from __future__ import annotations

import pytest

from arranger.api.effects import Ambiguous, Refused
from arranger.engine.entity import Part
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import CONFLICT, Core, placements

N1 = a_node("n1")
RUNNING = a_pod("running").needs(cpu=3).on("n1")


def room(core: Core, node: str) -> int:
    table = core.engine.cluster.table
    cpu, row = table.column_of("cpu"), table.index[node]
    return int(table.allocatable[cpu, row] - table.requested[cpu, row])


def test_a_node_that_comes_back_still_carries_its_pods(core: Core) -> None:
    core.see(N1, RUNNING)
    core.see_gone(N1)
    core.see(a_pod("p").needs(cpu=3))
    assert placements(core.run()) == []
    core.see(N1)
    assert room(core, "n1") == 1000
    assert placements(core.at(10)) == []

    core.see_gone(RUNNING)
    assert placements(core.at(20)) == [("p", "n1")]


def test_a_pod_that_ends_while_its_node_is_away_is_not_on_it_when_it_comes_back(
    core: Core,
) -> None:
    core.see(N1, RUNNING)
    core.see_gone(N1, RUNNING)
    core.see(N1)

    assert room(core, "n1") == 4000


def test_pods_seen_before_their_node_take_its_room(core: Core) -> None:
    core.see(RUNNING, a_pod("p").needs(cpu=3), N1)

    assert placements(core.run()) == []
    assert room(core, "n1") == 1000


@pytest.mark.parametrize("refused", [False, True], ids=["applied", "refused"])
def test_a_node_deleted_while_a_binding_is_on_its_way(core: Core, refused: bool) -> None:
    pod = a_pod("p").needs(cpu=3)
    core.see(N1, pod)
    core.run()
    core.see_gone(N1)
    core.see(N1)
    assert room(core, "n1") == 1000

    core.settle(core.binding("p"), CONFLICT if refused else None)
    assert room(core, "n1") == (4000 if refused else 1000)


def test_a_cordoned_node_takes_nobody_and_keeps_those_it_has(core: Core) -> None:
    core.see(N1, RUNNING, N1.cordoned(), a_pod("p"))

    assert placements(core.run()) == []
    assert room(core, "n1") == 1000
    assert core.part("p") is Part.UNSCHEDULABLE


def test_a_node_shrunk_below_its_use_takes_nobody_until_there_is_room(core: Core) -> None:
    core.see(N1, RUNNING, N1.offers(cpu=2), a_pod("p").needs(cpu=1))
    assert placements(core.run()) == []
    assert room(core, "n1") == -1000
    core.see_gone(RUNNING)

    assert placements(core.at(10)) == [("p", "n1")]


def test_a_row_taken_over_by_another_node_knows_nothing_of_the_first(core: Core) -> None:
    pod = a_pod("p").selects(disk="ssd")
    core.see(N1.labelled(disk="ssd").tainted("team", "a"), RUNNING, pod)
    core.run()
    core.see_gone(N1)
    core.see(a_node("n2"))

    assert placements(core.at(10)) == []
    assert room(core, "n2") == 4000
    core.see(a_pod("q").needs(cpu=4))
    assert placements(core.run()) == [("q", "n2")]


def test_nothing_is_left_when_everything_is_gone(core: Core) -> None:
    """One pod for every way a life can go."""
    names = ["bound", "shown", "refused", "doubtful", "replaced", "elsewhere", "ended"]
    pods = {name: a_pod(name) for name in names}
    idle = [a_pod("unplaceable").needs(cpu=99), a_pod("gated").gated("g")]
    foreign = a_pod("foreign").for_scheduler("x")
    unreadable = a_pod("unreadable").needs(cpu="lots")
    core.see(N1, *pods.values(), *idle, foreign, foreign.on("away"), unreadable)
    core.run()
    core.settle(core.binding("bound"))
    core.settle(core.binding("shown"))
    core.see(pods["shown"].on("n1"))
    core.settle(core.binding("refused"), CONFLICT)
    core.settle(core.binding("doubtful"), Ambiguous("time-out"))
    core.see(pods["replaced"].with_uid("uid-2"))
    core.settle(core.binding("replaced"), Refused(409, "Replaced"))
    core.see(pods["elsewhere"].on("n2"), pods["ended"].on("n1").in_phase("Failed"))
    core.at(50)

    core.see_gone(*pods.values(), *idle, foreign, unreadable, N1)
    core.at(1000)

    engine = core.engine
    maps = {
        "entities": engine.members(),
        "uids": engine._uid_of,
        "waiting": engine._desk.waiting,
        "prerequisites": engine._binder._prerequisites,
        "gangs": engine.registry.gangs,
        "gang entities": engine._gangs._entities,
        "holds": engine._gangs._holds,
        "notices": engine._gangs._notices,
        "queue": list(engine.queue.entities()),
        "timers": engine.queue._timers,
        "active": engine.queue._active,
        "resting": engine.queue._resting,
        "gated": engine.queue._gated,
        "placed": engine.cluster._pods,
        "places": engine.cluster._where,
        "strays": engine.cluster._stray,
        "assumed": engine.cluster.assumed,
        "nodes": engine.cluster.table.index,
        "images": engine.cluster.table.images,
        "namespaces": engine.cluster.table.by_namespace,
    }
    assert {name: kept for name, kept in maps.items() if kept} == {}
    assert engine.next_timer() is None
    assert not engine.ready


def test_timers_of_a_pod_tried_again_and_again_do_not_pile_up(core: Core) -> None:
    core.see(a_pod("p"))
    for minute in range(200):
        core.at(minute * 20.0)
        core.see(N1.cordoned().labelled(turn=str(minute)), N1.cordoned())
        core.see(a_pod("p").labelled(turn=str(minute)))

    # An entry lives at most the five minutes until it is due.
    assert len(core.engine.queue._timers) <= 300 / 20 * 3
