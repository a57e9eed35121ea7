"""What queues have used: kept in a ConfigMap, written rarely, read with doubt; and turns by it."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from arranger.api.effects import Ambiguous, Applied, ObjectKey, Outcome, PatchObject, Refused
from arranger.api.parsing.errors import ParseError
from arranger.api.settings.usage_record import (
    MAX_QUEUES,
    USAGE_KEY,
    UsageRecord,
    format_usage,
    parse_usage,
)
from arranger.quota.preemption.policy import QuotaConfig
from tests.builders import PodBuilder, a_node, a_pod, a_queue
from tests.unit.engine.harness import EngineHarness, event_notes, of_kind, placements, small_profile

RECORD = ObjectKey("ns", "arranger-usage", "u1")
DAY = 86400.0


def an_engine(half_life: float | None = DAY, data: str | None = "") -> EngineHarness:
    config = QuotaConfig(usage_half_life=half_life)
    harness = EngineHarness(small_profile(), queues=config)
    if data is not None:
        harness.engine.usage.restore(RECORD, data, harness.now)
    harness.observe(a_node("n1").offers(cpu=8), a_queue("a"), a_queue("b"))
    harness.run()
    return harness


def member(name: str, queue: str) -> PodBuilder:
    return a_pod(name).needs(cpu=1).in_queue(queue)


def writes(harness: EngineHarness) -> list[PatchObject]:
    return of_kind(PatchObject, harness.effects)


def text_of(write: PatchObject) -> str:
    return str(write.change["data"][USAGE_KEY])


def test_it_is_written_every_few_minutes_to_the_object_that_was_found() -> None:
    harness = an_engine()
    harness.observe(member("p", "a").on("n1"))
    harness.run()
    assert harness.engine.next_timer() == 1.0, "what has changed since the last look is seen soon"
    harness.advance_to(1.0)
    for minute in range(1, 61):
        for write in writes(harness):
            if harness.engine.awaits(write):
                harness.settle(write, Applied())
        harness.advance_to(minute * 60.0)
    assert len(writes(harness)) == 12
    last = writes(harness)[-1]
    assert last.path == "/api/v1/namespaces/ns/configmaps/arranger-usage"
    assert last.change["metadata"] == {"uid": "u1"}
    record = parse_usage(text_of(last))
    assert record.at == 3600.0
    assert record.sums["a"]["cpu"] == pytest.approx(1000 * 3600 * 0.9857, rel=0.001)


@pytest.mark.parametrize("half_life", [None, DAY])
def test_without_a_half_life_or_an_object_nothing_is_written(half_life: float | None) -> None:
    harness = an_engine(half_life, data=None if half_life else "")
    harness.observe(member("p", "a").on("n1"))
    for minute in range(61):
        harness.advance_to(minute * 60.0)
    assert writes(harness) == []


OUTCOMES: dict[str, tuple[Outcome, int]] = {
    "done": (Applied(), 2),
    "nobody knows": (Ambiguous("no answer"), 1),
    "forbidden": (Refused(403, "Forbidden"), 2),
    "too many requests": (Refused(429, "TooManyRequests"), 2),
    "gone": (Refused(404, "NotFound"), 1),
    "another object of that name": (Refused(409, "Conflict"), 1),
}
_GONE = (OUTCOMES["gone"][0], OUTCOMES["another object of that name"][0])


@pytest.mark.parametrize(("outcome", "expected"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_what_follows_a_write(outcome: Outcome, expected: int) -> None:
    harness = an_engine()
    harness.advance_to(300)
    [write] = writes(harness)
    harness.settle(write, outcome)
    harness.advance_to(599)
    assert len(writes(harness)) == 1
    harness.advance_to(600)
    assert len(writes(harness)) == expected
    told = [reason for reason, _ in event_notes(harness.effects)]
    assert told == (["UsageNotKept"] if outcome in _GONE else [])


_HEAD = '{"at": "2026-01-01T00:00:00Z", "halfLifeSeconds": 60, "queues": {"a": '
UNREADABLE: dict[str, str] = {
    "no JSON": "usage",
    "a list": "[]",
    "no half-life": '{"at": "2026-01-01T00:00:00Z", "queues": {}}',
    "an odd half-life": '{"at": "2026-01-01T00:00:00Z", "halfLifeSeconds": 0, "queues": {}}',
    "no time": '{"queues": {}}',
    "a time that is none": '{"at": "soon", "queues": {}}',
    "no queues": '{"at": "2026-01-01T00:00:00Z"}',
    "a queue that is none": _HEAD + "1}}",
    "a text": _HEAD + '{"cpu": "1"}}}',
    "a truth": _HEAD + '{"cpu": true}}}',
    "less than nothing": _HEAD + '{"cpu": -1}}}',
    "more than there is": _HEAD + '{"cpu": 1e40}}}',
    "endless": _HEAD + '{"cpu": 1e999}}}',
    "deep": "[" * 10_000,
    "long": '"' + "x" * 2**21 + '"',
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_told_and_written_anew(text: str) -> None:
    harness = an_engine(data=text)
    [(reason, note)] = event_notes(harness.effects)
    assert reason == "InvalidUsage"
    assert note.startswith("What queues have used is forgotten: usage.json: ")
    assert len(note) < 500
    harness.advance_to(300)
    assert parse_usage(text_of(writes(harness)[0])).sums == {}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_read_again(seed: int) -> None:
    rng = random.Random(seed)
    sums = {
        f"q{n}": {f"r{k}": rng.choice([0.0, 1e-9, 1.5, 1e22]) for k in range(rng.randint(0, 4))}
        for n in range(rng.randint(0, 50))
    }
    assert parse_usage(format_usage(UsageRecord(1234.5, 60.0, sums))) == UsageRecord(
        1234.5, 60.0, sums
    )


def test_another_half_life_keeps_the_average() -> None:
    record = UsageRecord(0.0, 3600.0, {"a": {"cpu": 7200.0}})
    before = an_engine(3600.0, data=format_usage(record)).engine.usage.means()
    after = an_engine(7200.0, data=format_usage(record)).engine.usage.means()
    assert before == after == record.means()


def test_a_record_has_a_bounded_size_and_keeps_who_used_most() -> None:
    sums = {
        f"{n}-{'q' * 200}": {f"r{k}{'r' * 60}": n + 1.0 for k in range(64)} for n in range(3000)
    }
    text = format_usage(UsageRecord(0.0, 60.0, sums))
    assert len(text) <= 900_000
    kept = parse_usage(text).sums
    assert 0 < len(kept) <= MAX_QUEUES
    assert f"2999-{'q' * 200}" in kept
    assert f"0-{'q' * 200}" not in kept


def test_random_texts_are_read_or_refused() -> None:
    rng, good = random.Random(1), format_usage(UsageRecord(1.0, 60.0, {"a": {"cpu": 5.0}}))
    for _ in range(2000):
        at = rng.randrange(len(good))
        text = good[:at] + rng.choice('{}[],:"0-9eE.x\x00\ud800') + good[at + 1 :]
        with suppress(ParseError):
            parse_usage(text)


# --- turns ---------------------------------------------------------------------------------------


class Hours:
    """Four places for two or three queues; each pod runs for an hour.

    ``a`` has work all the time, the others from six o'clock to midnight.
    """

    def __init__(self, half_life: float | None, weights: dict[str, int]) -> None:
        self.half_life, self.weights = half_life, weights
        self.record, self.made = "", 0
        self.used = dict.fromkeys(weights, 0)
        self.running: list[PodBuilder] = []
        self.waiting: dict[str, PodBuilder] = {}
        self.harness = self.started(0.0)

    def started(self, now: float) -> EngineHarness:
        """A process that goes on from the record."""
        config = QuotaConfig(usage_half_life=self.half_life)
        harness = EngineHarness(small_profile(), queues=config)
        harness.now = now
        harness.engine.usage.restore(RECORD, self.record, now)
        queues = (a_queue(name, weight=weight) for name, weight in self.weights.items())
        harness.observe(a_node("n1").offers(cpu=4), *queues, *self.running)
        return harness

    def pass_hour(self, hour: int, *, restart: bool) -> None:
        now = self.harness.now = hour * 3600.0
        handlers = self.harness.engine.handlers
        for pod in (*self.running, *self.waiting.values()):
            handlers.on_pod_deleted(f"default/{pod.manifest()['metadata']['name']}", now)
        self.running, self.waiting = [], {}
        for queue in self.weights if hour % 24 >= 6 else "a":
            for _ in range(4):
                self.made += 1
                name = f"{queue}-{self.made}"
                self.waiting[name] = member(name, queue)
                handlers.on_pod_updated(self.waiting[name].build(), now)
        for name, node in placements(self.harness.run()):
            self.used[name.partition("-")[0]] += 1
            self.running.append(self.waiting.pop(name).on(node))
            self.harness.engine.on_outcome(self.harness.binding(name), Applied(), now)
            handlers.on_pod_updated(self.running[-1].build(), now)
        for write in writes(self.harness):
            self.record = text_of(write)
            self.harness.engine.on_outcome(write, Applied(), now)
        self.harness.advance_to(now + 2)
        self.harness.advance_to(now + 400)
        for write in writes(self.harness):
            self.record = text_of(write)
            self.harness.engine.on_outcome(write, Applied(), now)
        self.harness.effects.clear()
        if restart:
            self.harness = self.started(now + 450)
            self.harness.run()

    def shares(self, days: int, *, restarts: bool = False) -> dict[str, float]:
        """What part of all that was used each queue has used."""
        for hour in range(24 * days):
            self.pass_hour(hour, restart=restarts and hour % 7 == 3)
        self.harness.engine.check_consistent()
        return {queue: n / sum(self.used.values()) for queue, n in self.used.items()}


WEIGHTS: dict[str, dict[str, int]] = {
    "equal ones": {"a": 1, "b": 1},
    "one has twice as much": {"a": 1, "b": 2},
    "three": {"a": 2, "b": 1, "c": 1},
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_in_the_long_run_shares_are_by_weight(weights: dict[str, int]) -> None:
    due = {queue: weight / sum(weights.values()) for queue, weight in weights.items()}
    found = Hours(7 * DAY, weights).shares(6)
    assert all(abs(found[queue] - due[queue]) < 0.03 for queue in weights), found
    restarted = Hours(7 * DAY, weights).shares(6, restarts=True)
    assert all(abs(found[queue] - restarted[queue]) < 0.02 for queue in weights), restarted
    silent = Hours(None, weights).shares(2)
    assert silent["a"] - due["a"] > 0.1, "it has been alone every morning, and nobody minds"
