"""The log of changes that caches follow."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arranger.cluster import change_log
from arranger.cluster.change_log import ChangeLog


@given(limit=st.integers(2, 9), count=st.integers(0, 40), version=st.integers(-1, 40))
def test_a_reader_gets_all_it_missed_or_is_told_to_start_over(
    limit: int, count: int, version: int
) -> None:
    log: ChangeLog[int] = ChangeLog(limit)
    for number in range(count):
        log.append(number)
    assert log.version == count
    if version <= count:
        since = log.since(version)
        if version > count - limit // 2 and version >= 0:
            assert since is not None, "the younger half is kept"
        assert since is None or since == list(range(version, count))
    assert log.since(-1) is None, "whoever has seen nothing starts over"


@pytest.mark.parametrize("seed", range(300))
def test_of_changes_that_were_undone_only_those_hear_who_have_seen_some(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers keep a copy of a list; it must be equal after they have caught up."""
    rng = random.Random(seed)
    monkeypatch.setattr(change_log, "_MAX_STRETCHES", rng.choice((2, 4, 64)))
    log: ChangeLog[int] = ChangeLog(rng.choice((4, 16, 1000)))
    truth = [0] * 4
    readers = [(-1, list[int]()) for _ in range(4)]

    def change(place: int, value: int) -> None:
        truth[place] = value
        log.append(place)

    def read(number: int) -> None:
        version, copy = readers[number]
        missed = log.since(version)
        if missed is None:
            copy = list(truth)
        for place in missed or ():
            copy[place] = truth[place]
        assert copy == truth
        readers[number] = log.version, copy

    def undo_some(depth: int) -> None:
        version, before = log.version, list(truth)
        for _ in range(rng.randint(1, 4)):
            change(rng.randrange(4), rng.randint(1, 9))
            if rng.random() < 0.3:
                read(rng.randrange(3))  # the last reader never looks inside
            if depth and rng.random() < 0.2:
                undo_some(depth - 1)
        for place, value in enumerate(before):
            if truth[place] != value:
                change(place, value)
        log.forget_since(version)

    for _ in range(60):
        choice = rng.random()
        if choice < 0.4:
            undo_some(1)
        elif choice < 0.7:
            change(rng.randrange(4), rng.randint(1, 9))
        read(rng.randrange(4))
    for number in range(4):
        read(number)


def test_who_has_not_looked_meanwhile_hears_nothing_of_what_was_undone() -> None:
    log: ChangeLog[str] = ChangeLog(1000)
    log.append("a")
    seen = log.version
    for _ in range(10):
        log.append("b")
        log.append("b")
        log.forget_since(log.version - 2)
    log.append("c")
    assert log.since(seen) == ["c"]
    assert log.since(seen + 1) is None, "it has seen half of what was undone"
    assert log.since(seen + 2) == ["c"], "it has seen all of that"
