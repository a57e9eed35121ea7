"""Somebody's pod that takes very long to decide keeps no answers about others away."""

from __future__ import annotations

import pytest

from arranger.plugins.dynamicresources import allocation_cache
from arranger.shadow.forecasts import forecast
from arranger.shadow.forecasts.forecast import TAKES_TOO_LONG
from tests.builders import a_pod
from tests.devices import ATTRIBUTES, a_claim, a_device, a_device_class, a_slice, cel, claiming
from tests.simulation.shadow.asking import Given, node, why

NODES = 30


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for steps in ("_STEPS", "_FEW_STEPS", "_LIMIT"):
        monkeypatch.setattr(forecast, steps, 1)
    for budget in ("MAX_EFFORT", "MAX_EFFORT_OF_STEP"):
        monkeypatch.setattr(allocation_cache, budget, 10)


def cluster() -> list[Given]:
    nothing = a_claim("c").asks(selectors=[cel(f"{ATTRIBUTES}.index > {NODES}")])
    return [
        a_device_class(),
        nothing,
        *(node(f"n{n}", cpu=4 if n else 8) for n in range(NODES)),
        *(a_slice(f"n{n}", a_device("g", index=n)) for n in range(NODES)),
        claiming(a_pod("slow").needs(cpu=1).with_priority(9), "c"),
    ]


def test_others_are_told_why_they_wait() -> None:
    (answer,) = why("pod/full", *cluster(), a_pod("full").in_namespace("default").needs(cpu=9))
    assert "30 Insufficient cpu" in answer.reason
    assert answer.suggestions, "what would help is tried as well"


def test_others_are_told_where_they_go() -> None:
    (answer,) = why("pod/fits", *cluster(), a_pod("fits").needs(cpu=6))
    assert (answer.state, answer.nodes) == ("Placeable", {"default/fits": "n0"})


def test_all_nodes_are_looked_at_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_STEPS", 1000)
    for budget in ("MAX_EFFORT", "MAX_EFFORT_OF_STEP"):
        monkeypatch.setattr(allocation_cache, budget, 100)
    (answer,) = why("pod/slow", *cluster())
    assert answer.node_reasons == [("cannot allocate all claims (DynamicResources)", NODES)]


def test_it_is_told_of_the_one_that_takes_so_long() -> None:
    (answer,) = why("pod/slow", *cluster())
    assert (answer.state, answer.reason) == ("Waiting", TAKES_TOO_LONG)
