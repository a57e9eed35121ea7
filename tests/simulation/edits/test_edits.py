"""Every field and annotation that a user may edit takes effect, is refused, or has no meaning.

The table goes through all of them (:mod:`tests.simulation.edits.fields`), so that none is
forgotten; each story is played with the edit and without it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.edits import (
    cluster,
    gangs,
    pods,
    queues,
    reservations,
    tyjobs,
    volcano_jobs,
    workloads,
)
from tests.simulation.edits.edit import NoMeaning, Outcome, Refused, TakesEffect
from tests.simulation.edits.fields import every_field
from tests.simulation.harnesses.simulation import VIRTUAL_TIME

TABLES = (cluster, gangs, pods, queues, reservations, tyjobs, volcano_jobs, workloads)
ROWS = {row: edits for table in TABLES for row, edits in table.ROWS.items()}


def _outcomes() -> Iterator[tuple[str, Outcome]]:
    for (kind, name), edits in sorted(ROWS.items()):
        if edits.waiting is edits.running:
            yield f"{kind} {name}", edits.waiting
        else:
            yield f"{kind} {name}, waiting", edits.waiting
            yield f"{kind} {name}, running", edits.running


OUTCOMES = dict(_outcomes())


def outcomes_of(kind: type[Outcome]) -> list[object]:
    """Those of a kind, as parameters by name."""
    named = OUTCOMES.items()
    return [pytest.param(each, id=name) for name, each in named if isinstance(each, kind)]


def test_the_table_has_every_field_and_no_other() -> None:
    assert ROWS.keys() == every_field()


@VIRTUAL_TIME
@pytest.mark.parametrize("edit", outcomes_of(TakesEffect))
async def test_the_edit_takes_effect(edit: TakesEffect) -> None:
    assert edit.without != edit.seen
    assert await edit.observe(edited=False) == edit.without
    assert await edit.observe(edited=True) == edit.seen


@pytest.mark.parametrize("edit", outcomes_of(Refused))
def test_the_edit_is_refused(edit: Refused) -> None:
    code, message = edit.answer()
    assert (code, message != "") == (422, True)


def test_what_has_no_meaning_says_why() -> None:
    assert all(each.why for each in OUTCOMES.values() if isinstance(each, NoMeaning))
