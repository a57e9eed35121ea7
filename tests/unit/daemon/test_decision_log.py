from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from arranger.api.effects import (
    Ambiguous,
    Applied,
    Bind,
    DeletePod,
    Eviction,
    ObjectKey,
    Outcome,
    Refused,
)
from arranger.daemon.telemetry.decision_log import SUMMARY_INTERVAL, DecisionLog
from arranger.daemon.token_bucket import BURST, RATE

POD = ObjectKey("team", "p", "uid-p")
BINDING = Bind(POD, "n1")
RECLAIM = DeletePod(POD, eviction=Eviction("n1", "reclaim", "prod/web", queue="inference"))
INCOMPLETE = DeletePod(POD, eviction=Eviction("n1", "incomplete gang", gang="team/g"))
NO_RIGHT = Refused(
    403, "Forbidden", 'User "u" cannot create resource "pods/binding" in API group ""'
)


class Clock:
    """Time, and what is to happen later."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.later.append((delay, callback))


LINES: dict[str, tuple[Bind | DeletePod, Outcome, dict[str, Any] | None]] = {
    "a binding": (
        BINDING,
        Applied(),
        {"event": "pod.bound", "log_level": "info", "pod": "team/p", "node": "n1"},
    ),
    "a binding refused": (
        BINDING,
        Refused(409, "AlreadyBound", "the pod is bound to n2"),
        {
            "event": "pod.not_bound",
            "log_level": "warning",
            "pod": "team/p",
            "node": "n1",
            "refused": "409 AlreadyBound the pod is bound to n2",
        },
    ),
    "a binding of which nobody knows": (
        BINDING,
        Ambiguous("connection reset"),
        {
            "event": "pod.bound_unknown",
            "log_level": "warning",
            "pod": "team/p",
            "node": "n1",
            "error": "connection reset",
        },
    ),
    "an eviction names taker and victim": (
        RECLAIM,
        Applied(),
        {
            "event": "pod.evicted",
            "log_level": "info",
            "pod": "team/p",
            "node": "n1",
            "reason": "reclaim",
            "taker": "prod/web",
            "taker_queue": "inference",
        },
    ),
    "an eviction that nobody gains from": (
        INCOMPLETE,
        Applied(),
        {
            "event": "pod.evicted",
            "log_level": "info",
            "pod": "team/p",
            "node": "n1",
            "reason": "incomplete gang",
            "gang": "team/g",
        },
    ),
    "a missing right has a line of its own": (BINDING, NO_RIGHT, None),
    "what was never sent is no news": (BINDING, Refused(0, "NotLeader"), None),
}


@pytest.mark.parametrize("case", LINES.values(), ids=LINES.keys())
def test_the_line_of(case: tuple[Bind | DeletePod, Outcome, dict[str, Any] | None]) -> None:
    effect, outcome, line = case
    with capture_logs() as lines:
        DecisionLog(Clock().call_later).record(effect, outcome, 100.0)
    assert lines == ([line] if line else [])


def test_a_burst_is_cut_off_and_counted_and_hides_no_eviction() -> None:
    clock = Clock()
    log = DecisionLog(clock.call_later)
    with capture_logs() as lines:
        for n in range(1500):
            log.record(BINDING, Applied(), 100 + n / 1500)
        log.record(RECLAIM, Applied(), 101.0)
    bound = [line for line in lines if line["event"] == "pod.bound"]
    assert len(bound) == BURST + int(RATE) - 1
    assert lines[-1]["event"] == "pod.evicted"
    [(delay, summarize)] = clock.later
    with capture_logs() as lines:
        summarize()
    assert delay == SUMMARY_INTERVAL
    [line] = lines
    assert (line["event"], line["bound"]) == ("pods.not_logged", 1500 - len(bound))


def test_in_the_long_run_the_rate_holds_and_every_binding_is_counted() -> None:
    clock = Clock()
    log = DecisionLog(clock.call_later)
    counted = 0
    with capture_logs() as lines:
        for second in range(100):
            for n in range(20):
                log.record(BINDING, Applied(), second + n / 20)
            if second % 10 == 9 and clock.later:
                clock.later.pop()[1]()
        if clock.later:
            clock.later.pop()[1]()
    bound = sum(line["event"] == "pod.bound" for line in lines)
    counted = sum(line.get("bound", 0) for line in lines)
    assert bound + counted == 2000
    assert bound <= BURST + 100 * RATE
