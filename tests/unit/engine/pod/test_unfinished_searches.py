"""A long search for devices goes on from step to step, without an error and without back-off."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.effects import Bind, Effect, PublishEvent
from arranger.cluster import NodeView, PodInfo
from arranger.engine.assembly.settings import EngineSettings
from arranger.engine.engine import Engine
from arranger.framework import FilterResult
from arranger.framework.status import CycleState
from arranger.plugins import default_profile
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from tests.builders import a_node, a_pod
from tests.devices import ATTRIBUTES, a_claim, a_device, a_device_class, a_slice, claiming

NODES = 40
#: Of each device it takes a quarter of what a step may do.
NUMBERS = str(list(range(30)))
DEAR = f"{NUMBERS}.all(x, {NUMBERS}.all(y, x + y >= 0)) && {ATTRIBUTES}.index >= "


class Searches:
    """How often the filter has looked for devices."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, original = 0, DynamicResources.filter

        def counted(plugin: Any, state: CycleState, pod: PodInfo, nodes: NodeView) -> FilterResult:
            self.count += 1
            return original(plugin, state, pod, nodes)

        monkeypatch.setattr(DynamicResources, "filter", counted)


def an_engine(last: int, gang: str | None = None) -> Engine:
    """Devices of which those with an index from ``last`` on will do, and a pod that wants one."""
    engine = Engine(EngineSettings([default_profile()]))
    for n in range(NODES):
        engine.handlers.on_node_updated(a_node(f"n{n}").build(), 0.0)
        engine.handlers.on_object_updated(a_slice(f"n{n}", a_device("g", index=n)).build(), 0.0)
    engine.handlers.on_object_updated(a_device_class("gpu").build(), 0.0)
    claim = a_claim("c").asks(selectors=[{"cel": {"expression": f"{DEAR}{last}"}}])
    engine.handlers.on_object_updated(claim.build(), 0.0)
    pod = a_pod("wants") if gang is None else a_pod("wants").in_gang(gang, 1)
    engine.handlers.on_pod_updated(claiming(pod, "c").build(), 0.0)
    return engine


def steps_of(engine: Engine, searches: Searches) -> list[list[Effect]]:
    """What is done step by step, at one time, until nothing is left to do."""
    done: list[list[Effect]] = []
    while engine.ready:
        before = searches.count
        done.append(engine.run(0.0, limit=1))
        assert searches.count <= before + 2, "a step looks once, and once more where it reserves"
        assert len(done) < 1000, "it never comes to an end"
    return done


@pytest.mark.parametrize(("last", "found"), [(NODES - 1, True), (NODES, False)])
def test_it_ends_without_an_error(last: int, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Searches(monkeypatch)
    engine = an_engine(last)
    steps = steps_of(engine, searches)
    effects = [effect for step in steps for effect in step]
    assert len([step for step in steps if not step]) > 3, "it takes several steps"
    told = [each for each in effects if isinstance(each, PublishEvent)]
    assert not [each for each in told if "later attempts" in each.note]
    assert bool(engine.cluster.assumed) == found
    assert bool(told) != found, "once all is looked at the pod is told"
    engine.check_consistent()


def test_another_pod_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Searches(monkeypatch)
    engine = an_engine(NODES)
    engine.run(0.0, limit=1)
    assert engine.ready
    engine.handlers.on_pod_updated(a_pod("other").in_namespace("other").build(), 0.0)
    bound = [e for step in steps_of(engine, searches)[:2] for e in step if isinstance(e, Bind)]
    assert [each.pod.name for each in bound] == ["other"]


@pytest.mark.parametrize("last", [NODES - 1, NODES])
def test_members_of_a_gang_go_on_from_step_to_step_too(
    last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = Searches(monkeypatch)
    engine = an_engine(last, gang="g")
    told = [each for each in all_steps(engine) if isinstance(each, PublishEvent)]
    assert searches.count > 3, "it takes several steps"
    assert not [each for each in told if "later attempts" in each.note]
    assert bool(engine.cluster.assumed) == (last < NODES)
    engine.check_consistent()


def all_steps(engine: Engine) -> list[Effect]:
    """What is done in steps of the shortest kind, at one time."""
    done: list[Effect] = []
    for _ in range(1000):
        done += engine.run(0.0, limit=1, seconds=0.0)
        if not engine.ready:
            return done
    raise AssertionError("it never comes to an end")
