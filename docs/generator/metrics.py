"""The metrics, from the registry and from what the client reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from arranger.daemon.telemetry.metrics import CLIENT_METRICS, Metrics
from docs.generator.markdown import code, heading, table
from docs.generator.markdown import page as text_of

INTRODUCTION = (
    "Served by `arranger run` under `/metrics`. Where kube-scheduler has the same metric it has "
    "the same name. Histograms have the usual `_bucket`, `_sum` and `_count`; of counters the "
    "name ends in `_total`."
)
COLUMNS: Final = ["metric", "type", "labels", "meaning"]


def page() -> str:
    """The metrics of the core, then those of the client."""
    lines = heading("Metrics", "`arranger/daemon/telemetry/metrics.py`", INTRODUCTION)
    registry = Metrics().registry
    client = {f"arranger_{metric.name}" for metric in CLIENT_METRICS}
    rows: dict[bool, list[list[str]]] = {False: [], True: []}
    collectors: Iterable[Any] = registry._collector_to_names  # noqa: SLF001 — no other way
    for collector in collectors:
        (family,) = collector.describe()
        name = family.name + "_total" * (family.type == "counter")
        labels = ", ".join(map(code, collector._labelnames))  # noqa: SLF001
        rows[family.name in client].append(
            [code(name), family.type, labels, f"{family.documentation}."]
        )
    lines += ["## The scheduler", "", *table(COLUMNS, rows[False])]
    lines += ["## Requests to the API server and to extenders", "", *table(COLUMNS, rows[True])]
    return text_of(lines)
