"""The reference pages say what the code says now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from arranger.daemon.metrics import CLIENT_METRICS
from docs.generator.pages import PAGES, REFERENCE


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    assert (REFERENCE / f"{name}.md").read_text() == PAGES[name](), "run `make reference`"


def test_there_is_no_other_reference_page() -> None:
    assert {file.stem for file in REFERENCE.glob("*.md")} == set(PAGES)


def test_every_metric_that_the_client_reports_is_declared_and_no_other() -> None:
    client = Path(__file__).parents[3] / "arranger" / "kube"
    reported = {
        name
        for file in client.rglob("*.py")
        for name in re.findall(r"\.(?:increment|observe|set_gauge)\(\s*\"(\w+)\"", file.read_text())
    }
    assert reported == {metric.name for metric in CLIENT_METRICS}
