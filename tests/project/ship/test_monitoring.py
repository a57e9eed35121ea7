"""Dashboard and alerts ask for metrics that there are, by labels that they have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from arranger.daemon.telemetry.metrics import Metrics
from tests.paths import REPO

FOLDER = REPO / "manifests" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
RULES = [rule for group in ALERTS["spec"]["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
#: Labels that Prometheus itself gives.
SCRAPED = {"job", "le"}


def series() -> dict[str, set[str]]:
    """Name of a series → its labels."""
    found: dict[str, set[str]] = {}
    for collector in Metrics().registry._collector_to_names:
        (family,) = collector.describe()
        ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        for end in ends.get(family.type, ("",)):
            found[family.name + end] = {*collector._labelnames}
    return found


def expressions() -> dict[str, str]:
    """Where one stands → the expression, with variables of the dashboard filled in."""
    found = {rule["alert"]: rule["expr"] for rule in RULES}
    for panel in PANELS:
        for target in panel["targets"]:
            found[f"{panel['title']} {target['refId']}"] = target["expr"].replace("$job", ".*")
    return found


EXPRESSIONS = expressions()
SERIES = series()


def selectors(node: Any) -> Iterator[Any]:
    """The series that an expression asks for."""
    if isinstance(node, promql.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "args", "param"):
        below = getattr(node, name, None)
        for each in below if isinstance(below, list) else [below]:
            if each is not None and not isinstance(each, str | float | int):
                yield from selectors(each)


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_an_expression_asks_for_series_that_there_are_by_labels_that_they_have(where: str) -> None:
    asked = list(selectors(promql.parse(EXPRESSIONS[where])))
    assert asked, "an expression asks for something"
    labels: set[str] = set()
    for each in asked:
        assert each.name in SERIES, each.name
        assert {matcher.name for matcher in each.matchers.matchers} <= SERIES[each.name] | SCRAPED
        labels |= SERIES[each.name]
    for named in re.findall(r"by \(([^)]*)\)", EXPRESSIONS[where]):
        assert {name.strip() for name in named.split(",")} <= labels | SCRAPED


def test_panels_have_places_of_their_own_and_say_what_they_show() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert all(panel["description"] for panel in PANELS)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS)


def test_a_legend_names_labels_that_the_series_have() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            kept = {
                n.strip()
                for g in re.findall(r"by \(([^)]*)\)", target["expr"])
                for n in g.split(",")
            }
            assert named <= kept, panel["title"]


def test_the_data_source_is_chosen_by_who_looks() -> None:
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "job"}
    sources = {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]}
    assert sources == {"${datasource}"}


def test_every_alert_says_how_grave_it_is_and_what_to_do() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["alert"].startswith("Arranger")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Prometheus)")
def test_prometheus_itself_accepts_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(ALERTS["spec"]))
    subprocess.run(["promtool", "check", "rules", str(file)], check=True, capture_output=True)
