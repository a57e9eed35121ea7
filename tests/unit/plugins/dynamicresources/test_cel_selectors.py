"""CEL selectors of devices: what they can say, and how seldom they are evaluated."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from arranger.api.types.resource_claims import Device
from arranger.cel.functions.kubernetes import Version
from arranger.plugins.dynamicresources import cel_selectors
from arranger.plugins.dynamicresources.cel_selectors import (
    CelSelector,
    CompiledSelectors,
    SelectorError,
)
from arranger.plugins.dynamicresources.effort import Effort
from tests.devices import ATTRIBUTES, DRIVER, a_device

GPU: dict[str, Any] = a_device("gpu-0", model="a100", index=3, healthy=True, version="1.10.2")
GPU["attributes"]["other.example.com/rack"] = {"string": "r1"}
GPU["attributes"]["modes"] = {"strings": ["a", "b"]}


def device(manifest: dict[str, Any]) -> Device:
    return msgspec.convert(manifest, Device)


CAPACITY = f'device.capacity["{DRIVER}"].memory'
VERDICTS: dict[str, tuple[str, bool]] = {
    "the driver": (f'device.driver == "{DRIVER}"', True),
    "another driver": ('device.driver == "nic.example.com"', False),
    "a string": (f'{ATTRIBUTES}.model == "a100"', True),
    "another string": (f'{ATTRIBUTES}.model == "h100"', False),
    "a number": (f"{ATTRIBUTES}.index > 2", True),
    "a number in a list": (f"{ATTRIBUTES}.index in [1, 2]", False),
    "a truth": (f"{ATTRIBUTES}.healthy", True),
    "an index in place of a field": (f'{ATTRIBUTES}["index"] == 3', True),
    "an attribute of another domain": (
        'device.attributes["other.example.com"].rack == "r1"',
        True,
    ),
    "values of different types are just different": (f'{ATTRIBUTES}.index == "3"', False),
    "unequal types are unequal": (f'{ATTRIBUTES}.index != "3"', True),
    "a truth is no number": (f"{ATTRIBUTES}.healthy == 1", False),
    "a key that is there": (f'"model" in {ATTRIBUTES}', True),
    "a key that is not there": (f'"color" in {ATTRIBUTES}', False),
    "has": (f"has({ATTRIBUTES}.model)", True),
    "has not": (f"has({ATTRIBUTES}.color)", False),
    "a domain without attributes is an empty one": (
        'has(device.attributes["no.example.com"].model)',
        False,
    ),
    "an error that does not matter": (f"{ATTRIBUTES}.color == 1 || {ATTRIBUTES}.index == 3", True),
    "enough memory": (f'{CAPACITY}.compareTo(quantity("40Gi")) >= 0', True),
    "less memory than": (f'{CAPACITY}.isLessThan(quantity("80Gi"))', False),
    "as much, written otherwise": (f'{CAPACITY} == quantity("81920Mi")', True),
    "a version": (f'{ATTRIBUTES}.version.compareTo(semver("1.9.0")) > 0', True),
    "a version, forgiving": (f'{ATTRIBUTES}.version.isLessThan(semver("v1.11", true))', True),
    "part of a version": (f"{ATTRIBUTES}.version.minor() == 10", True),
    "text": (f'{ATTRIBUTES}.model.upperAscii().startsWith("A")', True),
    "a pattern": (f'{ATTRIBUTES}.model.matches("^[ah]100$")', True),
    "one of several": (f'["h100", "a100"].exists(m, m == {ATTRIBUTES}.model)', True),
    "a name for what is said often": (
        f'cel.bind(gpu, {ATTRIBUTES}, gpu.model == "a100" && gpu.index == 3)',
        True,
    ),
    "names within names": (f"cel.bind(a, {ATTRIBUTES}, cel.bind(b, a.index, b < 3))", False),
    "what may be absent, and is there": (f'{ATTRIBUTES}.?model.orValue("none") == "a100"', True),
    "what may be absent, and is": (f"{ATTRIBUTES}.?color.orValue(1) == 1", True),
    "what is in what may be absent": ("device.?attributes.nope.?color.hasValue()", False),
    "its value": (f"{ATTRIBUTES}.?index.value() == 3", True),
    "a text that only looks like that": (f'{ATTRIBUTES}.model != "x.?y" && "\\"" != ".?z"', True),
    "not given to several": ("device.allowMultipleAllocations", False),
}


@pytest.mark.parametrize("case", VERDICTS.values(), ids=VERDICTS.keys())
def test_a_selector_selects(case: tuple[str, bool]) -> None:
    expression, verdict = case
    once = CelSelector(expression)
    assert once.matches(DRIVER, device(GPU)) is verdict
    assert once.matches(DRIVER, device(GPU)) is verdict, "and says so again"


ERRORS: dict[str, tuple[str, str]] = {
    "an attribute that is not there": (f"{ATTRIBUTES}.color == 1", "no such key: color"),
    "a list": (f'{ATTRIBUTES}.modes == "a"', "attribute modes: unsupported attribute value"),
    "a value that is not there": (f"{ATTRIBUTES}.?color.value() == 1", "optional.none()"),
    "no truth": (f"{ATTRIBUTES}.index", "could not be converted to bool"),
    "no quantity": (f'{CAPACITY} == quantity("much")', "quantities must match"),
    "two errors": (f"{ATTRIBUTES}.color == 1 || {ATTRIBUTES}.size == 1", "no such key: color"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS.keys())
def test_what_cannot_be_judged_is_an_error(case: tuple[str, str]) -> None:
    expression, text = case
    once = CelSelector(expression)
    for _ in range(2):
        with pytest.raises(SelectorError, match="CEL runtime error") as raised:
            once.matches(DRIVER, device(GPU))
        assert text in str(raised.value)


UNREADABLE: dict[str, tuple[str, str]] = {
    "it ends too early": ("device.driver ==", "Syntax error"),
    "a field that devices do not have": ("device.color == 1", "undefined field 'color'"),
    "a function that nobody knows": ("paint(device)", "undeclared reference to 'paint'"),
    "an optional is no number": (f'{ATTRIBUTES}[?"model"] == 1', "no matching overload"),
    "a number is no truth": ("1 && true", "no matching overload"),
    "no truth at all": ("device.driver.size()", "must evaluate to bool or any, not int"),
    "addresses": ('isMAC("1.2.3.4")', "undeclared reference to 'isMAC'"),
}


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_compiled_is_an_error_of_its_own(case: tuple[str, str]) -> None:
    expression, why = case
    refused = CompiledSelectors().compile(expression)
    assert isinstance(refused, SelectorError)
    assert str(refused).startswith("CEL compile error: ")
    assert why in str(refused)


def test_devices_that_look_alike_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Any] = []
    go_on = cel_selectors.go_on

    def counting(evaluation: Any, effort: Effort) -> bool | str | None:
        judged.append(evaluation)
        return go_on(evaluation, effort)

    monkeypatch.setattr(cel_selectors, "go_on", counting)
    models = CelSelector(f'{ATTRIBUTES}.model == "a100"')
    many = [
        device(a_device(f"gpu-{n}", model=model, index=n, serial=f"s{n}"))
        for n in range(50)
        for model in ("a100", "h100")
    ]
    assert [models.matches(DRIVER, each) for each in many] == [True, False] * 50
    assert len(judged) == 2, "one evaluation a model, whatever else differs"


def test_what_is_read_only_sometimes_still_decides() -> None:
    either = CelSelector(f"{ATTRIBUTES}.healthy ? true : {ATTRIBUTES}.index == 1")
    gpus = [a_device("a", healthy=False, index=1), a_device("b", healthy=True, index=2)]
    gpus += [a_device("c", healthy=False, index=2), a_device("d", healthy=True, index=1)]
    for _ in range(2):
        verdicts = [either.matches(DRIVER, device(each)) for each in gpus]
        assert verdicts == [True, True, False, True]


def test_versions_are_ordered_as_semver_says() -> None:
    texts = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"]
    texts += ["1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.10.0", "2.0.0"]
    versions = [Version.parse(text) for text in texts]
    assert all(one < other for one, other in pairwise(versions))
    assert Version.parse("1.0.0+build") == Version.parse("1.0.0")


@pytest.mark.parametrize("text", ["1.0", "01.0.0", "v1.0.0", "1.0.0-01", ""])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a semantic version"):
        Version.parse(text)
