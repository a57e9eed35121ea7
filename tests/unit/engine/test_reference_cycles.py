"""Pods that have come and gone leave no reference cycles, which only the collector would free."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from arranger.engine.context.entity import QueuedEntity, QueuedPod
from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.engine.harness import EngineHarness

PODS: dict[str, Callable[[int], PodBuilder]] = {
    "pods that are bound": lambda n: a_pod(f"p{n}").needs(cpu=1),
    "pods that fit nowhere": lambda n: a_pod(f"p{n}").needs(cpu=1000),
    "a gang that is bound": lambda n: a_pod(f"p{n}").needs(cpu=1).in_gang("g", 8),
    "a gang that waits": lambda n: a_pod(f"p{n}").needs(cpu=1).in_gang("g", 99),
}


@pytest.fixture
def no_collector() -> Iterator[None]:
    """It does not run by itself, and keeps what it finds."""
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("case", PODS)
def test_no_cycles_are_left_by(case: str) -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_node("a").offers(cpu=99))
    for harness.now in range(10, 13):
        harness.observe(*(PODS[case](n) for n in range(8)))
        harness.settle_all(harness.run())
        for n in range(8):
            harness.engine.handlers.on_pod_deleted(f"default/p{n}", harness.now)
        harness.run()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    assert not [each for each in gc.garbage if isinstance(each, QueuedPod | QueuedEntity)]
    harness.engine.check_consistent()
