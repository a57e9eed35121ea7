"""Thousands of Reservations: nothing is read again where only nodes are others."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.effects import DeletePod
from arranger.engine.reservations import book, evictions
from arranger.engine.reservations.evictions import ReservationEvictions
from tests.builders import a_node
from tests.unit.engine.harness import of_kind
from tests.unit.engine.reservations.test_evictions import a_world, evicting, running, show
from tests.unit.engine.reservations.test_reservations import reserved


def test_a_node_that_changes_has_no_reservation_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()
    original = book.read_entry

    def counting(name: str, *rest: Any) -> Any:
        read.append(name)
        return original(name, *rest)

    monkeypatch.setattr(book, "read_entry", counting)
    many = [reserved(f"r{n}", 100, 200, "n", made=n) for n in range(300)]
    harness = a_world(*many)
    read.clear()
    harness.observe(a_node("n").labelled(changed="yes"))
    harness.run()
    assert read == []
    assert len(harness.engine.reservations.problems) == 300 - book.MAX_RESERVATIONS
    show(harness, reserved("r0", 100, 200, "m"))
    harness.run()
    assert len(read) == book.MAX_RESERVATIONS


def test_the_nodes_are_those_that_there_are_now() -> None:
    harness = a_world(reserved("r", 0, 1000, "late"))
    harness.observe(a_node("late"))
    harness.run()
    harness.observe(a_node("other"))
    harness.run()
    table = harness.engine.cluster.table
    (entry,) = harness.engine.reservations._entries.values()
    assert [table.name(row) for row in entry.rows.nonzero()[0].tolist()] == ["late"]


def test_pods_that_must_all_leave_at_one_moment_are_told_so_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = list[int]()
    looked = 0
    look, advance = ReservationEvictions._look, ReservationEvictions.advance

    def counting(self: ReservationEvictions, uid: str) -> int:
        nonlocal looked
        looked += 1
        return look(self, uid)

    def in_steps(self: ReservationEvictions, now: float) -> None:
        nonlocal looked
        looked = 0
        advance(self, now)
        most.append(looked)

    monkeypatch.setattr(evictions, "_UNITS_IN_A_STEP", 300)
    monkeypatch.setattr(ReservationEvictions, "_look", counting)
    monkeypatch.setattr(ReservationEvictions, "advance", in_steps)
    harness = a_world(evicting("r", 100, 200), *(running(f"p{n}") for n in range(60)))
    evicted = set[str]()
    for now in (1.0, 100.0):
        harness.now = now
        for _ in range(50):
            effects = harness.engine.run(now)
            evicted |= {delete.pod.name for delete in of_kind(DeletePod, effects)}
    assert len(evicted) == 60
    assert max(most) <= 300 // evictions._LOOKING
