"""Gangs and gang groups, as pods and PodGroups come, change and go."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from arranger.api.gang_membership import gang_membership
from arranger.api.types.core import ObjectMeta
from arranger.api.types.pod_groups import (
    AnyPodGroup,
    CommunityPodGroup,
    GangObject,
    SigsPodGroup,
    VolcanoPodGroup,
)
from arranger.gangs.gang import Gang, MemberState
from arranger.gangs.registry import GangRegistry
from tests.builders import PodBuilder, PodGroupBuilder, a_pod, a_pod_group

MARK = {"timeout": "true"}


class Known:
    """A registry that is checked after everything it hears."""

    def __init__(self) -> None:
        self.registry = GangRegistry()

    def see(self, *pods: PodBuilder) -> set[str]:
        return self._all(
            self.registry.on_pod_updated(pod.build(), gang_membership(pod.build())) for pod in pods
        )

    def see_gone(self, *pods: PodBuilder) -> set[str]:
        return self._all(self.registry.on_pod_deleted(uid_of(pod)) for pod in pods)

    def define(self, group: PodGroupBuilder, kind: type[AnyPodGroup] = SigsPodGroup) -> set[str]:
        return self._all([self.registry.on_pod_group_updated(group.build(kind))])

    def undefine(self, name: str, kind: type[AnyPodGroup] = SigsPodGroup) -> set[str]:
        return self._all([self.registry.on_pod_group_deleted(kind, f"default/{name}")])

    def bound(self, *pods: PodBuilder) -> set[str]:
        return self._all(self.registry.mark_bound(uid_of(pod)) for pod in pods)

    def recall(self, name: str) -> set[str]:
        return self._all([self.registry.mark_previously_satisfied(name)])

    def gang(self, name: str = "default/g") -> Gang:
        return self.registry.gangs[name]

    def group(self, name: str) -> tuple[list[str], tuple[str, ...]]:
        """Who is in the group of a gang, and who does not answer."""
        group = self.registry.group_of(self.gang(name))
        return [gang.name for gang in group.gangs], group.missing_partners

    def _all(self, answers: object) -> set[str]:
        changed: set[str] = set()
        for names in answers:  # type: ignore[attr-defined]
            self.registry.check_consistent()
            changed |= names
        return changed


@pytest.fixture
def known() -> Known:
    return Known()


def uid_of(pod: PodBuilder) -> str:
    return str(pod.manifest()["metadata"]["uid"])


def gang(name: str, size: int, least: int | None = None, **more: str) -> list[PodBuilder]:
    return [a_pod(f"{name}-{n}").in_gang(name, least, **more) for n in range(size)]


def member(name: str, groups: str, namespace: str = "default") -> PodBuilder:
    """The only pod of a gang that names others."""
    return a_pod(f"{name}-0").in_gang(name, 1, groups=groups).in_namespace(namespace)


def in_pod_group(size: int, label: str = "pod-group.scheduling.sigs.k8s.io") -> list[PodBuilder]:
    return [a_pod(f"g-{n}").in_pod_group("g", label=label) for n in range(size)]


# --- gangs and their settings ----------------------------------------------------------------


def test_a_gang_begins_with_its_first_pod_and_ends_with_its_last(known: Known) -> None:
    one, two = gang("g", 2, 2)
    assert known.see(one) == {"default/g"}
    assert known.see(two) == set(), "it says nothing new"
    assert known.registry.gang_of(uid_of(two)) is known.gang()
    assert known.see_gone(one) == set()
    assert known.see_gone(two) == {"default/g"}
    assert known.registry.gangs == {}


def test_a_pod_that_is_unknown_is_gone_already(known: Known) -> None:
    assert known.see_gone(a_pod()) == known.bound(a_pod()) == set()


def test_a_pod_may_leave_its_gang_for_another_and_for_none(known: Known) -> None:
    pods = gang("g", 2, 2)
    known.see(*pods)
    assert known.see(a_pod("g-0").in_gang("h", 1)) == {"default/g", "default/h"}
    assert len(known.gang().memberships) == len(known.gang("default/h").memberships) == 1
    assert known.see(a_pod("g-0")) == {"default/h"}
    assert known.registry.gangs.keys() == {"default/g"}


def test_both_gangs_hear_of_a_member_that_moves_without_changing_their_settings(
    known: Known,
) -> None:
    known.see(*gang("g", 2, 2), *gang("h", 2, 2))
    assert known.see(a_pod("g-0").in_gang("h", 2)) == {"default/g", "default/h"}


def test_the_newest_edit_speaks_for_the_gang(known: Known) -> None:
    one, two = gang("g", 2, 2)
    known.see(one, two)
    assert known.see(one.in_gang("g", 5)) == {"default/g"}
    assert known.gang().minimum == 5
    known.see_gone(one)
    assert known.gang().minimum == 2, "who is gone says nothing any more"


def test_a_gang_is_as_old_as_its_oldest_part(known: Known) -> None:
    young, old = in_pod_group(2)
    known.see(young.created("2026-01-01T00:01:00Z"))
    assert known.gang().created_at == 1767225660.0
    known.see(old.created("2026-01-01T00:00:30Z"))
    known.define(a_pod_group("g", least=2).created("2026-01-01T00:00:00Z"))
    assert known.gang().created_at == 1767225600.0


def test_members_counted_by_standing_and_bundle(known: Known) -> None:
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


def test_a_binding_is_believed_before_the_watch_shows_it_and_against_older_news(
    known: Known,
) -> None:
    one, two = gang("g", 2, 2)
    known.see(one, two)
    known.registry.set_binding(uid_of(one))
    known.bound(one)
    known.see(one.labelled(older="news"))
    assert known.gang().missing_members({}) == {None: 1}
    known.registry.set_binding(uid_of(two))
    known.see(two.labelled(older="news"))
    assert known.gang().missing_members({}) == {}
    known.registry.set_binding(uid_of(two), MemberState.PENDING)
    assert known.gang().missing_members({}) == {None: 1}


# --- definitions -----------------------------------------------------------------------------

ORDERS: dict[str, Callable[[Known], object]] = {
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
def test_a_pod_group_comes(happen: Callable[[Known], object], known: Known) -> None:
    happen(known)
    assert known.gang().minimum == 2
    assert known.undefine("g") == {"default/g"}
    assert not known.gang().is_defined


def test_a_pod_group_outlives_its_pods_and_defines_the_next(known: Known) -> None:
    pods = in_pod_group(1)
    known.define(a_pod_group("g", least=1))
    known.see(*pods)
    known.see_gone(*pods)
    known.see(*pods)
    assert known.gang().minimum == 1


def test_only_a_pod_group_of_the_kind_that_the_pods_mean_defines_them(known: Known) -> None:
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
    kinds: list[tuple[type[AnyPodGroup], int]], pods_first: bool, known: Known
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


def test_the_kind_changes_with_the_pods_that_name_it(known: Known) -> None:
    known.define(a_pod_group("g", least=2), SigsPodGroup)
    known.define(a_pod_group("g", least=7), CommunityPodGroup)
    pod = a_pod("g-0")
    known.see(pod.in_pod_group("g", label="scheduling.x-k8s.io/pod-group"))
    assert known.gang().minimum == 7
    known.see(pod.in_pod_group("g"))
    assert known.gang().minimum == 2


def test_what_a_pod_group_says_that_changes_nothing_wakes_nobody(known: Known) -> None:
    known.see(*in_pod_group(2))
    group = a_pod_group("g", least=2)
    assert known.define(group) == {"default/g"}
    assert known.define(group.with_status(phase="Scheduling", scheduled=1)) == set()
    assert known.define(a_pod_group("g", least=3)) == {"default/g"}


def test_problems_of_a_pod_group_last_as_long_as_they_are_there(known: Known) -> None:
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


def test_a_gang_on_its_own_is_a_group(known: Known) -> None:
    known.see(*gang("g", 1, 1))
    assert known.group("default/g") == (["default/g"], ())


def test_gangs_of_two_namespaces_that_name_each_other_are_a_group(known: Known) -> None:
    known.see(member("a", TWO))
    assert known.group("default/a") == (["default/a"], ("other/b",))
    assert known.see(member("b", TWO, "other")) == {"default/a", "other/b"}
    assert known.group("default/a") == known.group("other/b") == (["default/a", "other/b"], ())


def test_a_gang_cannot_be_drawn_into_a_group_by_being_named(known: Known) -> None:
    known.see(member("a", TWO), member("b", "[]", "other"))
    assert known.group("default/a") == (["default/a"], ("other/b",))
    assert known.group("other/b") == (["other/b"], ())


def test_a_third_joins_and_one_leaves(known: Known) -> None:
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


def test_a_chain_is_a_group(known: Known) -> None:
    known.see(
        member("a", '["default/b"]'),
        member("b", '["default/a", "default/c"]'),
        member("c", '["default/b"]'),
    )
    chain = ["default/a", "default/b", "default/c"]
    assert known.group("default/a") == known.group("default/c") == (chain, ())


def test_groups_may_be_named_by_pod_groups(known: Known) -> None:
    notes = {"gang.scheduling.koordinator.sh/gang-groups": TWO}
    known.see(a_pod("a-0").in_pod_group("a"), member("b", TWO, "other"))
    assert known.define(a_pod_group("a", least=1).annotated(notes)) == {"default/a", "other/b"}
    assert known.group("other/b") == (["default/a", "other/b"], ())
    assert known.undefine("a") == {"default/a", "other/b"}
    assert known.group("other/b") == (["other/b"], ("default/a",))


def test_a_group_is_satisfied_when_all_of_its_gangs_are(known: Known) -> None:
    a, b = member("a", TWO), member("b", TWO, "other")
    known.see(a, b)
    for pod in (a, b):
        known.registry.set_binding(uid_of(pod))
    assert known.bound(a) == set()
    assert known.bound(b) == {"default/a", "other/b"}
    assert known.gang("default/a").satisfied
    assert known.registry.group_of(known.gang("other/b")).schedules_individually


# --- those that wait for others --------------------------------------------------------------


def test_a_member_seen_on_a_node_may_be_the_one_the_others_waited_for(known: Known) -> None:
    one, two, three = gang("g", 3, 3)
    known.see(one)
    assert known.see(two.on("n")) == set(), "too early"
    assert known.see(three.on("n")) == {"default/g"}


def test_the_partners_hear_of_it_too(known: Known) -> None:
    known.see(member("a", TWO))
    assert known.see(member("b", TWO, "other").on("n")) == {"default/a", "other/b"}


def test_and_when_it_was_bound_as_one_of_a_gang_that_had_run_before(known: Known) -> None:
    a, again = (a_pod(f"a-{n}").in_gang("a", 1, groups=TWO) for n in range(2))
    b, new = (a_pod(f"b-{n}").in_gang("b", 1, groups=TWO).in_namespace("other") for n in range(2))
    known.see(a.on("n"), b.on("n"))
    known.see_gone(a, b)
    known.see(a.on("n"), b.on("n"), again)
    known.see_gone(a, b)
    known.see(new)
    assert known.bound(again) == {"default/a", "other/b"}


def test_and_of_one_that_is_lost(known: Known) -> None:
    one, two, three = gang("g", 3, 3)
    known.see(one, two.on("n"), three)
    assert known.see(two.on("n").in_phase("Failed")) == {"default/g"}
    known.see(two.on("n"))
    assert known.see_gone(two) == {"default/g"}


def test_nobody_hears_of_members_of_a_gang_that_has_run(known: Known) -> None:
    pods = gang("g", 3, 2)
    known.see(*pods)
    known.see(*(pod.on("n") for pod in pods[:2]))
    assert known.gang().satisfied
    assert known.see(pods[2].on("n")) == known.see_gone(pods[1]) == set()


def test_with_waiting_and_running_losses_make_the_members_wait_for_each_other_again(
    known: Known,
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


def blocked(known: Known) -> list[PodBuilder]:
    pods = gang("g", 2, 2)
    known.see(*pods)
    known.gang().blocked = True
    marked = [pod.in_gang("g", 2, **MARK) for pod in pods]
    assert known.see(*marked) == set()
    return marked


def test_the_owner_takes_the_mark_off_one_pod(known: Known) -> None:
    blocked(known)
    assert known.see(gang("g", 1, 2)[0]) == {"default/g"}
    assert not known.gang().blocked


def test_the_owner_edits_the_pod_group(known: Known) -> None:
    known.see(*in_pod_group(2))
    known.define(a_pod_group("g", least=2))
    known.gang().blocked = True
    assert known.define(a_pod_group("g", least=2).with_status(phase="Pending")) == set()
    assert known.gang().blocked
    assert known.define(a_pod_group("g", least=2, queue="other")) == {"default/g"}
    assert not known.gang().blocked


def test_the_owner_deletes_the_pods_that_carry_the_mark(known: Known) -> None:
    one, two = blocked(known)
    known.see(a_pod("g-2").in_gang("g", 2))
    assert known.see_gone(one) == set()
    assert known.gang().blocked
    assert known.see_gone(two) == {"default/g"}
    assert not known.gang().blocked


def test_after_a_restart_the_marks_say_that_it_ran_out_of_time(known: Known) -> None:
    known.see(*gang("g", 2, 2, **MARK))
    assert known.gang().blocked


def test_marks_left_on_a_gang_that_runs_do_not_block_it(known: Known) -> None:
    one, two = gang("g", 2, 1)
    known.see(one.on("n"), two.in_gang("g", 1, **MARK))
    assert not known.gang().blocked


# --- what an earlier life has seen -----------------------------------------------------------


def test_a_recalled_gang_is_believed_once_a_member_has_a_node(known: Known) -> None:
    pods = gang("g", 3, 3)
    known.recall("default/g")
    assert known.see(pods[0]) == {"default/g"}
    assert not known.gang().satisfied
    known.see(pods[1].on("n"))
    assert known.gang().satisfied


def test_the_word_may_come_after_the_pods(known: Known) -> None:
    one, two = gang("g", 2, 2)
    known.see(one, two.on("n"))
    assert known.recall("default/g") == {"default/g"}
    assert known.gang().satisfied


def test_the_partners_of_a_recalled_gang_hear_of_it(known: Known) -> None:
    a, b = member("a", TWO), member("b", TWO, "other")
    known.see(a.in_gang("a", 2, groups=TWO).on("n"), b.on("n"))
    known.recall("default/a")
    assert known.recall("other/b") == {"default/a", "other/b"}
    assert known.registry.group_of(known.gang("default/a")).schedules_individually


def test_another_gang_of_the_name_starts_anew(known: Known) -> None:
    pods = gang("g", 2, 2)
    known.see(*pods)
    known.recall("default/g")
    known.see_gone(*pods)
    known.see(pods[0].on("n"), pods[1])
    assert not known.gang().satisfied


def test_a_pod_group_that_goes_without_pods_takes_the_word_with_it(known: Known) -> None:
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


def minima(known: Known) -> dict[str, int]:
    return dict(known.gang("default/job").bundle_minimums)


def test_a_bundle_is_asked_for_while_the_gang_has_pods_of_any(known: Known) -> None:
    known.see(role("ps", 1), role("worker", 2))
    assert known.see_gone(role("ps", 1)) == set()
    assert minima(known) == {"ps": 1, "worker": 2}
    known.see_gone(role("worker", 2))
    known.see(role("worker", 2))
    assert minima(known) == {"worker": 2}


def test_the_next_pod_of_the_bundle_may_ask_for_more(known: Known) -> None:
    known.see(role("ps", 1), role("worker", 2))
    known.see_gone(role("ps", 1))
    known.see(role("ps", 3, 1))
    assert minima(known) == {"ps": 3, "worker": 2}
    known.see_gone(role("ps", 3, 1))
    assert minima(known) == {"ps": 3, "worker": 2}


def test_a_bundle_that_is_edited_away_is_not_asked_for(known: Known) -> None:
    known.see(role("ps", 1), role("worker", 2))
    known.see(role("ps", 1).in_bundle("job", "worker", 2))
    assert minima(known) == {"worker": 2}
    known.registry.restore_recorded_bundles(saved({"ps": 1, "worker": 2}))
    assert minima(known) == {"worker": 2}


def test_nor_is_one_whose_pods_move_to_another_gang(known: Known) -> None:
    known.see(role("ps", 1), role("worker", 2))
    known.see(role("ps", 1).in_bundle("other", "ps", 1))
    assert minima(known) == {"worker": 2}


def test_after_a_restart_the_gang_object_tells_of_bundles_without_pods(known: Known) -> None:
    assert known.registry.restore_recorded_bundles(saved({"ps": 1, "worker": 2})) == set()
    assert known.see(role("worker", 3).created(minute(4))) == {"default/job"}
    assert minima(known) == {"ps": 1, "worker": 3}, "and pods tell better"


def test_the_object_may_be_read_after_the_pods(known: Known) -> None:
    known.see(role("worker", 2).created(minute(4)))
    assert known.registry.restore_recorded_bundles(saved({"ps": 1})) == {"default/job"}
    assert minima(known) == {"ps": 1, "worker": 2}


def test_an_object_left_over_from_another_gang_of_the_name_is_not_believed(known: Known) -> None:
    known.registry.restore_recorded_bundles(saved({"ps": 1}))
    known.see(role("worker", 2).created(minute(6)))
    assert minima(known) == {"worker": 2}


def test_what_a_pod_group_said_is_not_remembered(known: Known) -> None:
    known.registry.restore_recorded_bundles(saved({"ps": 1}, source="scheduling.volcano.sh"))
    known.see(role("worker", 2))
    assert minima(known) == {"worker": 2}


def test_a_bundle_without_a_name_may_be_the_minimum_over_all(known: Known) -> None:
    known.registry.restore_recorded_bundles(saved({"": 1}))
    known.see(role("worker", 2))
    assert minima(known) == {"worker": 2}


# --- the end ---------------------------------------------------------------------------------


def test_nothing_is_left(known: Known) -> None:
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
