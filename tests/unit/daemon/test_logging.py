from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from arranger.daemon.telemetry.logging import configure_logging
from arranger.daemon.token_bucket import BURST


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What a process writes that logs as ours do; the settings are set back."""
    root, settings = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging(terminal=False)
    yield stream
    structlog.configure(**settings)
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_a_line_begins_with_when_and_what(output: io.StringIO) -> None:
    structlog.get_logger("ours").info("pod.bound", node="n1", pod="a/b")
    [line] = lines(output)
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert (line["event"], line["pod"], line["logger"]) == ("pod.bound", "a/b", "ours")


@pytest.mark.parametrize("ours", [True, False], ids=["structlog", "the standard library"])
def test_a_thousand_wrong_objects_do_not_fill_the_log(output: io.StringIO, ours: bool) -> None:
    if ours:
        log = structlog.get_logger("objects")
        for n in range(1000):
            log.warning("reflector.bad_object", name=f"p{n}")
        log.warning("another.event")
    else:
        plain = logging.getLogger("objects")
        for n in range(1000):
            plain.error("pod %s: %s", f"p{n}", "no")
        plain.error("another event")
    written = lines(output)
    assert BURST < len(written) <= BURST + 10
    assert written[-1]["event"].startswith("another")


def test_what_was_left_out_is_counted_in_the_next_line(
    output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, plain = structlog.get_logger("objects"), logging.getLogger("objects")
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    monkeypatch.setattr("time.time_ns", lambda: int(now * 1e9))
    for n in range(BURST + 30):
        log.warning("reflector.bad_object", name=f"p{n}")
        plain.error("pod %s", n)
    now += 60
    log.warning("reflector.bad_object", name="last")
    plain.error("pod %s", "last")
    ours, theirs = lines(output)[-2:]
    assert (ours["name"], ours["left_out"]) == ("last", 30)
    assert theirs["event"] == "pod last (left out: 30 of this kind)"


def test_messages_that_all_differ_are_not_remembered_for_ever(output: io.StringIO) -> None:
    bound = next(h.filters[0] for h in logging.getLogger().handlers if h.filters)
    for n in range(3000):
        logging.getLogger("objects").error("put into words before: %s".replace("%s", str(n)))
    assert len(lines(output)) == 3000
    assert len(bound._buckets) <= 1000
