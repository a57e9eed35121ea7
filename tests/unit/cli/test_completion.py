"""What Tab offers after ``kubectl arranger``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from arranger.cli.completion import Directive, completions
from arranger.cli.main import main


@pytest.mark.parametrize(
    ("words", "values", "directive"),
    [
        (["wh"], ["whatif", "why"], Directive.NO_FILES),
        (["queue", "-o", ""], ["table", "json"], Directive.NO_FILES),
        (["why", "--no-s"], ["--no-suggestions"], Directive.NO_FILES),
        (["run", "--log-level", "w"], ["warning"], Directive.NO_FILES),
        (["run", "--config", ""], [], Directive.FILES_TOO),
        (["whatif", "-f", "exam"], [], Directive.FILES_TOO),
        (["nothing", ""], list(main.commands), Directive.NO_FILES),
        (["zzz"], [], Directive.NO_FILES),
    ],
)
def test_candidates_are_those_of_the_word_that_is_typed(
    words: list[str], values: list[str], directive: Directive
) -> None:
    lines, told = completions(words)
    assert {line.partition("\t")[0] for line in lines} == set(values)
    assert told is directive


def test_every_command_is_offered_with_its_help() -> None:
    lines, _ = completions([""])
    offered = dict(line.split("\t") for line in lines)
    assert offered.keys() == main.commands.keys()
    assert offered["run"] == "Schedule the pods of a cluster until stopped."


def test_the_program_prints_what_kubectl_reads() -> None:
    call = "from arranger.cli.completion import complete; complete()"
    done = subprocess.run([sys.executable, "-c", call, "vers"], capture_output=True, text=True)
    assert done.returncode == 0
    first, last = done.stdout.splitlines()
    assert first.startswith("version\t")
    assert last == ":4"
