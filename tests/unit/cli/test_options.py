"""Paths on the command line: one's own, or the examples that come along."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from arranger.bundled import bundled_folder
from arranger.cli.main import main
from arranger.cli.options import InputPath


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def given(path: str) -> str:
    """What a command that is given ``path`` works on, or what it tells the user."""

    @click.command()
    @click.argument("file", type=InputPath())
    def command(file: Path) -> None:
        click.echo(file)

    return CliRunner().invoke(command, [path]).output.strip()


@pytest.mark.parametrize("command", ["version", "queue", "explain", "simulate"])
def test_every_output_is_a_table_or_json(command: str) -> None:
    (option,) = (p for p in main.commands[command].params if p.name == "output")
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == ["table", "json"]
    assert option.default == "table"


@pytest.mark.parametrize("form", ["table", "text", "json"])
def test_the_earlier_word_for_a_table_stays(form: str) -> None:
    result = CliRunner().invoke(main, ["version", "-o", form])
    assert result.exit_code == 0
    assert result.output.startswith("{" if form == "json" else "arranger ")


def test_an_example_that_is_not_here_is_the_one_that_comes_along() -> None:
    assert given("examples/demo") == str(bundled_folder("examples") / "demo")


def test_ones_own_folder_of_examples_wins(folder: Path) -> None:
    (folder / "examples" / "demo").mkdir(parents=True)
    assert given("examples/demo") == "examples/demo"


@pytest.mark.parametrize("path", ["examples/none", "demo", "other/demo"])
def test_what_is_nowhere_is_refused_as_it_was_given(path: str) -> None:
    assert f"'{path}' does not exist" in given(path)


def test_an_installation_without_its_folders_is_named_as_such() -> None:
    with pytest.raises(FileNotFoundError, match="the folder recipes did not come with"):
        bundled_folder("recipes")
