"""What ends a nomination, and that those who wait behind it are tried then.

A node of four CPUs has a low pod of three. ``taker`` needs all four and is nominated, and its
victim is asked to leave. ``small`` needs one CPU and is less important, so it waits behind it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.effects import Bind, DeletePod, Effect, PatchPodStatus, Refused
from arranger.engine.context.queue_state import QueueState
from tests.builders import PodBuilder, a_node, a_pod, a_queue, expr
from tests.unit.engine.harness import EngineHarness, of_kind

NODE = a_node("n").offers(cpu=4)
LOW = a_pod("low").needs(cpu=3).on("n")
TAKER = a_pod("taker").needs(cpu=4).with_priority(5)
SMALL = a_pod("small").needs(cpu=1).with_priority(1)


def high(name: str = "high") -> PodBuilder:
    return a_pod(name).needs(cpu=1).with_priority(9)


def low_leaves(harness: EngineHarness) -> None:
    harness.observe_deleted(LOW)


def a_higher_pod_takes_room(harness: EngineHarness) -> None:
    harness.observe(high())
    bind_all(harness)
    low_leaves(harness)


def a_higher_gang_takes_room(harness: EngineHarness) -> None:
    harness.observe(high().in_gang("g", 1))
    bind_all(harness)
    low_leaves(harness)


def another_scheduler_takes_room(harness: EngineHarness) -> None:
    harness.observe(high("foreign").on("n"))
    low_leaves(harness)


def another_scheduler_takes_room_last(harness: EngineHarness) -> None:
    low_leaves(harness)
    harness.observe(high("foreign").on("n"))


def the_node_shrinks(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=3))
    low_leaves(harness)


def the_node_is_cordoned_and_back_when_all_is_over(harness: EngineHarness) -> None:
    harness.observe(a_node("n").offers(cpu=4).cordoned())
    low_leaves(harness)
    bind_all(harness)
    harness.observe(a_node("n").offers(cpu=1))


def the_eviction_is_refused(harness: EngineHarness) -> None:
    (delete,) = of_kind(DeletePod, harness.effects)
    harness.settle(delete, Refused(403, "Forbidden", "no"))


def the_taker_is_deleted(harness: EngineHarness) -> None:
    harness.observe_deleted(TAKER)


def the_taker_is_bound_elsewhere(harness: EngineHarness) -> None:
    harness.observe(a_pod("taker").needs(cpu=4).with_priority(5).on("elsewhere"))


def the_taker_becomes_a_member_of_a_gang_that_lacks_others(harness: EngineHarness) -> None:
    harness.observe(TAKER.in_gang("g", 2))
    low_leaves(harness)


def the_taker_now_asks_for_a_closed_queue(harness: EngineHarness) -> None:
    harness.observe(a_queue("closed", state="Closed"), a_queue("default"), TAKER.in_queue("closed"))
    low_leaves(harness)


ENDS: dict[str, Callable[[EngineHarness], None]] = {
    "a higher pod takes the room": a_higher_pod_takes_room,
    "a higher gang takes the room": a_higher_gang_takes_room,
    "another scheduler takes the room": another_scheduler_takes_room,
    "another scheduler takes the room when the victim has gone": another_scheduler_takes_room_last,
    "the node shrinks": the_node_shrinks,
    "the node is cordoned, and smaller later": the_node_is_cordoned_and_back_when_all_is_over,
    "the taker becomes a member of a gang that lacks others": (
        the_taker_becomes_a_member_of_a_gang_that_lacks_others
    ),
    "the taker asks for a closed queue now": the_taker_now_asks_for_a_closed_queue,
    "the eviction is refused": the_eviction_is_refused,
    "the taker is deleted": the_taker_is_deleted,
    "the taker is bound elsewhere": the_taker_is_bound_elsewhere,
}


def bind_all(harness: EngineHarness) -> list[Effect]:
    """Run, and let every Binding and every patch succeed."""
    said = harness.run()
    for effect in said:
        if isinstance(effect, Bind | PatchPodStatus) and harness.engine.awaits(effect):
            said += harness.settle(effect)
    return said


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_those_behind_are_placed_soon_after(
    harness: EngineHarness, end: Callable[[EngineHarness], None]
) -> None:
    harness.observe(NODE, LOW)
    harness.start()
    harness.observe(TAKER)
    bind_all(harness)
    assert [delete.pod.name for delete in of_kind(DeletePod, harness.effects)] == ["low"]
    harness.observe(SMALL)
    said = bind_all(harness)
    assert not of_kind(Bind, said)
    end(harness)
    bind_all(harness)
    harness.now += 2.0
    bind_all(harness)
    assert "small" in [bind.pod.name for bind in of_kind(Bind, harness.effects)]


def test_a_nomination_by_others_keeps_the_room(harness: EngineHarness) -> None:
    taker = a_pod("taker").needs(cpu=2).with_priority(5)
    harness.observe(a_node("n").offers(cpu=1))
    harness.start()
    harness.observe(taker)
    bind_all(harness)
    harness.observe(taker.nominated_to("soon"), SMALL)
    assert [bind.pod.name for bind in of_kind(Bind, bind_all(harness))] == ["small"]
    harness.observe(a_pod("other").needs(cpu=1).with_priority(1))
    harness.observe(a_node("soon").offers(cpu=2))
    said = bind_all(harness)
    assert [(bind.pod.name, bind.node) for bind in of_kind(Bind, said)] == [("taker", "soon")]


def test_a_nomination_that_others_end_is_over(harness: EngineHarness) -> None:
    taker = a_pod("taker").needs(cpu=3).with_priority(5)
    harness.observe(a_node("n").offers(cpu=2))
    harness.start()
    harness.observe(taker)
    bind_all(harness)
    harness.observe(taker.nominated_to("n"))
    harness.observe(SMALL)
    assert not of_kind(Bind, bind_all(harness))
    harness.observe(taker.nominated_to(""))
    assert [bind.pod.name for bind in of_kind(Bind, bind_all(harness))] == ["small"]


def test_the_echo_of_our_own_nomination_changes_nothing(harness: EngineHarness) -> None:
    harness.observe(NODE, LOW, a_node("m").offers(cpu=4), a_pod("low-2").needs(cpu=4).on("m"))
    harness.start()
    harness.observe(TAKER)
    bind_all(harness)
    (nominated,) = {p.nominated_node for p in of_kind(PatchPodStatus, harness.effects)} - {None}
    other = {"n": "m", "m": "n"}[str(nominated)]
    harness.observe_deleted(a_node(str(nominated)))
    harness.now += 20
    bind_all(harness)
    harness.observe(TAKER.nominated_to(str(nominated)))  # late
    assert harness.engine._nominator.node_of("uid-default-taker") == other


def test_a_nomination_that_a_restored_backup_brings_back_is_ended_again(
    harness: EngineHarness,
) -> None:
    harness.observe(NODE, LOW, TAKER)
    harness.run()
    harness.observe(TAKER.nominated_to("n"))
    harness.observe(a_node("n").offers(cpu=2))
    harness.advance_to(60)
    harness.observe(TAKER.nominated_to(""))
    harness.effects.clear()
    harness.observe(TAKER.nominated_to("n"))
    harness.observe(a_node("n").offers(cpu=3))
    harness.advance_to(400)
    written = [p.nominated_node for p in of_kind(PatchPodStatus, harness.effects)]
    assert [node for node in written if node is not None] == [""]


def test_a_status_that_the_server_refuses_is_written_again_with_the_next_attempt(
    harness: EngineHarness,
) -> None:
    harness.observe(NODE, LOW, TAKER)
    harness.run()
    harness.observe(a_node("n").offers(cpu=2))
    harness.advance_to(60)
    cleared = [p for p in of_kind(PatchPodStatus, harness.effects) if p.nominated_node == ""]
    harness.effects.clear()
    harness.settle(cleared[-1], Refused(410, "Expired"))
    for now in (400, 800):
        harness.advance_to(now)
    again = [p for p in of_kind(PatchPodStatus, harness.effects) if p.nominated_node is not None]
    assert [(each.pod.name, each.nominated_node) for each in again] == [("taker", "")], "once"


def test_a_taker_whose_node_shrinks_evicts_elsewhere_at_once(harness: EngineHarness) -> None:
    harness.observe(NODE, LOW, a_node("m").offers(cpu=4), a_pod("low-m").needs(cpu=4).on("m"))
    harness.start()
    harness.observe(TAKER)
    bind_all(harness)
    (first,) = of_kind(DeletePod, harness.effects)
    node = {"low": "n", "low-m": "m"}[first.pod.name]
    harness.observe(a_node(node).offers(cpu=1))
    assert [delete.pod.name for delete in of_kind(DeletePod, bind_all(harness))] == [
        {"low": "low-m", "low-m": "low"}[first.pod.name]
    ]


def test_a_taker_that_finds_another_place_leaves_its_room_to_those_behind(
    harness: EngineHarness,
) -> None:
    gpu = {"example.com/gpu": 1}
    harness.observe(NODE.offers(gpu), LOW)
    harness.start()
    harness.observe(TAKER)
    bind_all(harness)
    harness.observe(SMALL.needs(gpu))
    assert not of_kind(Bind, bind_all(harness))
    harness.observe(a_node("m").offers(cpu=4))
    assert harness.queue_state("small") is QueueState.UNSCHEDULABLE, "it is of no use to it"
    placed = {bind.pod.name: bind.node for bind in of_kind(Bind, bind_all(harness))}
    assert placed == {"taker": "m", "small": "n"}


@pytest.mark.parametrize("done", [False, True], ids=["on its way", "done"])
def test_a_refused_eviction_is_nothing_to_a_taker_that_has_another_place(
    harness: EngineHarness, done: bool
) -> None:
    harness.observe(NODE, LOW)
    harness.start()
    harness.observe(TAKER)
    harness.run()
    (delete,) = of_kind(DeletePod, harness.effects)
    harness.observe(a_node("m").offers(cpu=4))
    (bind,) = of_kind(Bind, harness.run())
    if done:
        harness.settle(bind)
    assert not of_kind(PatchPodStatus, harness.settle(delete, Refused(403, "Forbidden", "no")))
    assert not harness.run()
    if not done:
        harness.settle(bind)
    assert harness.engine.check_consistent() is None
    assert not harness.run()


def test_a_refused_eviction_is_nothing_to_a_pod_that_was_made_anew(harness: EngineHarness) -> None:
    harness.observe(NODE, LOW)
    harness.start()
    harness.observe(TAKER)
    harness.run()
    (delete,) = of_kind(DeletePod, harness.effects)
    harness.observe_deleted(TAKER)
    harness.settle(delete, Refused(403, "Forbidden", "no"))
    harness.observe(TAKER)
    assert [each.pod.name for each in of_kind(DeletePod, harness.run())] == ["low"]


def test_a_nominee_that_is_edited_is_counted_as_it_is_now(harness: EngineHarness) -> None:
    harness.observe(NODE, LOW)
    harness.start()
    harness.observe(TAKER)
    bind_all(harness)
    (victim,) = of_kind(DeletePod, harness.effects)
    harness.settle(victim)
    harness.observe(a_pod("taker").needs(cpu=3).with_priority(5).nominated_to("n"))
    low_leaves(harness)
    harness.observe(SMALL)
    placed = {bind.pod.name for bind in of_kind(Bind, bind_all(harness))}
    assert placed == {"taker", "small"}


def test_who_waits_behind_a_taker_is_tried_when_that_is_placed_elsewhere(
    harness: EngineHarness,
) -> None:
    ssd, taker = NODE.labelled(disk="ssd"), TAKER.requires(expr("disk", "In", "ssd", "new"))
    harness.observe(ssd, LOW, a_node("m").offers(cpu=4).labelled(disk="old"))
    harness.start()
    harness.observe(taker)
    bind_all(harness)
    harness.observe(SMALL.selects(disk="ssd"))
    assert not of_kind(Bind, bind_all(harness))
    harness.observe(a_node("m").offers(cpu=4).labelled(disk="new"))  # nothing to the small one
    said = bind_all(harness)
    harness.now += 2.0
    said += bind_all(harness)
    placed = {bind.pod.name: bind.node for bind in of_kind(Bind, said)}
    assert placed == {"taker": "m", "small": "n"}


def test_who_waits_behind_a_taker_is_tried_when_that_evicts_elsewhere(
    harness: EngineHarness,
) -> None:
    taker = TAKER.requires(expr("disk", "In", "ssd"))
    other = a_pod("low-m").needs(cpu=4).with_priority(1).on("m")
    harness.observe(NODE.labelled(disk="ssd"), LOW, a_node("m").offers(cpu=4).labelled(disk="ssd"))
    harness.observe(other)
    harness.start()
    harness.observe(taker)
    bind_all(harness)
    assert [delete.pod.name for delete in of_kind(DeletePod, harness.effects)] == ["low"]
    harness.observe(SMALL)
    assert not of_kind(Bind, bind_all(harness))
    harness.observe(NODE.labelled(disk="hdd"))
    said = bind_all(harness)
    assert [delete.pod.name for delete in of_kind(DeletePod, said)] == ["low-m"]
    assert [bind.pod.name for bind in of_kind(Bind, said)] == ["small"]


def test_nobody_is_woken_when_no_room_is_given_back(harness: EngineHarness) -> None:
    """Neither when a pod is nominated nor when it gets the node that is kept for it, or any."""
    harness.observe(NODE, LOW)
    harness.start()
    harness.observe(TAKER)
    woken = harness.engine.queue.event_count
    bind_all(harness)
    assert harness.engine.queue.event_count == woken
    low_leaves(harness)
    harness.observe(a_node("m").offers(cpu=1), SMALL)
    woken = harness.engine.queue.event_count
    assert {bind.pod.name for bind in of_kind(Bind, harness.run())} == {"taker", "small"}
    assert harness.engine.queue.event_count == woken


def kept_from_trying(harness: EngineHarness) -> None:
    """Something that looks as if it might help, and does not: there is a back-off now."""
    harness.observe(a_node("m").offers(cpu=4).cordoned())
    bind_all(harness)
    timer = harness.engine.next_timer()
    assert timer is not None
    assert timer > harness.now


def test_a_taker_is_tried_the_moment_its_room_is_there_whatever_its_back_off(
    harness: EngineHarness,
) -> None:
    harness.observe(NODE, LOW)
    harness.start()
    harness.observe(TAKER)
    bind_all(harness)
    kept_from_trying(harness)
    low_leaves(harness)
    assert [bind.pod.name for bind in of_kind(Bind, bind_all(harness))] == ["taker"]


def test_a_gang_is_tried_the_moment_its_last_victim_has_left(harness: EngineHarness) -> None:
    victims = [a_pod(f"low-{n}").needs(cpu=2).on("n") for n in range(2)]
    harness.observe(NODE, *victims)
    harness.start()
    takers = [a_pod(f"g-{n}").needs(cpu=2).with_priority(5).in_gang("g", 2) for n in range(2)]
    harness.observe(*takers)
    bind_all(harness)
    assert len(of_kind(DeletePod, harness.effects)) == 2
    kept_from_trying(harness)
    harness.observe_deleted(victims[0])
    assert not of_kind(Bind, bind_all(harness))
    harness.observe_deleted(victims[1])
    assert {bind.pod.name for bind in of_kind(Bind, bind_all(harness))} == {"g-0", "g-1"}


def test_a_nominee_whose_room_others_have_taken_looks_elsewhere_once_its_victims_have_gone(
    harness: EngineHarness,
) -> None:
    low = [a_pod(f"low-{n}").needs(cpu=2).on("n") for n in range(2)]
    harness.observe(NODE, *low)
    harness.start()
    harness.observe(TAKER)
    bind_all(harness)
    harness.now = 100.0
    harness.observe(high("foreign").on("n"))
    harness.observe_deleted(low[0])
    assert harness.queue_state("taker") is QueueState.UNSCHEDULABLE
    harness.observe_deleted(low[1])
    assert harness.queue_state("taker") is QueueState.ACTIVE
