"""What a tenant writes into a claim costs others no more than a moment."""

from __future__ import annotations

from typing import Any

import pytest

from arranger.api.types.resource_claims import Device, DeviceAttribute
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.plugins.dynamicresources import cel_selectors
from arranger.plugins.dynamicresources.cel_selectors import (
    MAX_LENGTH,
    CelSelector,
    CompiledSelectors,
    SelectorError,
)
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from arranger.plugins.dynamicresources.effort import Effort, EffortSpentError
from tests.builders import Member, PodBuilder, a_cluster, a_node, a_pod
from tests.devices import ATTRIBUTES, DRIVER, a_claim, a_device, a_device_class, a_slice, claiming
from tests.unit.plugins.evaluation import single_plugin_profile

GPU = Device("gpu", attributes={"model": DeviceAttribute(string_value="a100")})
NUMBERS = str(list(range(30)))
THREE_LOOPS = f"{NUMBERS}.all(x, {NUMBERS}.all(y, {NUMBERS}.all(z, x + y + z >= 0)))"
DOUBLING = "cel.bind(a, a + a, " * 40 + "a" + ")" * 40


TOO_DEAR: dict[str, str] = {
    "27,000 iterations": THREE_LOOPS,
    "a text that doubles forty times": (
        'cel.bind(t, "aaaaaaaaaaaaaaaa", ' + DOUBLING.replace("a, a + a", "t, t + t")
    ).replace("t + t, a", "t + t, t")
    + ")",
    "a replacement that explodes": (
        'cel.bind(t, "' + "a" * 1000 + '", t.replace("a", t).replace("a", t)) == ""'
    ),
    "a long list looked through again and again": (
        f"{list(range(400))}.all(x, x in {list(range(400))})"
    ),
}


@pytest.mark.parametrize("expression", TOO_DEAR.values(), ids=TOO_DEAR)
def test_a_selector_ends_when_its_budget_is_spent(expression: str) -> None:
    selector = CelSelector(expression)
    with pytest.raises(SelectorError, match="actual cost limit exceeded") as first:
        selector.matches("gpu.example.com", GPU)
    with pytest.raises(SelectorError) as second:
        CelSelector(expression).matches("gpu.example.com", GPU)
    assert str(first.value) == str(second.value)


UNREADABLE: dict[str, tuple[str, str]] = {
    "too long": ("1 == 1 || " * 2000 + "true", f"at most {MAX_LENGTH}"),
    "too many words": ("!" * 9000 + "true", "words and signs"),
    "brackets too deep": ("(" * 1000 + "true" + ")" * 1000, "nested too deeply"),
    "lists too deep": ("[" * 500 + "]" * 500 + " == []", "nested too deeply"),
}


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE)
def test_a_selector_that_would_take_long_to_read_is_refused(case: tuple[str, str]) -> None:
    expression, why = case
    refused = CompiledSelectors().compile(expression)
    assert isinstance(refused, SelectorError)
    assert why in str(refused)


def test_what_is_kept_of_selectors_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    selectors = CompiledSelectors()
    padding = " " * 10_000
    for n in range(100):
        selectors.compile(f'device.driver == "{n}"{padding}')
    assert len(selectors) <= cel_selectors._MAX_KEPT // 10_000
    monkeypatch.setattr(cel_selectors, "_MAX_RESULTS", 8)
    compiled = CelSelector(f"{ATTRIBUTES}.index > 2")
    for n in range(20):
        compiled.matches(DRIVER, Device("x", attributes={"index": DeviceAttribute(int_value=n)}))
        assert sum(map(len, compiled._results.values())) <= 8


def test_without_effort_left_nothing_is_compiled_or_evaluated() -> None:
    selectors, spent = CompiledSelectors(), Effort(0)
    with pytest.raises(EffortSpentError):
        selectors.compile("true", spent)
    selector = selectors.compile('device.driver == "d"', Effort())
    assert isinstance(selector, CelSelector)
    with pytest.raises(EffortSpentError):
        selector.matches("d", GPU, spent)
    assert selector.matches("d", GPU, Effort(1))
    assert selector.matches("d", GPU, spent), "it is known by now"


def test_what_an_attempt_does_not_get_done_later_attempts_do() -> None:
    nodes = [a_node(f"n{n}") for n in range(40)]
    slices = [a_slice(f"n{n}", a_device("g", index=n)) for n in range(40)]
    loops = " && ".join([f"{NUMBERS}.all(x, x >= 0)"] * 5)
    dear = f"{loops} && {ATTRIBUTES}.index > 36"
    claim = a_claim("c").asks(selectors=[{"cel": {"expression": dear}}])
    cluster = a_cluster(*nodes, *slices, a_device_class("gpu"), claim)
    plugin, pod = DynamicResources(), claiming(a_pod("p"), "c").info()
    told: set[str] = set()
    for _ in range(20):
        try:
            found = Evaluation(single_plugin_profile(plugin), cluster, pod)
            break
        except PluginFailureError as error:
            told.add(str(error))
    assert found.feasible.any()
    assert not found.feasible[:37].any()
    assert told
    assert all("are looked at in later attempts" in each for each in told)


def refusal(pod: PodBuilder, *members: Member) -> str:
    cluster = a_cluster(*members)
    status = Evaluation(
        single_plugin_profile(DynamicResources()), cluster, pod.info()
    ).pre_filter_status
    assert status is not None
    return status.message()


BEYOND: dict[str, tuple[Any, str]] = {
    "requests": ({"requests": [{"name": f"r{n}"} for n in range(33)]}, "33 requests"),
    "constraints": ({"constraints": [{"matchAttribute": "a/b"}] * 33}, "33 constraints"),
    "alternatives": (
        {"requests": [{"name": "r", "firstAvailable": [{"deviceClassName": "gpu"}] * 9}]},
        "9 alternatives of a request",
    ),
    "selectors": (
        {"requests": [{"name": "r", "exactly": {"selectors": [{}] * 33}}]},
        "33 selectors of a request",
    ),
}


@pytest.mark.parametrize("case", BEYOND.values(), ids=BEYOND)
def test_a_claim_of_more_than_an_api_server_accepts_is_refused(case: tuple[Any, str]) -> None:
    devices, why = case
    claim = a_claim("c").with_spec(devices=devices)
    assert why in refusal(claiming(a_pod(), "c"), a_device_class("gpu"), claim, a_node("n1"))


def test_a_pod_with_very_many_claims_is_refused() -> None:
    pod = claiming(a_pod(), *(f"c{n}" for n in range(100)))
    assert "100 resource claims" in refusal(pod, a_node("n1"))
