"""Whatever files and clusters say, a terminal gets text: each command, table and format."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arranger.api.printable import printable, printable_lines
from arranger.cli.main import main
from arranger.cli.output import comparison_table, result_tables
from arranger.cli.output.errors import CommandError
from arranger.cli.output.queue_tables import print_queues
from arranger.cli.output.screen import Screen, say_json
from arranger.cli.queues import QueueView, WaitingRow
from arranger.cli.simulation.result import SimulationResult
from arranger.controllers.queue.cache import Usage
from arranger.daemon.telemetry.logging import configure_logging
from arranger.quota.queue_spec import QueueQuota
from tests.unit.cli.hostile_texts import HOSTILE, harm, hostile_texts, without_colours

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Terminal(Screen):
    """A terminal of the widest kind, whose output is kept."""

    def __init__(self, width: int = 160) -> None:
        self.kept = io.StringIO()
        super().__init__(file=self.kept, force_terminal=True, width=width, legacy_windows=False)


@given(hostile_texts)
@SETTINGS
def test_what_is_printable_is_a_text_and_says_all(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert (shown == text) == text.isprintable()
    assert harm(printable_lines(text)) == ""


@pytest.mark.parametrize("text", HOSTILE)
def test_a_screen_shows_texts_for_what_they_are(text: str) -> None:
    terminal = Terminal()
    terminal.print(text)
    assert harm(terminal.kept.getvalue()) == ""
    if text.isprintable():
        assert text in without_colours(terminal.kept.getvalue())


ROWS = st.builds(
    WaitingRow,
    position=st.integers(1, 9),
    name=hostile_texts,
    pods=st.integers(1, 9),
    priority=st.integers(-9, 9),
    job_priority=st.integers(1, 9),
    since=st.none() | st.just(NOW),
    reason=hostile_texts,
)


@st.composite
def views(draw: st.DrawFn) -> QueueView:
    name = draw(hostile_texts)
    amounts = st.dictionaries(hostile_texts, st.integers(0, 9), max_size=2)
    quota = replace(QueueQuota(name), capability=draw(amounts), deserved=draw(amounts))
    return QueueView(
        name,
        draw(st.none() | st.just(quota)),
        draw(hostile_texts),
        Usage(Counter(draw(amounts)), Counter()),
        Counter(draw(amounts)),
        tuple(draw(st.lists(ROWS, max_size=2))),
        tuple(draw(st.lists(hostile_texts, max_size=2))),
    )


@given(st.lists(views(), max_size=3), st.sampled_from([60, 160]))
@SETTINGS
def test_queues(shown: list[QueueView], width: int) -> None:
    terminal = Terminal(width)
    print_queues(shown, terminal, now=NOW)
    assert harm(terminal.kept.getvalue()) == ""


TEXTS = st.lists(hostile_texts, max_size=2)


def dicts(*keys: str) -> st.SearchStrategy[list[dict[str, str]]]:
    return st.lists(st.fixed_dictionaries(dict.fromkeys(keys, hostile_texts)), max_size=2)


RESULTS = st.builds(
    SimulationResult,
    placements=dicts("pod", "node", "phase"),
    pending=dicts("pod", "reason"),
    evictions=dicts("pod", "note"),
    stages=st.dictionaries(hostile_texts, hostile_texts, max_size=2),
    not_made=TEXTS,
    ignored=TEXTS,
    events=st.just([]),
    virtual_seconds=st.just(1.0),
    end=st.none() | hostile_texts,
)


@given(RESULTS)
@SETTINGS
def test_results_of_simulations(result: SimulationResult) -> None:
    with pytest.MonkeyPatch.context() as patch:
        terminal = Terminal()
        patch.setattr(result_tables, "Screen", lambda: terminal)
        result_tables.print_result(result)
        with result_tables.LiveProgress() as live:
            live.show(result)
            live.serving("http://x", Path("k"))
    shown = terminal.kept.getvalue()
    # What moves the cursor of a live line is rich's own.
    for moves in (
        "\x1b[?25l",
        "\x1b[?25h",
        "\r\x1b[2K",
        "\x1b[1A\x1b[2K",
        "\x1b[2K",
        "\x1b[1A",
        "\r",
    ):
        shown = shown.replace(moves, "")
    assert harm(shown) == ""


@given(RESULTS)
@SETTINGS
def test_json_is_ascii(result: SimulationResult) -> None:
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        patch.setattr("click.echo", lambda text, err=False: written.append(text))
        say_json(msgspec.to_builtins(result), indent=2)
    (text,) = written
    assert text.replace("\n", "").isprintable()
    assert text.isascii()
    assert json.loads(text) == msgspec.to_builtins(result)


def test_policies_of_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    class Run:
        policy = "".join(HOSTILE)

        class packing:  # noqa: N801
            allocated_at_capacity = allocated = fragmentation = 1.0
            unplaced = 1

        class queueing:  # noqa: N801
            mean = 1.0

            @staticmethod
            def percentile(_: int) -> float:
                return 1.0

    class Comparison:
        results = (Run,)

        @staticmethod
        def footnotes() -> list[str]:
            return HOSTILE

    terminal = Terminal()
    monkeypatch.setattr(comparison_table, "Screen", lambda: terminal)
    comparison_table.print_comparison(Comparison)  # type: ignore[arg-type]
    assert harm(terminal.kept.getvalue()) == ""


def a_snapshot(text: str) -> dict[str, Any]:
    requests = {"cpu": "1", text: "1"}
    pod = {
        "metadata": {"name": text, "namespace": text, "labels": {text: text}},
        "spec": {
            "nodeSelector": {text: text},
            "containers": [{"name": text, "resources": {"requests": requests}}],
            "tolerations": [{"key": text}],
        },
        "status": {"conditions": [{"type": text, "message": text, "reason": text}]},
    }
    node = {
        "metadata": {"name": text, "labels": {text: text}},
        "spec": {"taints": [{"key": text, "value": text, "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "1", text: "1"}},
    }
    return {"nodes": [node], "pending": [pod, {**pod, "spec": {"containers": []}}]}


@given(text=hostile_texts, form=st.sampled_from(["table", "json"]))
@SETTINGS
def test_explain(text: str, form: str, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps(a_snapshot(text)))
    result = CliRunner().invoke(main, ["explain", "--snapshot", str(file), "-o", form])
    assert harm(result.output) == ""
    assert result.exit_code == 0 or result.output.startswith("Error: "), result.output


@given(text=hostile_texts, command=st.sampled_from(["explain", "simulate", "run", "queue"]))
@SETTINGS
def test_errors_are_one_line(text: str, command: str, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    content = {"apiVersion": text, "kind": text, "metadata": {"name": text}, "items": [text]}
    file.write_text(json.dumps([content] if command == "simulate" else {**content, text: text}))
    option = {"explain": "--snapshot", "simulate": "-f", "run": "--config", "queue": "--kubeconfig"}
    result = CliRunner().invoke(main, [command, option[command], str(file)])
    assert result.exit_code in (0, 1)
    assert harm(result.output) == ""
    if result.exit_code:
        assert result.output.startswith("Error: ")
        assert result.output.count("\n") == 1


@pytest.mark.parametrize("text", [t for t in HOSTILE if "\0" not in t])
def test_arguments_are_shown_as_texts(text: str) -> None:
    for args in ([text], ["version", text], ["version", "-o", text], ["explain", f"--{text}"]):
        result = CliRunner().invoke(main, args)
        assert harm(result.output) == "", args


def test_an_error_of_a_command_is_one_line() -> None:
    assert harm(CommandError("".join(HOSTILE)).format_message()) == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_the_log(terminal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    import structlog

    configure_logging(terminal=terminal)
    text = "".join(HOSTILE)
    log = structlog.get_logger("test")
    log.warning("a.thing", pod=text, names=[text], of={text: text}, said=text.encode("utf-8"))
    logging.getLogger("library").warning("it says %s", text)
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("a.failure", error=text)
    assert harm(capsys.readouterr().err) == ""
