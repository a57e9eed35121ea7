"""Whose pods may be evicted, by the scheduler that they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from arranger.api.effects import DeletePod
from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config
from tests.builders import a_node, a_pod
from tests.unit.engine.harness import EngineHarness, of_kind

WHOSE: dict[str, tuple[dict[str, Any], set[str]]] = {
    "those of all its profiles, by default": ({}, {"ours", "second"}),
    "those of others that are named": ({"victimSchedulers": ["theirs"]}, {"theirs"}),
}


@pytest.mark.parametrize(("arguments", "expected"), WHOSE.values(), ids=WHOSE)
def test_who_is_evicted_goes_by_the_scheduler_of_the_victim(
    arguments: dict[str, Any],
    expected: set[str],
    make_harness: Callable[..., EngineHarness],
) -> None:
    settings = [{"name": "DefaultPreemption", "args": arguments}] if arguments else []
    profiles = [{"schedulerName": "arranger", "pluginConfig": settings}, {"schedulerName": "2nd"}]
    harness = make_harness(*build_profiles(Config.model_validate({"profiles": profiles})))
    for name, scheduler in {"ours": "arranger", "second": "2nd", "theirs": "theirs"}.items():
        pod = a_pod(name).needs(cpu=1).for_scheduler(scheduler)
        harness.observe(a_node(name).offers(cpu=1), pod.on(name))
        harness.observe(a_pod(f"high-{name}").needs(cpu=1).with_priority(10))
    assert {delete.pod.name for delete in of_kind(DeletePod, harness.run())} == expected
