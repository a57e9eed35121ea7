"""The reference pages say what the code says now."""

from __future__ import annotations

import ast
import re

import click
import pytest

from arranger.api import event_reasons
from arranger.cli.main import main
from arranger.daemon.telemetry.metrics import CLIENT_METRICS
from docs.generator.constants import constants
from docs.generator.pages import PAGES, REFERENCE
from tests.paths import REPO

PACKAGE = REPO / "arranger"
#: What makes an Event, and where its reason stands among the arguments.
MAKERS = {"PublishEvent": 1, "EventNote": 0}


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    assert (REFERENCE / f"{name}.md").read_text() == PAGES[name](), "run `make reference`"


def test_there_is_no_other_reference_page() -> None:
    assert {file.stem for file in REFERENCE.glob("*.md")} == set(PAGES)


def test_every_metric_that_the_client_reports_is_declared_and_no_other() -> None:
    reported = {
        name
        for package in ("kube", "controllers")
        for file in (PACKAGE / package).rglob("*.py")
        for name in re.findall(r"\.(?:increment|observe|set_gauge)\(\s*\"(\w+)\"", file.read_text())
    }
    assert reported == {metric.name for metric in CLIENT_METRICS}


def test_every_reason_of_an_event_has_a_name_that_the_reference_explains() -> None:
    literals = []
    used: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "event_reasons":
                used.add(node.attr)
            if (
                isinstance(node, ast.Call)
                and (index := MAKERS.get(ast.unparse(node.func))) is not None
            ):
                named = {each.arg: each.value for each in node.keywords}
                reason = named.get("reason") or node.args[index]
                literals += [file.name] * isinstance(reason, ast.Constant)
    assert literals == []
    assert used == {constant.name for constant in constants(event_reasons)}


@pytest.mark.parametrize("name", main.commands)
def test_every_option_of_a_command_says_what_it_is_for(name: str) -> None:
    options = [each for each in main.commands[name].params if isinstance(each, click.Option)]
    assert [option.name for option in options if not option.help] == []
