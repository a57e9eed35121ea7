"""Gangs and gang groups, as pods and PodGroups come, change and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arranger.api.types.pod_groups import (
    AnyPodGroup,
    CommunityPodGroup,
    SigsPodGroup,
    VolcanoPodGroup,
)
from arranger.gangs.member_state import MemberState
from tests.builders import a_pod, a_pod_group
from tests.unit.gangs.harness import RegistryHarness, gang, in_pod_group, member, uid_of

# --- gangs and their settings ----------------------------------------------------------------


def test_a_gang_begins_with_its_first_pod_and_ends_with_its_last(known: RegistryHarness) -> None:
    one, two = gang("g", 2, 2)
    assert known.see(one) == {"default/g"}
    assert known.see(two) == set(), "it says nothing new"
    assert known.registry.gang_of(uid_of(two)) is known.gang()
    assert known.see_gone(one) == set()
    assert known.see_gone(two) == {"default/g"}
    assert known.registry.gangs == {}


def test_a_pod_that_is_unknown_is_gone_already(known: RegistryHarness) -> None:
    assert known.see_gone(a_pod()) == known.bound(a_pod()) == set()


def test_a_pod_group_that_is_unknown_is_gone_already(known: RegistryHarness) -> None:
    assert known.undefine("g") == set()


def test_the_pod_group_of_a_pod_is_that_of_its_gang(known: RegistryHarness) -> None:
    pods = in_pod_group(1)
    known.see(*pods, *gang("h", 1, 1))
    assert known.registry.pod_group_of(uid_of(pods[0])) is None
    known.define(a_pod_group("g", least=1))
    found = known.registry.pod_group_of(uid_of(pods[0]))
    assert found is known.registry.pod_group(SigsPodGroup, "default/g") is not None
    assert known.registry.pod_group_of(uid_of(gang("h", 1)[0])) is None


def test_the_members_of_a_gang_are_told_by_its_name(known: RegistryHarness) -> None:
    known.see(*gang("g", 2, 2))
    assert list(known.registry.members_of("default/g")) == [uid_of(p) for p in gang("g", 2)]
    assert not list(known.registry.members_of("default/h"))


def test_a_pod_may_leave_its_gang_for_another_and_for_none(known: RegistryHarness) -> None:
    pods = gang("g", 2, 2)
    known.see(*pods)
    assert known.see(a_pod("g-0").in_gang("h", 1)) == {"default/g", "default/h"}
    assert len(known.gang().memberships) == len(known.gang("default/h").memberships) == 1
    assert known.see(a_pod("g-0")) == {"default/h"}
    assert known.registry.gangs.keys() == {"default/g"}


def test_both_gangs_hear_of_a_member_that_moves_without_changing_their_settings(
    known: RegistryHarness,
) -> None:
    known.see(*gang("g", 2, 2), *gang("h", 2, 2))
    assert known.see(a_pod("g-0").in_gang("h", 2)) == {"default/g", "default/h"}


def test_the_newest_edit_speaks_for_the_gang(known: RegistryHarness) -> None:
    one, two = gang("g", 2, 2)
    known.see(one, two)
    assert known.see(one.in_gang("g", 5)) == {"default/g"}
    assert known.gang().minimum == 5
    known.see_gone(one)
    assert known.gang().minimum == 2, "who is gone says nothing any more"


def test_an_edit_of_something_else_does_not_make_a_pod_speak_for_the_gang(
    known: RegistryHarness,
) -> None:
    one, two = gang("g", 2, 2)
    known.see(one, two)
    known.see(two.in_gang("g", 5))
    known.see(one.in_gang("g", 2, timeout="true"))
    assert known.gang().minimum == 5


def test_who_adds_nothing_to_what_others_say_wakes_nobody(known: RegistryHarness) -> None:
    known.see(*gang("g", 2, 2))
    assert known.see(a_pod("g-2").in_gang("g")) == set()


def test_a_gang_is_as_old_as_its_oldest_part(known: RegistryHarness) -> None:
    young, old = in_pod_group(2)
    known.see(young.created("2026-01-01T00:01:00Z"))
    assert known.gang().created_at == 1767225660.0
    known.see(old.created("2026-01-01T00:00:30Z"))
    known.define(a_pod_group("g", least=2).created("2026-01-01T00:00:00Z"))
    assert known.gang().created_at == 1767225600.0


def test_members_counted_by_standing_and_bundle(known: RegistryHarness) -> None:
    ps = a_pod("ps").in_bundle("g", "ps", 1)
    worker, other = (a_pod(f"w{n}").in_bundle("g", "worker", 2) for n in range(2))
    known.see(ps.on("n"), worker.in_phase("Succeeded"), other)
    count = known.gang().count
    assert (count(MemberState.BOUND), count(MemberState.SUCCEEDED), count(MemberState.PENDING)) == (
        1,
        1,
        1,
    )
    assert (count(MemberState.BOUND, "ps"), count(MemberState.BOUND, "worker")) == (1, 0)
    assert known.gang().missing_members({}) == {"worker": 1}
    known.see(other.in_bundle("g", "ps", 1))
    assert count(MemberState.PENDING, "ps") == 1, "it has another role now"
    known.see(ps.on("n").in_phase("Failed"))
    assert known.gang().missing_members({}) == {"ps": 1, "worker": 1}


def test_members_whose_bindings_are_on_their_way_count_for_their_role_alone(
    known: RegistryHarness,
) -> None:
    ps = [a_pod(f"ps{n}").in_bundle("g", "ps", 1) for n in range(2)]
    known.see(*ps, a_pod("w").in_bundle("g", "worker", 1))
    known.registry.mark_binding(map(uid_of, ps))
    assert known.gang().missing_members({}) == {"worker": 1}


def test_a_binding_is_believed_before_the_watch_shows_it_and_against_older_news(
    known: RegistryHarness,
) -> None:
    one, two = gang("g", 2, 2)
    known.see(one, two)
    known.registry.mark_binding([uid_of(one)])
    known.bound(one)
    known.see(one.labelled(older="news"))
    assert known.gang().missing_members({}) == {None: 1}
    known.registry.mark_binding([uid_of(two)])
    known.see(two.labelled(older="news"))
    assert known.gang().missing_members({}) == {}
    known.registry.mark_binding_failed(uid_of(two))
    assert known.gang().missing_members({}) == {None: 1}


def test_a_gang_whose_last_member_with_a_node_could_not_be_bound_starts_as_a_whole_again(
    known: RegistryHarness,
) -> None:
    one, two, three = gang("g", 3, 2)
    known.see(one, two, three)
    known.bound(one, two)
    known.registry.mark_binding([uid_of(three)])
    known.see_gone(one, two)
    assert known.gang().satisfied
    assert known.registry.mark_binding_failed(uid_of(three)) == {"default/g"}
    assert not known.gang().satisfied


# --- definitions -----------------------------------------------------------------------------

ORDERS: dict[str, Callable[[RegistryHarness], object]] = {
    "before its pods": lambda known: (
        known.define(a_pod_group("g", least=2)),
        known.see(*in_pod_group(2)),
    ),
    "after its pods": lambda known: (
        known.see(*in_pod_group(2)),
        known.define(a_pod_group("g", least=2)),
    ),
    "between its pods": lambda known: (
        known.see(in_pod_group(1)[0]),
        known.define(a_pod_group("g", least=2)),
        known.see(in_pod_group(2)[1]),
    ),
}


@pytest.mark.parametrize("happen", ORDERS.values(), ids=ORDERS.keys())
def test_a_pod_group_comes(
    happen: Callable[[RegistryHarness], object], known: RegistryHarness
) -> None:
    happen(known)
    assert known.gang().minimum == 2
    assert known.undefine("g") == {"default/g"}
    assert not known.gang().is_defined


def test_a_pod_group_outlives_its_pods_and_defines_the_next(known: RegistryHarness) -> None:
    pods = in_pod_group(1)
    known.define(a_pod_group("g", least=1))
    known.see(*pods)
    known.see_gone(*pods)
    known.see(*pods)
    assert known.gang().minimum == 1


def test_only_a_pod_group_of_the_kind_that_the_pods_mean_defines_them(
    known: RegistryHarness,
) -> None:
    known.see(*in_pod_group(2))
    assert known.define(a_pod_group("g", least=2), VolcanoPodGroup) == set()
    assert not known.gang().is_defined


#: The PodGroups in the order in which they come, and whose minimum counts.
SIGS, COMMUNITY = (SigsPodGroup, 2), (CommunityPodGroup, 7)
TWO_KINDS = {
    "the seed's first": [SIGS, COMMUNITY],
    "the seed's last": [COMMUNITY, SIGS],
}


@pytest.mark.parametrize("kinds", TWO_KINDS.values(), ids=TWO_KINDS.keys())
@pytest.mark.parametrize("pods_first", [True, False])
def test_of_two_kinds_with_one_name_the_order_of_kinds_decides_and_not_that_of_coming(
    kinds: list[tuple[type[AnyPodGroup], int]], pods_first: bool, known: RegistryHarness
) -> None:
    pods = gang("g", 1)
    if pods_first:
        known.see(*pods)
    for kind, least in kinds:
        known.define(a_pod_group("g", least=least), kind)
    known.see(*pods)
    assert known.gang().minimum == 2
    assert known.define(a_pod_group("g", least=8), CommunityPodGroup) == set()
    assert known.undefine("g", SigsPodGroup) == {"default/g"}
    assert known.gang().minimum == 8, "the other takes over"
    assert known.define(a_pod_group("g", least=2), SigsPodGroup) == {"default/g"}
    assert known.gang().minimum == 2
    assert known.undefine("g", CommunityPodGroup) == set()


def test_the_kind_changes_with_the_pods_that_name_it(known: RegistryHarness) -> None:
    known.define(a_pod_group("g", least=2), SigsPodGroup)
    known.define(a_pod_group("g", least=7), CommunityPodGroup)
    pod = a_pod("g-0")
    known.see(pod.in_pod_group("g", label="scheduling.x-k8s.io/pod-group"))
    assert known.gang().minimum == 7
    known.see(pod.in_pod_group("g"))
    assert known.gang().minimum == 2


def test_what_a_pod_group_says_that_changes_nothing_wakes_nobody(known: RegistryHarness) -> None:
    known.see(*in_pod_group(2))
    group = a_pod_group("g", least=2)
    assert known.define(group) == {"default/g"}
    assert known.define(group.with_status(phase="Scheduling", scheduled=1)) == set()
    assert known.define(a_pod_group("g", least=3)) == {"default/g"}


def test_problems_of_a_pod_group_last_as_long_as_they_are_there(known: RegistryHarness) -> None:
    known.see(*in_pod_group(1))
    wrong = {"gang.scheduling.koordinator.sh/mode": "loose"}
    known.define(a_pod_group("g", least=1).annotated(wrong))
    (problem,) = known.gang().problems
    assert "'loose' is none of Strict, NonStrict" in problem
    known.define(a_pod_group("g", least=1))
    assert known.gang().problems == []


# --- gang groups -----------------------------------------------------------------------------

TWO = '["default/a", "other/b"]'
THREE = '["default/a", "other/b", "third/c"]'


def test_a_gang_on_its_own_is_a_group(known: RegistryHarness) -> None:
    known.see(*gang("g", 1, 1))
    assert known.group("default/g") == (["default/g"], ())


def test_gangs_of_two_namespaces_that_name_each_other_are_a_group(known: RegistryHarness) -> None:
    known.see(member("a", TWO))
    assert known.group("default/a") == (["default/a"], ("other/b",))
    assert known.see(member("b", TWO, "other")) == {"default/a", "other/b"}
    assert known.group("default/a") == known.group("other/b") == (["default/a", "other/b"], ())


def test_a_gang_cannot_be_drawn_into_a_group_by_being_named(known: RegistryHarness) -> None:
    known.see(member("a", TWO), member("b", "[]", "other"))
    assert known.group("default/a") == (["default/a"], ("other/b",))
    assert known.group("other/b") == (["other/b"], ())


def test_a_third_joins_and_one_leaves(known: RegistryHarness) -> None:
    known.see(member("a", TWO), member("b", TWO, "other"), member("c", THREE, "third"))
    assert known.group("third/c") == (["third/c"], ("default/a", "other/b"))
    assert known.group("default/a") == (["default/a", "other/b"], ())
    everybody = {"default/a", "other/b", "third/c"}
    assert known.see(member("a", THREE)) == everybody
    assert known.group("default/a") == (sorted(everybody), ("other/b",)), "it does not name c"
    assert known.see(member("b", THREE, "other")) == everybody
    for name in everybody:
        assert known.group(name) == (sorted(everybody), ())
    assert known.see_gone(member("c", THREE, "third")) == everybody
    assert known.group("other/b") == (["default/a", "other/b"], ("third/c",))
    known.see(member("a", TWO), member("b", TWO, "other"))
    assert known.group("other/b") == (["default/a", "other/b"], ())


def test_a_chain_is_a_group(known: RegistryHarness) -> None:
    known.see(
        member("a", '["default/b"]'),
        member("b", '["default/a", "default/c"]'),
        member("c", '["default/b"]'),
    )
    chain = ["default/a", "default/b", "default/c"]
    assert known.group("default/a") == known.group("default/c") == (chain, ())


def test_groups_may_be_named_by_pod_groups(known: RegistryHarness) -> None:
    notes = {"gang.scheduling.koordinator.sh/gang-groups": TWO}
    known.see(a_pod("a-0").in_pod_group("a"), member("b", TWO, "other"))
    assert known.define(a_pod_group("a", least=1).annotated(notes)) == {"default/a", "other/b"}
    assert known.group("other/b") == (["default/a", "other/b"], ())
    assert known.undefine("a") == {"default/a", "other/b"}
    assert known.group("other/b") == (["other/b"], ("default/a",))


def test_a_group_is_satisfied_when_all_of_its_gangs_are(known: RegistryHarness) -> None:
    a, b = member("a", TWO), member("b", TWO, "other")
    known.see(a, b)
    for pod in (a, b):
        known.registry.mark_binding([uid_of(pod)])
    assert known.bound(a) == set()
    assert known.bound(b) == {"default/a", "other/b"}
    assert known.gang("default/a").satisfied
    assert known.registry.group_of(known.gang("other/b")).schedules_individually


def test_a_gang_whose_last_member_with_a_node_leaves_it_must_be_placed_as_a_whole_again(
    known: RegistryHarness,
) -> None:
    done, *others = gang("g", 3, 2)
    known.see(done.on("n").in_phase("Succeeded"), *(pod.on("n") for pod in others))
    assert known.gang().satisfied
    known.see(a_pod("g-1").in_gang("h", 1).on("n"))
    assert known.gang().satisfied, "one of it still has its node"
    known.see(a_pod("g-2").in_gang("h", 1).on("n"))
    assert not known.gang().satisfied
