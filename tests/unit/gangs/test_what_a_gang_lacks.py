"""Who brings a gang nearer to its minimum, counting those that would be placed besides."""

from __future__ import annotations

import pytest

from arranger.gangs.member_state import MemberState
from tests.builders import a_pod
from tests.unit.gangs.harness import RegistryHarness, gang, uid_of
from tests.unit.gangs.test_surplus import PS, WORKER, run

#: (least, minimums of roles, running of (ps, worker), placed besides) → what is lacking, in all,
#: and which of (ps, worker) brings it nearer.
LACKS: dict[
    str,
    tuple[
        tuple[int, dict[str, int], tuple[int, int], dict[str, int]],
        dict[str | None, int],
        int,
        tuple[bool, bool],
    ],
] = {
    "nobody": ((2, {}, (1, 1), {}), {}, 0, (False, False)),
    "anybody": ((4, {}, (1, 1), {}), {None: 2}, 2, (True, True)),
    "nobody with those that are placed besides": (
        (4, {}, (1, 1), {PS: 1, WORKER: 1}),
        {},
        0,
        (False, False),
    ),
    "one more than those": ((4, {}, (1, 1), {PS: 1}), {None: 1}, 1, (True, True)),
    "one of a role alone": ((2, {PS: 2}, (1, 1), {}), {PS: 1}, 1, (True, False)),
    "one of a role, and others, too": (
        (4, {PS: 2}, (1, 1), {}),
        {PS: 1, None: 2},
        2,
        (True, False),
    ),
    "others once the role has its own": ((4, {PS: 2}, (1, 1), {PS: 1}), {None: 1}, 1, (True, True)),
    "one of each role": (
        (2, {PS: 2, WORKER: 2}, (1, 1), {}),
        {PS: 1, WORKER: 1},
        2,
        (True, True),
    ),
    "of two roles the one that lacks": (
        (4, {PS: 2, WORKER: 2}, (1, 1), {WORKER: 1}),
        {PS: 1, None: 1},
        1,
        (True, False),
    ),
    "nobody of roles that have more": ((2, {PS: 1}, (2, 1), {}), {}, 0, (False, False)),
}


@pytest.mark.parametrize(("given", "missing", "in_all", "nearer"), LACKS.values(), ids=LACKS.keys())
def test_a_gang_lacks(
    given: tuple[int, dict[str, int], tuple[int, int], dict[str, int]],
    missing: dict[str | None, int],
    in_all: int,
    nearer: tuple[bool, bool],
    known: RegistryHarness,
) -> None:
    least, roles, (ps, worker), placed = given
    run(known, least, roles, ps=ps, worker=worker)
    found = known.gang()
    assert found.missing_members(placed) == missing
    assert found.shortfall(placed) == in_all
    assert (found.advances_minimum(PS, placed), found.advances_minimum(WORKER, placed)) == nearer


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        (MemberState.PENDING, False),
        (MemberState.BINDING, True),
        (MemberState.BOUND, True),
        (MemberState.TERMINATING, False),
        (MemberState.SUCCEEDED, True),
        (MemberState.FAILED, False),
    ],
    ids=lambda value: value.value if isinstance(value, MemberState) else str(value),
)
def test_who_counts_towards_the_minimum_and_would_be_missed(
    state: MemberState, counts: bool, known: RegistryHarness
) -> None:
    one, two, three = gang("g", 3, 2)
    known.see(one, two.on("n"), three)
    match state:
        case MemberState.BINDING:
            known.registry.mark_binding([uid_of(one)])
        case MemberState.BOUND:
            known.bound(one)
        case MemberState.TERMINATING:
            known.see(one.on("n").deleting())
        case MemberState.SUCCEEDED | MemberState.FAILED:
            known.see(one.in_phase(state.value.capitalize()))
        case _:
            pass
    found = known.gang()
    assert found.count(state) == 1 + (state in (MemberState.PENDING, MemberState.BOUND))
    assert found.counts_towards_minimum(uid_of(one)) is counts
    assert found.missing_members({}) == ({} if counts else {None: 1})
    # Three have nodes if the third has one, of whom the gang can do without one, or none.
    known.bound(three)
    assert found.breaks_if_evicted({"": 1}) is not counts


def test_a_gang_that_has_just_begun_has_been_told_nothing_and_tried_never(
    known: RegistryHarness,
) -> None:
    known.see(a_pod("p").in_gang("g", 1))
    found = known.gang()
    assert (found.scheduling_cycle, found.problems, found.told) == (0, [], ("", ""))


def test_an_eviction_that_fails_counts_again_however_often(known: RegistryHarness) -> None:
    one, two = gang("g", 2, 2)
    known.see(one.on("n"), two.on("n"))
    for _ in range(2):
        known.registry.mark_evicting(uid_of(one))
        assert known.gang().missing_members({}) == {None: 1}
        assert known.gang().is_terminating(uid_of(one))
        known.registry.mark_eviction_failed(uid_of(one))
        assert known.gang().missing_members({}) == {}
        assert not known.gang().is_terminating(uid_of(one))
        known.registry.check_consistent()
