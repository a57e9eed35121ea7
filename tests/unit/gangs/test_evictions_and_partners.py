"""Who hears of an eviction, of partners that come late, and when a gang is planned to start."""

from __future__ import annotations

import time

import pytest

from arranger.api.types.core import ObjectMeta
from arranger.api.types.pod_groups import PodGroupSpec, WorkloadGroup
from arranger.gangs.gang_object import is_defined_by_pods
from arranger.gangs.planned_start import PlannedStart
from tests.builders import PodBuilder, a_pod, a_pod_group
from tests.unit.gangs.harness import RegistryHarness, gang, uid_of

TOGETHER = "waiting-and-running"


def test_who_waits_hears_of_an_eviction_that_makes_it_wait_for_others(
    known: RegistryHarness,
) -> None:
    one, two, three = gang("g", 3, 2, match_policy=TOGETHER)
    known.see(one.on("n"), two.on("n"), three)
    assert known.registry.mark_evicting(uid_of(one)) == {"default/g"}
    assert known.registry.mark_eviction_failed(uid_of(one)) == {"default/g"}
    assert known.registry.mark_evicting("uid-of-nobody") == set()
    assert known.registry.mark_eviction_failed("uid-of-nobody") == set()


def test_a_gang_that_never_had_its_minimum_has_not_after_an_eviction_that_failed(
    known: RegistryHarness,
) -> None:
    one, two, three = gang("g", 3, 3)
    known.see(one.on("n"), two, three)
    known.registry.mark_evicting(uid_of(one))
    known.registry.mark_eviction_failed(uid_of(one))
    assert not known.gang().satisfied


def test_who_is_being_deleted_by_others_leaves_though_our_eviction_failed(
    known: RegistryHarness,
) -> None:
    one, two = gang("g", 2, 2)
    known.see(one.on("n"), two.on("n"))
    known.registry.mark_evicting(uid_of(one))
    known.see(one.on("n").deleting())
    known.registry.mark_eviction_failed(uid_of(one))
    assert known.gang().is_terminating(uid_of(one))


def test_who_is_evicted_is_so_in_another_gang_and_forgotten_when_gone(
    known: RegistryHarness,
) -> None:
    one, two = gang("g", 2, 1)
    known.see(one.on("n"), two.on("n"))
    known.registry.mark_evicting(uid_of(one))
    known.see(one.in_gang("h", 1).on("n"))
    assert known.gang("default/h").is_terminating(uid_of(one))
    known.see_gone(one)
    known.see(one.on("n"))
    assert not known.gang().is_terminating(uid_of(one))


def naming(name: str, *others: str) -> PodBuilder:
    pod = a_pod(f"{name}-0").in_gang(name, 1)
    groups = ",".join(f'"default/{other}"' for other in (name, *others))
    return pod.annotated({"gang.scheduling.koordinator.sh/groups": f"[{groups}]"})


def test_all_of_a_chain_hear_of_a_link_that_comes_last(known: RegistryHarness) -> None:
    known.see(naming("a", "b"), naming("b", "a", "c"))
    assert known.group("default/a") == (["default/a", "default/b"], ("default/c",))
    assert known.registry.group_of(known.gang("default/a")).lacks_members({})
    known.see(naming("c", "b"))
    whole = ["default/a", "default/b", "default/c"]
    assert [known.group(name) for name in whole] == [(whole, ())] * 3


def test_a_group_lacks_members_while_a_partner_is_missing(known: RegistryHarness) -> None:
    known.see(naming("a", "b").on("n"))
    group = known.registry.group_of(known.gang("default/a"))
    assert group.missing_partners == ("default/b",)
    assert group.lacks_members({})
    known.see(naming("b", "a").on("n"))
    assert not known.registry.group_of(known.gang("default/a")).lacks_members({})


def test_what_an_owner_says_is_found_by_the_name_of_the_gang(known: RegistryHarness) -> None:
    said = WorkloadGroup(ObjectMeta("g", "default"), PodGroupSpec(min_member=2))
    known.registry.on_pod_group_updated(said)
    known.define(a_pod_group("h", least=2))
    assert known.registry.workload_group("default/g") is said
    assert known.registry.workload_group("default/h") is None
    assert known.registry.workload_group("default/i") is None


@pytest.mark.parametrize("defined", [True, False])
def test_pods_alone_define_a_gang_that_has_no_pod_group(
    known: RegistryHarness, defined: bool
) -> None:
    known.see(*gang("g", 2, 2))
    if defined:
        known.define(a_pod_group("g", least=2))
    assert is_defined_by_pods(known.gang()) is not defined


DAY = 86_400.0

STARTS: dict[str, tuple[PlannedStart, float, str]] = {
    "by known ends": (PlannedStart(3600.0, known=True), 0.0, "starts by 01:00 UTC (known ends)"),
    "as is estimated": (
        PlannedStart(3600.0, known=False),
        0.0,
        "starts about 01:00 UTC (estimate)",
    ),
    "to the next full minute": (
        PlannedStart(3600.1, known=True),
        0.0,
        "starts by 01:01 UTC (known ends)",
    ),
    "in a little less than a day": (
        PlannedStart(DAY - 60, known=True),
        0.0,
        "starts by 23:59 UTC (known ends)",
    ),
    "in a day": (PlannedStart(DAY, known=True), 0.0, "starts by 1970-01-02 00:00 UTC (known ends)"),
    "soon, on a later day": (
        PlannedStart(2 * DAY, known=True),
        1.5 * DAY,
        "starts by 00:00 UTC (known ends)",
    ),
    "after something": (
        PlannedStart(0.0, known=True, waits_for="pod default/p"),
        0.0,
        "starts by 00:00 UTC (known ends), after pod default/p",
    ),
}


@pytest.mark.parametrize(("start", "now", "text"), STARTS.values(), ids=STARTS.keys())
def test_when_a_gang_starts_is_told_in_utc_wherever_we_run(
    start: PlannedStart, now: float, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert start.text(now) == text
    finally:
        monkeypatch.undo()
        time.tzset()
    assert start.basis == ("KnownEnds" if start.known else "Estimate")
