"""Worlds as they are played, and as if members were placed again in each step of an attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from arranger.engine.gang.attempt import suspended_members
from arranger.framework.runtime import evaluation

T = TypeVar("T")


def played_twice(
    play: Callable[[int], T], seeds: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[T], list[T]]:
    """The worlds of so many seeds: as they are, and with all placed again in each step."""
    # Who is placed again may be evaluated again: only if that costs nothing the steps are equal.
    monkeypatch.setattr(evaluation, "_BEGINNING", 0)
    now = list(map(play, range(seeds)))
    monkeypatch.setattr(suspended_members, "must_be_placed_again", lambda members: True)
    monkeypatch.setattr(
        suspended_members.SuspendedMembers, "must_be_placed_again", lambda self: False
    )
    return now, list(map(play, range(seeds)))
