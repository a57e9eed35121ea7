from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from arranger.framework.runtime.profile import Profile
from arranger.plugins import default_profile
from tests.unit.engine.harness import EngineHarness

MakeHarness = Callable[..., EngineHarness]


@pytest.fixture
def make_harness() -> Iterator[MakeHarness]:
    """Makes cores of the given profiles; checks them when the test has ended.

    What raises by mistake is set aside, and most tests would not notice.
    """
    made: list[EngineHarness] = []

    def make(*profiles: Profile) -> EngineHarness:
        made.append(EngineHarness(*profiles))
        return made[-1]

    yield make
    for harness in made:
        harness.engine.check_consistent()
        set_aside = harness.engine.barrier.quarantine.count()
        assert harness.expects_faults or not set_aside, f"set aside without a reason: {set_aside}"


@pytest.fixture
def harness(make_harness: MakeHarness) -> EngineHarness:
    """A core with the default plugins."""
    return make_harness(default_profile())
