"""What a tenant writes into a claim costs others no more than a moment."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from msgspec import structs

from arranger.api.types.resource_claims import Device, DeviceAttribute
from arranger.cluster import IntArray, NodeView
from arranger.framework.runtime.evaluation import Evaluation
from arranger.framework.runtime.plugin_errors import PluginFailureError
from arranger.plugins.dynamicresources import allocation_cache, cel_selectors, known_results
from arranger.plugins.dynamicresources.allocation_cache import AllocationQuery
from arranger.plugins.dynamicresources.cel_device import variables_of
from arranger.plugins.dynamicresources.cel_selectors import (
    MAX_COST,
    MAX_LENGTH,
    CelSelector,
    CompiledSelectors,
    SelectorError,
    compile_selector,
    go_on,
)
from arranger.plugins.dynamicresources.dynamic_resources import DynamicResources
from arranger.plugins.dynamicresources.effort import (
    MAX_EFFORT,
    WORK_A_UNIT,
    Effort,
    EffortSpentError,
)
from arranger.plugins.dynamicresources.known_results import RoomForResults
from tests.builders import Member, PodBuilder, a_cluster, a_node, a_pod
from tests.devices import (
    ATTRIBUTES,
    DRIVER,
    a_claim,
    a_device,
    a_device_class,
    a_slice,
    cel,
    claiming,
    option,
)
from tests.unit.plugins.evaluation import single_plugin_profile

GPU = Device("gpu", attributes={"model": DeviceAttribute(string_value="a100")})
NUMBERS = str(list(range(30)))
THREE_LOOPS = f"{NUMBERS}.all(x, {NUMBERS}.all(y, {NUMBERS}.all(z, x + y + z >= 0)))"
DOUBLING = "cel.bind(t, t + t, " * 40 + "t" + ")" * 40

TOO_DEAR: dict[str, str] = {
    "810,000 iterations": f"{NUMBERS}.all(u, {THREE_LOOPS})",
    "a text that doubles forty times": f'cel.bind(t, "aaaaaaaaaaaaaaaa", {DOUBLING}) == ""',
    "a replacement that explodes": (
        'cel.bind(t, "' + "a" * 1000 + '", '
        't.replace("a", t).replace("a", t).replace("a", t).replace("a", t)) == ""'
    ),
    "a long list looked through again and again": (
        "cel.bind(l, lists.range(2000), l.all(x, l.all(y, x in l)))"
    ),
    "a list of lists that has more in it than it costs": (
        "cel.bind(l, lists.range(300), cel.bind(m, l.map(x, l), cel.bind(n, l.map(x, m), n == n)))"
    ),
    "lists of lists again and again": (
        "cel.bind(l, lists.range(300), cel.bind(m, l.map(x, l), l.all(x, m == m)))"
    ),
    "a pattern that takes long for each of many characters": (
        'lists.range(20000).map(x, "abcdefghijk").join().matches("[[:alpha:]]{999}" + "$")'
    ),
}


@pytest.mark.parametrize("expression", TOO_DEAR.values(), ids=TOO_DEAR)
def test_a_selector_ends_when_its_budget_is_spent(expression: str) -> None:
    selector = CelSelector(expression)
    with pytest.raises(SelectorError, match="actual cost limit exceeded"):
        selector.matches("gpu.example.com", GPU)


#: With how many attempts each takes.
DEAR: dict[str, tuple[str, int]] = {
    "27,000 iterations": (THREE_LOOPS, 4),
    "a hundred thousand elements": ("lists.range(30000).map(x, x * 2).all(x, x >= 0)", 5),
    "much in one step": ("lists.range(900000).size() == 900000", 1),
}


@pytest.mark.parametrize("case", [*DEAR.values(), *((each, 1) for each in TOO_DEAR.values())])
def test_no_evaluation_goes_on_for_longer_than_an_attempt_may(case: tuple[str, int]) -> None:
    """What an attempt does is at most its work, and the last step of it."""
    expression, least = case
    evaluation = compile_selector(expression).start(variables_of(DRIVER, GPU, {}), MAX_COST)
    verdict, attempts = None, 0
    while verdict is None:
        attempts += 1
        before, effort = evaluation.work, Effort()
        steps = evaluation.steps
        verdict = go_on(evaluation, effort)
        done = evaluation.work - before
        assert evaluation.steps - steps <= MAX_EFFORT * WORK_A_UNIT, "some 80 ms"
        assert done <= MAX_EFFORT * WORK_A_UNIT + MAX_COST
        assert effort.left <= MAX_EFFORT - done // WORK_A_UNIT
    assert attempts >= least


def test_an_evaluation_that_an_attempt_has_begun_is_finished_by_later_ones() -> None:
    selector = CelSelector(THREE_LOOPS)
    for _ in range(4):
        with pytest.raises(EffortSpentError):
            selector.matches(DRIVER, GPU, Effort())
    assert selector.matches(DRIVER, GPU, Effort())
    assert selector.matches(DRIVER, GPU, Effort(0)), "it is known by now"


def test_what_is_begun_for_many_devices_is_bounded() -> None:
    selector = CelSelector(f"{ATTRIBUTES}.index >= 0 && {THREE_LOOPS}")
    for n in range(20):
        gpu = Device("x", attributes={"index": DeviceAttribute(int_value=n)})
        with pytest.raises(EffortSpentError):
            selector.matches(DRIVER, gpu, Effort(100))
        assert len(selector._unfinished) <= cel_selectors._MAX_UNFINISHED


@pytest.mark.parametrize(
    "expression",
    [
        f"lists.range(60).all(a, {ATTRIBUTES}.nope == a)",
        " && ".join([f"{ATTRIBUTES}.nope == 1"] * 60),
    ],
    ids=["a loop", "a chain"],
)
def test_many_errors_take_no_more_room_than_one(expression: str) -> None:
    with pytest.raises(SelectorError, match=r"^CEL runtime error: no such key: nope$"):
        CelSelector(expression).matches(DRIVER, GPU)


UNREADABLE: dict[str, tuple[str, str]] = {
    "too long": ("1 == 1 || " * 2000 + "true", f"at most {MAX_LENGTH}"),
    "too many words": ("!" * 9000 + "true", "words and signs"),
    "a macro that says things twice, again and again": (
        "optional.of(1)" + ".optMap(x, x)" * 60 + ".hasValue()",
        "it says too much",
    ),
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
    monkeypatch.setattr(known_results, "MAX_RESULTS", 8)
    compiled = CelSelector(f"{ATTRIBUTES}.index > 2")
    for n in range(20):
        compiled.matches(DRIVER, Device("x", attributes={"index": DeviceAttribute(int_value=n)}))
        assert compiled._results.count <= 8


def test_what_is_kept_of_all_selectors_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_results, "MAX_VALUES", 20)
    room, selectors = RoomForResults(), []
    for n in range(20):
        selectors.append(CelSelector(f"{ATTRIBUTES}.index > {n}", room))
        for index in range(4):
            selectors[-1].matches(DRIVER, indexed(index))
        assert sum(each._results.count for each in selectors) <= 10
        assert selectors[-1]._results.count == 4


class Attributes(dict[str, DeviceAttribute]):
    """Counts how often they are looked at."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)


#: What each reads depends on the device.
READS_ITS_OWN: dict[str, str] = {
    "an attribute that another names": f'has(device.attributes["{DRIVER}" + {ATTRIBUTES}.uuid].x)',
    "nothing after the first": f'{ATTRIBUTES}.uuid == "x" || {ATTRIBUTES}[{ATTRIBUTES}.uuid] == 1',
}


@pytest.mark.parametrize("expression", READS_ITS_OWN.values(), ids=READS_ITS_OWN)
def test_what_is_known_is_found_at_once_however_much_there_is(expression: str) -> None:
    selector = CelSelector(expression)
    for n in range(200):
        with suppress(SelectorError):
            selector.matches(DRIVER, unique(f"u{n}"))
    asked = unique("u150")
    attributes = Attributes(asked.attributes)
    with suppress(SelectorError):
        selector.matches(DRIVER, structs.replace(asked, attributes=attributes), Effort(0))
    assert attributes.looks <= 6


def test_names_that_no_device_has_take_no_room() -> None:
    """Megabytes of them, that an expression makes for each device."""
    grows = f'cel.bind(t, "{"a" * 1000}", cel.bind(t, t + t + t + t + t + t, '
    selector = CelSelector(f"{grows} has({ATTRIBUTES}[{ATTRIBUTES}.uuid + t].x)))")
    tracemalloc.start()
    for n in range(100):
        with suppress(SelectorError):
            selector.matches(DRIVER, unique(f"u{n}"))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 200_000, "600,000 characters"


def unique(uuid: str) -> Device:
    return Device("x", attributes={"uuid": DeviceAttribute(string_value=uuid)})


def indexed(index: int) -> Device:
    return Device("x", attributes={"index": DeviceAttribute(int_value=index)})


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
    dear = f"{NUMBERS}.all(x, {NUMBERS}.all(y, x + y >= 0)) && {ATTRIBUTES}.index > 36"
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


def test_what_never_comes_to_an_end_on_a_node_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt would begin again where the last one has begun, and spend all that it may."""
    monkeypatch.setattr(allocation_cache, "MAX_EFFORT", 100)
    monkeypatch.setattr(allocation_cache, "_MAX_ATTEMPTS", 5)
    every = [option(f"o{n}", allocationMode="All") for n in range(8)]
    nodes = [a_node(f"n{n}") for n in range(8)]
    slices = [a_slice(f"n{n}", *(f"g{m}" for m in range(20))) for n in range(8)]
    claim = a_claim("c").asks_first(*every)
    cluster = a_cluster(*nodes, *slices, a_device_class(), claim)
    plugin, pod = DynamicResources(), claiming(a_pod("p"), "c").info()
    attempts = 0
    while True:
        attempts += 1
        try:
            found = Evaluation(single_plugin_profile(plugin), cluster, pod)
            break
        except PluginFailureError:
            assert attempts < 4 * 5 + 4 * 2, "four are given five attempts, the others two"
    assert attempts > 20
    assert not found.feasible.any()
    assert "takes too long" in found.diagnosis().message()


def test_claims_that_ask_too_much_together_are_refused() -> None:
    options = [option(f"o{n}") for n in range(8)]
    claims = []
    for n in range(3):
        claim = a_claim(f"c{n}")
        for m in range(32):
            claim = claim.asks_first(*options, name=f"r{m}")
        claims.append(claim)
    pod = claiming(a_pod(), "c0", "c1", "c2")
    told = refusal(pod, a_device_class(), a_node("n1"), *claims)
    assert "768 requests and alternatives, and at most 512" in told
    selectors = [[cel(f"{n} > {m}") for m in range(32)] for n in range(5)]
    chooser = a_claim("c")
    for n, of_request in enumerate(selectors):
        chooser = chooser.asks(f"r{n}", selectors=of_request)
    told = refusal(claiming(a_pod(), "c"), a_device_class(), a_node("n1"), chooser)
    assert "160 selectors, and at most 128" in told


def test_alternatives_of_all_nodes_are_scored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, check = [], AllocationQuery.check

    def count(query: AllocationQuery, nodes: NodeView) -> tuple[list[str], IntArray]:
        checks.append(nodes.length)
        return check(query, nodes)

    monkeypatch.setattr(AllocationQuery, "check", count)
    nodes = [a_node(f"n{n}") for n in range(30)]
    slices = [a_slice(f"n{n}", a_device("g", big=n % 2 == 0)) for n in range(30)]
    big = option("big", selectors=[cel(f"{ATTRIBUTES}.big")])
    claim = a_claim("c").asks_first(big, option("any"))
    cluster = a_cluster(*nodes, *slices, a_device_class(), claim)
    pod = claiming(a_pod("p"), "c").info()
    found = Evaluation(single_plugin_profile(DynamicResources()), cluster, pod)
    assert found.total_scores.tolist() == [100, 87] * 15
    assert checks == [30]


def test_what_a_large_claim_asks_for_is_written_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []

    def encode(value: object) -> bytes:
        written.append(value)
        return msgspec.json.encode(value)

    monkeypatch.setattr(allocation_cache, "_encode", encode)
    claim = a_claim("c").asks()
    cluster = a_cluster(a_node("n1"), a_device_class(), claim)
    plugin, pod = DynamicResources(), claiming(a_pod("p"), "c").info()
    for _ in range(5):
        Evaluation(single_plugin_profile(plugin), cluster, pod)
    assert len(written) == 1
