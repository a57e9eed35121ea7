"""What is mutated is there, and so are the tests that judge it."""

from __future__ import annotations

import configparser

import pytest

from tests.mutants.__main__ import as_section, files_of, is_harmless
from tests.mutants.harmless import HARMLESS
from tests.mutants.names import function_of
from tests.mutants.packages import PACKAGES
from tests.mutants.trial import chosen, varied
from tests.paths import REPO


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_sources_and_tests(name: str) -> None:
    for pattern in PACKAGES[name].sources:
        assert list(REPO.glob(pattern)), pattern
    for path in PACKAGES[name].tests + PACKAGES[name].slow:
        assert (REPO / path).exists(), path


def test_folders_below_are_left_to_other_packages() -> None:
    assert "arranger/gangs/gang.py" in files_of(PACKAGES["gangs"])
    assert not [path for path in files_of(PACKAGES["gangs"]) if "workloads" in path]


@pytest.mark.parametrize(
    ("mutant", "function"),
    [
        ("arranger.api.quantity.x_value__mutmut_3", "arranger.api.quantity.value"),
        ("arranger.api.quantity.x__read__mutmut_12", "arranger.api.quantity.read"),
        ("arranger.gangs.gang.xǁGangǁreset__mutmut_1", "arranger.gangs.gang.Gang.reset"),
        ("arranger.gangs.gang.xǁGangǁ_drop__mutmut_1", "arranger.gangs.gang.Gang._drop"),
    ],
)
def test_a_mutant_names_its_function(mutant: str, function: str) -> None:
    assert function_of(mutant) == function


@pytest.mark.parametrize(
    ("seconds", "tests"),
    [
        (0.0, ["quick"]),
        (0.5, ["quick", "many[c]", "many[b]", "many[a]"]),
        (2.2, ["quick", "many[c]", "slow", "many[b]"]),
        (9.0, ["quick", "many[c]", "slow", "many[b]", "many[a]"]),
    ],
)
def test_a_mutant_is_tried_on_one_case_of_each_test_before_others(
    seconds: float, tests: list[str]
) -> None:
    durations = {"slow": 2.0, "quick": 0.0, "many[a]": 0.12, "many[b]": 0.1, "many[c]": 0.05}
    assert varied(durations, durations, seconds) == tests


def diff_of(*lines: str) -> str:
    return "\n".join(
        ["--- a.py", "+++ a.py", "@@ -1 +1 @@", " x", "-y", *(f"+  {x}" for x in lines)]
    )


def test_a_survivor_is_explained_by_its_function_and_all_its_lines() -> None:
    (place, line), *_ = HARMLESS
    module, _, function = place.rpartition(".")
    mutant = f"{module}.x_{function}__mutmut_1"
    assert is_harmless(mutant, diff_of(line))
    assert not is_harmless(mutant, diff_of(line, "another()"))
    assert not is_harmless(f"{module}.x_another__mutmut_1", diff_of(line))
    assert not is_harmless(mutant, diff_of())


def test_settings_are_read_as_they_were_written() -> None:
    config = configparser.ConfigParser()
    config.read_string(as_section({"one": ("a",), "more": ("b", "c")}))
    assert config["mutmut"]["one"] == "a"
    assert config["mutmut"]["more"].split("\n") == ["", "b", "c"]


def test_a_sample_is_the_same_each_time_and_begins_a_larger_one() -> None:
    names = [f"arranger.module.x_function__mutmut_{n}" for n in range(1000)]
    few, more = chosen(names, 20), chosen(names, 60)
    assert 150 < len(few) < 250
    assert few == more[: len(few)]
    assert more == chosen(names, 100)[: len(more)]
    assert sorted(chosen(names, 100)) == sorted(names)
    assert chosen(reversed(names), 20) == few
    assert set(chosen(names, 20, "another seed")) - set(few)
