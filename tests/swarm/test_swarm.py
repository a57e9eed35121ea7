"""Worlds of the swarm: plain data, equal whenever they are played, and nothing wrong in them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.paths import REPO
from tests.swarm.play import be_quiet, play
from tests.swarm.world import dump, load
from tests.swarm.worlds.generate import generate

#: Small worlds in which much is entered.
SEEDS = (0, 9)
#: One with many features, and faults of several kinds.
EVENTFUL = 6
_SHOW = f"""
from tests.swarm.worlds.generate import generate, only
from tests.swarm.play import be_quiet, play
be_quiet()
for weights in (None, {{"restores": 1.0}}, only("duels", "harm")):
    print(*play(generate({EVENTFUL}, weights=weights)).trace, sep="\\n")
"""


@pytest.mark.parametrize("seed", range(5))
def test_a_world_is_the_same_after_it_was_written_and_read(seed: int) -> None:
    world = generate(seed)
    assert load(dump(world)) == world
    assert dump(load(dump(world))) == dump(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_violated(seed: int) -> None:
    be_quiet()
    assert not [str(each) for each in play(generate(seed)).violations]


def test_a_world_has_the_same_trace_in_another_process_with_other_hashes() -> None:
    traces = [_trace(hash_seed) for hash_seed in ("1", "2")]
    assert "ADDED /pods" in traces[0]
    assert traces[0] == traces[1]


def _trace(hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _SHOW],
        cwd=REPO,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(REPO)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout
