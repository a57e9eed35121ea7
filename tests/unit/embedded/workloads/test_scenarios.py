"""Hollow controllers do in every scenario what kube-controller-manager did."""

from __future__ import annotations

import pytest

from tests.workload_scenarios import random_scenarios
from tests.workload_scenarios.play import SCENARIOS, play_hollow, recorded

RECORDED = recorded()


@pytest.mark.parametrize("name", SCENARIOS)
def test_hollow_controllers_do_as_the_real_ones_did(name: str) -> None:
    assert play_hollow(SCENARIOS[name]) == RECORDED[name]


def test_every_record_is_of_a_scenario() -> None:
    assert list(RECORDED) == list(SCENARIOS)


RANDOM = recorded(random_scenarios.RECORDED)


@pytest.mark.parametrize("seed", sorted(set(map(int, RANDOM)) - set(random_scenarios.OTHERWISE)))
def test_they_do_in_random_scenarios(seed: int) -> None:
    assert play_hollow(random_scenarios.a_scenario(seed)) == RANDOM[str(seed)]
