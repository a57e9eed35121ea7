"""All bugs that are put back, one at a time, to see whether the tests notice."""

from __future__ import annotations

from typing import Final

from tests.seeded_bugs import groups_and_books, hostile_objects, others, outcomes, peers, plans
from tests.seeded_bugs.bug import SeededBug

ALL: Final[tuple[SeededBug, ...]] = (
    *peers.BUGS,
    *hostile_objects.BUGS,
    *outcomes.BUGS,
    *groups_and_books.BUGS,
    *plans.BUGS,
    *others.BUGS,
)
