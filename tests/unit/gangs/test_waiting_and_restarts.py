"""Gangs that wait for others, run out of time, or are known from before a restart."""

from __future__ import annotations

import msgspec
import pytest

from arranger.api.types.core import ObjectMeta
from arranger.api.types.pod_groups import (
    GangObject,
    VolcanoPodGroup,
)
from tests.builders import PodBuilder, a_pod, a_pod_group
from tests.unit.gangs.harness import RegistryHarness, gang, in_pod_group, member
from tests.unit.gangs.test_registry import THREE, TWO

MARK = {"timeout": "true"}


# --- those that wait for others --------------------------------------------------------------


def test_a_member_seen_on_a_node_may_be_the_one_the_others_waited_for(
    known: RegistryHarness,
) -> None:
    one, two, three = gang("g", 3, 3)
    known.see(one)
    assert known.see(two.on("n")) == set(), "too early"
    assert known.see(three.on("n")) == {"default/g"}


def test_the_partners_hear_of_it_too(known: RegistryHarness) -> None:
    known.see(member("a", TWO))
    assert known.see(member("b", TWO, "other").on("n")) == {"default/a", "other/b"}


def test_and_when_it_was_bound_as_one_of_a_gang_that_had_run_before(known: RegistryHarness) -> None:
    a, again = (a_pod(f"a-{n}").in_gang("a", 1, groups=TWO) for n in range(2))
    b, new = (a_pod(f"b-{n}").in_gang("b", 1, groups=TWO).in_namespace("other") for n in range(2))
    known.see(a.on("n"), b.on("n"))
    known.see_gone(a, b)
    known.see(a.on("n"), b.on("n"), again)
    known.see_gone(a, b)
    known.see(new)
    assert known.bound(again) == {"default/a", "other/b"}


def test_and_of_one_that_is_lost(known: RegistryHarness) -> None:
    one, two, three = gang("g", 3, 3)
    known.see(one, two.on("n"), three)
    assert known.see(two.on("n").in_phase("Failed")) == {"default/g"}
    known.see(two.on("n"))
    assert known.see_gone(two) == {"default/g"}


def test_nobody_hears_of_members_of_a_gang_that_has_run(known: RegistryHarness) -> None:
    pods = gang("g", 3, 2)
    known.see(*pods)
    known.see(*(pod.on("n") for pod in pods[:2]))
    assert known.gang().satisfied
    assert known.see(pods[2].on("n")) == known.see_gone(pods[1]) == set()


def test_with_waiting_and_running_losses_make_the_members_wait_for_each_other_again(
    known: RegistryHarness,
) -> None:
    pods = gang("g", 3, 2, match_policy="waiting-and-running")
    known.see(*pods)
    known.see(*(pod.on("n") for pod in pods[:2]))
    assert known.gang().schedules_individually
    assert known.see_gone(pods[0]) == {"default/g"}
    assert not known.gang().schedules_individually
    known.see(*gang("g", 4, 2, match_policy="waiting-and-running")[3:])
    assert known.see(pods[0].on("n")) == {"default/g"}
    assert known.gang().schedules_individually


# --- out of time -----------------------------------------------------------------------------


def blocked(known: RegistryHarness) -> list[PodBuilder]:
    pods = gang("g", 2, 2)
    known.see(*pods)
    known.gang().blocked = True
    marked = [pod.in_gang("g", 2, **MARK) for pod in pods]
    assert known.see(*marked) == set()
    return marked


def test_the_owner_takes_the_mark_off_one_pod(known: RegistryHarness) -> None:
    blocked(known)
    assert known.see(gang("g", 1, 2)[0]) == {"default/g"}
    assert not known.gang().blocked


def test_the_owner_edits_the_pod_group(known: RegistryHarness) -> None:
    known.see(*in_pod_group(2))
    known.define(a_pod_group("g", least=2))
    known.gang().blocked = True
    assert known.define(a_pod_group("g", least=2).with_status(phase="Pending")) == set()
    assert known.gang().blocked
    assert known.define(a_pod_group("g", least=2, queue="other")) == {"default/g"}
    assert not known.gang().blocked


def test_the_owner_deletes_the_pods_that_carry_the_mark(known: RegistryHarness) -> None:
    one, two = blocked(known)
    known.see(a_pod("g-2").in_gang("g", 2))
    assert known.see_gone(one) == set()
    assert known.gang().blocked
    assert known.see_gone(two) == {"default/g"}
    assert not known.gang().blocked


def test_after_a_restart_the_marks_say_that_it_ran_out_of_time(known: RegistryHarness) -> None:
    known.see(*gang("g", 2, 2, **MARK))
    assert known.gang().blocked


def test_marks_left_on_a_gang_that_runs_do_not_block_it(known: RegistryHarness) -> None:
    one, two = gang("g", 2, 1)
    known.see(one.on("n"), two.in_gang("g", 1, **MARK))
    assert not known.gang().blocked


# --- what an earlier life has seen -----------------------------------------------------------


def test_a_recalled_gang_is_believed_once_a_member_has_a_node(known: RegistryHarness) -> None:
    pods = gang("g", 3, 3)
    known.recall("default/g")
    assert known.see(pods[0]) == {"default/g"}
    assert not known.gang().satisfied
    known.see(pods[1].on("n"))
    assert known.gang().satisfied


def test_the_word_may_come_after_the_pods(known: RegistryHarness) -> None:
    one, two = gang("g", 2, 2)
    known.see(one, two.on("n"))
    assert known.recall("default/g") == {"default/g"}
    assert known.gang().satisfied


def test_the_partners_of_a_recalled_gang_hear_of_it(known: RegistryHarness) -> None:
    a, b = member("a", TWO), member("b", TWO, "other")
    known.see(a.in_gang("a", 2, groups=TWO).on("n"), b.on("n"))
    known.recall("default/a")
    assert known.recall("other/b") == {"default/a", "other/b"}
    assert known.registry.group_of(known.gang("default/a")).schedules_individually


def test_another_gang_of_the_name_starts_anew(known: RegistryHarness) -> None:
    pods = gang("g", 2, 2)
    known.see(*pods)
    known.recall("default/g")
    known.see_gone(*pods)
    known.see(pods[0].on("n"), pods[1])
    assert not known.gang().satisfied


def test_a_pod_group_that_goes_without_pods_takes_the_word_with_it(known: RegistryHarness) -> None:
    known.define(a_pod_group("g", least=2))
    known.recall("default/g")
    known.undefine("g")
    assert not known.registry.previously_satisfied


# --- bundles without pods --------------------------------------------------------------------


def role(name: str, least: int, number: int = 0) -> PodBuilder:
    return a_pod(f"{name}-{number}").in_bundle("job", name, least)


def saved(
    minima: dict[str, int], *, source: str = "gang.koordinater.io", at: int = 5
) -> GangObject:
    """The Gang of ``job``, created in that minute."""
    bundles = [{"name": name, "minMember": least} for name, least in minima.items()]
    body = {
        "metadata": {"name": "job", "namespace": "default", "creationTimestamp": minute(at)},
        "spec": {"bundles": bundles, "source": source},
    }
    return msgspec.convert(body, GangObject)


def minute(at: int) -> str:
    return f"2026-01-01T00:{at:02}:00Z"


def minima(known: RegistryHarness) -> dict[str, int]:
    return dict(known.gang("default/job").bundle_minimums)


def test_a_bundle_is_asked_for_while_the_gang_has_pods_of_any(known: RegistryHarness) -> None:
    known.see(role("ps", 1), role("worker", 2))
    assert known.see_gone(role("ps", 1)) == set()
    assert minima(known) == {"ps": 1, "worker": 2}
    known.see_gone(role("worker", 2))
    known.see(role("worker", 2))
    assert minima(known) == {"worker": 2}


def test_the_next_pod_of_the_bundle_may_ask_for_more(known: RegistryHarness) -> None:
    known.see(role("ps", 1), role("worker", 2))
    known.see_gone(role("ps", 1))
    known.see(role("ps", 3, 1))
    assert minima(known) == {"ps": 3, "worker": 2}
    known.see_gone(role("ps", 3, 1))
    assert minima(known) == {"ps": 3, "worker": 2}


def test_a_bundle_that_is_edited_away_is_not_asked_for(known: RegistryHarness) -> None:
    known.see(role("ps", 1), role("worker", 2))
    known.see(role("ps", 1).in_bundle("job", "worker", 2))
    assert minima(known) == {"worker": 2}
    known.registry.restore_recorded_bundles(saved({"ps": 1, "worker": 2}))
    assert minima(known) == {"worker": 2}


def test_nor_is_one_whose_pods_move_to_another_gang(known: RegistryHarness) -> None:
    known.see(role("ps", 1), role("worker", 2))
    known.see(role("ps", 1).in_bundle("other", "ps", 1))
    assert minima(known) == {"worker": 2}


def test_after_a_restart_the_gang_object_tells_of_bundles_without_pods(
    known: RegistryHarness,
) -> None:
    assert known.registry.restore_recorded_bundles(saved({"ps": 1, "worker": 2})) == set()
    assert known.see(role("worker", 3).created(minute(4))) == {"default/job"}
    assert minima(known) == {"ps": 1, "worker": 3}, "and pods tell better"


def test_the_object_may_be_read_after_the_pods(known: RegistryHarness) -> None:
    known.see(role("worker", 2).created(minute(4)))
    assert known.registry.restore_recorded_bundles(saved({"ps": 1})) == {"default/job"}
    assert minima(known) == {"ps": 1, "worker": 2}


def test_an_object_left_over_from_another_gang_of_the_name_is_not_believed(
    known: RegistryHarness,
) -> None:
    known.registry.restore_recorded_bundles(saved({"ps": 1}))
    known.see(role("worker", 2).created(minute(6)))
    assert minima(known) == {"worker": 2}


def test_a_bundle_of_which_only_others_know_is_believed_without_a_doubt_before(
    known: RegistryHarness,
) -> None:
    known.registry.restore_recorded_bundles(saved({"ps": 1}))
    known.see(role("ps", 1).created(minute(4)))
    assert minima(known) == {"ps": 1}, "the server has forgotten the worker before we came"
    again = saved({"ps": 1, "worker": 1})
    assert known.registry.restore_recorded_bundles(again, edited=True) == {"default/job"}
    assert minima(known) == {"ps": 1, "worker": 1}
    assert known.registry.restore_recorded_bundles(again, edited=True) == set()


def test_who_does_not_know_what_we_know_is_not_believed_without_a_doubt(
    known: RegistryHarness,
) -> None:
    known.see(role("ps", 1).created(minute(4)))
    other = saved({"worker": 1})
    assert known.registry.restore_recorded_bundles(other, edited=True) == set()
    assert minima(known) == {"ps": 1}


def test_an_edit_of_what_an_earlier_gang_left_is_not_believed_without_a_doubt(
    known: RegistryHarness,
) -> None:
    known.see(role("ps", 1).created(minute(6)))
    again = saved({"ps": 1, "worker": 1})
    assert known.registry.restore_recorded_bundles(again, edited=True) == set()
    assert minima(known) == {"ps": 1}


def test_what_somebody_writes_into_the_object_while_we_watch_is_believed(
    known: RegistryHarness,
) -> None:
    known.registry.restore_recorded_bundles(saved({"ps": 1}))
    ended = role("worker", 1).created(minute(6)).on("n").in_phase("Succeeded")
    known.see(ended)
    assert known.gang("default/job").satisfied
    known.registry.restore_recorded_bundles(saved({"ps": 1, "worker": 1}), edited=True)
    assert minima(known) == {"ps": 1, "worker": 1}
    assert not known.gang("default/job").satisfied, "nobody keeps a node, and ps never had one"


def test_but_not_for_a_gang_without_pods(known: RegistryHarness) -> None:
    known.registry.restore_recorded_bundles(saved({"ps": 1}), edited=True)
    known.see(role("worker", 2).created(minute(6)))
    assert minima(known) == {"worker": 2}


def test_what_a_pod_group_said_is_not_remembered(known: RegistryHarness) -> None:
    known.registry.restore_recorded_bundles(saved({"ps": 1}, source="scheduling.volcano.sh"))
    known.see(role("worker", 2))
    assert minima(known) == {"worker": 2}


def test_a_bundle_without_a_name_may_be_the_minimum_over_all(known: RegistryHarness) -> None:
    known.registry.restore_recorded_bundles(saved({"": 1}))
    known.see(role("worker", 2))
    assert minima(known) == {"worker": 2}


# --- the end ---------------------------------------------------------------------------------


def test_nothing_is_left(known: RegistryHarness) -> None:
    pods = [
        *gang("g", 3, 2, **MARK),
        *in_pod_group(2),
        member("a", THREE),
        member("b", TWO, "other"),
        *(a_pod(f"ps-{n}").in_bundle("job", "ps", 1) for n in range(2)),
    ]
    known.define(a_pod_group("g", least=1))
    known.define(a_pod_group("g", least=1), VolcanoPodGroup)
    known.recall("default/g")
    known.registry.restore_recorded_bundles(saved({"master": 1}))
    known.registry.restore_recorded_bundles(
        msgspec.structs.replace(saved({"x": 1}), metadata=ObjectMeta("no", "default"))
    )
    known.registry.forget_records("default/no")
    known.see(*pods)
    known.see(*(pod.on("n") for pod in pods[::2]))
    known.see_gone(*pods)
    known.undefine("g")
    known.undefine("g", VolcanoPodGroup)
    registry = known.registry
    maps = (registry._gang_by_uid, registry._pod_groups, registry._groups)
    names = (registry.gangs,)
    recalled = (registry.previously_satisfied, registry._recorded_minimums)
    assert not any((*maps, *names, *recalled))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_gang_that_ends_short_of_its_minimum_is_over_whichever_pod_ends_last(
    known: RegistryHarness, order: tuple[int, int]
) -> None:
    pods = gang("g", 2, 2)
    known.see(*(pod.on("n") for pod in pods))
    assert known.gang().satisfied
    ended = [pods[0].on("n").in_phase("Failed"), pods[1].on("n").in_phase("Succeeded")]
    known.see(*(ended[n] for n in order))
    assert not known.gang().satisfied


@pytest.mark.parametrize("phases", [("Succeeded", "Failed"), ("Failed", "Failed")])
def test_a_gang_whose_pod_group_is_gone_has_ended_well_if_any_pod_has(
    phases: tuple[str, str], known: RegistryHarness
) -> None:
    before, pods = RegistryHarness(), in_pod_group(2)
    ended = [pod.on("n").in_phase(phase) for pod, phase in zip(pods, phases, strict=True)]
    before.define(a_pod_group("g", least=1))
    before.see(*(pod.on("n") for pod in pods))
    before.see(*ended)
    before.undefine("g")
    known.see(*ended)  # after a restart, with the word of the one before
    if before.gang().satisfied:
        known.recall("default/g")
    known.registry.initial_sync_done()
    assert known.gang().satisfied == before.gang().satisfied == ("Succeeded" in phases)


def test_a_gang_that_was_satisfied_is_so_after_a_restart_while_its_partner_runs(
    known: RegistryHarness,
) -> None:
    a, b = member("a", TWO), member("b", TWO, "other")
    known.see(a, b)
    known.recall("other/b")
    known.see(a.on("n"))
    assert not known.gang("other/b").satisfied
    assert known.registry.initial_sync_done() == {"default/a", "other/b"}
    assert known.gang("other/b").satisfied
    assert known.registry.initial_sync_done() == set()


def test_a_group_of_which_one_gang_had_run_before_a_restart_is_over_whichever_gang_ends_last(
    known: RegistryHarness,
) -> None:
    a, b = member("a", TWO), a_pod("b-0").in_gang("b", 2, groups=TWO).in_namespace("other")
    known.recall("default/a")
    known.see(a.on("n"), b.on("n"))
    known.registry.initial_sync_done()
    assert known.gang("default/a").satisfied
    assert not known.gang("other/b").satisfied
    known.see(a.on("n").in_phase("Failed"))
    assert known.gang("default/a").satisfied, "its partner runs"
    known.see(b.on("n").in_phase("Failed"))
    assert not known.gang("default/a").satisfied
