"""What the queue holds: pods with their history, and the entities that they are placed in."""

from __future__ import annotations

from collections import Counter, deque

import pytest

from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.engine.context.phases import TRANSITIONS, InvalidTransitionError, Phase
from arranger.engine.context.rejecters import GANG, gang_rejection
from arranger.framework.status import Code
from arranger.gangs.gang import Gang
from arranger.gangs.group import GangGroup
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_pod

PROFILE = default_profile()


def queued(pod: PodBuilder, now: float = 7.0) -> QueuedPod:
    return QueuedPod(pod.info(), PROFILE, now)


def a_gang_of(*members: QueuedPod) -> QueuedEntity:
    """All of them in one role."""
    entity = QueuedEntity(
        "gang:g", 7.0, GangGroup((Gang("default/g"),)), lambda uid: ("g", "worker")
    )
    for member in members:
        entity.add_member(member)
    return entity


# --- pods ---------------------------------------------------------------------------------------


def test_an_edited_pod_has_the_class_of_what_it_is_now() -> None:
    member = queued(a_pod("p").needs(cpu=1))
    before = member.signature
    member.pending_update = a_pod("p").needs(cpu=2).info()
    member.update(member.pending_update)
    assert member.signature == queued(a_pod("other").needs(cpu=2)).signature != before
    assert member.pod.requests["cpu"] == 2000
    assert member.pending_update is None


def test_a_pod_is_signed_anew_as_it_is_with_its_own_plugins() -> None:
    member = queued(a_pod("p").needs(cpu=1))
    before, member.signature = member.signature, None
    member.sign_anew()
    assert member.signature == before is not None


def test_the_node_that_was_written_last_is_shown_and_none_is_forgotten() -> None:
    member = queued(a_pod("p").nominated_to("n0"))
    assert member.shown_node == "n0"
    member.show_node("n1")
    member.show_node("")
    member.show_node("n2")
    assert (member.shown_node, member.nodes_written) == ("n2", deque(["n1", "", "n2"]))


@pytest.mark.parametrize("seen", [("n1", ""), ("",)])
def test_a_nomination_that_comes_back_after_its_end_was_seen_is_no_echo(
    seen: tuple[str, ...],
) -> None:
    pod = a_pod("p")
    member = queued(pod.nominated_to("n0"))
    member.show_node("n1")
    member.show_node("")
    for node in seen:
        info = pod.nominated_to(node).info()
        assert not member.others_nominate(info)
        member.update(info)
    assert member.shown_node == ""
    assert member.others_nominate(pod.nominated_to("n1").info())
    assert member.shown_node == "n1", "so that its end is written again"


def test_an_edit_that_waits_for_a_decision_is_what_the_next_is_compared_with() -> None:
    pod = a_pod("p")
    member = queued(pod)
    member.pending_update = pod.nominated_to("n1").info()
    assert not member.others_nominate(pod.nominated_to("n1").info())
    assert member.others_nominate(pod.nominated_to("").info())


@pytest.mark.parametrize("phase", Phase)
def test_a_pod_enters_only_the_phases_that_the_table_names(phase: Phase) -> None:
    for to in Phase:
        member = queued(a_pod("p"))
        member.phase = phase
        if to in TRANSITIONS[phase]:
            member.transition(to)
            assert member.phase is to
        else:
            with pytest.raises(InvalidTransitionError, match=f"default/p: {phase.value} → "):
                member.transition(to)
            assert member.phase is phase


# --- entities -----------------------------------------------------------------------------------


def test_whatever_changes_who_waits_is_another_revision() -> None:
    one, two = queued(a_pod("one")), queued(a_pod("two"))
    entity = a_gang_of(one)
    seen = [entity.revision]
    for change in (entity.add_member, entity.recheck_member, entity.remove_member):
        change(two)
        seen.append(entity.revision)
    assert len(set(seen)) == len(seen)
    entity.recheck_member(one)
    assert entity.revision not in seen


def test_who_has_left_is_neither_asked_about_nor_counted() -> None:
    stays, unasked, ready = (queued(a_pod(name)) for name in ("stays", "unasked", "ready"))
    entity = a_gang_of(stays, unasked, ready)
    for member in (stays, ready):
        entity.mark_ready(member)
    assert entity.arrived == {"g": Counter(worker=2)}
    for member in (unasked, ready):
        entity.remove_member(member)
        assert member.entity is None
    assert list(entity.members.values()) == list(entity.ready()) == [stays]
    assert entity.unchecked() == []
    assert (entity.ready_count(), entity.arrived) == (1, {"g": Counter(worker=1)})


def test_an_edited_member_is_asked_about_again_and_does_not_count_until_then() -> None:
    entity = a_gang_of(member := queued(a_pod("p")))
    entity.mark_ready(member)
    entity.recheck_member(member)
    assert (entity.unchecked(), entity.ready_count()) == ([member], 0)
    assert not entity.arrived["g"]["worker"]
    entity.mark_ready(member)
    assert (entity.unchecked(), entity.arrived["g"]["worker"]) == ([], 1)


def test_one_of_each_class_is_found_anew_when_members_come_go_or_are_edited() -> None:
    small, alike, large = (
        queued(a_pod("small").needs(cpu=1)),
        queued(a_pod("alike").needs(cpu=1)),
        queued(a_pod("large").needs(cpu=9)),
    )
    entity = a_gang_of(small, alike)
    assert len(entity.one_of_each_class()) == 1
    entity.add_member(large)
    assert len(entity.one_of_each_class()) == 2
    alike.update(a_pod("alike").needs(cpu=4).info())
    entity.recheck_member(alike)
    assert len(entity.one_of_each_class()) == 3
    entity.remove_member(large)
    assert len(entity.one_of_each_class()) == 2


@pytest.mark.parametrize(
    ("broken_before", "lost_after", "broken", "losses"),
    [
        pytest.param(0, [1], 1, 1, id="the first loss breaks an attempt"),
        pytest.param(0, [1, 1, 1], 1, 1, id="members of one attempt that say so are one loss"),
        pytest.param(0, [1, 2, 3], 3, 3, id="losses of attempts in a row add up"),
        pytest.param(5, [1, 2], 5, 2, id="attempts that broke off before are not forgotten"),
    ],
)
def test_the_back_off_grows_with_attempts_whose_gain_was_lost(
    broken_before: int, lost_after: list[int], broken: int, losses: int
) -> None:
    entity = QueuedEntity.from_pod(queued(a_pod("p")))
    entity.broken_attempts = broken_before
    for attempt in lost_after:
        entity.attempts = attempt
        entity.count_loss()
    assert (entity.broken_attempts, entity.losses) == (broken, losses)
    entity.forget_losses()
    assert (entity.broken_attempts, entity.losses) == (0, 0)


def test_what_is_lost_each_time_after_all_got_nodes_adds_up() -> None:
    entity = a_gang_of(queued(a_pod("a")), queued(a_pod("b")))
    for losses in (1, 2, 3, 4):
        entity.attempts += 1
        entity.count_success()
        for _ in range(2):
            entity.count_loss()
        assert (entity.broken_attempts, entity.losses) == (losses, losses)


def test_a_gang_that_is_held_back_waits_for_no_node() -> None:
    status = gang_rejection("2 of 3 are there")
    assert (status.code, status.reasons, status.plugin) == (
        Code.UNRESOLVABLE,
        ("2 of 3 are there",),
        GANG,
    )


def test_a_loss_in_an_attempt_whose_losses_were_forgotten_breaks_it_still() -> None:
    entity = QueuedEntity.from_pod(queued(a_pod("p")))
    entity.count_loss()
    entity.forget_losses()
    entity.count_loss()
    assert (entity.broken_attempts, entity.losses) == (1, 0)


def test_the_first_by_priority_stands_for_all_however_many_have_come_and_gone() -> None:
    first, second = queued(a_pod("b").with_priority(5)), queued(a_pod("c").with_priority(5))
    entity = a_gang_of(queued(a_pod("a")), second, first)
    for n in range(300):
        passing = queued(a_pod(f"x{n}").with_priority(n % 5))
        entity.add_member(passing)
        entity.remove_member(passing)
    assert entity.representative is first
    entity.remove_member(first)
    assert entity.representative is second


def test_the_order_of_a_queue_is_told_when_the_pod_was_made_and_when_it_came() -> None:
    member = queued(a_pod("p").created("1970-01-01T00:00:50Z"), now=60.0)
    asked = QueuedEntity.from_pod(member).sort_input(lambda entity: len(entity.key))
    assert (asked.created, asked.queued_at, asked.name) == (50.0, 60.0, "default/p")
    assert asked.job_share() == len(member.uid)


def test_a_gang_counts_from_the_first_that_was_made_of_it() -> None:
    entity = a_gang_of(queued(a_pod("p").created("1970-01-01T00:00:50Z")))
    assert entity.sort_input(lambda _: 0.0).created == 50.0
    entity.gang_group.gangs[0].created_at = 40.0
    asked = entity.sort_input(lambda _: 0.0)
    assert (asked.created, asked.name) == (40.0, "default/g")
