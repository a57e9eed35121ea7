"""What the swarm has found, cut down to what it took: nothing is wrong in these worlds any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.swarm.play import be_quiet, play
from tests.swarm.world import load

CASES = sorted((Path(__file__).parent / "found").glob("*.yaml"))


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_what_was_wrong_in_a_world_is_mended(case: Path) -> None:
    be_quiet()
    outcome = play(load(case.read_text(encoding="utf-8")))
    assert not [str(each) for each in outcome.violations]
