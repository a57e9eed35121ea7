from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from arranger.framework.runtime.profile import Profile
from arranger.plugins import default_profile
from tests.unit.engine.harness import Core

MakeCore = Callable[..., Core]


@pytest.fixture
def make_core() -> Iterator[MakeCore]:
    """Makes cores of the given profiles; checks them when the test has ended."""
    made: list[Core] = []

    def make(*profiles: Profile) -> Core:
        made.append(Core(*profiles))
        return made[-1]

    yield make
    for core in made:
        core.engine.check_consistent()


@pytest.fixture
def core(make_core: MakeCore) -> Core:
    """A core with the default plugins."""
    return make_core(default_profile())
