"""What the README and the pages of ``docs`` say is so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard, get_args

import pytest
import yaml
from pydantic import BaseModel

from arranger.cli.main import main
from arranger.daemon.config.profiles import build_profiles
from arranger.daemon.config.schema import Config, load_config
from tests.paths import REPO, is_in_checkout

DOCS = REPO / "docs"
PAGES = {
    str(file.relative_to(REPO)): file.read_text()
    for file in [REPO / "README.md", REPO / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
}


def code_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.DOTALL)


CONFIGURATIONS = [(page, n) for page in PAGES for n, _ in enumerate(code_blocks(page, "yaml"))]


def field_paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The fields of the configuration file that hold a value, as the pages spell them."""
    for field in model.model_fields.values():
        entries = [part for part in get_args(field.annotation) if _is_section(part)]
        if _is_section(field.annotation):
            yield from field_paths(field.annotation, f"{prefix}{field.alias}.")
        elif entries:
            mark = "[]" if "list" in str(field.annotation) else ""
            yield from field_paths(entries[0], f"{prefix}{field.alias}{mark}.")
        else:
            yield f"{prefix}{field.alias}"


def _is_section(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def first_cells(page: str) -> list[str]:
    """What stands as code in the first cells of a page's tables."""
    cells = re.findall(r"^\| ([^|]+) \|", PAGES[page], re.MULTILINE)
    return [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


def _arguments(model: type[BaseModel] | None) -> set[str]:
    """A plugin's own arguments; every plugin's may name the type they are of."""
    fields = model.model_fields.values() if model else ()
    return {field.alias or "" for field in fields} - {"apiVersion", "kind"}


def test_the_readme_is_short_enough_to_be_read() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 150


def test_every_field_of_the_configuration_has_a_row_and_nothing_else_has() -> None:
    assert sorted(first_cells("docs/reference/configuration.md")) == sorted(field_paths(Config))


def test_the_page_of_extenders_has_every_field_of_them() -> None:
    (field,) = [f for f in Config.model_fields.values() if f.alias == "extenders"]
    (section,) = [part for part in get_args(field.annotation) if _is_section(part)]
    fields = {each.alias or "" for each in section.model_fields.values()}
    assert not [name for name in fields if name not in PAGES["docs/guide/extenders.md"]]


def test_the_default_plugins_are_told_in_order_with_weights_and_arguments() -> None:
    (profile,) = build_profiles(Config())
    scoring = profile.plugins_at("score")
    expected = [
        (
            each.plugin.name,
            str(each.weight) if each.plugin in scoring else "–",
            _arguments(each.plugin.Args),
        )
        for each in profile.plugins
    ]
    page = PAGES["docs/reference/plugins.md"]
    rows = re.findall(r"^\| (\w+) \| (\d+|–) \| (.*?) \|", page, re.MULTILINE)
    assert expected == [
        (name, weight, set(re.findall(r"`(\w+)`", arguments))) for name, weight, arguments in rows
    ]


def test_every_command_of_the_program_is_told() -> None:
    described = set(
        re.findall(r"^\| `arranger (\w+)", PAGES["docs/guide/commands.md"], re.MULTILINE)
    )
    assert described >= main.commands.keys()


@pytest.mark.parametrize(("page", "number"), CONFIGURATIONS)
def test_a_configuration_in_a_page_is_accepted(page: str, number: int, tmp_path: Path) -> None:
    # A page's plugin is meant to lie beside its configuration.
    for block in code_blocks(page, "python"):
        (tmp_path / "avoid_spot.py").write_text(block)
    file = tmp_path / "config.yaml"
    file.write_text(code_blocks(page, "yaml")[number])
    assert build_profiles(load_config(file))


@pytest.mark.parametrize("page", ["README.md", "docs/guide/plugins.md"])
def test_the_plugin_in_a_page_can_be_enabled(page: str, tmp_path: Path) -> None:
    block = code_blocks(page, "python")[0]
    (tmp_path / "policy.py").write_text(block)
    file = tmp_path / "config.yaml"
    profile = {"plugins": {"enabled": [{"name": "AvoidSpot"}]}}
    file.write_text(yaml.safe_dump({"pluginFiles": ["policy.py"], "profiles": [profile]}))
    (built,) = build_profiles(load_config(file))
    assert "AvoidSpot" in {each.plugin.name for each in built.plugins}


def test_the_readme_and_its_page_have_the_same_plugin() -> None:
    assert (
        code_blocks("README.md", "python")[0] == code_blocks("docs/guide/plugins.md", "python")[0]
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_only_files_that_are_there(page: str) -> None:
    roots = "arranger|tests|docs|manifests|examples|crds"
    named = re.findall(rf"`((?:{roots})/[\w./-]+|[A-Z]+\.md)`", PAGES[page])
    assert not [path for path in named if not is_in_checkout(REPO / path)]


def test_the_sources_name_only_pages_that_are_there() -> None:
    folders = ("arranger", "tests", "examples", "manifests", "crds")
    files = (file for folder in folders for file in (REPO / folder).rglob("*"))
    named = {
        page
        for file in files
        if file.suffix in (".py", ".yaml")
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text())
    }
    assert len(named) > 10
    assert sorted(page for page in named if not (REPO / page).exists()) == []


def test_pages_do_name_files() -> None:
    assert "`arranger/framework/interface.py`" in PAGES["docs/guide/plugins.md"]


def test_no_page_sends_its_reader_to_notes_that_are_not_there() -> None:
    assert not [page for page, text in PAGES.items() if re.search(r"\bseed \d{3}\b", text)]


def test_the_fault_matrix_has_every_fault_that_tests_cite() -> None:
    rows = set(re.findall(r"^\| (F\d+) \|", PAGES["docs/testing.md"], re.MULTILINE))
    sources = [file.read_text() for file in (REPO / "tests" / "simulation").rglob("*.py")]
    cited = {fault for source in sources for fault in re.findall(r"\bF\d+\b", source)}
    assert cited
    assert cited <= rows
    assert rows == {f"F{number}" for number in range(1, len(rows) + 1)}


def test_the_glossary_has_each_word_once_and_in_order() -> None:
    words = [word.replace("`", "").lower() for word in _glossary()]
    assert len(words) == len(set(words))
    assert words == sorted(words)


def test_the_names_in_the_glossary_are_names_in_the_sources() -> None:
    names = {name for word in _glossary() for name in re.findall(r"`([A-Za-z_]\w*)`", word)}
    sources = " ".join(file.read_text() for file in (REPO / "arranger").rglob("*.py"))
    defined = set(re.findall(r"(?:class|def) (\w+)", sources))
    defined |= set(re.findall(r"\b(\w+)(?:: [\w\[\], .|]+)? =", sources))
    assert not names - defined


def _glossary() -> list[str]:
    table = PAGES["docs/glossary.md"].split("## All words")[1]
    return re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]
