"""What an attempt may spend: counted always, and an end only where it may be left."""

from __future__ import annotations

import pytest

from arranger.cluster.attempt_work import AttemptWork, UnfinishedError


def test_what_is_done_without_interruption_counts_afterwards() -> None:
    work = AttemptWork()
    with work.at_most(100):
        with work.uninterrupted():
            work.count(150)
            work.check()
            assert not work.is_spent
        assert work.is_spent
        with pytest.raises(UnfinishedError):
            work.check()


def test_so_does_what_one_part_of_it_does_without_interruption() -> None:
    work = AttemptWork()
    with work.at_most(100):
        with work.uninterrupted():
            with work.uninterrupted():
                work.count(60)
            work.count(50)
        assert work.is_spent


def test_what_is_without_limit_is_not_counted() -> None:
    work = AttemptWork()
    with work.at_most(100):
        with work.unlimited():
            work.count(150)
        assert not work.is_spent


def test_without_limit_nothing_is_spent_by_it() -> None:
    work = AttemptWork()
    with work.uninterrupted():
        work.count(150)
    assert not work.is_spent
    assert not work.is_limited
