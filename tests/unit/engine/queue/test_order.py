"""One order for all that waits, compared with a plain function (docs/design/queue-order.md)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from arranger.plugins import default_profile
from tests.builders import PodBuilder, a_node, a_pod, a_pod_group
from tests.unit.engine.harness import EngineHarness, placements

DIALECTS = ("pod", "annotations", "bundles", "job")


@dataclass(frozen=True)
class Waiting:
    """An entity; its share is by its CPUs, of which the cluster has enough for all."""

    name: str
    dialect: str
    priority: int
    job_priority: int | None
    fair: bool
    created: int
    cpus: int

    def pods(self) -> list[PodBuilder]:
        created = datetime.fromtimestamp(self.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        pods = [
            a_pod(f"{self.name}-{n}").needs(cpu=self.cpus).with_priority(self.priority)
            for n in range(1 if self.dialect == "pod" else 2)
        ]
        pods = [pod.created(created) for pod in pods]
        if self.dialect == "bundles":
            pods = [pod.in_bundle(self.name, "b", 2) for pod in pods]
        elif self.dialect != "pod":
            pods = [pod.in_gang(self.name, 2) for pod in pods]
        if self.job_priority is not None:
            text = str(self.job_priority)
            notes = {"arranger.io/job-priority": text}
            pods = [pod.of_tyjob().annotated(notes) for pod in pods]
        if self.fair:
            pods = [pod.annotated({"arranger.io/job-queue-policy": "DRF"}) for pod in pods]
        return pods

    @property
    def share(self) -> int:
        return self.cpus * len(self.pods())

    @property
    def level(self) -> tuple[int, int]:
        return -self.priority, -(5 if self.job_priority is None else self.job_priority)


def expected_order(arrivals: list[Waiting]) -> list[str]:
    """By priorities and age; then the places of those who share go to the least shares first."""
    places = sorted(arrivals, key=lambda each: (*each.level, each.created, arrivals.index(each)))
    by_share = sorted(
        (each for each in places if each.fair), key=lambda each: (each.share, places.index(each))
    )
    order = []
    for place in places:
        taker = place
        if place.fair:
            taker = next(each for each in by_share if each.level == place.level)
            by_share.remove(taker)
        order.append(taker.name)
    return order


def random_arrivals(rng: random.Random) -> list[Waiting]:
    return [
        Waiting(
            f"e{n}",
            rng.choice(DIALECTS),
            rng.choice((0, 0, 10)),
            rng.choice((None, None, 4, 5, 6)),
            rng.random() < 0.4,
            1_700_000_000 + rng.randint(0, 3),
            rng.randint(1, 3),
        )
        for n in range(rng.randint(2, 9))
    ]


@pytest.mark.parametrize("block", range(10))
def test_all_that_waits_is_tried_in_one_order(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        arrivals = random_arrivals(random.Random(seed))
        harness = EngineHarness(default_profile())
        harness.observe(a_node("n").offers(cpu=1000, memory="100Gi", pods=100))
        for number, each in enumerate(arrivals):
            harness.now = number / 1000
            for pod in each.pods():
                harness.engine.handlers.on_pod_updated(pod.build(), harness.now)
        tried = [name.split("-")[0] for name, _ in placements(harness.run())]
        assert list(dict.fromkeys(tried)) == expected_order(arrivals), f"seed {seed}"


def test_who_asks_for_shares_changes_nothing_between_two_that_do_not() -> None:
    for seed in range(300):
        arrivals = random_arrivals(random.Random(seed))
        others = [each for each in arrivals if not each.fair]
        order = [name for name in expected_order(arrivals) if name in {o.name for o in others}]
        assert order == expected_order(others), f"seed {seed}"


def test_a_gang_is_as_old_as_its_podgroup_which_may_be_older_than_its_pods() -> None:
    harness = EngineHarness(default_profile())
    harness.observe(a_pod("lone").needs(cpu=1).created("2026-01-01T00:00:02Z"))
    harness.observe(a_pod_group("g", least=2).created("2026-01-01T00:00:01Z"))
    pods = (a_pod(f"g-{n}").needs(cpu=1).in_pod_group("g") for n in range(2))
    harness.observe(*(pod.created("2026-01-01T00:00:03Z") for pod in pods))
    harness.observe(a_node("n").offers(cpu=8))
    assert [name for name, _ in placements(harness.run())] == ["g-0", "g-1", "lone"]
