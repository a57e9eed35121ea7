"""What queues have used, beside a plain function that integrates it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping

import pytest

from arranger.quota.decayed_usage import DecayedUsage, decayed_usage
from arranger.quota.queue_spec import QueueQuota


class Uses:
    """Queues, as the ledger has them."""

    def __init__(self, *names: str) -> None:
        self.queues: dict[str, QueueQuota] = {name: QueueQuota(name) for name in names}

    def queue_quota(self, name: str) -> QueueQuota | None:
        return self.queues.get(name)

    def uses(self, queue: str, **amounts: int) -> None:
        self.queues[queue].used = Counter(amounts)


#: Of a queue: since when it uses how much.
Story = list[tuple[float, int]]


def plain(story: Story, now: float, half_life: float) -> float:
    """The integral of use, each second weighted by a half for every half-life since."""
    total = 0.0
    for (since, used), (until, _) in zip(story, [*story[1:], (now, 0)], strict=True):
        ages = (now - since) / half_life, (now - until) / half_life
        total += used * half_life / math.log(2) * (0.5 ** ages[1] - 0.5 ** ages[0])
    return total


def close(found: Mapping[str, float], expected: float) -> bool:
    return math.isclose(found.get("cpu", 0.0), expected, rel_tol=1e-9, abs_tol=1e-6)


@pytest.mark.parametrize("seed", range(50))
def test_the_sums_are_those_of_a_plain_function(seed: int) -> None:
    rng = random.Random(seed)
    half_life = rng.choice([60.0, 3600.0, 604800.0])
    uses = Uses("a", "b")
    usage = DecayedUsage(uses, half_life, 3600.0)
    now, stories = 1000.0, {"a": [(1000.0, 0)], "b": [(1000.0, 0)]}
    usage.advance(now)
    for _ in range(200):
        now += rng.choice([1.0, 2.5, 60.0, 5000.0])
        queue, amount = rng.choice("ab"), rng.choice([0, 1, 8, 500])
        usage_due = usage.next_look() <= now
        assert usage_due
        uses.uses(queue, cpu=amount)
        stories[queue].append((now, amount))
        assert usage.advance(now)
        for name, story in stories.items():
            assert close(usage.sums.get(name, {}), plain(story, now, half_life))
            steady = plain([(now - 1e9, 7)], now, half_life)
            mean = usage.mean(name).get("cpu", 0.0)
            assert math.isclose(mean * steady, 7 * plain(story, now, half_life), abs_tol=1e-3)


@pytest.mark.parametrize("seed", range(30))
def test_a_restart_changes_nothing(seed: int) -> None:
    """If queues use the same before the end and after the start, whatever the pause was."""
    rng = random.Random(seed)
    uses = Uses("a", "b")
    one = other = DecayedUsage(uses, 3600.0, 3600.0)
    now = shift = 0.0
    one.advance(now)
    for _ in range(60):
        now += rng.choice([1.0, 30.0, 900.0])
        uses.uses(rng.choice("ab"), cpu=rng.randint(0, 9))
        one.advance(now)
        if other is not one:
            other.advance(now + shift)
        if rng.random() < 0.3:
            record, written = {q: dict(s) for q, s in one.sums.items()}, now
            now += rng.choice([0.0, 5.0, 4000.0])
            other, shift = DecayedUsage(uses, 3600.0, 3600.0), rng.uniform(-1e6, 1e6)
            other.restore(record, now - written)
            other.advance(now + shift)  # the clock of a process has a start of its own
            if now > written:
                one.advance(now)
        for queue in uses.queues:
            expected = one.sums.get(queue, {}).get("cpu", 0.0)
            assert close(other.sums.get(queue, {}), expected)


def test_a_record_of_the_future_counts_as_of_now() -> None:
    uses = Uses("a")
    usage = DecayedUsage(uses, 60.0, 60.0)
    usage.restore({"a": {"cpu": 100.0}}, -1e9)
    usage.advance(5.0)
    assert usage.sums == {"a": {"cpu": 100.0}}


def test_a_record_of_long_ago_counts_nothing() -> None:
    uses = Uses("a")
    usage = DecayedUsage(uses, 60.0, 60.0)
    usage.restore({"a": {"cpu": 1e20}}, 1e18)
    usage.advance(5.0)
    assert usage.sums["a"]["cpu"] < 1e-6


def test_a_queue_that_is_made_anew_has_its_past() -> None:
    uses = Uses("a")
    uses.uses("a", cpu=4)
    usage = DecayedUsage(uses, 3600.0, 3600.0)
    usage.advance(0.0)
    del uses.queues["a"]
    usage.advance(100.0)
    had = usage.beside_present("a")["cpu"]
    assert had > 0
    uses.queues["a"] = QueueQuota("a")
    usage.advance(102.0)
    assert usage.beside_present("a")["cpu"] == pytest.approx(had, rel=0.01)


def test_queues_that_are_gone_take_a_bounded_place() -> None:
    uses = Uses()
    usage = DecayedUsage(uses, 3600.0, 3600.0)
    for n in range(1000):
        uses.queues = {f"q{n}": QueueQuota(f"q{n}", used=Counter(cpu=n + 1))}
        usage.advance(float(n))
    assert len(usage.sums) <= 258
    assert "q998" in usage.sums


def test_without_a_half_life_nothing_is_summed_up() -> None:
    assert decayed_usage(Uses(), None, 3600.0) is None
    uses = Uses()
    uses.queues = {"q": QueueQuota("q", used=Counter(cpu=2))}
    summed, known = DecayedUsage(uses, 60.0, 3600.0), decayed_usage(uses, 60.0, 3600.0)
    assert known is not None
    for each in (summed, known):
        for now in (0.0, 100.0, 300.0):
            each.advance(now)
    assert known.beside_present("q") == summed.beside_present("q") != {}


def test_present_use_and_past_use_make_one_share() -> None:
    queue = QueueQuota("q", deserved={"cpu": 8}, used=Counter(cpu=2))
    assert queue.dominant_share({}) == 0.25
    assert queue.dominant_share({}, {"cpu": 4.0, "gpu": 100.0}) == 0.75
