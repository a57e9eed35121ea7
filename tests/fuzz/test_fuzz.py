"""Fuzzing in its short form: the targets of ``make fuzz`` with inputs changed at random.

``ARRANGER_FUZZ=100000`` tries as many for each target.
"""

from __future__ import annotations

import os
import random
from typing import Final

import pytest

from tests.fuzz import found
from tests.fuzz.targets import TARGETS
from tests.fuzz.worlds import play_objects

RUNS: Final = int(os.environ.get("ARRANGER_FUZZ", "300"))
_PIECES: Final = (b"[", b"{", b'"', b"\\", b"9" * 30, b"\xff", b"\0", b"e", b"-", b",", b"\n")


def changed(data: bytes, rng: random.Random) -> bytes:
    """An input with a few changes."""
    for _ in range(rng.randrange(4)):
        at, length = rng.randrange(len(data) + 1), rng.randrange(8)
        piece = rng.choice((*_PIECES, b"", data[at : at + length], rng.randbytes(length)))
        data = data[:at] + piece * rng.choice((1, 1, 2, 50)) + data[at + length :]
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_comes_out_that_is_not_ours(name: str) -> None:
    target, rng = TARGETS[name], random.Random(name)
    for _ in range(max(1, RUNS // target.cost)):
        target.run(changed(rng.choice((*target.seeds, rng.randbytes(rng.randrange(500)))), rng))


@pytest.mark.parametrize(("name", "data"), found.INPUTS.values(), ids=found.INPUTS)
def test_what_was_found(name: str, data: bytes) -> None:
    TARGETS[name].run(data)


@pytest.mark.parametrize("objects", found.OBJECTS.values(), ids=found.OBJECTS)
def test_objects_that_were_found(objects: list[found.Shown]) -> None:
    play_objects(objects)
